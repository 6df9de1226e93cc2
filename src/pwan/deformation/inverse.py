"""The way back: which point a map takes to a given place, by Newton's method.

Where the map folds, two points or more go to one place, and a place may have none: there is no inverse then, and the
nearest that was found comes back with what is left. (ITK inverts fields by a fixed-point iteration on the field's own
box; that needs the moved points in the same box, and does not end where the map turns by more than about 60 degrees.)

M places, r points of the source, D coordinates; points are rows.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.spatial import KDTree

STEPS = 30  # of Newton's at most; from a start beside a known point 3 to 6 do
AT_ONCE = 1 << 17  # places, so that their Jacobians are a few megabytes
LEAST_FACTOR = 1e-3  # of a step, below which a place is given up
EXACT = 1e-10  # of the extent of the places, up to which one counts as reached
NEAR = 3  # known points beside a place that are asked first


class Map(Protocol):
    """A map of space with its Jacobian, as :class:`pwan.deformation.space.SpaceTransform` is."""

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Where points (M, D) go: (M, D)."""
        ...

    def jacobians(self, points: np.ndarray) -> np.ndarray:
        """d moved_j / d y_i at points (M, D): (M, D, D)."""
        ...


def points_behind(transform: Map, places: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points that the map takes to these places, and how far from them it really takes them.

    Each search begins where the nearest moved points of the source, with the map's slope there, say; of several points
    that go to one place the one beside these is found.

    Args:
        transform: the map.
        places: (M, D) in the reference's coordinates.
        source: (r, D) points of the source, r at least 1.

    Returns:
        Points (M, D) in the source's coordinates, and the distances (M,) that are left, in the reference's units.
    """
    beside = _Beside(transform, source)
    enough = EXACT * max(1e-300, float(np.ptp(np.concatenate((beside.moved, places)), axis=0).max()))
    found, left = np.empty_like(places), np.empty(len(places))
    for start in range(0, len(places), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        first = _nearest_of(transform, places[part], beside.said(places[part])[0])
        found[part], left[part] = _newton(transform, places[part], first, enough)
    return found, left


def points_beside(transform: Map, places: np.ndarray, source: np.ndarray) -> np.ndarray:
    """As :func:`points_behind`, of a map that is known at the source's points alone: what the nearest moved points say,
    weighted by 1 / distance^4, as such a map is led on (:mod:`pwan.deformation.surface_map`)."""
    beside, found = _Beside(transform, source), np.empty_like(places)
    for start in range(0, len(places), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        said, distances = beside.said(places[part])
        weights = (distances.min(0) + 1e-300) ** 4 / (distances + 1e-300) ** 4
        found[part] = (weights[..., None] * said).sum(0) / weights.sum(0)[:, None]
    return found


class _Beside:
    """The points of the source, moved, with the inverse of the map's slope at each."""

    def __init__(self, transform: Map, source: np.ndarray) -> None:
        self.source, self.moved = source, transform(source)
        self.tree, self.slopes = KDTree(self.moved), _inverses(transform.jacobians(source))

    def said(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each of the nearest n moved points, with its slope, says that places (M, D) come from, (n, M, D), and
        how far it is (n, M)."""
        count = min(NEAR, len(self.source))
        distances, rows = (found.reshape(len(places), -1).T for found in self.tree.query(places, count))
        away = (places - self.moved[rows])[..., None, :] @ self.slopes[rows]
        return self.source[rows] + away[..., 0, :], distances


def _nearest_of(transform: Map, places: np.ndarray, said: np.ndarray) -> np.ndarray:
    """(M, D) of n guesses (n, M, D) those that the map takes nearest to the places (M, D)."""
    left = np.stack([np.linalg.norm(transform(one) - places, axis=1) for one in said])
    return said[left.argmin(0), np.arange(len(places))]


def _newton(transform: Map, places: np.ndarray, points: np.ndarray, enough: float) -> tuple[np.ndarray, np.ndarray]:
    """Steps that are shortened where they do not bring a place nearer."""
    points, short = points.copy(), places - transform(points)  # (M, D) what is left to go
    left, factor = np.linalg.norm(short, axis=1), np.ones(len(places))
    rows = np.flatnonzero(left > enough)
    for _ in range(STEPS):
        if not len(rows):
            break
        step = (short[rows, None] @ _inverses(transform.jacobians(points[rows])))[:, 0]
        trial = points[rows] + factor[rows, None] * step
        of_trial = places[rows] - transform(trial)
        lengths = np.linalg.norm(of_trial, axis=1)
        nearer = lengths < left[rows]
        better = rows[nearer]
        points[better], short[better], left[better] = trial[nearer], of_trial[nearer], lengths[nearer]
        factor[rows] = np.where(nearer, np.minimum(1.0, 2 * factor[rows]), factor[rows] / 4)
        rows = rows[(left[rows] > enough) & (factor[rows] > LEAST_FACTOR)]
    return points, left


def _inverses(jacobians: np.ndarray) -> np.ndarray:
    """(M, D, D), zero where the map is flat."""
    flat = np.abs(np.linalg.det(jacobians)) < 1e-300
    jacobians = np.where(flat[:, None, None], np.eye(jacobians.shape[-1]), jacobians)
    return np.where(flat[:, None, None], 0.0, np.linalg.inv(jacobians))
