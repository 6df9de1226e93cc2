"""The task ``benchmark``: register the trials of one cell with each method of the list."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from pwan import shapes
from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.benchmark import Settings
from pwan.bench.cell import Cell, MethodEntry
from pwan.bench.curves import median_curves
from pwan.bench.job import Job, Outcome
from pwan.bench.last_run import begin_run, end_run
from pwan.bench.pictures import EXAMPLE, Shown, course, example, kept_curves, worst_median_best
from pwan.bench.rows import Row, RowFile, check_same_problem, newest, read_packed, read_rows, remove_halves
from pwan.bench.settings import LOOP, TrackingSettings, TrainerSettings
from pwan.bench.summary import summarise, table, write_tables
from pwan.bench.tracking import WORST_MEDIAN_BEST, is_tracked, is_wanted, track
from pwan.synthesis import make_problem


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
        known=None if settings.known is None else Path(settings.known),
    )
    summary = write_tables(folder, read_rows(folder))
    wanted = summary["settings"].isin([outcome.settings for outcome in outcomes])
    print(table(summary[wanted]) if wanted.any() else "no rows")
    for outcome in outcomes:
        print(outcome.sentence())
    return 1 if any(outcome.error for outcome in outcomes) else 0


def run_cell(
    cell: Cell,
    entries: list[MethodEntry],
    folder: Path,
    *,
    trials: int,
    workers: int | str = "auto",
    tracking: TrackingSettings,
    config: Mapping[str, Any],
    trainer: TrainerSettings = LOOP,
    retry_failed: bool = False,
    pictures: Sequence[str] = ("trials",),
    known: Path | None = None,
) -> list[Outcome]:
    """Run what is missing of the trials 0 to ``trials - 1``; rows are appended as they come.

    Writes ``config.yaml``, ``rows.jsonl``, ``summary.csv`` and ``paired.csv`` (where there was something to run), the
    pictures, ``last_run.json``, ``last_settings.json``, ``points/`` and ``wandb/`` in ``folder``.

    Args:
        cell: whose problems are registered.
        entries: the methods.
        folder: of the results.
        trials: how many.
        workers: see :func:`pwan.pool.choose_workers`.
        tracking: whether and where to track in W&B.
        config: the configuration for ``config.yaml`` and W&B; gets the methods' settings as they are used in this cell.
        trainer: who drives PWAN's steps.
        retry_failed: run failed trials again.
        pictures: kinds of them, see :class:`Settings`.
        known: a file of trials from elsewhere that count as done, see :class:`Settings`.

    Raises:
        ValueError: settings of a method that do not fit the cell's problems, or known trials of other problems; nothing
            was run.
        KeyboardInterrupt: the user stopped the run; the rows so far are on the disk and summarised, as after any error.
        BlockingIOError: another process writes in this folder.
    """
    shape = shapes.load(cell.shape, cell.shape_source)
    first = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[0])
    used = {entry.name: entry.resolved(first) for entry in entries}
    nodes = {entry.name: {"method": entry.method, **used[entry.name]} for entry in entries}
    outcomes: list[Outcome] = []
    found = [] if known is None else read_packed(known)
    with RowFile(folder) as rows:
        jobs = [Job(cell, entry, shape, folder, rows, trainer, used[entry.name]) for entry in entries]
        taken = {} if known is None else _known_trials(known, found, jobs, trials, rows)
        remove_halves(folder)
        shown = Shown(folder)
        now = [job.settings for job in jobs]
        begin_run(folder, now)
        write_config(folder, {**config, "method": nodes})
        try:
            for job in jobs:
                new = taken.get(job.settings, [])
                for row in new:
                    rows.append(row)
                outcome = replace(job.run(trials, workers, retry_failed), taken=len(new))
                outcomes.append(outcome)
                node = {job.entry.name: nodes[job.entry.name]}
                _show(job, outcome, pictures, shown, tracking, {**config, "method": node})
            if "example" in pictures:
                count, fresh = sum(len(job.written()) for job in jobs), any(map(_is_fresh, outcomes))
                drawing = example([(job, job.finished()) for job in jobs])
                shown.update(EXAMPLE, " ".join(now), rows=count, fresh=fresh, draw=drawing)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                write_tables(folder, read_rows(folder))
            raise
        end_run(folder, outcomes)
    return outcomes


def _known_trials(
    known: Path, found: list[Row], jobs: Sequence[Job], trials: int, rows: RowFile
) -> dict[str, list[Row]]:
    """Of the rows found in a file those that these jobs would run, by their settings; says how many they are."""
    taken: dict[str, list[Row]] = {job.settings: [] for job in jobs}
    fitting = [row for row in found if row["settings"] in taken and row["trial"] < trials]
    if fitting:
        lowest = min(row["trial"] for row in fitting)
        problem = jobs[0].problem([lowest])
        for row in fitting:
            if row["trial"] == lowest:
                check_same_problem(row, problem, f"{known}, given as options.known,")
    here = {(row["settings"], row["trial"]) for row in rows.rows}
    new = [row for row in fitting if (row["settings"], row["trial"]) not in here]
    for row in new:
        taken[row["settings"]].append({**row, "experiment": jobs[0].cell.experiment})
    if fitting:
        print(f"{len(new)} trials taken over from {known}")
    else:
        print(f"none of the {len(found)} trials in {known} is of this cell, these methods and settings")
    return taken


def _is_fresh(outcome: Outcome) -> bool:
    """Whether the run has added rows."""
    return bool(outcome.ran or outcome.taken)


def _show(
    job: Job,
    outcome: Outcome,
    pictures: Sequence[str],
    shown: Shown,
    tracking: TrackingSettings,
    config: Mapping[str, Any],
) -> None:
    """Pictures, summary and W&B run of one method's finished trials, as far as they are wanted and not yet there."""
    written, fresh = job.written(), _is_fresh(outcome)
    if not written:
        return
    done = newest(written)
    drawn = _draw(job, done, pictures, shown, rows=len(written), fresh=fresh)
    if fresh:
        write_tables(shown.folder, read_rows(shown.folder))
    if is_wanted(tracking) and (fresh or not is_tracked(shown.folder, job.cell.experiment, written)):
        track(
            shown.folder,
            tracking,
            config=config,
            experiment=job.cell.experiment,
            method=job.entry.name,
            rows=pd.DataFrame(done),
            written=len(written),
            summary=summarise(done).iloc[0].to_dict(),
            curves=median_curves(kept_curves(job, done)),
            figures=drawn,
            failed=bool(outcome.error),
        )


def _draw(
    job: Job, done: list[Row], pictures: Sequence[str], shown: Shown, *, rows: int, fresh: bool
) -> dict[str, Path]:
    """The pictures of one method that were asked for and that it can have, by the names that they get in W&B."""
    name = job.entry.name
    wanted = {
        "trials": (WORST_MEDIAN_BEST, f"trials_{name}.png", worst_median_best),
        "training": ("training", f"training_{name}.png", lambda job, rows: course(job)),
    }
    drawn: dict[str, Path] = {}
    for kind, (label, file, drawing) in wanted.items():
        if kind in pictures:
            path = shown.update(file, job.settings, rows=rows, fresh=fresh, draw=drawing(job, done))
            drawn |= {label: path} if path else {}
    return drawn
