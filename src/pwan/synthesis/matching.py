"""Where the points of a surface belong on another one, of which single vertices are matched."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from pwan.deformation.rigid import nearest_rotation

NEIGHBOURS = 8  # of a surface, which is flat at this scale, they fix a rotation and average what the matches err
CANDIDATES = 32 * NEIGHBOURS  # among which they are chosen: a hand has many vertices, the thigh beside it few


def carried_by_matches(points: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Points moved by the rigid motion of the matched vertices around each of them, (n, D) to (n, D).

    Each point is moved by the rotation and translation that take the 8 matched vertices around it to their partners in
    the least squares (Kabsch 1976). These are the ones nearest to its nearest matched vertex on both surfaces: a hand
    that hangs beside a thigh is near it on one of them alone. Exact where the whole surface moves rigidly.

    Args:
        points: (n, D) on or near the first surface.
        first: (k, D) matched vertices of the first surface; of equal rows the one with the most central
            partner counts.
        second: (k, D) their partners on the second surface.
    """
    first, rows = _distinct(first, second)
    second = second[rows]  # (u, D)
    near = KDTree(first).query(points, min(CANDIDATES, len(first)))[1].reshape(len(points), -1)  # (n, c), nearest first
    distances = [np.linalg.norm(side[near] - side[near[:, :1]], axis=-1) for side in (first, second)]  # (n, c) each
    chosen = np.argsort(np.maximum(*distances), axis=1, kind="stable")[:, :NEIGHBOURS]  # (n, m)
    near = np.take_along_axis(near, chosen, axis=1)
    before, after = first[near], second[near]  # (n, m, D)
    centre, goal = before.mean(1), after.mean(1)  # (n, D)
    covariance = (before - centre[:, None]).swapaxes(1, 2) @ (after - goal[:, None])  # (n, D, D)
    return ((points - centre)[:, None] @ nearest_rotation(covariance))[:, 0] + goal


def _distinct(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of ``first`` (u, D), and for each the row whose partner is nearest to the partners' mean.

    One vertex met several times would fix no rotation, and the mean itself may lie in the air: where a hand touches a
    thigh, one vertex is matched to vertices of both.
    """
    distinct, place = np.unique(first, axis=0, return_inverse=True)
    place = place.reshape(-1)  # (k,)
    count = np.bincount(place)
    means = np.stack([np.bincount(place, weights=column) / count for column in second.T], axis=1)  # (u, D)
    order = np.lexsort((np.linalg.norm(second - means[place], axis=1), place))  # the most central first in each group
    return distinct, order[np.unique(place[order], return_index=True)[1]]
