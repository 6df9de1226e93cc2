"""The task ``benchmark``: register the trials of one cell with each method of the list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pwan import shapes
from pwan.app.config import Checked
from pwan.app.tasks import write_config
from pwan.bench.cell import Cell, MethodEntry
from pwan.bench.job import Job, Outcome
from pwan.bench.rows import RowFile, in_one_move, newest, read_rows, remove_halves
from pwan.bench.summary import table, write_paired, write_summary
from pwan.bench.tracking import TrackingSettings, track
from pwan.bench.trials import TrainerSettings
from pwan.synthesis import make_problem

OUTCOMES = "last_run.json"


@dataclass(frozen=True)
class Settings:
    """A benchmark has no settings of its own: all are at the configuration's top level."""


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
) -> list[Outcome]:
    """Run what is missing of the trials 0 to ``trials - 1``; rows are appended as they come.

    Writes ``config.yaml``, ``rows.jsonl``, ``summary.csv`` (where there was something to run), ``trials_<method>.png``,
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
    outcomes = []
    with RowFile(folder) as rows:
        remove_halves(folder)
        drawn = {outcome.settings for outcome in read_outcomes(folder)}  # what the pictures there show
        (folder / OUTCOMES).unlink(missing_ok=True)
        write_config(folder, {**config, "method": nodes})
        try:
            for entry in entries:
                job = Job(cell, entry, shape, folder, rows, trainer, used[entry.name])
                outcome = job.run(trials, workers, retry_failed)
                done = [row for row in newest(rows.rows) if row["settings"] == job.settings]
                outcomes.append(outcome)
                if not done:
                    continue
                right = job.settings in drawn or not _has_others(rows, entry.name, job.settings)
                if outcome.ran or not (right and job.picture.exists()):
                    job.draw(done)
                if not outcome.ran:
                    continue
                summary = write_summary(folder, read_rows(folder))
                if tracking.wandb:
                    line = summary[summary["settings"] == job.settings].iloc[0]
                    track(
                        folder,
                        tracking,
                        config={**config, "method": {entry.name: nodes[entry.name]}},
                        experiment=cell.experiment,
                        method=entry.name,
                        rows=pd.DataFrame(done),
                        summary=line.to_dict(),
                        figure=job.picture if job.picture.exists() else None,
                        failed=bool(outcome.error),
                    )
        except KeyboardInterrupt:
            write_summary(folder, read_rows(folder))
            raise
        with in_one_move(folder / OUTCOMES) as half:
            half.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return outcomes


def _has_others(rows: RowFile, method: str, settings: str) -> bool:
    """Whether the method has rows of other settings, so that the picture there may be theirs."""
    return any(row["method"] == method and row["settings"] != settings for row in rows.rows)
