"""The worst, median and best trial of a method: initial and registered sets side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pwan.files import in_one_move
from pwan.report.camera import view
from pwan.report.registered import LEFT, REFERENCE, SOURCE, TRUTH, UNMATCHED

MANY = 1000  # points of one cloud, above which a PDF holds them as pixels; chosen by eye


@dataclass(frozen=True)
class Panel:
    """One registration to draw.

    Attributes:
        title: above it.
        source: (r, D).
        reference: (q, D).
        truth: (r, D).
        transformed: (r, D) the moved source.
        matched: (r,) bool, which source points are matched.
        reference_matched: (q,) bool, which reference points are matched.
        mse_initial: before registration.
        mse_unrefined: before the refinement; None where the trial failed.
        mse: after the refinement; None where the trial failed.
    """

    title: str
    source: np.ndarray
    reference: np.ndarray
    truth: np.ndarray
    transformed: np.ndarray
    matched: np.ndarray
    reference_matched: np.ndarray
    mse_initial: float
    mse_unrefined: float | None
    mse: float | None

    def outcome(self) -> str:
        """The errors before and after the refinement, which may be one number."""
        if self.mse is None or self.mse_unrefined is None:
            return "failed"
        if self.mse == self.mse_unrefined:
            return f"MSE {self.mse:.4f}"
        return f"MSE {self.mse_unrefined:.4f} unrefined, {self.mse:.4f} refined"


def draw_trials(panels: Sequence[Panel], title: str, path: Path) -> None:
    """Write one image with a row for each panel: the initial sets, and the registered sets with the truth."""
    flat = panels[0].source.shape[-1] == 2
    figure = Figure(figsize=(10, 4.6 * len(panels) + 0.8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for row, panel in enumerate(panels):
        kind: dict[str, Any] = {} if flat else {"projection": "3d"}
        before = figure.add_subplot(len(panels), 2, 2 * row + 1, **kind)
        after = figure.add_subplot(len(panels), 2, 2 * row + 2, **kind)
        before.set_title(f"{panel.title}: initial, MSE {panel.mse_initial:.4f}", fontsize=9)
        after.set_title(f"{panel.title}: registered, {panel.outcome()}", fontsize=9)
        scatter(before, panel.reference, REFERENCE, "reference")
        scatter(before, panel.source, SOURCE, "source")
        scatter_parts(after, panel.reference, panel.reference_matched, "reference", (UNMATCHED, REFERENCE))
        scatter(after, panel.truth, TRUTH, "truth", marker="x")
        scatter_parts(after, panel.transformed, panel.matched, "registered", (LEFT, SOURCE))
        everything = np.concatenate([panel.source, panel.reference, panel.truth])
        for axes in (before, after):
            frame(axes, everything, flat)
            if row == 0:
                axes.legend(fontsize=7, loc="upper left", markerscale=2.0)
    with in_one_move(path) as half:
        figure.savefig(half, format="png")


def scatter(
    axes: Any,
    points: np.ndarray,
    colour: str | np.ndarray,
    label: str,
    *,
    marker: str = "o",
    colours: str | None = None,
    of: int | None = None,
) -> Any:
    """Draw points (N, D) in one colour, or by values (N,) in a map of colours; returns what was drawn, None if nothing.

    The marks are the smaller the more points there are; a part of a set says how many points all ``of`` it has.

    Many points become pixels in a PDF too, which would be slow to look at otherwise.
    """
    if not len(points):
        return None
    size = float(np.clip(4000 / (of or len(points)), 0.3, 8))
    style: dict[str, Any] = {"s": size, "marker": marker, "linewidths": 0.4 if marker == "x" else 0, "alpha": 0.8}
    return axes.scatter(*points.T, c=colour, cmap=colours, label=label, rasterized=len(points) > MANY, **style)


def scatter_parts(axes: Any, points: np.ndarray, matched: np.ndarray, label: str, colours: tuple[str, str]) -> None:
    """Draw points (N, D) as those that are not matched, and those that are, (N,) bool, in two colours."""
    for part, colour, words in ((~matched, colours[0], "not matched"), (matched, colours[1], "matched")):
        scatter(axes, points[part], colour, f"{label}, {words}", of=len(points))


def frame(axes: Any, points: np.ndarray, flat: bool) -> None:
    """The same cube for both pictures of a row, so that they can be compared, seen as in interactive views; no axes."""
    centre = (points.max(0) + points.min(0)) / 2
    half = (points.max(0) - points.min(0)).max() / 2
    if not flat:
        axes.set_zlim(centre[2] - half, centre[2] + half)
        axes.view_init(**view(points))
        axes.set_box_aspect((1, 1, 1), zoom=1.35)
    else:
        axes.set_aspect("equal")
    axes.set_xlim(centre[0] - half, centre[0] + half)
    axes.set_ylim(centre[1] - half, centre[1] + half)
    axes.set_axis_off()
    axes.set(xticks=[], yticks=[], **({} if flat else {"zticks": []}))
