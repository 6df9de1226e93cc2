"""Where the work is done: ranks that share a registration, processes of torchrun, threads."""
