"""Point clouds side by side: the paper's pictures of its shapes, and of matching all against matching a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pwan.report.files import save_both
from pwan.report.registered import REFERENCE, SOURCE
from pwan.report.trial_figure import frame, scatter

# in the paper's pictures of the shapes the bent set is blue
STILL = SOURCE
MOVED = REFERENCE
WIDEST = 16.0  # inches of a figure: of more pictures than four each is narrower
MARGIN = 1.08  # edge of a picture over that of its points


@dataclass(frozen=True)
class Cloud:
    """One point set of a picture.

    Attributes:
        points: (N, D).
        colour: of all of them.
        label: their name in the legend.
    """

    points: np.ndarray
    colour: str
    label: str


def draw_clouds(
    pictures: Sequence[tuple[str, Sequence[Cloud]]], title: str, path: Path, *, one_frame: bool = False
) -> list[Path]:
    """Write pictures in a row, each with its title and point sets, as PNG and PDF beside each other.

    One legend for all is below them.

    Args:
        pictures: a title and the point sets of each.
        title: above all of them.
        path: of the PNG; the PDF has the suffix .pdf.
        one_frame: all pictures have the same limits, so that they can be compared; else each has its own.

    Returns:
        The two files.
    """
    figure = Figure(figsize=(min(4.4 * len(pictures), WIDEST), 4.8), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11, parse_math=False)
    frames = [np.concatenate([cloud.points for cloud in clouds]) for _, clouds in pictures]
    if one_frame:
        frames = [np.concatenate(frames)] * len(pictures)
    handles: dict[str, Any] = {}
    for k, (words, clouds) in enumerate(pictures):
        flat = clouds[0].points.shape[1] == 2
        axes: Any = figure.add_subplot(1, len(pictures), k + 1, **({} if flat else {"projection": "3d"}))
        axes.set_title(words, fontsize=10, parse_math=False)
        for cloud in clouds:
            scatter(axes, cloud.points, cloud.colour, cloud.label)
        low, high = frames[k].min(0), frames[k].max(0)
        corners = (low + high) / 2 + np.stack([low - high, high - low]) / 2 * MARGIN  # (2, D)
        frame(axes, corners, flat)
        handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), markerscale=4.0)
    return save_both(figure, path)
