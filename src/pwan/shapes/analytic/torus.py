"""A bumpy torus: a closed smooth surface without symmetry, for tests and for work without any data file."""

from __future__ import annotations

import numpy as np

COUNT = 4000  # points of the fixed default set


def surface() -> tuple[np.ndarray, np.ndarray]:
    """Vertices (v, 3) and triangles (f, 3) of the surface.

    The tube's radius varies as 0.35 + 0.1 cos(u) + 0.06 sin(3 u + 2 v) and its centre line leaves the plane by
    0.2 sin(2 u), with u along the ring and v around the tube.
    """
    ring, tube = 160, 64
    u, v = np.meshgrid(
        np.arange(ring) * (2 * np.pi / ring), np.arange(tube) * (2 * np.pi / tube), indexing="ij"
    )  # (ring, tube)
    radius = 0.35 + 0.1 * np.cos(u) + 0.06 * np.sin(3 * u + 2 * v)
    distance = 1 + radius * np.cos(v)  # from the axis
    height = 0.2 * np.sin(2 * u) + radius * np.sin(v)
    vertices = np.stack([distance * np.cos(u), distance * np.sin(u), height], -1).reshape(-1, 3)
    index = np.arange(ring * tube).reshape(ring, tube)
    right = np.roll(index, -1, 0)
    up, across = np.roll(index, -1, 1), np.roll(right, -1, 1)
    triangles = [np.stack([index, right, across], -1), np.stack([index, across, up], -1)]
    return vertices, np.concatenate(triangles).reshape(-1, 3)
