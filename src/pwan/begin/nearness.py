"""How near two point sets lie, from surface to surface where they are surfaces.

The distance between neighbours of two independent draws of one surface is mostly their spacing, which hides what a
wrong turn leaves. The distance to the plane through a point's neighbours is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from pwan.weights import own_dimension

FEWEST = 30  # points: of fewer no shape can be seen, and nothing is measured to them where the other set has more
FEWEST_OF_SURFACE = 100  # points from which on planes are laid through neighbours; chosen by eye
NEIGHBOURS = 11  # through which a plane is laid, the point itself among them; chosen by eye
AT_ONCE = 2000  # points whose products with all others a core's cache holds
REACH = 4  # a plane reaches as far as the neighbour with this number: beyond the edge the distance counts; by eye


@dataclass(frozen=True)
class Surface:
    """Points, and a plane (in 2-D a line) through the neighbours of each.

    Attributes:
        tree: of the points (m, D).
        centres: (m, D) of the planes.
        normals: (m, D) of the planes; None where the points fill space, or are too few.
        reach: (m,) how far each plane goes.
    """

    tree: KDTree
    centres: np.ndarray
    normals: np.ndarray | None
    reach: np.ndarray

    @classmethod
    def through(cls, points: np.ndarray) -> Surface:
        """Of points (m, D)."""
        tree, (m, d) = KDTree(points), points.shape
        if m < FEWEST_OF_SURFACE or own_dimension(points) == d:
            return cls(tree, points, None, np.zeros(m))
        lengths, rows = tree.query(points, NEIGHBOURS)
        around = points[rows]  # (m, k, D)
        apart = around - around.mean(1, keepdims=True)
        axes = np.linalg.eigh(np.einsum("mki,mkj->mij", apart, apart))[1]  # the flattest direction first
        return cls(tree, around.mean(1), axes[:, :, 0], lengths[:, REACH])

    def distance(self, points: np.ndarray) -> np.ndarray:
        """(n,) of points (n, D): along the normal of the nearest point's plane, and beyond its reach beside it too."""
        nearest, rows = self.tree.query(points)
        if self.normals is None:
            return nearest
        normals = self.normals[rows]
        along = np.abs(((points - self.centres[rows]) * normals).sum(1))
        straight = ((points - self.tree.data[rows]) * normals).sum(1)
        beside = np.sqrt(np.maximum(nearest**2 - straight**2, 0.0))
        return np.hypot(np.minimum(along, nearest), np.maximum(beside - self.reach[rows], 0.0))


def nearest_rows(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The row of the nearest of a few others (m, D) to each of many points (..., D), in float32.

    By products, which of some hundred others are done in half the time that a tree takes. Of two that are equally near
    to float32 either one is told.
    """
    few = np.concatenate((others, -0.5 * np.square(others).sum(1, keepdims=True)), 1).astype(np.float32).T
    flat = points.reshape(-1, points.shape[-1])
    many = np.concatenate((flat, np.ones_like(flat[:, :1])), 1).astype(np.float32)
    rows = [(many[k : k + AT_ONCE] @ few).argmax(1) for k in range(0, len(many), AT_ONCE)]
    return np.concatenate(rows).reshape(points.shape[:-1])


def distances_left(moved: np.ndarray, reference: np.ndarray, shares: Sequence[tuple[float, float]]) -> np.ndarray:
    """The RMS distance between K moved sources and the reference, of the nearest points of both.

    Args:
        moved: (K, n, D).
        reference: (m, D).
        shares: S pairs, of the source's points and of the reference's, that count.

    Returns:
        (K, S), the root of the mean of both sets' mean squares; of one alone where the other one has next to no points.
    """
    m, n = len(reference), moved.shape[1]
    there = Surface.through(reference) if m >= FEWEST or n < FEWEST else None
    left = np.empty((len(moved), len(shares)))
    for k, points in enumerate(moved):
        squares = []  # of each set, in order
        if there is not None:
            squares.append((0, np.sort(there.distance(points) ** 2)))
        if n >= FEWEST or m < FEWEST:
            squares.append((1, np.sort(Surface.through(points).distance(reference) ** 2)))
        for s, of_both in enumerate(shares):
            means = [of_side[: max(3, round(of_both[side] * len(of_side)))].mean() for side, of_side in squares]
            left[k, s] = np.sqrt(np.mean(means))
    return left
