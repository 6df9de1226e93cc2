"""Computation time against the number of points, with what was not run marked (the paper's scalability figure)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pwan.report.files import save_both
from pwan.report.looks import looks

STEP = 1.35  # between the rows of crosses above the limit, so that two methods' crosses are told apart


def draw_scalability(summary: pd.DataFrame, title: str, path: Path) -> list[Path]:
    """Write the log-log figure as PNG and PDF beside each other.

    A line of mean seconds for each method, with its fitted exponent in the legend; a cross above the line of the time
    limit for each size that was not run or was stopped, whatever the reason, which the table states.

    Args:
        summary: a line for each method and size with the columns method, points, status, runs, seconds_mean, exponent
            and limit (seconds); nothing was measured where runs is 0.
        title: above the figure.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.
    """
    figure = Figure(figsize=(8.6, 5.2), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    axes.set(xscale="log", yscale="log", xlabel="points N of each set", ylabel="seconds a registration, mean")
    limit = float(summary["limit"].max())
    crosses = 0
    for method, look in looks(summary["method"].unique()).items():
        lines, colour = summary[summary["method"] == method], look.colour
        good = lines[lines["runs"] > 0]
        size, seconds = good["points"].to_numpy(float), good["seconds_mean"].to_numpy(float)
        label = method if len(good) < 2 else f"{method}: N^{float(lines['exponent'].iloc[0]):.2f}"
        axes.plot(size, seconds, marker=look.mark, color=colour, markersize=5, label=label, zorder=3)
        missed = lines.loc[lines["runs"] == 0, "points"].to_numpy(float)
        if len(missed):
            height = limit * STEP ** (1 + crosses)
            axes.plot(
                missed, np.full(len(missed), height), "x", color=colour, markersize=7, markeredgewidth=2, zorder=4
            )
            crosses += 1
    axes.axhline(limit, color="#888888", linewidth=1, linestyle="--", label=f"limit, {limit:g} s")
    if crosses:
        axes.plot([], [], "x", color="#444444", markeredgewidth=2, label="not run or stopped:\nlimit of time or memory")
        axes.set_ylim(top=limit * STEP ** (2 + crosses))
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    # outside, where no line can be
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
    axes.set_title(f"{title}\n{_counts(summary)}", fontsize=9, parse_math=False)
    return save_both(figure, path)


def _counts(summary: pd.DataFrame) -> str:
    """How many runs the means are over, by size."""
    good = summary[summary["runs"] > 0]
    if good.empty:
        return "nothing was measured"
    words = []
    for count, lines in good.groupby("runs", sort=True):
        sizes = lines["points"].astype(int)
        low, high = sizes.min(), sizes.max()
        words.append(
            f"{int(count)} run{'s' if count > 1 else ''} at {f'{low:,}' if low == high else f'{low:,} to {high:,}'}"
        )
    return f"mean of {'; '.join(words[::-1])} points"
