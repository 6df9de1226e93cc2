"""One task of the benchmark: register the problems of one or several trials with one method and measure the outcome."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from pwan import methods
from pwan.bench.pool import Report
from pwan.problem import FAILED, OK, Observer, Progress, RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.registration.settings import PwanSettings

REPORT_EVERY = 0.5  # seconds between two reports of a running registration


@dataclass(frozen=True)
class TrainerSettings:
    """The group ``trainer``: who drives PWAN's steps; other methods are not concerned. The rows are the same.

    Attributes:
        name: "loop", a plain loop, or "lightning", a PyTorch Lightning trainer around the same solver.
    """

    name: Literal["loop", "lightning"] = "loop"


@dataclass(frozen=True)
class Task:
    """Trials to register as one batch. The arrays are numpy's: torch would send them through shared memory."""

    method: str
    options: dict[str, Any]
    trials: tuple[int, ...]
    seeds: tuple[int, ...]
    arrays: dict[str, np.ndarray]
    one_thread: bool
    trainer: TrainerSettings = TrainerSettings()

    @staticmethod
    def of(
        problem: RegistrationProblem,
        *,
        method: str,
        options: dict[str, Any],
        trials: Sequence[int],
        seeds: Sequence[int],
        one_thread: bool,
        trainer: TrainerSettings = TrainerSettings(),
    ) -> Task:
        """The task of registering ``problem``, whose rows are the given trials."""
        arrays = {f.name: v.numpy() for f in fields(problem) if (v := getattr(problem, f.name)) is not None}
        return Task(method, options, tuple(trials), tuple(seeds), arrays, one_thread, trainer)

    def problem(self) -> RegistrationProblem:
        return RegistrationProblem(**{name: torch.from_numpy(array) for name, array in self.arrays.items()})


@dataclass(frozen=True)
class Trial:
    """What one registration gave: the measured columns of its row, and the arrays that pictures need."""

    trial: int
    measured: dict[str, Any]
    arrays: dict[str, np.ndarray]


def register_trials(task: Task, report: Report) -> list[Trial]:
    """Register the task's problems; reports (share done, current MSE averaged over the batch) now and then."""
    problem = task.problem()
    truth = problem.truth
    if truth is None:
        raise ValueError("a benchmark needs problems with a truth, so that errors can be measured")
    last = 0.0

    def observer(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= REPORT_EVERY:
            last = time.monotonic()
            mse = float(mean_squared_error(progress.transformed().cpu(), truth).mean())
            report((progress.step / max(progress.steps, 1), mse))

    with _threads(1 if task.one_thread else None):
        result = _drive(task, problem, observer)
        threads = max([torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())])
    refined = mean_squared_error(result.transformed.cpu(), truth).tolist()
    unrefined = mean_squared_error(result.transformed_unrefined.cpu(), truth).tolist()
    outcomes = []
    for i, trial in enumerate(task.trials):
        status, reason = result.status[i], result.stop_reason[i]
        if not (math.isfinite(refined[i]) and math.isfinite(unrefined[i])):
            status, reason = FAILED, f"the result holds points that are not finite ({reason})"
        measured = {
            "status": status if status == OK else FAILED,
            "stop_reason": reason,
            "mse_unrefined": _finite(unrefined[i]),
            "mse": _finite(refined[i]),
            "matched_fraction": float(result.matched[i].double().mean()),
            "seconds": float(result.seconds[i]),
            "steps": int(result.steps[i]),
            "threads": threads,
            "batch": len(task.trials),
            "problem": _digest(problem, i),
        }
        arrays = {
            name: getattr(result, name)[i].cpu().numpy()
            for name in ("transformed", "transformed_unrefined", "matched", "reference_matched")
        }
        outcomes.append(Trial(trial, measured, arrays))
    return outcomes


def _drive(task: Task, problem: RegistrationProblem, observer: Observer) -> RegistrationResult:
    settings = methods.settings(task.method, task.options)
    if task.trainer.name == "lightning" and isinstance(settings, PwanSettings):
        from pwan import lightning  # takes seconds to import, so only when it is asked for

        return lightning.register(problem, settings, seeds=list(task.seeds), observer=observer)
    return methods.run(task.method, problem, task.options, seeds=list(task.seeds), observer=observer)


def choose_workers(workers: int | str, trials: int) -> int:
    """How trials are run: 0 is one batch in this process, 1 one after the other, n > 1 in n processes.

    ``"auto"`` takes a process for each core. A batch would gain nothing: the matrix products of one problem already
    fill a core, and two threads on a small problem are slower than two processes.
    """
    return min(len(os.sched_getaffinity(0)) if workers == "auto" else int(workers), trials)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Limit torch and the BLAS behind numpy and scipy to so many threads; None leaves both as they are."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


def _digest(problem: RegistrationProblem, k: int) -> str:
    """Twelve hex digits of the points that problem k gives to a method: equal ones are the very same problem."""
    digest = hashlib.sha256()
    for points in (problem.source[k], problem.reference[k]):
        digest.update(np.ascontiguousarray(points.numpy()).tobytes())
    return digest.hexdigest()[:12]
