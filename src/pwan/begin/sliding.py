"""A check of a finished registration: whether it has slid along the reference, as it may where a part of both sets is
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from pwan.arrays import to_points
from pwan.begin.quick_fit import QUICK_FIT, quick_fit, sample, smallest
from pwan.begin.similarities import in_words, procrustes
from pwan.begin.start import Start
from pwan.randomness import derive_seed

SOURCE_POINTS = 800  # of the source that are compared; chosen by eye
FEWEST_MATCHED = 20  # points; the distances of fewer tell nothing; chosen by eye


@dataclass(frozen=True)
class SlidingCheck:
    """What a quick registration of fewer points gives beside a finished one.

    Attributes:
        ratio: the mean distance of the nearest points to the reference after the quick registration, over that of as
            many after the finished one; infinite where these lie on the reference. Well below 1 the finished one has
            slid (:data:`pwan.trust.verdict.SLID`).
        start: the rigid motion from the source to where the quick registration went. Its costs are the two mean
            distances, in the smaller RMS radius of both sets.
    """

    ratio: float
    start: Start


def check_sliding(source: Any, reference: Any, moved: Any, *, mass: float, seed: int = 0) -> SlidingCheck | None:
    """Compare a finished registration with a quick one that matches fewer points.

    Args:
        source: (r, D) points as the registration found them.
        reference: (q, D) points that stay.
        moved: (r, D) where the registration left the source.
        mass: of the registration, in points of the source.
        seed: of the samples; the same seed gives the same.

    Returns:
        The comparison; None where so few points would be matched that their distances tell nothing.
    """
    given = {"source": source, "reference": reference, "moved": moved}
    y, x, finished = (to_points(name, points).numpy() for name, points in given.items())
    share = min(1.0, SOURCE_POINTS / len(y))
    # the same share of both sets, but of a far smaller reference as many as have its shape
    size = min(len(x), QUICK_FIT.most_points, max(QUICK_FIT.points, round(share * len(x))))
    fewer = QUICK_FIT.mass_share * min(share * mass, len(y), size)
    if fewer < FEWEST_MATCHED:
        return None
    x_sample = sample(x, size, derive_seed(seed, "look", "x"), "start sample")
    rows = sample(np.arange(len(y)), SOURCE_POINTS, derive_seed(seed, "look", "y"), "start sample")
    y, finished = y[rows], finished[rows]
    # the smaller radius, since that of the other may come from a few far outliers
    centre, radius = x.mean(0), min(float(np.sqrt(p.var(0).sum())) for p in (y, x))
    quick = radius * quick_fit((y - centre)[None] / radius, (x_sample - centre) / radius, fewer, seed)[0] + centre
    tree = KDTree(x)
    distances = np.stack([tree.query(points)[0] for points in (quick, finished)])
    near = smallest(distances, fewer)
    after, before = (near * distances).sum(1) / near.sum(1)
    motion = procrustes(y[None], quick[None], near[:1], rotation=True, scale=False)
    words = f"{in_words(motion.rotation[0], None)} and shifted to where a quick registration of fewer points goes"
    start = Start(1.0, motion.rotation[0], motion.translation[0], after / radius, before / radius, True, words)
    return SlidingCheck(float(after / before) if before > 0 else np.inf, start)
