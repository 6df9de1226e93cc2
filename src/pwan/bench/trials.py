"""One task of the benchmark: register the problems of one or several trials with one method and measure the outcome."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info
from torch import Tensor

from pwan import methods
from pwan.bench.measures import measures
from pwan.bench.settings import LOOP, TrainerSettings
from pwan.devices.ranks import Place, devices_here
from pwan.devices.threads import threads
from pwan.pool import Report, worker_number
from pwan.problem import FAILED, OK, Observer, Progress, RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.registration import flexibility, pipeline
from pwan.registration.settings import PwanSettings

REPORT_EVERY = 0.5  # seconds between two reports of a running registration; chosen by eye
CURVE_POINTS = 50  # errors measured on the way, at most about twice as many; chosen by eye
# shares of all steps, after which the source is kept: it moves most at first; chosen by eye
SNAPSHOTS = (1 / 40, 1 / 8)
CHUNK = 16384  # points at which the gradient of a potential is taken at once; chosen by eye


@dataclass(frozen=True)
class Task:
    """Trials to register as one batch.

    Attributes:
        method: of the method's file.
        options: what differs from the method's defaults.
        trials: their numbers.
        seeds: one for each trial.
        arrays: the fields of the problem; numpy's, since torch would send them through shared memory.
        one_thread: whether one thread does the work.
        trainer: who drives PWAN's steps.
    """

    method: str
    options: dict[str, Any]
    trials: tuple[int, ...]
    seeds: tuple[int, ...]
    arrays: dict[str, np.ndarray]
    one_thread: bool
    trainer: TrainerSettings = LOOP

    @staticmethod
    def of(
        problem: RegistrationProblem,
        *,
        method: str,
        options: dict[str, Any],
        trials: Sequence[int],
        seeds: Sequence[int],
        one_thread: bool,
        trainer: TrainerSettings = LOOP,
    ) -> Task:
        """The task of registering ``problem``, whose rows are the given trials."""
        arrays = {f.name: v.numpy() for f in fields(problem) if (v := getattr(problem, f.name)) is not None}
        return Task(method, options, tuple(trials), tuple(seeds), arrays, one_thread, trainer)

    def problem(self) -> RegistrationProblem:
        given: dict[str, Any] = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        return RegistrationProblem(**given)


@dataclass(frozen=True)
class Trial:
    """What one registration gave.

    Attributes:
        trial: its number.
        measured: the measured columns of its row.
        arrays: what pictures need.

    The arrays are ``transformed``, ``transformed_unrefined`` (r, D), ``matched`` (r,), ``reference_matched`` (q,);
    ``curve_step`` and ``curve_mse`` (k,), the error on the way, of a trial run alone; ``history_<name>``, one number a
    step, of methods that have a history; ``potential``, ``gradient_norm`` (r,) at the source before refinement and
    ``reference_potential``, ``reference_gradient_norm`` (q,), of methods with a potential; ``snapshot_step`` (s,) and
    ``snapshots`` (s, r, D), the source on its way, of trial 0 alone.
    """

    trial: int
    measured: dict[str, Any]
    arrays: dict[str, np.ndarray]


def register_trials(task: Task, report: Report) -> list[Trial]:
    """Register the task's problems. Every half second it reports the share done and the batch's mean MSE."""
    with threads(1 if task.one_thread else None):
        return _register(task, report)


def _register(task: Task, report: Report) -> list[Trial]:
    problem = task.problem()
    truth = problem.truth
    if truth is None:
        raise ValueError("a benchmark needs problems with a truth, so that errors can be measured")
    on_the_way = _OnTheWay(truth, report, snapshots=0 in task.trials)
    result = _drive(task, methods.with_weights_it_takes(task.method, problem), on_the_way)
    used = max([torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())])
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
            **{
                name: _finite(value)
                for name, value in measures(problem, i, result.transformed[i].cpu().double().numpy()).items()
            },
            "matched_fraction": float(result.matched[i].double().mean()),
            "seconds": float(result.seconds[i]),
            "steps": int(result.steps[i]),
            "threads": used,
            "batch": len(task.trials),
            "problem": _digest(problem, i),
        }
        arrays = {
            name: getattr(result, name)[i].cpu().numpy()
            for name in ("transformed", "transformed_unrefined", "matched", "reference_matched")
        }
        arrays |= on_the_way.arrays(i, snapshots=trial == 0) | _history(result, i)
        if result.potential is not None and status == OK:
            potential = result.potential[i]
            for prefix, points in (("", result.transformed_unrefined), ("reference_", problem.reference)):
                values = potential_and_gradient_norm(potential, points[i])
                arrays |= {f"{prefix}potential": values[0], f"{prefix}gradient_norm": values[1]}
        outcomes.append(Trial(trial, measured, arrays))
    return outcomes


class _OnTheWay:
    """An observer that reports (share done, current MSE averaged over the batch), and keeps errors and snapshots."""

    def __init__(self, truth: Tensor, report: Report, *, snapshots: bool) -> None:
        self.truth, self.report, self.with_snapshots = truth, report, snapshots
        self.reported = 0.0
        self.steps: list[int] = []
        self.errors: list[Tensor] = []  # (B,) each
        self.snapshots: dict[int, Tensor] = {}  # (B, r, D) float32 by the step

    def __call__(self, progress: Progress) -> None:
        now, step, steps = time.monotonic(), progress.step - progress.before, max(progress.steps - progress.before, 1)
        due = now - self.reported >= REPORT_EVERY
        kept = step > 0 and (step % max(1, steps // CURVE_POINTS) == 0 or step == steps)
        kept = kept and len(self.truth) == 1  # methods that take a batch's problems in turn count the batch's steps
        wanted = self.with_snapshots and step in {math.ceil(share * steps) for share in SNAPSHOTS}
        if not (due or kept or wanted):
            return
        points = progress.transformed().cpu()
        errors = mean_squared_error(points, self.truth)
        if due:
            self.reported = now
            self.report((progress.step / max(progress.steps, 1), float(errors.mean())))
        if kept:
            self.steps.append(step)
            self.errors.append(errors)
        if wanted:
            self.snapshots[step] = points.float()

    def arrays(self, k: int, *, snapshots: bool) -> dict[str, np.ndarray]:
        """What was kept of problem k of the batch."""
        kept = {
            "curve_step": np.array(self.steps, dtype=np.int64),
            "curve_mse": np.array([float(errors[k]) for errors in self.errors]),
        }
        if snapshots and self.snapshots:
            kept["snapshot_step"] = np.array(list(self.snapshots), dtype=np.int64)
            kept["snapshots"] = np.stack([points[k].numpy() for points in self.snapshots.values()])
        return kept


def potential_and_gradient_norm(potential: Callable[[Tensor], Tensor], points: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """A potential and the length of its gradient at points (N, D): (N,) and (N,) float32."""
    values, norms = [], []
    for chunk in points.cpu().split(CHUNK):
        with torch.enable_grad():
            x = chunk.detach().requires_grad_()
            f = potential(x)
            (gradient,) = torch.autograd.grad(f.sum(), x)
        values.append(f.detach())
        norms.append(gradient.norm(dim=1))
    return torch.cat(values).float().numpy(), torch.cat(norms).float().numpy()


def _history(result: RegistrationResult, k: int) -> dict[str, np.ndarray]:
    history = result.history[k] if result.history else {}
    return {f"history_{name}": np.array(values, dtype=np.float32) for name, values in history.items()}


def _drive(task: Task, problem: RegistrationProblem, observer: Observer) -> RegistrationResult:
    settings = methods.settings(task.method, task.options)
    seeds = list(task.seeds)
    if task.trainer.name == "lightning" and isinstance(settings, PwanSettings):
        from pwan import lightning  # takes seconds to import, so only when it is asked for

        how = {name: value for name, value in asdict(task.trainer).items() if name != "name"}
        return lightning.register(problem, settings, seeds=seeds, observer=observer, **how)
    if devices_of(task.method, task.trainer):
        own = devices_here(task.trainer.devices, "gpu")[worker_number() % task.trainer.devices]  # this worker's
        drive = partial(pipeline.register, place=Place(device=own))
        with threads(1), torch.cuda.device(own):
            return flexibility.register(problem, settings, seeds=seeds, observer=observer, drive=drive)
    return methods.run(task.method, problem, task.options, seeds=seeds, observer=observer)


def devices_of(method: str, trainer: TrainerSettings) -> dict[str, Any]:
    """What a row says of where a method's registration is computed, where the trainer chooses it: "devices" by their
    names, and "precision" where it is not single.

    Raises:
        ValueError: there are no such devices, or other ones than the processes that torchrun or srun has started.
    """
    if trainer.name == "loop" or not issubclass(methods.find(method).Settings, PwanSettings):
        return {}
    if trainer.name == "lightning":
        size = trainer.devices * trainer.num_nodes
        chosen: dict[str, Any] = {} if trainer.precision == 32 else {"precision": trainer.precision}
        if size > 1:
            from pwan.lightning import processes  # as above

            processes.check_size(trainer.devices, trainer.num_nodes)
        elif trainer.accelerator != "gpu":
            return chosen
        return {
            "devices": devices_here(trainer.devices, trainer.accelerator, "accelerator") * trainer.num_nodes,
            **chosen,
        }
    if not torch.cuda.is_available():
        raise ValueError("trainer=gpu needs a GPU, but torch finds none here; take trainer=loop")
    return {"devices": devices_here(trainer.devices, "gpu")[:1]}  # whichever takes a trial, its row is the same


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


def _digest(problem: RegistrationProblem, k: int) -> str:
    """Twelve hex digits of the points that problem k gives to a method: equal digits mean the same problem."""
    digest = hashlib.sha256()
    for points in (problem.source[k], problem.reference[k]):
        digest.update(np.ascontiguousarray(points.numpy()).tobytes())
    return digest.hexdigest()[:12]
