"""The task ``benchmark``: register the trials of one cell with each method of the list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pwan import shapes
from pwan.app.config import Checked
from pwan.app.tasks import write_config
from pwan.bench.cell import Cell, MethodEntry
from pwan.bench.curves import median_curves
from pwan.bench.job import Job, Outcome
from pwan.bench.pictures import (
    EXAMPLE,
    KINDS,
    draw_course,
    draw_example,
    draw_worst_median_best,
    has_course,
    kept_curves,
)
from pwan.bench.rows import Row, RowFile, read_rows, remove_halves
from pwan.bench.summary import table, write_paired, write_summary
from pwan.bench.tracking import WORST_MEDIAN_BEST, TrackingSettings, track
from pwan.bench.trials import TrainerSettings
from pwan.files import in_one_move
from pwan.synthesis import make_problem

OUTCOMES = "last_run.json"


@dataclass(frozen=True)
class Settings:
    """What a benchmark has beside the configuration's top level.

    Attributes:
        pictures: "trials": the worst, median and best trial of each method; "example": trial 0 before registration and
            as each method left it; "training": for methods with a potential the source on its way in trial 0, the
            potential, its gradient norm and the curves.

    Raises:
        ValueError: another kind of picture.
    """

    pictures: tuple[str, ...] = ("trials",)

    def __post_init__(self) -> None:
        for kind in self.pictures:
            if kind not in KINDS:
                raise ValueError(f"options.pictures must name kinds of {', '.join(KINDS)}, got {kind!r}")


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    outcomes = run_cell(
        checked.cell,
        checked.entries,
        folder,
        trials=checked.trials,
        workers=checked.workers,
        tracking=checked.tracking,
        trainer=checked.trainer,
        config=checked.resolved,
        retry_failed=checked.retry_failed,
        pictures=settings.pictures,
    )
    rows = read_rows(folder)
    summary = write_summary(folder, rows)
    write_paired(folder, rows)
    wanted = summary["settings"].isin([outcome.settings for outcome in outcomes])
    print(table(summary[wanted]) if wanted.any() else "no rows")
    for outcome in outcomes:
        print(outcome.sentence())
    return 1 if any(outcome.error for outcome in outcomes) else 0


def read_outcomes(folder: Path) -> list[Outcome]:
    """What became of each method when the folder was last run; empty where that run was cut short."""
    path = folder / OUTCOMES
    return [Outcome(**outcome) for outcome in json.loads(path.read_text())] if path.exists() else []


def run_cell(
    cell: Cell,
    entries: list[MethodEntry],
    folder: Path,
    *,
    trials: int,
    workers: int | str = "auto",
    tracking: TrackingSettings,
    config: Mapping[str, Any],
    trainer: TrainerSettings = TrainerSettings(),  # noqa: B008  (immutable)
    retry_failed: bool = False,
    pictures: Sequence[str] = ("trials",),
) -> list[Outcome]:
    """Run what is missing of the trials 0 to ``trials - 1``; rows are appended as they come.

    Writes ``config.yaml``, ``rows.jsonl``, ``summary.csv`` (where there was something to run), the pictures,
    ``last_run.json``, ``points/`` and ``wandb/`` in ``folder``.

    Args:
        config: the configuration for ``config.yaml`` and W&B; gets the methods' settings as they are used in this cell.

    Raises:
        ValueError: settings of a method that do not fit the cell's problems; nothing was run.
        KeyboardInterrupt: the user stopped the run; the rows so far are on the disk and summarised.
        BlockingIOError: another process writes in this folder.
    """
    shape = shapes.load(cell.shape, cell.shape_source)
    first = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[0])
    used = {entry.name: entry.resolved(first) for entry in entries}
    nodes = {entry.name: {"method": entry.method, **used[entry.name]} for entry in entries}
    outcomes: list[Outcome] = []
    with RowFile(folder) as rows:
        remove_halves(folder)
        drawn = {outcome.settings for outcome in read_outcomes(folder)}  # what the pictures there show
        (folder / OUTCOMES).unlink(missing_ok=True)
        write_config(folder, {**config, "method": nodes})
        jobs = [Job(cell, entry, shape, folder, rows, trainer, used[entry.name]) for entry in entries]
        try:
            for job in jobs:
                name = job.entry.name
                outcome = job.run(trials, workers, retry_failed)
                outcomes.append(outcome)
                done = job.finished()
                if not done:
                    continue
                right = job.settings in drawn or not _has_others(rows, name, job.settings)
                drawings = _drawings(job, done, folder, pictures)
                for path, draw in drawings.values():
                    if outcome.ran or not (right and path.exists()):
                        draw()
                if not outcome.ran:
                    continue
                summary = write_summary(folder, read_rows(folder))
                if tracking.wandb:
                    line = summary[summary["settings"] == job.settings].iloc[0]
                    track(
                        folder,
                        tracking,
                        config={**config, "method": {name: nodes[name]}},
                        experiment=cell.experiment,
                        method=name,
                        rows=pd.DataFrame(done),
                        summary=line.to_dict(),
                        curves=median_curves(kept_curves(job, done)),
                        figures={kind: path for kind, (path, _) in drawings.items() if path.exists()},
                        failed=bool(outcome.error),
                    )
            shown = {job.settings for job in jobs} <= drawn and (folder / EXAMPLE).exists()
            if "example" in pictures and (any(outcome.ran for outcome in outcomes) or not shown):
                draw_example([(job, done) for job in jobs if (done := job.finished())], folder)
        except KeyboardInterrupt:
            write_summary(folder, read_rows(folder))
            raise
        with in_one_move(folder / OUTCOMES) as half:
            half.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return outcomes


def _drawings(
    job: Job, done: list[Row], folder: Path, pictures: Sequence[str]
) -> dict[str, tuple[Path, Callable[[], None]]]:
    """The pictures of one method that were asked for and that it can have, by W&B's name: file, and what draws it."""
    every: dict[str, tuple[Path, Callable[[], None]]] = {}
    if "trials" in pictures:
        every[WORST_MEDIAN_BEST] = job.picture, lambda: draw_worst_median_best(job, done)
    if "training" in pictures and has_course(job):
        path = folder / f"training_{job.entry.name}.png"
        every["training"] = path, lambda: draw_course(job, path)
    return every


def _has_others(rows: RowFile, method: str, settings: str) -> bool:
    """Whether the method has rows of other settings, so that the picture there may be theirs."""
    return any(row["method"] == method and row["settings"] != settings for row in rows.rows)
