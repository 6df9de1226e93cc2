"""One method in one cell: which trials are missing, running them, writing their rows."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pwan import methods
from pwan.bench.cell import Cell, MethodEntry, settings_hash, trial_seed
from pwan.bench.measures import NAMES
from pwan.bench.rows import Row, RowFile, environment, newest, save_arrays
from pwan.bench.settings import TrainerSettings
from pwan.bench.trials import Task, Trial, devices_of, register_trials
from pwan.pool import Failure, choose_workers, run_tasks
from pwan.problem import FAILED, OK, RegistrationProblem, mean_squared_error
from pwan.registration.setup import check_ranks
from pwan.shapes import Shape
from pwan.synthesis import make_problem

BATCH_POINTS = 200_000  # source points of a batch, so few that a GPU's memory surely holds them; chosen by eye


@dataclass(frozen=True)
class Outcome:
    """What became of one method in one cell.

    Attributes:
        method: its name.
        settings: the hash of its rows.
        ran: trials that were run.
        skipped: trials whose rows existed already.
        failed: trials that were run and failed.
        error: why the job as a whole failed; empty where it did not.
        taken: of the skipped ones those that this run took over from elsewhere.
    """

    method: str
    settings: str
    ran: int
    skipped: int
    failed: int
    error: str = ""
    taken: int = 0

    def sentence(self) -> str:
        there = f"{self.skipped} were there already" + (f" ({self.taken} taken over)" if self.taken else "")
        text = f"{self.method}: {self.ran} trials run, {there}, {self.failed} failed"
        return f"{text}; {self.error}" if self.error else text


@dataclass
class _State:
    """How far a running job is: trials recorded, trials failed, and trials of a batch that raised, to be run again."""

    recorded: int = 0
    failed: int = 0
    again: list[int] = field(default_factory=list)
    missing_package: str = ""


class Job:
    """One method in one cell.

    Args:
        cell: whose problems are registered.
        entry: the method.
        shape: of the cell.
        folder: of the cell's results.
        rows: of this folder, open.
        trainer: who drives PWAN's steps.
        resolved: the method's settings as used in this cell.

    Raises:
        ValueError: settings that the trainer cannot run.
    """

    def __init__(
        self,
        cell: Cell,
        entry: MethodEntry,
        shape: Shape,
        folder: Path,
        rows: RowFile,
        trainer: TrainerSettings,
        resolved: Mapping[str, Any],
    ) -> None:
        self.trainer = trainer
        self.cell, self.entry, self.shape, self.rows = cell, entry, shape, rows
        self.devices = devices_of(entry.method, trainer)
        ranks = len(self.devices.get("devices", []))
        if ranks > 1:
            check_ranks(self.problem([0]), methods.settings(entry.method, entry.options), ranks)
        self.settings = settings_hash(cell, entry, {**resolved, **self.devices})
        self.points = folder / "points" / f"{entry.name}-{self.settings}"

    def kept(self, trial: int) -> Path:
        """The file of a trial's arrays, see :class:`pwan.bench.trials.Trial`; a trial that raised has none."""
        return self.points / f"{trial}.npz"

    def problem(self, trials: list[int]) -> RegistrationProblem:
        return make_problem(self.shape, self.cell.synthesis, seed=self.cell.seed, trials=trials)

    def run(self, trials: int, workers: int | str, retry_failed: bool) -> Outcome:
        done = {trial for trial, row in self._known(trials).items() if not (retry_failed and row["status"] == FAILED)}
        missing = [trial for trial in range(trials) if trial not in done]
        skipped = trials - len(missing)
        if not missing:
            return Outcome(self.entry.name, self.settings, 0, skipped, 0, self._all_failed(trials))
        if "devices" in self.devices:  # a registration fills several devices by itself, one a batch of them
            if workers == "auto":
                workers = self._gpus() if self.trainer.name == "gpu" else 1
            if self.trainer.name == "lightning" and int(workers) > 1:
                raise ValueError(f"{workers} workers would each fill the trainer's devices; take workers=1, or auto")
        count = choose_workers(workers, len(missing))
        if self._gpus():
            count = min(count, self._gpus())  # each has one of its own
        state = _State()
        with tqdm(
            total=len(missing),
            desc=self.entry.name,
            bar_format="{desc} {percentage:3.0f}% |{bar}| {n:.1f}/{total} trials [{elapsed}<{remaining}{postfix}]",
            mininterval=0.5 if sys.stderr.isatty() else 15,
            smoothing=0,
        ) as bar:
            if count == 0 or self._gpus():
                self._execute(self._batches(missing), count, bar, state)
                missing_again, state.again = state.again, []
                if missing_again:  # the batch raised: trial by trial the others keep their results
                    self._execute([[trial] for trial in missing_again], 1, bar, state)
            else:
                self._execute([[trial] for trial in missing], count, bar, state)
        if state.missing_package:
            return Outcome(self.entry.name, self.settings, state.recorded, skipped, 0, state.missing_package)
        return Outcome(self.entry.name, self.settings, len(missing), skipped, state.failed, self._all_failed(trials))

    def _gpus(self) -> int:
        """Over how many GPUs the trials are dealt; 0 for one, which this process uses, and for none."""
        return self.trainer.devices if self.devices and self.trainer.name == "gpu" and self.trainer.devices > 1 else 0

    def _batches(self, trials: list[int]) -> list[list[int]]:
        """As many trials at once as a GPU's memory surely holds; one where a voxel filter makes their sizes differ."""
        at_once = 1 if self.cell.synthesis.voxel else max(1, BATCH_POINTS // self.cell.synthesis.points)
        if self._gpus():
            at_once = min(at_once, math.ceil(len(trials) / self._gpus()))
        return [trials[start : start + at_once] for start in range(0, len(trials), at_once)]

    def written(self) -> list[Row]:
        """All rows that exist, of any trial; more than one of a trial that was run again."""
        return [row for row in self.rows.rows if row["settings"] == self.settings]

    def finished(self) -> list[Row]:
        """The rows that exist, of any trial, the newest of each."""
        return newest(self.written())

    def _known(self, trials: int) -> dict[int, Row]:
        """The rows that exist of the trials that were asked for."""
        return {row["trial"]: row for row in self.finished() if row["trial"] < trials}

    def _all_failed(self, trials: int) -> str:
        """Why the job as a whole failed, also where an earlier run wrote some of its rows; empty where it did not."""
        rows = list(self._known(trials).values())
        if any(row["status"] == OK for row in rows):
            return ""
        return f"all trials failed, the last one because: {rows[-1]['stop_reason']} (retry_failed=true tries again)"

    def _execute(self, batches: list[list[int]], workers: int, bar: Any, state: _State) -> None:
        running: dict[int, float] = {}  # trials' worth of work done, by the number of the task in progress

        def move_bar() -> None:
            bar.n = min(state.recorded + sum(running.values()), bar.total)
            bar.update(0)

        def on_progress(number: int, report: tuple[float, float]) -> None:
            running[number] = report[0] * len(batches[number])
            bar.set_postfix_str(f"current MSE {report[1]:.4f}", refresh=False)
            move_bar()

        def on_done(number: int, outcome: list[Trial] | Failure) -> None:
            running.pop(number, None)
            self._record(batches[number], outcome, state)
            move_bar()

        tasks = self._tasks(batches, one_thread=workers != 0)
        run_tasks(register_trials, tasks, workers=workers, on_done=on_done, on_progress=on_progress)

    def _tasks(self, batches: list[list[int]], *, one_thread: bool) -> Iterator[Task]:
        for batch in batches:
            yield Task.of(
                self.problem(batch),
                method=self.entry.method,
                options=self.entry.options,
                trials=batch,
                seeds=[trial_seed(self.cell.seed, trial) for trial in batch],
                one_thread=one_thread,
                trainer=self.trainer,
            )

    def _record(self, batch: list[int], outcome: list[Trial] | Failure, state: _State) -> None:
        """Write the rows of one finished task."""
        if isinstance(outcome, Failure):
            if outcome.missing_package:  # no trial was tried: no row, so that the same command tries again
                state.missing_package = outcome.reason
                return
            if len(batch) > 1:
                state.again.extend(batch)
                return
            tqdm.write(f"{self.entry.name}, trial {batch[0]} failed: {outcome.details or outcome.reason}", sys.stderr)
            measured = {
                "status": FAILED,
                "stop_reason": outcome.reason,
                **dict.fromkeys(("mse_unrefined", "mse", *NAMES, "matched_fraction")),
                **dict.fromkeys(("seconds", "steps", "threads", "problem")),
                "batch": 1,
            }
            outcome = [Trial(batch[0], measured, {})]
        problem = self.problem(batch)
        assert problem.truth is not None
        initial = mean_squared_error(problem.source, problem.truth).tolist()
        centre = problem.truth.mean(1, keepdim=True)
        radii = mean_squared_error(problem.truth, centre).sqrt().tolist()
        for trial, mse_initial, radius in zip(outcome, initial, radii, strict=True):
            if trial.arrays:
                save_arrays(self.kept(trial.trial), trial.arrays)
            self.rows.append(
                {
                    "experiment": self.cell.experiment,
                    **self.cell.axes(),
                    "shape_origin": self.shape.source,
                    "method": self.entry.name,
                    "method_file": self.entry.method,
                    "options": json.dumps({**self.entry.options, **self.devices}, sort_keys=True),
                    "settings": self.settings,
                    "trial": trial.trial,
                    "mse_initial": mse_initial,
                    "truth_radius": radius,
                    **trial.measured,
                    **environment(),
                    **({"device": " ".join(self.devices["devices"])} if "devices" in self.devices else {}),
                }
            )
            state.recorded += 1
            if trial.measured["status"] != OK:
                state.failed += 1
