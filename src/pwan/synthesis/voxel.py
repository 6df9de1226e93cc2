"""The voxel grid filter, which thins points until their spacing is even."""

from __future__ import annotations

import numpy as np


def voxel_means(points: np.ndarray, edge: float, *carried: np.ndarray) -> tuple[np.ndarray, ...]:
    """One point for each occupied cube of a grid: the mean of the points in it.

    Args:
        points: (n, D).
        edge: of the cubes, in the points' units; the grid has a corner at the origin. 0 changes nothing.
        carried: further (n, E) arrays whose rows belong to the points.

    Returns:
        The means (v, D) in the order of the cubes, and for each further array the means (v, E) of the same rows.
    """
    if edge == 0:
        return points, *carried
    _, cube = np.unique(np.floor(points / edge), axis=0, return_inverse=True)
    cube = cube.reshape(-1)  # (n,)
    count = np.bincount(cube)  # (v,)
    return tuple(
        np.stack([np.bincount(cube, weights=column) / count for column in array.T], axis=1)
        for array in (points, *carried)
    )
