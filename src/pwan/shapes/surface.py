"""Points on the surface of a triangle mesh."""

from __future__ import annotations

import numpy as np


def sample_surface(vertices: np.ndarray, faces: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """n points, independent and uniform over the area of the surface; (v, 3) and (f, 3) to (n, 3) float64.

    Raises:
        ValueError: the surface has no area.
    """
    return on_faces(vertices, faces, *draw_on_faces(vertices, faces, n, generator))


def draw_on_faces(
    vertices: np.ndarray, faces: np.ndarray, n: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """n places, independent and uniform over the area: the faces (n,), and how far along their two edges (n, 2).

    Raises:
        ValueError: the surface has no area.
    """
    edges = _edges(vertices.astype(np.float64)[faces])
    areas = np.cumsum(np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1))
    if not areas[-1] > 0:
        raise ValueError("the mesh's faces have no area, so no points can be drawn on it; check its faces")
    drawn = np.searchsorted(areas, generator.random(n) * areas[-1], side="right")  # (n,)
    weights = generator.random((n, 2))
    outside = weights.sum(1) > 1  # the parallelogram's other half is folded back onto the triangle
    weights[outside] = 1 - weights[outside]
    return drawn, weights


def on_faces(vertices: np.ndarray, faces: np.ndarray, drawn: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The points at such places, (n, 3) float64; with other vertices, where the same places are on another surface."""
    corners = vertices.astype(np.float64)[faces[drawn]]  # (n, 3 corners, 3)
    return corners[:, 0] + (weights[:, :, None] * _edges(corners)).sum(1)


def _edges(corners: np.ndarray) -> np.ndarray:
    """From the first corner of each face to the others, (f, 3 corners, 3) to (f, 2, 3)."""
    return corners[:, 1:] - corners[:, :1]
