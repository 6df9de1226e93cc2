"""The process of a command: what ends it from outside, and streams whose reader may leave or lack a letter."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from pwan.exit_codes import STOPPED

# SIGHUP comes when the terminal is closed
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """Asked to end by another process rather than by Ctrl-C; whoever tidies up after Ctrl-C does it after this too."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code of a command that was stopped: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP."""
    return stop.code if isinstance(stop, Ended) else STOPPED


def run(main: Callable[[], int]) -> NoReturn:
    """Call the main function of a command, and end with its exit code."""
    take_every_word()
    heard = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, _end) for number in heard}
    try:
        code = main()
    except KeyboardInterrupt as stop:  # before there was anything to keep
        code = code_of(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    sys.exit(code)


def take_every_word() -> None:
    """Let stdout and stderr take what their encoding lacks, as an escape, and lose what nobody reads any more.

    Work is done to its end so, and what it found is written.
    """
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)


def leave_ends_to_the_parent() -> None:
    """Called in a process that its parent ends: of what is sent to both, the parent alone makes something."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDING})


def _end(number: int, _: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one is not to cut the tidying short
    raise Ended(number)


class _Patient(io.FileIO):
    """A file that loses what is written to it once that fails: there is no reader, or no place, any more."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            if error.errno not in (errno.EPIPE, errno.EIO):  # the reader knows that it left
                with contextlib.suppress(OSError):
                    os.write(2, f"warning: no more can be written to the output: {error.strerror}\n".encode())
            return len(data)


def _patient(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed by whoever started this
        return open(os.devnull, "w", encoding="utf-8")
    raw = getattr(stream.buffer, "raw", stream.buffer) if type(stream) is io.TextIOWrapper else None
    if type(raw) is not io.FileIO:  # of a notebook or a test, or patient already
        return stream
    assert isinstance(stream, io.TextIOWrapper)
    patient = _Patient(stream.fileno(), "w", closefd=False)
    bytes_again = stream.errors == "surrogateescape" and codecs.lookup(stream.encoding).name == "utf-8"
    return io.TextIOWrapper(
        patient if raw is stream.buffer else io.BufferedWriter(patient),  # the first is that of python -u
        encoding=stream.encoding,
        errors=stream.errors if bytes_again else "backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
