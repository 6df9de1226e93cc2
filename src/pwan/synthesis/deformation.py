"""Smooth random deformations (the paper's section on synthetic data; the released code's wrap)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from pwan.deformation.factors import nystrom


def random_deformation(
    shape_points: np.ndarray,
    *,
    beta: float,
    rank: int,
    deformation_lambda: float,
    centre_generator: np.random.Generator,
    generator: np.random.Generator,
) -> Callable[[np.ndarray], np.ndarray]:
    """A displacement field V = G^(1/2) U / sqrt(lambda), U standard normal, as a function from (n, D) to (n, D).

    G is the Gaussian kernel of width beta over the whole shape, of the given rank by Nystrom with centres among the
    shape's points, (s, D). With G nearly Phi Phi^T, Phi U has the same distribution as G^(1/2) U, and Phi is known
    everywhere, so that only the points drawn are evaluated: O(n rank). The mean of |V|^2 is about D / lambda.
    """
    rank = min(rank, len(shape_points))
    centres = shape_points[centre_generator.choice(len(shape_points), rank, replace=False)]
    rows = torch.arange(rank, dtype=torch.int64, device="cpu")
    factor = nystrom(torch.from_numpy(centres).unsqueeze(0), rows.unsqueeze(0), beta)
    weights = torch.from_numpy(generator.standard_normal((rank, shape_points.shape[1])))  # U, (k, D)
    weights /= math.sqrt(deformation_lambda)

    def displacement(points: np.ndarray) -> np.ndarray:
        # in blocks, so that a million points do not hold a million rows of Phi at once
        blocks = torch.from_numpy(points).unsqueeze(0).split(65536, dim=1)
        return torch.cat([factor.basis(block)[0] @ weights for block in blocks]).numpy()

    return displacement
