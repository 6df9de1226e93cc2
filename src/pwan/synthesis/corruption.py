"""What makes a registration hard: missing parts, outliers, and a reference that is turned."""

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


def turn(degrees: float, generator: np.random.Generator, points: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Points (n, D), and others (m, D), turned by an angle in a random plane, about the points' mean."""
    plane = np.linalg.qr(generator.standard_normal((points.shape[1], 2)))[0]  # (D, 2), orthonormal
    angle = np.deg2rad(degrees)
    in_plane = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    rotation = np.eye(points.shape[1]) + plane @ (in_plane - np.eye(2)) @ plane.T
    centre = points.mean(0)
    return [(array - centre) @ rotation + centre for array in (points, *others)]
