"""A start by landmarks: the similarity of least squares, where there are enough of them to determine it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pwan.begin.alignment import SEARCH
from pwan.begin.similarities import NormalisedSets, in_words, procrustes
from pwan.begin.start import Start
from pwan.problem import check_rows
from pwan.registration.landmarks import LINE
from pwan.registration.places import known_landmarks


def start_by_landmarks(
    source: Any,
    reference: Any,
    landmarks: Any,
    weights: np.ndarray | None = None,
    *,
    rotation: bool = True,
    scale: bool = False,
) -> Start | None:
    """The rotation, shift and (if asked for) scale that bring the landmarks together by weighted least squares.

    In 3-D three landmarks are enough that are not on one line, in 2-D two different ones. Where only a scale and a
    shift are sought, they must also point the same way in both sets. Sets whose landmarks are as near as they could be
    brought stay as they are. (:func:`pwan.scans.register_files` asks for no start with init="none", unless for a
    scale.)

    Args:
        source: (r, D) points that move.
        reference: (q, D) points that stay.
        landmarks: known pairs of these sets, as one problem's in :func:`pwan.register`: rows, or positions.
        weights: (L,) in place of those in a last column of the landmarks.
        rotation: whether to find a rotation.
        scale: whether to find a scale.

    Returns:
        The start, whose costs are the weighted mean distance of the landmarks, in RMS radii of the reference; None
        where the landmarks do not determine it.

    Raises:
        ValueError: landmarks that ``register`` does not take, or that name rows beyond the sets.
    """
    y, x = np.asarray(source, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    d = y.shape[1]
    known = known_landmarks(landmarks, d)
    weight = known.weights if weights is None else np.asarray(weights, dtype=np.float64)
    sets = NormalisedSets.of(y, x, scale=scale)
    if known.places is not None:
        given, there = known.places[:, 0], known.places[:, 1]
    else:
        assert known.rows is not None
        check_rows(torch.from_numpy(known.rows)[None], (len(y), len(x)))
        given, there = y[known.rows[:, 0]], x[known.rows[:, 1]]
    points = (given - sets.source_centre) / sets.source_unit  # (L, D)
    goals = (there - sets.reference_centre) / sets.reference_radius
    for side in (points, goals):
        spread = np.linalg.svd(side - side.mean(0), compute_uv=False)
        if len(side) < d or spread[d - 2] <= LINE * spread[0]:
            return None
    fit = procrustes(points[None], goals[None], weight[None], rotation=rotation, scale=scale)
    if fit.scale[0] <= 0:  # least squares would mirror the points
        return None
    factor, turned, shift = sets.in_input_units(fit, 0)

    before, after = (np.linalg.norm(one - there, axis=1) for one in (given, factor * given @ turned + shift))  # (L,)
    cost_given, cost = (float(np.average(side, weights=weight) / sets.reference_radius) for side in (before, after))
    if np.average(before**2, weights=weight) <= SEARCH.given_factor**2 * np.average(after**2, weights=weight):
        why = f"the {len(weight)} landmarks are as near as a turn and a shift could bring them"
        return Start.kept_as_given(d, cost_given, why)
    how = in_words(turned if rotation else None, factor if scale else None)
    reason = (
        f"{how} by the {len(weight)} landmarks: {cost:.3g} RMS radii of the reference are left between them on "
        f"average, of {cost_given:.3g} as given"
    )
    return Start(factor, turned, shift, cost, cost_given, True, reason)


def start_towards(points: Any, goals: Any, *, rotation: bool = True, scale: bool = False) -> Start | None:
    """The same where every point (N, D) knows where it may belong, (N, D), as in a frame that follows another one: what
    is left between them is the bending alone."""
    pairs = np.arange(len(points))[:, None].repeat(2, 1)
    start = start_by_landmarks(points, goals, pairs, rotation=rotation, scale=scale)
    return None if start is None else replace(start, reason="where the last trusted frame led")
