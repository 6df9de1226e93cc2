"""The task behind ``experiment=scalability``: computation time of each method against the number of points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from pwan import shapes
from pwan.app.checked import Checked
from pwan.app.tasks import check_loop, write_config
from pwan.app.tasks._settings.scalability import GIGABYTE, MEGABYTE, Settings
from pwan.bench.cell import Cell, MethodEntry, settings_hash
from pwan.bench.isolated import NOT_RUN, STOPPED, Work, measure
from pwan.bench.rows import Row, RowFile, environment, newest
from pwan.bench.summary import write_table
from pwan.problem import FAILED, OK, RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.report.scalability_figure import draw_scalability
from pwan.synthesis import make_problem

NUMBERS = ("seconds_mean", "seconds_std", "memory_mb", "mse_initial_mean", "mse_mean", "seconds_predicted", "exponent")


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    """``retry_failed`` measures again what failed, but not what was stopped at a limit: another limit does."""
    check_loop(checked)
    if checked.workers not in ("auto", 1):
        print(f"workers={checked.workers} means nothing here: times are taken of one registration after the other")
    cell = checked.cell
    shape = shapes.load(cell.shape, cell.shape_source)
    sizes = sorted(set(settings.sizes))
    shape.sample(sizes[-1], numpy_generator(cell.seed, "largest"))  # refuses a shape without a surface to draw from
    # a method's settings follow from the kind and the size of a problem: a small one, repeated, shows them
    example = make_problem(shape, cell.with_points(sizes[0]).synthesis, seed=cell.seed, trials=[0])
    used = {
        entry.name: {points: entry.resolved(_repeated(example, points)) for points in sizes}
        for entry in checked.entries
    }
    lines: list[dict[str, Any]] = []
    with RowFile(folder) as rows:
        nodes = {entry.name: {"method": entry.method, **used[entry.name][sizes[0]]} for entry in checked.entries}
        write_config(folder, {**checked.resolved, "method": nodes})
        total = len(checked.entries) * sum(settings.runs(points) for points in sizes)
        with tqdm(total=total, desc="registrations", unit="run", mininterval=0.5 if sys.stderr.isatty() else 15) as bar:
            for entry in checked.entries:
                measured = _measure_method(
                    cell, entry, used[entry.name], sizes, settings, rows, bar, retry=checked.retry_failed
                )
                lines += [{**line, "exponent": _exponent(measured)} for line in measured]
                summary = pd.DataFrame(lines).astype(dict.fromkeys(NUMBERS, float))  # None becomes NaN
                write_table(summary, folder / "summary.csv")
                draw_scalability(summary, f"{shape.name} ({shape.source}), one thread", folder / "scalability.png")
    columns = ["method", "points", "status", "runs", "seconds_mean", "memory_mb", "mse_mean", "exponent", "reason"]
    print(summary[columns].to_string(index=False, float_format=lambda x: f"{x:.4g}", na_rep="-"))
    return 0 if (summary.groupby("method")["runs"].sum() > 0).all() else 1


def power_law(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Factor and exponent of values = factor * sizes^exponent, by least squares of the logarithms.

    One size alone is taken for linear: no method does with less than a look at each point.
    """
    if len(sizes) == 1:
        return values[0] / sizes[0], 1.0
    exponent, intercept = np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-9)), 1)
    return float(np.exp(intercept)), float(exponent)


def predict(sizes: Sequence[float], values: Sequence[float], points: int) -> float:
    """The value at a larger size, by the power law through the two largest ones: at small ones the overhead counts."""
    factor, exponent = power_law(sizes[-2:], values[-2:])
    return factor * points**exponent if exponent > 0 else values[-1]


def _repeated(problem: RegistrationProblem, points: int) -> RegistrationProblem:
    """A problem of one kind in another size: the same points again and again."""
    rows = torch.arange(points, dtype=torch.int64, device=problem.source.device) % problem.source.shape[1]
    mass = None if problem.mass is None else problem.mass * points / problem.source.shape[1]
    return replace(problem, source=problem.source[:, rows], reference=problem.reference[:, rows], mass=mass, truth=None)


def _exponent(lines: list[dict[str, Any]]) -> float | None:
    good = [line for line in lines if line["runs"]]
    if len(good) < 2:
        return None
    return power_law([line["points"] for line in good], [line["seconds_mean"] for line in good])[1]


