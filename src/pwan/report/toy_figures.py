"""The paper's three toy figures: discrepancies against a translation, a 1-D potential, and partial correspondences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pwan.report.files import save_both

REFERENCE = "#2255cc"
SOURCE = "#cc3311"
LINE = "#222222"
SHADE = 0.13  # opacity of a flat region
COLOURS = ("#009e73", "#e69f00", "#cc79a7", "#0072b2", "#000000")  # Okabe and Ito's


def draw_discrepancies(
    source: np.ndarray,
    references: Sequence[np.ndarray],
    outliers: Sequence[int],
    curves: pd.DataFrame,
    minima: pd.DataFrame,
    modes: Sequence[float],
    path: Path,
) -> list[Path]:
    """Write the sets above, and below them a panel for each discrepancy with a curve for each number of outliers.

    Args:
        source: (r,) the source at t = 0.
        references: the (q,) reference of each number of outliers.
        outliers: these numbers.
        curves: columns outliers, t, and one for each discrepancy.
        minima: columns discrepancy, outliers, t and value; a dot each.
        modes: values of t with a dotted line.
        path: of the PNG; the PDF beside it has the suffix .pdf.
    """
    names = [name for name in curves.columns if name not in ("outliers", "t")]
    figure = Figure(figsize=(3.1 * len(names), 6.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(2, 1, height_ratios=(0.75, 1.25))
    above, below = parts
    setting: Any = above.subplots()
    rows = [(f"reference, N = {count}", points, REFERENCE) for count, points in zip(outliers, references, strict=True)]
    rows += [(f"source, t = {mode:g}", source + mode, SOURCE) for mode in modes]
    for height, (_, points, colour) in enumerate(rows[::-1]):
        setting.plot(points, np.full(len(points), height), "o", color=colour, markersize=5, alpha=0.7, mew=0)
    setting.set(yticks=range(len(rows)), yticklabels=[row[0] for row in rows[::-1]], xlabel="x")
    setting.set_ylim(-0.6, len(rows) - 0.4)
    setting.grid(axis="x", color="#dddddd")
    panels: Any = below.subplots(1, len(names), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for mode in modes:
            panel.axvline(mode, color="#999999", linewidth=0.9, linestyle=":")
        for i, count in enumerate(outliers):
            colour = COLOURS[i % len(COLOURS)]
            lines = curves[curves["outliers"] == count]
            # curves that coincide stay visible: the earlier one is wider
            width = 1.2 + 1.2 * (len(outliers) - 1 - i)
            panel.plot(lines["t"], lines[name], color=colour, linewidth=width, label=f"N = {count}")
            dots = minima[(minima["discrepancy"] == name) & (minima["outliers"] == count)]
            panel.plot(
                dots["t"], dots["value"], "o", color=colour, markersize=3 + width, mec="white", mew=0.6, zorder=3
            )
        panel.set_title(name, fontsize=11)
        panel.set(xlabel="translation t", xticks=list(modes), xticklabels=[f"{mode:g}" for mode in modes])
    panels[0, 0].plot([], [], "o", color="#666666", markersize=4.5, label="local minimum")
    below.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=9)
    return save_both(figure, path)


@dataclass(frozen=True)
class PotentialPanel:
    """One column of the potential figure.

    Attributes:
        title: above it.
        grid: (k,) rising positions.
        exact: (k,) an optimal potential at the grid.
        learned: (k,) the learned potential at the grid.
        gradient: (k,) of the learned potential at the grid.
        reference_active: (q,) bool, whether an optimal plan carries mass of the point.
        source_active: (r,) bool, whether an optimal plan carries mass of the point.
        threshold: h of the learned potential.
    """

    title: str
    grid: np.ndarray
    exact: np.ndarray
    learned: np.ndarray
    gradient: np.ndarray
    reference_active: np.ndarray
    source_active: np.ndarray
    threshold: float


def draw_potentials(
    reference: np.ndarray, source: np.ndarray, panels: Sequence[PotentialPanel], path: Path
) -> list[Path]:
    """Write the figure of 1-D potentials: f above, its gradient below, with the flat regions shaded.

    Args:
        reference: (q,).
        source: (r,).
        panels: a column each.
        path: of the PNG; the PDF beside it has the suffix .pdf.
    """
    figure = Figure(figsize=(5.2 * len(panels) + 0.4, 6.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(2, len(panels), squeeze=False, sharex=True, height_ratios=(1.7, 1))
    for column, panel in enumerate(panels):
        above, below = axes[:, column]
        flat, upper = panel.gradient == 0, panel.learned > -panel.threshold / 2
        for ax in (above, below):
            for where, colour in ((flat & upper, REFERENCE), (flat & ~upper, SOURCE)):
                shade = {"transform": ax.get_xaxis_transform(), "color": colour, "alpha": SHADE, "lw": 0}
                ax.fill_between(panel.grid, 0, 1, where=where, **shade)
        above.plot(panel.grid, panel.exact, color="#888888", linewidth=3.5, label="a maximiser, by linear programming")
        above.plot(panel.grid, panel.learned, color=LINE, linewidth=1.4, label="learned by the network")
        below.plot(panel.grid, panel.gradient, color=LINE, linewidth=1.4)
        lowest = min(panel.exact.min(), panel.learned.min())
        for points, active, colour, height, name in (
            (reference, panel.reference_active, REFERENCE, -0.09 * lowest, "reference"),
            (source, panel.source_active, SOURCE, 1.09 * lowest, "source"),
        ):
            for chosen, face, words in ((active, colour, "carried"), (~active, "white", "discarded")):
                x = points[chosen]
                above.scatter(x, np.full(len(x), height), s=34, c=face, edgecolors=colour, label=f"{name}, {words}")
        above.set_ylim(1.2 * lowest, -0.2 * lowest)
        above.set_title(panel.title, fontsize=10)
        below.set(ylim=(-1.25, 1.25), xlabel="x")
    axes[0, 0].set_ylabel("potential f")
    axes[1, 0].set_ylabel("f' of the learned potential")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    for colour, words in ((REFERENCE, "flat: f = 0"), (SOURCE, "flat: f = -h")):
        handles.append(Patch(color=colour, alpha=SHADE, lw=0))
        labels.append(words)
    figure.legend(handles, labels, fontsize=9, loc="outside lower center", ncols=4)
    return save_both(figure, path)


@dataclass(frozen=True)
class CorrespondencePanel:
    """One column of the correspondence figure.

    Attributes:
        title: above it.
        plan: (q, r) an optimal one.
    """

    title: str
    plan: np.ndarray


def draw_correspondences(
    reference: np.ndarray, source: np.ndarray, panels: Sequence[CorrespondencePanel], path: Path
) -> list[Path]:
    """Write the 2-D sets (q, 2) and (r, 2) once for each plan, with a line for each pair that carries mass.

    Points without mass are hollow. ``path`` is of the PNG; the PDF beside it has the suffix .pdf.
    """
    extent = np.ptp(np.concatenate([reference, source]), axis=0)
    height = 4.6 * float(np.clip(extent[1] / max(extent[0], 1e-9), 0.3, 2.0)) + 1.0  # panels as high as their points
    figure = Figure(figsize=(4.6 * len(panels), height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(1, len(panels), squeeze=False)
    for ax, panel in zip(axes[0], panels, strict=True):
        i, j = np.nonzero(panel.plan > 0)
        lines = LineCollection(list(np.stack([reference[i], source[j]], 1)), colors=LINE, linewidths=1.4)
        ax.add_collection(lines)
        for points, colour, carried, name in (
            (reference, REFERENCE, panel.plan.sum(1) > 0, "reference"),
            (source, SOURCE, panel.plan.sum(0) > 0, "source"),
        ):
            for chosen, face, words in ((carried, colour, "matched"), (~carried, "white", "left out")):
                ax.scatter(*points[chosen].T, s=46, c=face, edgecolors=colour, zorder=3, label=f"{name}, {words}")
        ax.set_title(panel.title, fontsize=10)
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.margins(0.08)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=4)
    return save_both(figure, path)
