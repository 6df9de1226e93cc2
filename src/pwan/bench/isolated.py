"""Registrations timed in a process of their own, with limits on time and memory, so that what goes beyond is a row and
not the end of the run.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pwan import methods, shapes
from pwan.bench.cell import Cell, MethodEntry, trial_seed
from pwan.bench.rows import Row
from pwan.devices.threads import threads
from pwan.problem import FAILED, mean_squared_error
from pwan.process import leave_ends_to_the_parent
from pwan.synthesis import make_problem

STOPPED, NOT_RUN = "stopped", "not run"
STARTUP = 300.0  # seconds that a process may take to start or to make a problem; chosen by eye
MEMORY_WORDS = ("allocate", "MemoryError", "bad_alloc")  # of numpy, torch and C++ when it has run out
READY = "ready"


@dataclass(frozen=True)
class Work:
    """What one process measures.

    Attributes:
        cell: whose problems are registered.
        entry: the method.
        repeats: numbers of the trials.
        memory: bytes that the process may take.
    """

    cell: Cell
    entry: MethodEntry
    repeats: tuple[int, ...]
    memory: int


def measure(work: Work, limit: float, on_wait: Callable[[], Any] = lambda: None) -> Iterator[Row]:
    """A row for each repeat of the work, as they come. After one that is stopped or not run no other follows.

    Args:
        work: what to measure.
        limit: seconds that a registration may take; the making of its problem does not count.
        on_wait: called about once a second.

    Yields:
        Always trial, status and reason: "ok" and "failed" as the method says, "stopped" when the limit of time or
        memory was reached or the process died, "not run" when the method's package is missing. Where the method
        ended by itself also seconds (its own time, on one thread), steps, memory_mb (the highest of the whole
        process, libraries included), mse_initial and mse.
    """
    context = multiprocessing.get_context("spawn")  # fork would copy torch's thread pool in a broken state
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    try:
        for repeat in work.repeats:
            try:
                _receive(ours, STARTUP, "making the problem", on_wait)
                row = _receive(ours, limit, "registering", on_wait)
            except TimeoutError as error:
                row = {"status": STOPPED, "reason": str(error)}
            except EOFError:
                process.join()
                row = {
                    "status": STOPPED,
                    "reason": f"the process ended with exit code {process.exitcode}, usually for lack of memory",
                }
            yield {"trial": repeat, **row}
            if row["status"] in (STOPPED, NOT_RUN):
                return
    finally:
        process.kill()
        process.join()
        ours.close()


def _receive(pipe: Connection, limit: float, doing: str, on_wait: Callable[[], Any]) -> Any:
    """The next message, which may take this many seconds."""
    end = time.monotonic() + limit
    while not pipe.poll(max(0.0, min(1.0, end - time.monotonic()))):
        on_wait()
        if time.monotonic() >= end:
            raise TimeoutError(f"stopped after {limit:.3g} s of {doing}")
    return pipe.recv()


def _live(pipe: Connection, work: Work) -> None:
    """The life of the process: for each repeat the message READY when the problem is made, and then its row."""
    leave_ends_to_the_parent()
    resource.setrlimit(resource.RLIMIT_DATA, (work.memory, work.memory))
    shape = shapes.load(work.cell.shape, work.cell.shape_source)
    with threads(1):
        for repeat in work.repeats:
            problem = make_problem(shape, work.cell.synthesis, seed=work.cell.seed, trials=[repeat])
            pipe.send(READY)
            row: Row
            try:
                seeds = [trial_seed(work.cell.seed, repeat)]
                given = methods.with_weights_it_takes(work.entry.method, problem)
                result = methods.run(work.entry.method, given, work.entry.options, seeds=seeds)
            except ImportError as error:
                row = {"status": NOT_RUN, "reason": str(error)}
            except (Exception, SystemExit) as error:  # whatever a method does wrong is its result
                row = {"status": FAILED, "reason": f"{type(error).__name__}: {error}"}
            else:
                assert problem.truth is not None
                row = {
                    "status": result.status[0],
                    "reason": result.stop_reason[0],
                    "seconds": result.seconds[0],
                    "steps": result.steps[0],
                    "memory_mb": _highest_memory(),
                    "mse_initial": float(mean_squared_error(problem.source, problem.truth)),
                    "mse": float(mean_squared_error(result.transformed, problem.truth)),
                }
            if row["status"] == FAILED and any(word in row["reason"] for word in MEMORY_WORDS):
                row = {"status": STOPPED, "reason": f"out of memory: {row['reason']}"}
            pipe.send(row)


def _highest_memory() -> float:
    """The most memory that this process has held, in MiB."""
    # getrusage would begin with the memory of the process that started this one
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
