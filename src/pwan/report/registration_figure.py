"""Two sets before and after a registration, as a figure to look at in a notebook."""

from __future__ import annotations

import base64
import html
import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pwan.report.registered import LEFT, REFERENCE, SOURCE, UNMATCHED
from pwan.report.trial_figure import frame, scatter, scatter_parts

SMALL = 2000  # points of a set in the small picture; more cannot be told apart in it


def registration_figure(
    source: np.ndarray,
    reference: np.ndarray,
    transformed: np.ndarray,
    matched: np.ndarray,
    reference_matched: np.ndarray,
) -> Figure:
    """The sets (r, D) and (q, D) beside the registered source (r, D), by what was matched, (r,) and (q,)."""
    flat = source.shape[1] == 2
    figure = Figure(figsize=(10, 5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    before, after = figure.subplots(1, 2, subplot_kw={} if flat else {"projection": "3d"})
    before.set_title("initial sets", fontsize=9)
    after.set_title(f"registered, {matched.mean():.0%} of the source matched", fontsize=9)
    scatter(before, reference, REFERENCE, "reference")
    scatter(before, source, SOURCE, "source")
    scatter_parts(after, reference, reference_matched, "reference", (UNMATCHED, REFERENCE))
    scatter_parts(after, transformed, matched, "source", (LEFT, SOURCE))
    for axes in (before, after):
        frame(axes, np.concatenate([source, reference, transformed]), flat)
        axes.legend(fontsize=7, loc="upper left", markerscale=2.0)
    return figure


def registration_html(
    words: str,
    source: np.ndarray,
    reference: np.ndarray,
    transformed: np.ndarray,
    matched: np.ndarray,
    reference_matched: np.ndarray,
) -> str:
    """The words above a small picture of :func:`registration_figure`'s arguments, for a notebook. Of larger sets every
    k-th point is drawn."""
    moving, staying = (slice(None, None, -(-len(points) // SMALL)) for points in (source, reference))
    figure = registration_figure(
        source[moving], reference[staying], transformed[moving], matched[moving], reference_matched[staying]
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=64)
    picture = base64.b64encode(buffer.getvalue()).decode()
    return f'<pre>{html.escape(words)}</pre><img alt="before and after" src="data:image/png;base64,{picture}">'
