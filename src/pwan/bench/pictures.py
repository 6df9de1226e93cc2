"""Pictures of a cell, from the points that its jobs kept on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pwan.bench.job import Job
from pwan.bench.rows import Row
from pwan.files import in_one_move
from pwan.problem import FAILED, OK
from pwan.report.example_figure import Example, draw_examples
from pwan.report.registered import Registration
from pwan.report.training_figure import SLOPE, Training, draw_training
from pwan.report.trial_figure import Panel, draw_trials

EXAMPLE = "example.png"


class Shown:
    """What the pictures of a folder show, by file name: the settings of their rows. Kept in ``pictures.json``.

    ``rows`` holds how many rows there were, which an earlier file does not say.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "pictures.json"
        kept: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        pairs = {name: one if isinstance(one, list) else (one, None) for name, one in kept.items()}
        self.shown: dict[str, str] = {name: settings for name, (settings, _) in pairs.items()}
        self.rows: dict[str, int | None] = {name: rows for name, (_, rows) in pairs.items()}

    def update(
        self, name: str, settings: str, *, rows: int, fresh: bool, draw: Callable[[Path], Any] | None
    ) -> Path | None:
        """Draw a picture where it is missing, shows other settings or new rows have come since.

        Args:
            name: of the file.
            settings: what it is to show.
            rows: how many there are of these settings.
            fresh: whether this run has added to them.
            draw: writes it, or None where it cannot be drawn: an earlier one is then removed.

        Returns:
            The picture, or None.
        """
        path = self.folder / name
        right = self.shown.get(name) == settings and self.rows[name] in (rows, None) and not fresh
        if draw is not None and path.exists() and right:
            return path
        if self.shown.pop(name, None) is not None:
            self._write()  # before the picture: a kill must not leave it with an old name
        for file in (path, path.with_suffix(".pdf")):
            file.unlink(missing_ok=True)
        if draw is None:
            return None
        draw(path)
        self.shown[name], self.rows[name] = settings, rows
        self._write()
        return path

    def _write(self) -> None:
        with in_one_move(self.path) as half:
            half.write_text(json.dumps({name: [key, self.rows[name]] for name, key in self.shown.items()}, indent=1))


def worst_median_best(job: Job, rows: Sequence[Row]) -> Callable[[Path], Any] | None:
    """What draws the worst, median and best of the trials whose points were kept; None where there are none.

    Failed ones count as the worst.
    """
    known = [row for row in rows if job.kept(row["trial"]).exists()]
    return (lambda path: _draw_worst_median_best(job, known, len(rows), path)) if known else None


def _draw_worst_median_best(job: Job, known: list[Row], trials: int, path: Path) -> None:
    known.sort(key=lambda row: (row["status"] != FAILED and row["mse"] is not None, -(row["mse"] or 0)))
    chosen = {"worst": known[0], "median": known[len(known) // 2], "best": known[-1]}
    panels = []
    for label, row in chosen.items():
        problem = job.problem([row["trial"]])
        assert problem.truth is not None
        with np.load(job.kept(row["trial"])) as arrays:
            panels.append(
                Panel(
                    f"{label}, trial {row['trial']}",
                    problem.source[0].numpy(),
                    problem.reference[0].numpy(),
                    problem.truth[0].numpy(),
                    arrays["transformed"],
                    arrays["matched"],
                    arrays["reference_matched"],
                    row["mse_initial"],
                    row["mse_unrefined"] if row["status"] == OK else None,
                    row["mse"] if row["status"] == OK else None,
                )
            )
    drawn = f"{trials} trials" if len(known) == trials else f"{len(known)} of {trials} trials, whose points were kept"
    draw_trials(panels, f"{job.cell.experiment}: {job.entry.name}, {drawn}", path)


def example(jobs: Sequence[tuple[Job, Sequence[Row]]]) -> Callable[[Path], Any] | None:
    """What draws trial 0 before registration and as each method left it; None where no method has its points."""
    having = [
        (job, row) for job, rows in jobs for row in rows if row["trial"] == 0 and job.kept(0).exists()
    ]  # at most one row of each
    if not having:
        return None

    def draw(path: Path) -> None:
        job, row = having[0]
        problem = job.problem([0])
        line = Example(
            f"initial sets\nMSE {row['mse_initial']:.3g}",
            problem.source[0].numpy(),
            problem.reference[0].numpy(),
            [registration(row, job.kept(0)) for job, row in having],
        )
        draw_examples([line], f"{job.cell.experiment}: trial 0", path)

    return draw


def registration(row: Row, path: Path) -> Registration:
    """What one method made of one trial, from its row and the file of its arrays."""
    with np.load(path) as arrays:
        return Registration(
            row["method"],
            f"MSE {row['mse']:.3g}" if row["status"] == OK else "failed",
            arrays["transformed"],
            arrays["matched"],
            arrays["reference_matched"],
            arrays.get("potential"),
            arrays.get("reference_potential"),
            arrays["transformed_unrefined"],
        )


def course(job: Job) -> Callable[[Path], Any] | None:
    """What draws the source on its way in trial 0, potential, gradient norm and curves; None without a potential."""
    if not job.kept(0).exists():
        return None
    with np.load(job.kept(0)) as arrays:
        complete = {"potential", "snapshots", "curve_mse"} <= set(arrays)
    return (lambda path: _draw_course(job, path)) if complete else None


def kept_curves(job: Job, rows: Sequence[Row]) -> list[dict[str, np.ndarray]]:
    """What the rows' trials kept of their courses, for :func:`pwan.bench.curves.median_curves`."""
    curves = []
    for row in rows:
        if job.kept(row["trial"]).exists():
            with np.load(job.kept(row["trial"])) as arrays:
                curves.append({name: arrays[name] for name in arrays if name.startswith(("curve_", "history_"))})
    return curves


def _draw_course(job: Job, path: Path) -> None:
    with np.load(job.kept(0)) as file:
        arrays: dict[str, Any] = dict(file)
    problem = job.problem([0])
    reference, source = problem.reference[0].numpy(), problem.source[0].numpy()
    on_the_way = [
        (f"step {step}", points) for step, points in zip(arrays["snapshot_step"], arrays["snapshots"], strict=True)
    ]
    last = len(arrays["history_loss"])
    steps = np.arange(1, last + 1)
    training = Training(
        reference,
        [("start", source), *on_the_way, (f"step {last}, before refinement", arrays["transformed_unrefined"])],
        np.concatenate([arrays["reference_potential"], arrays["potential"]]),
        np.concatenate([arrays["reference_gradient_norm"], arrays["gradient_norm"]]),
        {
            "discrepancy for each source point (normalised units)": (steps, arrays["history_loss"]),
            "MSE": (arrays["curve_step"], arrays["curve_mse"]),
            "threshold h (normalised units)": (steps, arrays["history_threshold"]),
            SLOPE: (steps, arrays["history_gradient_norm"]),
        },
    )
    title = f"{job.cell.experiment}: {job.entry.name}, trial 0, {len(source)} against {len(reference)} points"
    draw_training(training, title, path)
