"""How one registration went: the source on its way, the potential at its end, and curves (the paper's figures of
the large sets).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pwan.report.files import save_both
from pwan.report.registered import REFERENCE, SOURCE
from pwan.report.trial_figure import frame, scatter

MAP = 1.6  # width of a map over that of a curve
TITLE = 32  # letters of a line above a curve
SLOPE = "largest slope of the network at the points"  # the curve that is to stay near 1, which its panel marks


@dataclass(frozen=True)
class Training:
    """What is drawn of one registration.

    Attributes:
        reference: (q, D).
        trajectory: the source (r, D) where it begins, on its way and at its end, with a word for each.
        potential: (q + r,) at the reference and the end of the trajectory, in this order.
        gradient_norm: (q + r,) of the potential, at the same points.
        curves: each name and its step numbers and values (k,): what the method minimised, say, and the MSE.
    """

    reference: np.ndarray
    trajectory: Sequence[tuple[str, np.ndarray]]
    potential: np.ndarray
    gradient_norm: np.ndarray
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]]


def draw_training(training: Training, title: str, path: Path) -> list[Path]:
    """Write the trajectory above, potential, gradient norm and curves below, as PNG and PDF beside each other.

    Args:
        training: what is drawn.
        title: above the figure.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.
    """
    figure = Figure(figsize=(16, 7.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11, parse_math=False)
    above, below = figure.subfigures(2, 1, squeeze=False)[:, 0]
    flat = training.reference.shape[1] == 2
    kind: dict[str, Any] = {} if flat else {"projection": "3d"}
    everything = np.concatenate([training.reference, training.trajectory[0][1]])
    for k, (words, source) in enumerate(training.trajectory):
        axes: Any = above.add_subplot(1, len(training.trajectory), k + 1, **kind)
        axes.set_title(words, fontsize=9)
        scatter(axes, training.reference, REFERENCE, "reference")
        scatter(axes, source, SOURCE, "source")
        frame(axes, everything, flat)
        if k == 0:
            axes.legend(fontsize=8, loc="upper left", markerscale=4.0)
    points = np.concatenate([training.reference, training.trajectory[-1][1]])
    columns = below.add_gridspec(1, 2 + len(training.curves), width_ratios=[MAP] * 2 + [1.0] * len(training.curves))
    maps = (
        ("potential f", training.potential, "viridis", None),
        ("|∇f|", training.gradient_norm, "magma", (0.0, 1.1)),
    )
    for k, (words, values, colours, limits) in enumerate(maps):
        axes = below.add_subplot(columns[k], **kind)
        axes.set_title(f"{words} at the points, at the end", fontsize=9)
        drawn = scatter(axes, points, values, words, colours=colours)
        if limits:
            drawn.set_clim(*limits)
        frame(axes, everything, flat)
        extend = "max" if limits else "neither"
        below.colorbar(drawn, ax=axes, shrink=0.7, location="bottom", extend=extend, ticks=MaxNLocator(4))
    for k, (name, (steps, values)) in enumerate(training.curves.items()):
        axes = below.add_subplot(columns[k + 2])
        axes.plot(steps, values, color="#222222", linewidth=1.0)
        axes.set_title(textwrap.fill(name, TITLE), fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(True, color="#dddddd", linewidth=0.6)
        if name == "MSE":
            axes.set_yscale("log")
        if name == SLOPE:
            axes.axhline(1.0, color="#222222", linewidth=0.8, linestyle="--")
            axes.set_ylim(bottom=0.0)
    return save_both(figure, path)
