"""The errors of several methods in cells that no number orders, such as kinds of problems or pairs of shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pwan.report.error_curves import least_to_most
from pwan.report.files import save_both
from pwan.report.looks import looks

WIDTH = 0.7  # of a cell's place that its methods fill


def draw_cells(rows: pd.DataFrame, title: str, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF: in each cell the median of each method with its quartiles, on a log scale.

    A hollow mark is the median before the method's refinement, where it differs; failed trials count as infinite, and
    a cross at the upper edge stands for a method of which most failed.

    Args:
        rows: one line a trial with the columns "cell", "method", "status", "mse", "mse_unrefined" and "mse_initial";
            cells and methods are drawn in their order.
        title: above the figure.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.
    """
    cells, methods = list(dict.fromkeys(rows["cell"])), list(dict.fromkeys(rows["method"]))
    figure = Figure(figsize=(max(6.0, 1.6 + 1.5 * len(cells)), 4.6), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    good = rows["status"] == "ok"
    errors = {name: rows[name].astype(float).where(good, np.inf) for name in ("mse", "mse_unrefined")}
    handles = []
    for number, (method, look) in enumerate(looks(methods).items()):
        colour, mark = look.colour, look.mark
        handles.append(Line2D([], [], color=colour, marker=mark, linestyle="none", label=method))
        for place, cell in enumerate(cells):
            chosen = (rows["cell"] == cell) & (rows["method"] == method)
            if not chosen.any():
                continue
            x = place + WIDTH * ((number + 0.5) / len(methods) - 0.5)
            low, high = errors["mse"][chosen].quantile([0.25, 0.75], interpolation="nearest")  # others do not like inf
            median = errors["mse"][chosen].median()
            if not np.isfinite(median):
                axes.plot(x, 0.98, "x", color=colour, transform=axes.get_xaxis_transform(), markersize=8)
                continue
            if np.isfinite(high):
                axes.plot([x, x], [low, high], color=colour, linewidth=1.5)
            axes.plot(x, median, mark, color=colour, markersize=6)
            before = errors["mse_unrefined"][chosen].median()
            if np.isfinite(before) and before != median:
                axes.plot(x, before, mark, color=colour, fillstyle="none", markersize=6)
    for place, cell in enumerate(cells):
        nothing = rows.loc[rows["cell"] == cell, "mse_initial"].median()
        axes.plot([place - 0.45, place + 0.45], [nothing, nothing], color="#999999", linestyle="--", linewidth=1)
    handles.append(Line2D([], [], color="#333333", marker="o", fillstyle="none", linestyle="none", label="unrefined"))
    handles.append(Line2D([], [], color="#999999", linestyle="--", label="doing nothing"))
    axes.set(yscale="log", ylabel="MSE", xlim=(-0.5, len(cells) - 0.5))
    long = max(map(len, cells)) > 16  # then they would run into each other
    axes.set_xticks(range(len(cells)), cells, rotation=30 if long else 0, ha="right" if long else "center")
    axes.grid(True, axis="y", color="#dddddd", linewidth=0.6)
    count = least_to_most(rows.groupby(["cell", "method"]).size())
    axes.set_title(f"{title}\nmedian of {count} trials; bars: quartiles", fontsize=9, parse_math=False)
    figure.legend(handles=handles, fontsize=8, loc="outside right upper", borderaxespad=0.3)
    return save_both(figure, path)