def _measure_method(
    cell: Cell,
    entry: MethodEntry,
    used: dict[int, dict[str, Any]],
    sizes: list[int],
    settings: Settings,
    rows: RowFile,
    bar: Any,
    *,
    retry: bool,
) -> list[dict[str, Any]]:
    """A line for each size. What is not in the rows yet is measured, and each row is written as it comes.

    ``retry``: also what failed.
    """
    lines: list[dict[str, Any]] = []
    clock = bar.refresh if sys.stderr.isatty() else lambda: None  # goes on during a long registration
    for points in sizes:
        sized, start = cell.with_points(points), bar.n
        key, wanted = settings_hash(sized, entry, used[points]), settings.runs(points)
        bar.set_postfix_str(f"{entry.name}, {points} points")
        finished = _finished(rows, key, settings)
        again = {k for k, row in finished.items() if retry and row["status"] == FAILED}
        missing = tuple(k for k in range(wanted) if k not in finished or k in again)
        bar.update(wanted - len(missing))
        reason, seconds = _refusal(lines, points, settings)
        ended = any(row["status"] == STOPPED for row in finished.values())
        if missing and not reason and not ended:
            work = Work(sized, entry, missing, settings.memory())
            for row in measure(work, settings.limit_seconds, clock):
                if row["status"] == NOT_RUN:  # nothing was tried: no row, so that the same command tries again
                    reason = row["reason"]
                    break
                about = {"method": entry.name, "settings": key, **settings.limits(), **environment()}
                rows.append({"experiment": cell.experiment, **sized.axes(), **about, **row})
                bar.update(1)
            finished = _finished(rows, key, settings)
        bar.update(start + wanted - bar.n)
        done = [finished[k] for k in range(wanted) if k in finished]
        lines.append(
            {
                **_line(entry.name, points, done, reason if missing else ""),
                "seconds_predicted": seconds,
                "limit": settings.limit_seconds,
            }
        )
    return lines


def _refusal(lines: list[dict[str, Any]], points: int, settings: Settings) -> tuple[str, float | None]:
    """Why a size is not run, or nothing; and the seconds that it would take, where these can be predicted."""
    for line in lines:
        if line["status"] in (STOPPED, NOT_RUN):
            return f"{line['points']} points were too many already", None
    good = [line for line in lines if line["runs"]]
    if not good:
        return "", None
    sizes = [line["points"] for line in good]
    seconds = predict(sizes, [line["seconds_mean"] for line in good], points)
    if seconds > settings.limit_seconds:
        return f"would take {seconds:.3g} s, the limit is {settings.limit_seconds:.3g} s", seconds
    needed = predict(sizes, [line["memory_mb"] for line in good], points) * MEGABYTE
    if needed > settings.memory():
        limit = settings.memory() / GIGABYTE
        return f"would take {needed / GIGABYTE:.3g} GiB of memory, the limit is {limit:.3g} GiB", seconds
    return "", seconds


def _finished(rows: RowFile, key: str, settings: Settings) -> dict[int, Row]:
    """The rows of a cell by repeat; one that was stopped at lower limits than the present ones does not count."""
    return {
        row["trial"]: row
        for row in newest(rows.rows)
        if row["settings"] == key
        and not (row["status"] == STOPPED and any(row[name] < now for name, now in settings.limits().items()))
    }


def _line(method: str, points: int, done: list[Row], reason: str) -> dict[str, Any]:
    """One line of the summary, from the rows of one method and size."""
    good = [row for row in done if row["status"] == OK]
    bad = [row for row in done if row["status"] != OK]
    values = {name: [row[name] for row in good] for name in ("seconds", "memory_mb", "mse_initial", "mse")}
    statuses = {row["status"] for row in done} or {NOT_RUN}
    return {
        "method": method,
        "points": points,
        "status": next(s for s in (STOPPED, OK, *sorted(statuses)) if s in statuses),
        "runs": len(good),
        "failed": len(bad),
        "seconds_mean": float(np.mean(values["seconds"])) if good else None,
        "seconds_std": float(np.std(values["seconds"], ddof=1)) if len(good) > 1 else None,
        "memory_mb": float(np.max(values["memory_mb"])) if good else None,
        "mse_initial_mean": float(np.mean(values["mse_initial"])) if good else None,
        "mse_mean": float(np.mean(values["mse"])) if good else None,
        "reason": "; ".join(dict.fromkeys(filter(None, [*(row["reason"] for row in bad), reason]))),
    }
