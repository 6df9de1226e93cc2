"""Interactive views of a shape model, as plotly's JSON: a mode with a slider, scores, confidences."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pwan.report.registered import REFERENCE, SOURCE
from pwan.report.scene import BAR, coloured, layout, middle_of


def mode_json(mean: np.ndarray, shapes: Sequence[np.ndarray], deviations: Sequence[float], faces: Any) -> str:
    """One mode: the shapes (N, D) that lie so many deviations from the mean (N, D), one at a time by a slider, coloured
    by how far each point is from where it is in the mean.

    Args:
        mean: (N, D).
        shapes: for each of the deviations.
        deviations: the slider's places; the last one is shown first.
        faces: (F, 3), or None.
    """
    middle = middle_of(np.concatenate([mean, *shapes]))
    mean, shapes = mean - middle, [shape - middle for shape in shapes]
    lengths = [np.linalg.norm(shape - mean, axis=1) for shape in shapes]
    traces = [coloured(shape, length, faces, "shape") for shape, length in zip(shapes, lengths, strict=True)]
    first = len(traces) - 1
    for at, trace in enumerate(traces):
        trace.visible = at == first
        trace.showlegend = False
    steps = [
        {
            "label": f"{deviation:+g}" if deviation else "0",
            "method": "restyle",
            "args": [{"visible": [other == at for other in range(len(traces))]}],
        }
        for at, deviation in enumerate(deviations)
    ]
    slider = {"active": first, "steps": steps, "currentvalue": {"prefix": "standard deviations: "}, "pad": {"b": 10}}
    shown = layout(np.concatenate([mean, *shapes]), mean)
    largest = max(float(length.max()) for length in lengths)
    bar = {"title": {"text": "from the mean"}, **BAR}
    shown.coloraxis = {"cmin": 0, "cmax": largest, "colorscale": "Viridis", "colorbar": bar}
    return _json(go.Figure(traces, shown).update_layout(sliders=[slider]))


def scores_json(names: Sequence[str], scores: np.ndarray, explained: np.ndarray, outlying: Collection[str]) -> str:
    """All shapes by their scores (S, K) of the first two modes, those that lie apart in another colour."""
    shown = np.pad(scores, ((0, 0), (0, max(0, 2 - scores.shape[1]))))
    groups = (("shapes", REFERENCE, False), ("outlying", SOURCE, True))
    traces = []
    for label, colour, apart in groups:
        rows = [k for k, name in enumerate(names) if (name in outlying) == apart]
        words = [html.escape(names[k]) for k in rows]
        marker = {"color": colour, "size": 9}
        x, y = shown[rows, 0], shown[rows, 1]
        traces.append(go.Scatter(x=x, y=y, text=words, mode="markers", marker=marker, name=label, hoverinfo="text+x+y"))
    axes = [f"mode {k + 1} ({explained[k]:.0%})" if k < len(explained) else "" for k in range(2)]
    return _json(go.Figure(traces).update_layout(**_plain(*axes), showlegend=bool(outlying)))


def confidence_json(names: Sequence[str], confidence: Sequence[float], sure: float) -> str:
    """The confidence of each registration, with a line at that from which on it is called good."""
    words = [html.escape(name) for name in names]
    bars = go.Bar(x=words, y=list(confidence), marker={"color": REFERENCE}, hoverinfo="x+y")
    figure = go.Figure([bars]).update_layout(**_plain("", "confidence")).update_yaxes(range=[0, 1.02])
    return _json(figure.update_xaxes(type="category").add_hline(y=sure, line_dash="dash", line_color=SOURCE))


def _plain(x: str, y: str) -> dict[str, Any]:
    return {"template": "simple_white", "xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}


def _json(figure: go.Figure) -> str:
    text = figure.to_json()
    assert text is not None and "</" not in text
    return str(text)
