"""An interactive view of one problem and what each method made of it, as plotly's JSON."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from pwan.report.camera import camera
from pwan.report.registered import LEFT, REFERENCE, SOURCE, TRUTH, UNMATCHED, Registration

LIMIT = 6000  # points of one set that are shown; more make the page slow, not clearer
FRAMES_LIMIT = 100_000  # of one set in all frames together, whose figure is one file
FEWEST_IN_FRAME = 300  # of one set in each frame, however many there are
MESH_LIMIT = 20_000  # faces, and vertices, of a mesh that is shown as one; of a larger one its points are
BAR = {"thickness": 12, "len": 0.6, "x": 0, "xanchor": "left"}
FARTHEST = 6.0  # spacings at which the colours of distances end
FAR_COLOURS = [[0, "#c3d3df"], [0.5, "#6d99bd"], [0.5, "#f4a03f"], [1, "#a50026"]]  # a step at half of it


@dataclass(frozen=True)
class _View:
    """One entry of the menu, and the traces that it shows."""

    label: str
    traces: list[Any]


def scene_json(
    source: np.ndarray,
    reference: np.ndarray,
    truth: np.ndarray | None,
    registrations: Sequence[Registration],
    *,
    distance_first: bool = False,
) -> str:
    """The figure as JSON that is safe inside a script element: plotly escapes <, > and /.

    A menu chooses what is shown: the initial sets, or the sets as one method registered them, coloured by matched, by
    the distance to the other set where that is known, or by the method's potential where it has one.

    Args:
        source: (r, D) before registration, D = 2 or 3; of larger sets every k-th point is shown.
        reference: (q, D).
        truth: (r, D), or None where nobody knows it.
        registrations: at least one.
        distance_first: show the first method's distances at first, not what it matched.

    Raises:
        ValueError: no registration, or arrays whose sizes do not fit.
    """
    if not registrations:
        raise ValueError("the interactive view needs at least one registration")
    for registration in registrations:
        if registration.transformed.shape != source.shape or len(registration.reference_matched) != len(reference):
            raise ValueError(
                f"the result of {registration.method} has {registration.transformed.shape} moved points and "
                f"{len(registration.reference_matched)} of the reference, but the problem has {source.shape} and "
                f"{len(reference)}; its files belong to other settings"
            )
    everything = np.concatenate([source, reference, *([] if truth is None else [truth])])
    middle = middle_of(everything)
    everything, source, reference = everything - middle, source - middle, reference - middle
    truth = None if truth is None else truth - middle
    views = [
        _View(
            "initial sets",
            [
                _points(_thinned(reference), REFERENCE, "reference"),
                _points(_thinned(source), SOURCE, "source"),
                *([] if truth is None else [_points(_thinned(truth), TRUTH, "truth", shown=False)]),
            ],
        )
    ]
    for registration in registrations:
        unrefined = registration.unrefined
        registration = replace(
            registration,
            transformed=registration.transformed - middle,
            unrefined=None if unrefined is None else unrefined - middle,
        )
        views += [
            _matched(registration, reference, truth),
            *_distances(registration, reference),
            *_potentials(registration, reference),
        ]
    first = 2 if distance_first and registrations[0].distance is not None else 1
    text = _figure(views, first, layout(everything, reference)).to_json()
    assert text is not None and "</" not in text
    return text


def frames_json(moved: np.ndarray, frames: Sequence[np.ndarray], names: Sequence[str]) -> str:
    """A figure with a slider, as :func:`scene_json` gives one: a set in each of several frames.

    Args:
        moved: (F, N, D) the set in each frame; what is not finite is not shown.
        frames: F sets (N_k, D), each as it was seen.
        names: of the frames, shown in the legend; the slider has their numbers, from 0.
    """
    most = max(FEWEST_IN_FRAME, FRAMES_LIMIT // len(frames))
    everything = np.concatenate([*frames, moved[np.isfinite(moved).all(2)]])
    middle = middle_of(everything)
    moved, frames = moved - middle, [frame - middle for frame in frames]
    traces: list[Any] = []
    steps: list[dict[str, Any]] = []
    for number, (there, seen) in enumerate(zip(moved, frames, strict=True)):
        there = there[np.isfinite(there).all(1)]
        name = html.escape(names[number])
        pair = _points(_thinned(seen, most), REFERENCE, name), _points(_thinned(there, most), SOURCE, "led there")
        for trace in pair:
            trace.visible = number == 0
        traces += pair
        visible = [at == number for at in range(len(frames)) for _ in pair]
        steps.append({"label": str(number), "method": "restyle", "args": [{"visible": visible}]})
    shown = layout(everything - middle, frames[0])
    text = (
        go.Figure(traces, shown)
        .update_layout(sliders=[{"steps": steps, "pad": {"b": 20}, "currentvalue": {"prefix": "frame "}}])
        .to_json()
    )
    assert text is not None and "</" not in text
    return text


def _figure(views: Sequence[_View], first: int, frame: go.Layout) -> go.Figure:
    """All traces that hold something, and the menu that chooses between the views."""
    owner = [number for number, view in enumerate(views) for trace in view.traces if len(trace.x)]
    traces = [trace for view in views for trace in view.traces if len(trace.x)]
    wanted = [True if trace.visible is None else trace.visible for trace in traces]
    visible = [
        [shown if at == number else False for at, shown in zip(owner, wanted, strict=True)]
        for number in range(len(views))
    ]
    for trace, shown in zip(traces, visible[first], strict=True):
        trace.visible = shown
    buttons = [
        {"label": html.escape(view.label), "method": "restyle", "args": [{"visible": shown}]}
        for view, shown in zip(views, visible, strict=True)
    ]
    menu = {"buttons": buttons, "active": first, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    return go.Figure(traces, frame).update_layout(updatemenus=[menu])


def _thinned(points: np.ndarray, most: int = LIMIT) -> np.ndarray:
    """Every k-th row of an array (N, ...), at most so many."""
    return points[:: max(1, -(-len(points) // most))]


def _matched(registration: Registration, reference: np.ndarray, truth: np.ndarray | None) -> _View:
    staying, moved = _thinned(reference), _thinned(registration.transformed)
    x_matched, y_matched = (
        _thinned(matched).astype(bool) for matched in (registration.reference_matched, registration.matched)
    )
    return _View(
        f"{registration.method}: {registration.words}",
        [
            _points(staying[~x_matched], UNMATCHED, "reference, not matched"),
            _points(staying[x_matched], REFERENCE, "reference, matched"),
            *([] if truth is None else [_points(_thinned(truth), TRUTH, "truth")]),
            _points(moved[~y_matched], LEFT, "registered, not matched"),
            _points(moved[y_matched], SOURCE, "registered, matched"),
        ],
    )


def _distances(registration: Registration, reference: np.ndarray) -> list[_View]:
    y_distance, x_distance = registration.distance, registration.reference_distance
    if y_distance is None or x_distance is None:
        return []
    traces = [
        coloured(reference, x_distance, registration.reference_faces, "reference"),
        coloured(registration.transformed, y_distance, registration.faces, "registered"),
    ]
    return [_View(f"{registration.method}: distance to the other set", traces)]


def coloured(points: np.ndarray, distance: np.ndarray, faces: np.ndarray | None, name: str) -> Any:
    """One set coloured by distances (N,): as a surface where the faces name all points and are few, else dots."""
    few = faces is not None and max(len(faces), len(points)) <= MESH_LIMIT
    if faces is None or not few or points.shape[1] == 2 or len(np.unique(faces)) < len(points):
        return _points(_thinned(points), _thinned(distance), name, scale={"coloraxis": "coloraxis"})
    columns = dict(zip("xyz", points.T.astype(np.float32), strict=True))
    corners = dict(zip("ijk", faces.T.astype(np.uint16), strict=True))
    colour = {"intensity": distance.astype(np.float32), "coloraxis": "coloraxis"}
    light = {"ambient": 0.75, "diffuse": 0.5, "specular": 0.05}
    return go.Mesh3d(**columns, **corners, **colour, lighting=light, name=name, showlegend=True, hoverinfo="name")


def _potentials(registration: Registration, reference: np.ndarray) -> list[_View]:
    x_potential, y_potential = registration.reference_potential, registration.potential
    if x_potential is None or y_potential is None or registration.unrefined is None:
        return []
    values = np.concatenate([x_potential, y_potential])
    scale = {"cmin": float(values.min()), "cmax": float(values.max()), "colorscale": "Viridis"}
    bar = {**scale, "colorbar": {"title": {"text": "f"}, **BAR}}
    traces = [
        _points(_thinned(reference), _thinned(x_potential), "reference, potential", scale=scale),
        _points(_thinned(registration.unrefined), _thinned(y_potential), "before refinement, potential", scale=bar),
    ]
    return [_View(f"{registration.method}: potential, before refinement", traces)]


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


def middle_of(points: np.ndarray) -> np.ndarray:
    """(D,) of the box of all points (N, D). Views are about it: the page's float32 lacks the digits of far places."""
    middle: np.ndarray = (points.max(0) + points.min(0)) / 2
    return middle


