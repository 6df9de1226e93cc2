"""The accuracy figure of a sweep: the median error of each method against what it varies, on a log scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pwan.report.error_curves import GRID, caption, curves, draw_curve, keys, limits, stars
from pwan.report.files import save_both
from pwan.report.looks import looks
from pwan.report.published import PublishedTable

LABELS = {
    "outlier_ratio": "outliers for each point",
    "keep": "share of each set kept",
    "points": "points N",
    "deformation_lambda": "stiffness of the deformation",
    "noise": "standard deviation of the noise",
    "distance": "distance threshold h of the problem",
    "mass_factor": "mass m over the true one",
    "method.updates": "u, network updates for each step",
}
WIDE = 20.0  # largest over smallest value of an axis from which on it is logarithmic; chosen by eye


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
        rows: see :func:`pwan.report.error_curves.curves`.
        axis: see the same.
        title: above the figure; a caption stands below it.
        path: of the PNG; the PDF has the suffix .pdf.
        band: see the same.
        published: a table on the same axis; another axis's is not drawn.
        seconds: the median time of a registration against the same axis is drawn below (column "seconds").

    Returns:
        The two files.

    Raises:
        ValueError: see the same.
    """
    lines = curves(rows, axis, band)
    shown = stars(lines, published if published is not None and published.axis == axis else None)
    look = looks(shown)
    figure = Figure(figsize=(7.6, 7.0 if seconds else 5.0), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    both = figure.subplots(2 if seconds else 1, squeeze=False, sharex=True, height_ratios=[5, 2] if seconds else None)
    axes: Any = both[0, 0]
    numbers = [y for points in shown.values() for _, y in points]
    both[-1, 0].set_xlabel(LABELS.get(axis, axis))
    axes.set(yscale="log", ylim=limits(lines, numbers), ylabel="MSE")
    _scale(axes, rows[axis].astype(float))
    axes.grid(True, **GRID)
    for line in lines:
        draw_curve(axes, line, look[line.method], shown[line.method], line.method, f"{line.method}, unrefined")
    # outside, where no curve can be: the curves of six methods fill the whole axes
    handles = [*axes.get_legend_handles_labels()[0], *keys(lines, bool(numbers))]
    figure.legend(handles=handles, fontsize=8, loc="outside right upper", borderaxespad=0.3)
    if seconds:
        for method, group in rows.groupby("method", sort=False):
            times = group["seconds"].astype(float).groupby(group[axis].astype(float)).median()
            one = look[str(method)]
            both[1, 0].plot(times.index, times, one.dash, marker=one.mark, markersize=4.5, color=one.colour)
        both[1, 0].set(ylabel="seconds, median", ylim=(0, None))
        both[1, 0].grid(True, **GRID)
    axes.set_title(f"{title}\n{caption(lines, band)}", fontsize=9, parse_math=False)
    return save_both(figure, path)


def _scale(axes: Any, values: pd.Series) -> None:
    """Logarithmic where the values are over decades; each named where they are few."""
    if values.min() > 0 and values.max() / values.min() > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if values.nunique() <= 12:
        ticks = np.unique(values)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
