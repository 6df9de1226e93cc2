"""The paper's four-row figure of the precision example: plan, potential, gradient norm, and points sized by it; and how
its network learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from pwan.report.files import save_both
from pwan.transport.neural import Potential

REFERENCE = "#2255cc"
SOURCE = "#cc3311"
LINE = "#222222"
GRID = 120  # pixels of a map along each axis
MARGIN = 0.12  # around the points, as a share of their extent


@dataclass(frozen=True)
class PrecisionPanel:
    """One column of the figure.

    Attributes:
        title: above it.
        plan: (q, r) an optimal one.
        potential: the learned one.
    """

    title: str
    plan: np.ndarray
    potential: Potential


def draw_precision(
    reference: np.ndarray, source: np.ndarray, panels: Sequence[PrecisionPanel], title: str, path: Path
) -> list[Path]:
    """Write the figure for 2-D sets, reference (q, 2) and source (r, 2), with one column for each panel.

    ``path`` is of the PNG; the PDF beside it has the suffix .pdf. Returns the two files.
    """
    points = np.concatenate([reference, source])
    centre, half = (points.max(0) + points.min(0)) / 2, (points.max(0) - points.min(0)).max() * (0.5 + MARGIN)
    lower, upper = centre - half, centre + half
    axis_x, axis_y = np.linspace(lower[0], upper[0], GRID), np.linspace(lower[1], upper[1], GRID)
    grid = np.stack(np.meshgrid(axis_x, axis_y), -1).reshape(-1, 2)
    extent = (lower[0], upper[0], lower[1], upper[1])

    figure = Figure(figsize=(3 * len(panels) + 1.2, 12.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    axes: Any = figure.subplots(4, len(panels), squeeze=False)
    for ax in axes.flat:
        ax.set(xlim=extent[:2], ylim=extent[2:], aspect="equal", xticks=[], yticks=[])
    for ax, label in zip(axes[:, 0], ("plan", "potential f", "|∇f|", "points sized by |∇f|"), strict=True):
        ax.set_ylabel(label)
    potentials = [panel.potential(grid).reshape(GRID, GRID) for panel in panels]
    norms = [np.linalg.norm(panel.potential.gradient(grid), axis=1).reshape(GRID, GRID) for panel in panels]
    # each potential may be shifted against the others, so each has a colour scale of its own
    for column, panel in enumerate(panels):
        plan, potential, norm, sized = axes[:, column]
        plan.set_title(panel.title, fontsize=10)
        i, j = np.nonzero(panel.plan > 1e-9 * panel.plan.max())
        plan.add_collection(LineCollection(list(np.stack([reference[i], source[j]], 1)), colors=LINE, linewidths=0.6))
        _scatter(plan, reference, source, 8.0, 8.0)
        image = potential.imshow(potentials[column], origin="lower", extent=extent, cmap="viridis")
        figure.colorbar(image, ax=potential, shrink=0.75)
        image = norm.imshow(norms[column], origin="lower", extent=extent, cmap="magma", vmin=0, vmax=1.1)
        figure.colorbar(image, ax=norm, shrink=0.75)
        for ax in (potential, norm):
            _scatter(ax, reference, source, 3.0, 3.0)
        sizes = [1 + 16 * np.linalg.norm(panel.potential.gradient(points), axis=1) for points in (reference, source)]
        _scatter(sized, reference, source, *sizes)
    axes[0, 0].legend(["plan", "reference", "source"], fontsize=7, loc="upper left")
    return save_both(figure, path)


def draw_learning(curves: pd.DataFrame, exact: Mapping[str, float], title: str, path: Path) -> list[Path]:
    """Write two panels against the number of updates: value over exact value, and gradient norm.

    Args:
        curves: rows of quantity, seed, updates, value and gradient_norm; a line is the median over the seeds, between
            the least and the largest.
        exact: the exact value of each quantity.
        title: above the figure.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.
    """
    figure = Figure(figsize=(11, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10, parse_math=False)
    values, norms = figure.subplots(1, 2)
    values.set(title="value over exact value", ylim=(0.4, 1.25))
    norms.set(title="largest |∇o| at the points")
    for quantity, of_quantity in curves.groupby("quantity", sort=False):
        by_updates = of_quantity.groupby("updates")
        for ax, column, unit in ((values, "value", exact[str(quantity)]), (norms, "gradient_norm", 1.0)):
            low, middle, high = (by_updates[column].quantile(share) / unit for share in (0.0, 0.5, 1.0))
            (line,) = ax.plot(middle.index, middle, linewidth=1.2, label=quantity)
            ax.fill_between(middle.index, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    for ax in (values, norms):
        ax.axhline(1.0, color=LINE, linewidth=0.8, linestyle="--")
        ax.set_xlabel("network updates")
        ax.grid(True, color="#dddddd", linewidth=0.6)
    values.legend(fontsize=8, loc="lower right")
    return save_both(figure, path)


def _scatter(ax: Any, reference: np.ndarray, source: np.ndarray, reference_size: Any, source_size: Any) -> None:
    ax.scatter(*reference.T, s=reference_size, c=REFERENCE, linewidths=0, zorder=2)
    ax.scatter(*source.T, s=source_size, c=SOURCE, linewidths=0, zorder=3)
