"""A small family of shapes whose points correspond, and scans of them."""

from __future__ import annotations

import numpy as np

QUICK = {"method": "soft_assignment", "steps": 15, "rank": 20}


def family(count: int, points: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A template (N, 3), a bent sheet, and shapes (S, N, 3) that are wider or narrower than it, one after the other."""
    generator = np.random.default_rng(seed)
    flat = generator.uniform(-1, 1, (points, 2))
    template = np.column_stack((flat[:, 0] * 1.5, flat[:, 1], 0.3 * flat[:, 0] ** 2))
    widths = np.linspace(0.9, 1.15, count)
    return template, np.stack([template * [width, 1.0, 1.0] + 0.02 * k for k, width in enumerate(widths)])


def shuffled(shapes: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The shapes as scans whose points stand in any order, and for each point of the shape its row in the scan."""
    scans, rows = [], []
    for k, shape in enumerate(shapes):
        order = np.random.default_rng(k).permutation(len(shape))
        scans.append(shape[order])
        rows.append(np.argsort(order))
    return scans, rows
