"""The paper's figures of accuracy as it prints them: a row of panels, one a shape, on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pwan.report.accuracy_figure import LABELS
from pwan.report.error_curves import GRID, curves, draw_curve, keys, least_to_most, limits, stars
from pwan.report.files import save_both
from pwan.report.looks import in_words, looks
from pwan.report.published import PublishedTable

_BEFORE = "before the refinement"


def draw_overview(panels: Mapping[str, pd.DataFrame], published: PublishedTable, title: str, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF beside each other: medians, shaded standard deviations, published stars.

    The shade is above the median only: below it the deviation would often end under zero, where a log axis has no
    place. All panels have the same limits and one legend. Where both sets are cropped to a share s, the smallest share
    of their areas that can overlap, (2s - 1) / s, stands below s.

    Args:
        panels: the rows of each shape, see :func:`pwan.report.error_curves.curves`; panels stand in this order.
        published: names the axis; its errors are the stars.
        title: above the figure; what line and band are stands below it.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.

    Raises:
        ValueError: no panel, or rows that lack a column.
    """
    if not panels:
        raise ValueError("the overview needs the rows of at least one shape")
    axis = published.axis
    drawn = {
        shape: [replace(line, lower=line.median) for line in curves(rows, axis, "std")]
        for shape, rows in panels.items()
    }
    lines = [line for of_shape in drawn.values() for line in of_shape]
    look = looks(dict.fromkeys(line.method for line in lines))
    shown = {shape: stars(of_shape, published) for shape, of_shape in drawn.items()}
    numbers = [y for of_shape in shown.values() for points in of_shape.values() for _, y in points]
    figure = Figure(figsize=(1.2 + 3.4 * max(len(panels), 2), 4.9), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    every[0].set(yscale="log", ylim=limits(lines, numbers), ylabel="MSE")
    handles: dict[str, Any] = {}
    ticks = sorted({float(x) for line in lines for x in line.x})
    overlap = axis == "keep"
    names = [f"{x:g}\n({(2 * x - 1) / x:.2f})" if overlap else f"{x:g}" for x in ticks]
    for axes, (shape, of_shape) in zip(every, drawn.items(), strict=True):
        for line in of_shape:
            draw_curve(axes, line, look[line.method], shown[shape][line.method], in_words(line.method), _BEFORE)
        axes.set_title(shape, fontsize=11, parse_math=False)
        axes.set_xticks(ticks, names, fontsize=8)
        axes.set_xlabel(f"{LABELS[axis]} (smallest overlap)" if overlap else LABELS[axis], fontsize=9)
        axes.margins(x=0.07)
        axes.grid(True, **GRID)
        handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    if _BEFORE in handles:  # one line in the legend, of no method's colour
        del handles[_BEFORE]
        handles[_BEFORE] = Line2D([], [], linestyle=":", color="#444444", label=_BEFORE)
    figure.legend(
        handles=[*handles.values(), *keys(lines, bool(numbers))], fontsize=9, ncols=4, loc="outside lower center"
    )
    trials = least_to_most(np.concatenate([line.trials for line in lines]))
    words = f"median of {trials} trials a point; shaded: one standard deviation above it"
    figure.suptitle(f"{title}\n{words}", fontsize=11, parse_math=False)
    return save_both(figure, path)
