"""The paper's accuracy figure: the median error of each method against what a sweep varies, on a log scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from pwan.choices import BANDS
from pwan.report.files import save_both
from pwan.report.published import PublishedTable

LABELS = {
    "outlier_ratio": "outliers for each point of the shape",
    "keep": "share of each set that the crop leaves",
    "points": "points N",
    "deformation_lambda": "stiffness of the deformation",
    "noise": "standard deviation of the noise",
    "distance": "distance threshold h of the problem",
    "mass_factor": "mass m over the true one",
    "method.updates": "u, network updates for each step",
}
# Okabe and Ito's colours, which colour-blind readers can tell apart; more methods than colours get another dash
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKS = "os^Dv<>"
DASHES = ("-", "--", ":")
WIDE = 20.0  # largest over smallest value of an axis from which on it is logarithmic; chosen by eye
_HUGE = 1e300  # stands for infinity where quantiles are interpolated


@dataclass(frozen=True)
class Curve:
    """One method's errors.

    Attributes:
        method: its name.
        x: (k,) values of the axis.
        median: (k,) of the errors there; infinite where most trials failed.
        lower: (k,) edge of the band.
        upper: (k,) edge of the band.
        trials: (k,) how many there are.
    """

    method: str
    x: np.ndarray
    median: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    trials: np.ndarray


def curves(rows: pd.DataFrame, axis: str, band: str = "quartiles") -> list[Curve]:
    """The curve of each method, in the order in which the methods come in the rows.

    Args:
        rows: one line a trial with the columns ``axis``, "method", "status" and "mse"; a trial whose status is not
            "ok" counts as an infinite error in medians and quartiles.
        axis: the numeric column that varies.
        band: "quartiles", or "std": the median plus and minus the sample standard deviation over the trials that did
            not fail, as in the paper's figure.

    Raises:
        ValueError: another band, a missing column, or no rows.
    """
    if band not in BANDS:
        raise ValueError(f"band must be one of {', '.join(BANDS)}, got {band!r}")
    missing = [name for name in (axis, "method", "status", "mse") if name not in rows]
    if missing or rows.empty:
        raise ValueError(f"the accuracy figure needs rows with {axis}, method, status and mse; missing: {missing}")
    return [_curve(str(method), group, axis, band) for method, group in rows.groupby("method", sort=False)]


def draw_accuracy(
    rows: pd.DataFrame,
    axis: str,
    title: str,
    path: Path,
    *,
    band: str = "quartiles",
    published: PublishedTable | None = None,
    seconds: bool = False,
) -> list[Path]:
    """Write the figure as PNG and PDF beside each other: a line and a band for each method.

    A method with a refinement has a second, dotted line: the median error before it (column "mse_unrefined").
    A median that is infinite (most trials failed) is a cross at the upper edge. Published errors of the methods
    drawn, within the range of the rows, are hollow stars in the method's colour.

    Args:
        rows: see :func:`curves`.
        axis: see :func:`curves`.
        title: above the figure; a caption stands below it.
        path: of the PNG; the PDF has the suffix .pdf.
        band: see :func:`curves`.
        published: a table on the same axis; another axis's is not drawn.
        seconds: the median time of a registration against the same axis is drawn below (column "seconds").

    Returns:
        The two files.

    Raises:
        ValueError: see :func:`curves`.
    """
    lines = curves(rows, axis, band)
    table = published if published is not None and published.axis == axis else None
    low, high = rows[axis].min() - 1e-9, rows[axis].max() + 1e-9  # what lies beyond our range would squeeze the curves
    stars = {
        line.method: [] if table is None else [point for point in table.points(line.method) if low <= point[0] <= high]
        for line in lines
    }
    figure = Figure(figsize=(7.6, 7.0 if seconds else 5.0), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    both = figure.subplots(2 if seconds else 1, squeeze=False, sharex=True, height_ratios=[5, 2] if seconds else None)
    axes: Any = both[0, 0]
    before = {line.method: _before_refinement(rows[rows["method"] == line.method], axis) for line in lines}
    more = [y for points in stars.values() for _, y in points]
    more += [y for medians in before.values() if medians is not None for y in medians if np.isfinite(y)]
    bottom, top = _limits(lines, more)
    both[-1, 0].set_xlabel(LABELS.get(axis, axis))
    axes.set(yscale="log", ylim=(bottom, top), ylabel="MSE")
    if low > 0 and high / low > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if rows[axis].nunique() <= 12:
        ticks = np.unique(rows[axis].astype(float))
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    drawn: set[tuple[float, float]] = set()  # two of our methods may be compared with one published number
    for i, line in enumerate(lines):
        colour, mark, dash = COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)], DASHES[i // len(COLOURS) % len(DASHES)]
        shown = np.isfinite(line.median)  # (k,)
        median = np.where(shown, line.median, np.nan)
        axes.plot(line.x, median, dash, marker=mark, markersize=4.5, color=colour, label=line.method, zorder=3)
        lower, upper = (np.clip(np.where(shown, edge, np.nan), bottom, top) for edge in (line.lower, line.upper))
        axes.fill_between(line.x, lower, upper, color=colour, alpha=0.15, linewidth=0)
        medians = before[line.method]
        if medians is not None:
            label = f"{line.method}, unrefined"
            axes.plot(medians.index, medians, ":", marker=mark, markersize=3, color=colour, label=label, zorder=2)
        if seconds:
            of_method = rows[rows["method"] == line.method]
            times = of_method["seconds"].astype(float).groupby(of_method[axis].astype(float)).median()
            both[1, 0].plot(times.index, times, dash, marker=mark, markersize=4.5, color=colour)
        failed = line.x[~shown]
        if len(failed):  # an empty one that is not clipped would take part in the layout, at the origin
            axes.plot(failed, np.full(len(failed), top), "x", color=colour, clip_on=False, markersize=8, zorder=5)
        points = [point for point in stars[line.method] if point not in drawn]
        drawn.update(points)
        axes.plot(*np.array(points).reshape(-1, 2).T, "*", color=colour, fillstyle="none", markersize=12, zorder=4)
    handles = axes.get_legend_handles_labels()[0]
    if drawn:
        handles.append(_key("*", "published (one example, N = 2000)"))
    if any(not np.isfinite(line.median).all() for line in lines):
        handles.append(_key("x", "most trials failed"))
    # outside, where no curve can be: the curves of six methods fill the whole axes
    figure.legend(handles=handles, fontsize=8, loc="outside right upper", borderaxespad=0.3)
    if seconds:
        both[1, 0].set(ylabel="seconds, median", ylim=(0, None))
        both[1, 0].grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_title(f"{title}\n{_caption(lines, band)}", fontsize=9, parse_math=False)
    return save_both(figure, path)


def _before_refinement(rows: pd.DataFrame, axis: str) -> pd.Series | None:
    """The median error before the refinement at each axis value; None where no error differs."""
    if "mse_unrefined" not in rows:
        return None
    before, after = rows["mse_unrefined"].astype(float), rows["mse"].astype(float)
    if not (before - after).abs().gt(0).any():
        return None
    errors = before.where(rows["status"] == "ok", np.inf)
    return errors.groupby(rows[axis].astype(float)).median().replace(np.inf, np.nan)


def _curve(method: str, group: pd.DataFrame, axis: str, band: str) -> Curve:
    ok = group["status"] == "ok"
    errors = group["mse"].astype(float).where(ok, np.inf)  # (T,)
    table = pd.DataFrame({"x": group[axis].astype(float), "error": errors}).groupby("x")["error"]
    median = table.median()
    if band == "quartiles":
        # linear, as in the summary; next to a failure infinite, which pandas would make NaN
        huge = table.apply(lambda group: group.clip(upper=_HUGE).quantile([0.25, 0.75])).unstack()  # (k, 2)
        lower, upper = (huge[share].where(huge[share] < _HUGE / 1e9, np.inf) for share in (0.25, 0.75))
    else:
        finite = errors.replace(np.inf, np.nan)
        spread = finite.groupby(group[axis].astype(float)).std().reindex(median.index).fillna(0.0)
        lower, upper = median - spread, median + spread
    return Curve(
        method,
        median.index.to_numpy(),
        median.to_numpy(),
        lower.to_numpy(),
        upper.to_numpy(),
        table.size().to_numpy(),
    )


def _limits(lines: list[Curve], published: list[float]) -> tuple[float, float]:
    """The range of the log axis: everything positive and finite; a band that reaches below zero does not stretch it."""
    values = np.concatenate([*(np.concatenate([line.median, line.lower, line.upper]) for line in lines), published])
    medians = np.concatenate([*(line.median for line in lines), published])
    medians = medians[np.isfinite(medians) & (medians > 0)]
    if not len(medians):
        return 1e-4, 1.0
    values = values[np.isfinite(values) & (values > 0.3 * medians.min())]
    return float(min(values.min(), medians.min()) / 1.4), float(max(values.max(), medians.max()) * 1.4)


def _key(mark: str, label: str) -> Line2D:
    return Line2D([], [], linestyle="", marker=mark, markersize=9, color="#444444", fillstyle="none", label=label)


def least_to_most(counts: np.ndarray | pd.Series) -> str:
    """The count, or "a to b" where counts differ."""
    return f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _caption(lines: list[Curve], band: str) -> str:
    trials = least_to_most(np.concatenate([line.trials for line in lines]))
    width = "quartiles" if band == "quartiles" else "median ± standard deviation"
    return f"median of {trials} trials a point; band: {width}"
