"""Pictures of a cell, from the points that its jobs kept on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pwan.bench.job import Job
from pwan.bench.rows import Row
from pwan.problem import FAILED, OK
from pwan.report.example_figure import Example, draw_examples
from pwan.report.training_figure import Training, draw_training
from pwan.report.trial_figure import Panel, Registration, draw_trials

KINDS = ("trials", "example", "training")
EXAMPLE = "example.png"


def draw_worst_median_best(job: Job, rows: Sequence[Row]) -> None:
    """``trials_<method>.png``: the worst, median and best of the trials whose points are there.

    Failed ones count as the worst. Without any points there is no picture: one of other settings is removed.
    """
    known = [row for row in rows if job.kept(row["trial"]).exists()]
    if not known:
        job.picture.unlink(missing_ok=True)
        return
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
    draw_trials(panels, f"{job.cell.experiment}: {job.entry.name}, {len(rows)} trials", job.picture)


def draw_example(jobs: Sequence[tuple[Job, Sequence[Row]]], folder: Path) -> None:
    """``example.png`` and ``.pdf``: trial 0 before registration and as each method left it."""
    registrations = []
    for job, rows in jobs:
        row = next((row for row in rows if row["trial"] == 0), None)
        if row is not None and job.kept(0).exists():
            registrations.append(registration(row, job.kept(0)))
    if not registrations:
        return
    problem = jobs[0][0].problem([0])
    example = Example(
        f"initial sets\nMSE {jobs[0][1][0]['mse_initial']:.4g}",
        problem.source[0].numpy(),
        problem.reference[0].numpy(),
        registrations,
    )
    draw_examples([example], f"{jobs[0][0].cell.experiment}: trial 0", folder / EXAMPLE)


def registration(row: Row, path: Path) -> Registration:
    """What one method made of one trial, from its row and the file of its arrays."""
    with np.load(path) as arrays:
        return Registration(
            row["method"],
            f"MSE {row['mse']:.4g}" if row["status"] == OK else "failed",
            arrays["transformed"],
            arrays["matched"],
            arrays["reference_matched"],
            arrays.get("potential"),
            arrays.get("reference_potential"),
        )


def has_course(job: Job) -> bool:
    """Whether :func:`draw_course` has what it draws: trial 0 by a method with a potential."""
    if not job.kept(0).exists():
        return False
    with np.load(job.kept(0)) as arrays:
        return {"potential", "snapshots"} <= set(arrays)


def kept_curves(job: Job, rows: Sequence[Row]) -> list[dict[str, np.ndarray]]:
    """What the rows' trials kept of their courses, for :func:`pwan.bench.curves.median_curves`."""
    curves = []
    for row in rows:
        if job.kept(row["trial"]).exists():
            with np.load(job.kept(row["trial"])) as arrays:
                curves.append({name: arrays[name] for name in arrays if name.startswith(("curve_", "history_"))})
    return curves


def draw_course(job: Job, path: Path) -> None:
    """Write PNG and PDF: the source on its way in trial 0, potential, gradient norm and curves."""
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
        },
    )
    title = f"{job.cell.experiment}: {job.entry.name}, trial 0, {len(source)} against {len(reference)} points"
    draw_training(training, title, path)
