"""One problem and what each method made of it, side by side: the picture panels beside the paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pwan.report.files import save_both
from pwan.report.registered import LEFT, REFERENCE, SOURCE, UNMATCHED, Registration
from pwan.report.trial_figure import frame, scatter


@dataclass(frozen=True)
class Example:
    """One line of pictures.

    Attributes:
        label: of the first picture, which shows the initial sets.
        source: (r, D) before registration.
        reference: (q, D).
        registrations: the methods' results, a picture each.
    """

    label: str
    source: np.ndarray
    reference: np.ndarray
    registrations: Sequence[Registration]


def draw_examples(examples: Sequence[Example], title: str, path: Path) -> list[Path]:
    """Write a line of pictures for each example, the initial sets first, as PNG and PDF beside each other.

    All pictures of a line have the same limits, those of the initial sets.

    Args:
        examples: a line each.
        title: above the figure.
        path: of the PNG; the PDF has the suffix .pdf.

    Returns:
        The two files.

    Raises:
        ValueError: no example.
    """
    if not examples:
        raise ValueError("the picture needs at least one example")
    columns = 1 + max(len(example.registrations) for example in examples)
    figure = Figure(figsize=(2.5 * columns, 2.4 * len(examples) + 0.8), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11, parse_math=False)
    handles: dict[str, Any] = {}
    for row, example in enumerate(examples):
        flat = example.source.shape[1] == 2
        kind: dict[str, Any] = {} if flat else {"projection": "3d"}
        everything = np.concatenate([example.source, example.reference])
        for column, registration in enumerate([None, *example.registrations]):
            axes: Any = figure.add_subplot(len(examples), columns, columns * row + column + 1, **kind)
            if registration is None:
                words = example.label
                scatter(axes, example.reference, REFERENCE, "reference")
                scatter(axes, example.source, SOURCE, "source")
            else:
                words, moved = f"{registration.method}\n{registration.words}", registration.transformed
                matched, x_matched = registration.matched.astype(bool), registration.reference_matched.astype(bool)
                scatter(axes, example.reference[~x_matched], UNMATCHED, "reference, not matched", of=len(x_matched))
                scatter(axes, example.reference[x_matched], REFERENCE, "reference", of=len(x_matched))
                scatter(axes, moved[~matched], LEFT, "source, not matched", of=len(matched))
                scatter(axes, moved[matched], SOURCE, "source", of=len(matched))
            axes.set_title(words, fontsize=8, parse_math=False)
            frame(axes, everything, flat)
            handles |= dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), markerscale=4.0, fontsize=8
    )
    return save_both(figure, path)
