"""How a command ends, as its exit code says it."""

OK = 0
FAILED = 1  # a job failed as a whole
WRONG_INPUT = 2
STOPPED = 130  # by Ctrl-C; by a signal it is 128 and the signal's number
