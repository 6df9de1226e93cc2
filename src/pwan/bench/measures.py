"""What a registration is worth beside its mean squared error: where points have a partner, how near, how torn."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from pwan.problem import RegistrationProblem

NEAR = 0.05  # of the truth's RMS radius
REACH = 3.0  # spacings of the reference: of an even sample, one point in 500 has no other one within
NEIGHBOURS = 6
NAMES = ("mse_partnered", "near", "edge_stretch")


def measures(problem: RegistrationProblem, k: int, moved: np.ndarray) -> dict[str, float]:
    """Measures of problem k of a batch, whose source (r, D) was moved to ``moved``; NaN where nothing can be measured.

    Returns:
        By their names:

        - mse_partnered: the mean squared error over the source points that have a partner: a reference point within 3
          times the median distance of the reference's points to their nearest neighbour, of where the source point
          belongs. Where the reference was cropped, the others belong to what is missing.
        - near: the share of those within 5% of the truth's RMS radius of where they belong.
        - edge_stretch: of the distances of each source point to its 6 nearest neighbours, as registered and as they
          ought to be, the 95% quantile of the relative error: small also where all moved wrongly together, large where
          a limb was torn or has collapsed.
    """
    assert problem.truth is not None
    source, reference, truth = (x[k].numpy() for x in (problem.source, problem.reference, problem.truth))
    if not np.isfinite(moved).all():
        return dict.fromkeys(NAMES, np.nan)
    tree = KDTree(reference)
    spacing = np.median(tree.query(reference, 2)[0][:, 1])
    partnered = tree.query(truth)[0] <= REACH * spacing  # (r,)
    squared = ((moved - truth) ** 2).sum(1)[partnered]
    radius = np.sqrt(((truth - truth.mean(0)) ** 2).sum(1).mean())
    neighbours = KDTree(source).query(source, min(NEIGHBOURS + 1, len(source)))[1][:, 1:]  # (r, neighbours)
    lengths, right = (np.linalg.norm(x[neighbours] - x[:, None], axis=-1) for x in (moved, truth))
    there = right > 0
    return {
        "mse_partnered": float(squared.mean()) if len(squared) else np.nan,
        "near": float((squared <= (NEAR * radius) ** 2).mean()) if len(squared) else np.nan,
        "edge_stretch": float(np.quantile(np.abs(lengths[there] / right[there] - 1), 0.95)) if there.any() else np.nan,
    }
