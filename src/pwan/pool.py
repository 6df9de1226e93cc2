"""A small pool of worker processes with progress: tasks in, outcomes back, in the order in which they finish.

Each worker has its own pipe, so a killed worker (out of memory, say) costs the task in its hands and nothing else.
The standard pools have no channel for progress, and break as a whole when one worker dies.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import connection as mp_connection
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from pwan.process import leave_ends_to_the_parent

Report = Callable[[Any], None]
_NAME = "pwan-worker-"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Failure:
    """Why a task gave no result.

    Attributes:
        reason: one line for a table.
        details: the traceback for a log.
        missing_package: whether a package is missing.
    """

    reason: str
    details: str = ""
    missing_package: bool = False


def run_tasks(
    function: Callable[[Any, Report], Any],
    tasks: Iterable[Any],
    *,
    workers: int,
    on_done: Callable[[int, Any], None],
    on_progress: Callable[[int, Any], None] = lambda number, report: None,
) -> None:
    """Call ``function(task, report)`` for every task.

    With at most one worker everything happens in this process; else ``workers`` processes with one thread each are
    started, and ended again whatever happens, a KeyboardInterrupt included.

    Args:
        function: a function of a module (spawned processes import it); calls ``report(x)`` to report its progress.
        tasks: anything picklable; taken one at a time, when a worker is free.
        workers: how many processes; 0 or 1 for this one.
        on_done: called with the task's number and the function's result or a ``Failure``.
        on_progress: called with the task's number and what the function reported.
    """
    numbered = enumerate(tasks)
    if workers <= 1:
        for number, task in numbered:
            on_done(number, _attempt(function, task, lambda x, n=number: on_progress(n, x)))  # type: ignore[misc]
        return
    busy: dict[Any, tuple[SpawnProcess, int]] = {}  # by the pipe to the worker
    try:
        for _ in range(workers):
            _feed(None, busy, function, numbered, on_done)
        while busy:
            for ready in mp_connection.wait(list(busy)):
                _serve(ready, busy, function, numbered, on_done, on_progress)
    finally:
        for pipe, (process, _) in busy.items():
            process.kill()  # it blocks what could be refused, see leave_ends_to_the_parent
            process.join()
            pipe.close()


def choose_workers(workers: int | str, tasks: int) -> int:
    """How tasks are run: 1 one after the other in this process, n > 1 in n processes; for trials 0 is one batch.

    ``"auto"`` takes a process for each core. A batch would gain nothing: the matrix products of one problem already
    fill a core, and two threads on a small problem are slower than two processes.
    """
    return min(len(os.sched_getaffinity(0)) if workers == "auto" else int(workers), tasks)


def worker_number() -> int:
    """Which of the pool's workers this process is, from 0; one that replaces another has its number. 0 for none."""
    name = current_process().name
    return int(name.removeprefix(_NAME)) if name.startswith(_NAME) else 0


def _serve(
    pipe: Any,
    busy: dict[Any, tuple[SpawnProcess, int]],
    function: Callable[[Any, Report], Any],
    numbered: Iterator[tuple[int, Any]],
    on_done: Callable[[int, Any], None],
    on_progress: Callable[[int, Any], None],
) -> None:
    """Take one message of a worker, and hand it the next task when it is free."""
    process, number = busy[pipe]
    try:
        kind, payload = pipe.recv()
    except (EOFError, OSError):
        kind, payload = "dead", _bury(process, pipe)
    if kind == "progress":
        on_progress(number, payload)
        return
    if kind == "dead":
        del busy[pipe]
    on_done(number, payload)
    _feed(None if kind == "dead" else (process, pipe), busy, function, numbered, on_done)


def _feed(
    worker: tuple[SpawnProcess, Any] | None,
    busy: dict[Any, tuple[SpawnProcess, int]],
    function: Callable[[Any, Report], Any],
    numbered: Iterator[tuple[int, Any]],
    on_done: Callable[[int, Any], None],
) -> None:
    """Hand the next task to the worker, or to a fresh one where there is none or it died after its last task.

    A task that a fresh worker does not live to take fails, and the next one is taken up. A worker for which there is
    no task is ended.
    """
    for number, task in numbered:
        if worker and _hand(worker, number, task, busy) is None:
            return
        taken = {process.name for process, _ in busy.values()}
        worker = _start(function, next(name for k in count() if (name := f"{_NAME}{k}") not in taken))
        failure = _hand(worker, number, task, busy)
        if failure is None:
            return
        worker = None
        on_done(number, failure)
    if worker:
        process, pipe = worker
        busy.pop(pipe, None)
        with suppress(OSError):  # it may be gone already
            pipe.send(None)
        process.join()
        pipe.close()


def _hand(
    worker: tuple[SpawnProcess, Any], number: int, task: Any, busy: dict[Any, tuple[SpawnProcess, int]]
) -> Failure | None:
    """Send a task to a worker, or bury the worker if it is dead."""
    process, pipe = worker
    busy[pipe] = (process, number)
    try:
        pipe.send((number, task))
    except OSError:
        del busy[pipe]
        return _bury(process, pipe)
    return None


def _bury(process: SpawnProcess, pipe: Any) -> Failure:
    pipe.close()
    process.join()
    return Failure(f"the worker process ended with exit code {process.exitcode}")


def _start(function: Callable[[Any, Report], Any], name: str) -> tuple[SpawnProcess, Connection]:
    context = get_context("spawn")  # fork would copy torch's thread pool in a broken state
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, function), name=name, daemon=True)
    with _child_environment():
        process.start()
    theirs.close()  # so that the worker's death reads as the end of the pipe
    return process, ours


@contextmanager
def _child_environment() -> Iterator[None]:
    """What a child inherits at its start: one thread, of torch too when it is loaded, and deafness to Ctrl-C, which
    the parent handles for all.
    """
    saved = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    ours = threading.current_thread() is threading.main_thread()  # elsewhere Python does not let us
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if ours else None
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(pipe: Connection, function: Callable[[Any, Report], Any]) -> None:
    """The life of a worker: tasks until ``None`` comes or the parent is gone."""
    leave_ends_to_the_parent()
    try:
        while (message := pipe.recv()) is not None:
            _, task = message
            pipe.send(("done", _attempt(function, task, lambda x: pipe.send(("progress", x)))))
    except (EOFError, OSError):
        return


def _attempt(function: Callable[[Any, Report], Any], task: Any, report: Report) -> Any:
    try:
        return function(task, report)
    except (Exception, SystemExit) as error:  # whatever a method does wrong is its result
        reason = str(error).strip() or type(error).__name__
        if not isinstance(error, (ValueError, ImportError)):
            reason = f"{type(error).__name__}: {reason}"
        return Failure(reason, traceback.format_exc(), isinstance(error, ImportError))
