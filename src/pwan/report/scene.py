"""An interactive view of one problem and what each method made of it, as plotly's JSON."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pwan.report.registered import LEFT, REFERENCE, SOURCE, TRUTH, UNMATCHED, Registration

LIMIT = 6000  # points of one set that are shown; more make the page slow, not clearer


def scene_json(
    source: np.ndarray, reference: np.ndarray, truth: np.ndarray | None, registrations: Sequence[Registration]
) -> str:
    """The figure as JSON that is safe inside a script element: plotly escapes <, > and /.

    A menu chooses what is shown: the initial sets, or the sets as one method registered them, coloured by matched, or
    by the method's potential where it has one.

    Args:
        source: (r, D) before registration, D = 2 or 3; of larger sets every k-th point is shown.
        reference: (q, D).
        truth: (r, D), or None where nobody knows it.
        registrations: at least one.

    Raises:
        ValueError: no registration, or arrays whose sizes do not fit.
    """
    if not registrations:
        raise ValueError("the interactive view needs at least one registration")
    moving, staying = (slice(None, None, -(-len(points) // LIMIT)) for points in (source, reference))
    groups: list[list[Any]] = [
        [
            _points(reference[staying], REFERENCE, "reference"),
            _points(source[moving], SOURCE, "source"),
            *([] if truth is None else [_points(truth[moving], TRUTH, "truth", shown=False)]),
        ]
    ]
    labels = ["initial sets"]
    for registration in registrations:
        if registration.transformed.shape != source.shape or len(registration.reference_matched) != len(reference):
            raise ValueError(
                f"the result of {registration.method} has {registration.transformed.shape} moved points and "
                f"{len(registration.reference_matched)} of the reference, but the problem has {source.shape} and "
                f"{len(reference)}; its files belong to other settings"
            )
        x_matched = registration.reference_matched[staying].astype(bool)
        y_matched = registration.matched[moving].astype(bool)
        groups.append(
            [
                _points(reference[staying][~x_matched], UNMATCHED, "reference, not matched"),
                _points(reference[staying][x_matched], REFERENCE, "reference, matched"),
                *([] if truth is None else [_points(truth[moving], TRUTH, "truth")]),
                _points(registration.transformed[moving][~y_matched], LEFT, "registered, not matched"),
                _points(registration.transformed[moving][y_matched], SOURCE, "registered, matched"),
            ]
        )
        labels.append(f"{registration.method}: {registration.words}")
        x_potential, y_potential = registration.reference_potential, registration.potential
        if x_potential is not None and y_potential is not None and registration.unrefined is not None:
            values, unrefined = np.concatenate([x_potential, y_potential]), registration.unrefined[moving]
            scale = {"cmin": float(values.min()), "cmax": float(values.max()), "colorscale": "Viridis"}
            bar = {
                **scale,
                "colorbar": {"title": {"text": "f"}, "thickness": 12, "len": 0.6, "x": 0, "xanchor": "left"},
            }
            groups.append(
                [
                    _points(reference[staying], x_potential[staying], "reference, potential", scale=scale),
                    _points(unrefined, y_potential[moving], "before refinement, potential", scale=bar),
                ]
            )
            labels.append(f"{registration.method}: potential, before refinement")
    first_view = 1  # the first method's result
    owner = [number for number, group in enumerate(groups) for trace in group if len(trace.x)]
    traces = [trace for group in groups for trace in group if len(trace.x)]
    wanted = [True if trace.visible is None else trace.visible for trace in traces]
    views = [
        [shown if at == number else False for at, shown in zip(owner, wanted, strict=True)]
        for number in range(len(groups))
    ]
    for trace, shown in zip(traces, views[first_view], strict=True):
        trace.visible = shown
    buttons = [
        {"label": html.escape(label), "method": "restyle", "args": [{"visible": view}]}
        for label, view in zip(labels, views, strict=True)
    ]
    everything = np.concatenate([source, reference, *([] if truth is None else [truth])])
    figure = go.Figure(traces, _layout(everything))
    menu = {"buttons": buttons, "active": first_view, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(updatemenus=[menu])
    text = figure.to_json()
    assert text is not None and "</" not in text
    return text


def _points(
    points: np.ndarray,
    colour: str | np.ndarray,
    name: str,
    *,
    shown: bool = True,
    scale: dict[str, Any] | None = None,
) -> Any:
    """One cloud, in one colour or by values (N,) on a scale; what the legend hides at first can be clicked there."""
    plain = colour if isinstance(colour, str) else colour.astype(np.float32)
    marker = {"color": plain, "size": 2.5 if points.shape[1] == 3 else 4, **(scale or {})}
    columns = dict(zip("xyz", points.T.astype(np.float32), strict=False))
    more = {"name": name, "mode": "markers", "marker": marker, "hoverinfo": "name"}
    kind = go.Scatter3d if points.shape[1] == 3 else go.Scatter
    return kind(**columns, **more, visible=None if shown else "legendonly")


def _layout(points: np.ndarray) -> go.Layout:
    """The same cube for every view, so that they can be compared; no axes; y of the shapes points up."""
    centre = (points.max(0) + points.min(0)) / 2
    half = (points.max(0) - points.min(0)).max() / 2 * 1.02
    axis: dict[str, Any] = {"visible": False}
    ranges = [[float(c - half), float(c + half)] for c in centre]
    common: dict[str, Any] = {
        "template": "none",
        "margin": {"l": 0, "r": 0, "t": 60, "b": 0},
        "legend": {"x": 1, "xanchor": "right", "y": 1, "itemsizing": "constant"},
        "uirevision": "kept",  # the view stays as the reader turned it when another method is chosen
    }
    if points.shape[1] == 2:
        return go.Layout(
            **common, xaxis={**axis, "range": ranges[0]}, yaxis={**axis, "range": ranges[1], "scaleanchor": "x"}
        )
    cube = {f"{name}axis": {**axis, "range": bounds} for name, bounds in zip("xyz", ranges, strict=True)}
    camera = {"up": {"x": 0, "y": 1, "z": 0}, "eye": {"x": 0.35, "y": 0.3, "z": 1.15}}
    return go.Layout(**common, scene={**cube, "aspectmode": "cube", "camera": camera, "dragmode": "orbit"})
