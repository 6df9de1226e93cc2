"""Rotations, halves of shapes and a smooth shape, for the tests of this folder."""

from __future__ import annotations

import numpy as np

from pwan import shapes
from pwan.randomness import numpy_generator

LEFT = 0.35  # RMS radii: where the left half ends
RIGHT = -0.35  # RMS radii: where the right half ends


def turned_over(d: int) -> np.ndarray:
    """A rotation by 180 degrees about an axis that is no coordinate axis."""
    if d == 2:
        return -np.eye(2)
    axis = np.array([1.0, 2.0, -2.0]) / 3
    return 2 * np.outer(axis, axis) - np.eye(3)


def halves_of_a_bunny() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two overlapping halves, the reference's bent: 44% of the source's points have a partner, at the truth."""
    points = shapes.load("bunny").points[:500]
    along = points[:, 0]
    bent = points + 0.1 * np.stack((np.zeros_like(along), along**2, np.sin(2 * along)), 1)
    left, right = along < LEFT, along > RIGHT
    return points[left], bent[right], bent[left]


def pear(n: int, seed: int) -> np.ndarray:
    """Points (n, 3) of a ball with three wide bumps, a draw of their own for each seed."""
    points = numpy_generator(seed, "pear").standard_normal((n, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    bumps = np.array([[1.0, 0.0, 0.0], [0.0, 0.8, 0.6], [-0.6, 0.0, 0.8]])
    return points * (1 + (np.array([0.8, 0.3, -0.25]) * np.exp(4 * (points @ bumps.T - 1))).sum(1, keepdims=True))