def layout(points: np.ndarray, reference: np.ndarray) -> go.Layout:
    """The same cube for every view, so that they can be compared; no axes; looked at as the reference stands."""
    centre = middle_of(points)
    half = (points.max(0) - points.min(0)).max() / 2 * 1.02
    axis: dict[str, Any] = {"visible": False}
    ranges = [[float(c - half), float(c + half)] for c in centre]
    common: dict[str, Any] = {
        "template": "none",
        "margin": {"l": 0, "r": 0, "t": 60, "b": 0},
        "legend": {"x": 1, "xanchor": "right", "y": 1, "itemsizing": "constant"},
        "uirevision": "kept",  # the view stays as the reader turned it when another method is chosen
        "coloraxis": {
            "cmin": 0,
            "cmax": FARTHEST,
            "colorscale": FAR_COLOURS,
            "colorbar": {
                "title": {"text": "spacings"},
                "tickvals": [0, FARTHEST / 2, FARTHEST],
                "ticktext": ["0", f"{FARTHEST / 2:g}", f"{FARTHEST:g} or more"],
                **BAR,
            },
        },
    }
    if points.shape[1] == 2:
        return go.Layout(
            **common, xaxis={**axis, "range": ranges[0]}, yaxis={**axis, "range": ranges[1], "scaleanchor": "x"}
        )
    cube = {f"{name}axis": {**axis, "range": bounds} for name, bounds in zip("xyz", ranges, strict=True)}
    view = {**cube, "aspectmode": "cube", "camera": camera(reference), "dragmode": "orbit"}
    return go.Layout(**common, scene=view)
