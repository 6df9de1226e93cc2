"""What makes a registration hard: missing parts and outliers."""

from __future__ import annotations

import numpy as np


def crop(points: np.ndarray, kept: int, generator: np.random.Generator) -> np.ndarray:
    """The rows of the kept points in order, (kept,): those on one side of a plane with a random unit normal.

    As in the released code the plane is moved until exactly the wanted number of points is on its far side.
    """
    normal = generator.standard_normal(points.shape[1])
    heights = (points - points.mean(0)) @ (normal / np.linalg.norm(normal))  # (n,)
    return np.sort(np.argsort(heights, kind="stable")[len(points) - kept :])


def uniform_outliers(points: np.ndarray, count: int, box: float, generator: np.random.Generator) -> np.ndarray:
    """Points uniform in the axis-aligned box of the given ones, enlarged ``box`` times about its centre, (count, D)."""
    low, high = points.min(0), points.max(0)
    unit = generator.random((count, points.shape[1])) - 0.5
    return (low + high) / 2 + unit * (high - low) * box
