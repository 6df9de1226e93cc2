"""A start by known pairs of points: the similarity of least squares, where there are enough of them to tell it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pwan.begin.alignment import ENOUGH, Start, angles, procrustes
from pwan.registration.landmarks import LINE


def start_by_landmarks(
    source: Any,
    reference: Any,
    pairs: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    rotation: bool = True,
    scale: bool = False,
) -> Start | None:
    """The rotation, shift and (if asked for) scale that bring the pairs together by weighted least squares, or None
    where they do not tell it.

    In 3-D three pairs tell it that are not on one line, in 2-D two different ones. Where only a scale and a shift are
    sought, they must also point the same way in both sets. Sets whose pairs are as near as they could be brought stay
    as they are. (:func:`pwan.scans.register_files` asks for no start with init="none", unless for a scale.)

    Args:
        source: (r, D) points that move. reference: (q, D) points that stay. pairs: (L, 2) a row of each.
        weights: (L,) or None for equal ones. rotation, scale: whether to find one.
    """
    y, x = np.asarray(source, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    weight = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
    d = y.shape[1]
    y_centre, x_centre = y.mean(0), x.mean(0)
    y_radius, x_radius = (np.sqrt(points.var(0).sum()) for points in (y, x))
    unit = y_radius if scale else x_radius
    here, goal = (y[pairs[:, 0]] - y_centre) / unit, (x[pairs[:, 1]] - x_centre) / x_radius  # (L, D)
    for points in (here, goal):
        spread = np.linalg.svd(points - points.mean(0), compute_uv=False)
        if len(points) < d or spread[d - 2] <= LINE * spread[0]:
            return None
    found = procrustes(here[None], goal[None], weight[None], rotation=rotation, scale=scale)
    if found.scale[0] <= 0:  # least squares would mirror the points
        return None
    found_scale = float(found.scale[0] * x_radius / unit) if scale else 1.0
    turned = found.rotation[0]
    shift = x_centre + x_radius * found.translation[0] - found_scale * y_centre @ turned

    def apart(points: np.ndarray) -> np.ndarray:
        return np.linalg.norm(points[pairs[:, 0]] - x[pairs[:, 1]], axis=1)  # (L,)

    before, after = apart(y), apart(found_scale * y @ turned + shift)
    cost_given, cost = (float(np.average(each, weights=weight) / x_radius) for each in (before, after))
    if np.average(before**2, weights=weight) <= ENOUGH**2 * np.average(after**2, weights=weight):
        words = f"kept as given: the {len(pairs)} pairs are as near as a turn and a shift could bring them"
        return Start(1.0, np.eye(d), np.zeros(d), cost_given, cost_given, False, words)
    how = f"turned by {angles(turned[None], np.eye(d))[0]:.0f} degrees" if rotation else "shifted"
    how += f", scaled by {found_scale:.3g}" if scale else ""
    reason = (
        f"{how} by the {len(pairs)} pairs: {cost:.3g} RMS radii of the reference are left between them on average, of "
        f"{cost_given:.3g} as given"
    )
    return Start(found_scale, turned, shift, cost, cost_given, True, reason)
