"""Points on the surface of a triangle mesh."""

from __future__ import annotations

import numpy as np


def sample_surface(vertices: np.ndarray, faces: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """n points, independent and uniform over the area of the surface; (v, 3) and (f, 3) to (n, 3) float64.

    Raises:
        ValueError: the surface has no area.
    """
    corners = vertices.astype(np.float64)[faces]  # (f, 3 corners, 3)
    edges = corners[:, 1:] - corners[:, :1]  # (f, 2, 3)
    areas = np.cumsum(np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1))
    if not areas[-1] > 0:
        raise ValueError("the mesh's faces have no area, so no points can be drawn on it; check its faces")
    drawn = np.searchsorted(areas, generator.random(n) * areas[-1], side="right")  # (n,)
    weights = generator.random((n, 2))
    outside = weights.sum(1) > 1  # the parallelogram's other half is folded back onto the triangle
    weights[outside] = 1 - weights[outside]
    return corners[drawn, 0] + (weights[:, :, None] * edges[drawn]).sum(1)
