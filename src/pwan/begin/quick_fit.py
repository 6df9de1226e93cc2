"""A quick registration of samples, which neither the search for a start nor the check of a result waits long for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import draw_centres, nystrom
from pwan.deformation.transform import Transform
from pwan.randomness import derive_seed, numpy_generator
from pwan.registration.soft_assignment import SoftSettings, soft_assignment

Points = TypeVar("Points", np.ndarray, torch.Tensor)


_STIFF = SoftSettings(steps=40, sigma_start=0.15, sigma_end=0.05, scalings=5, smoothness=150.0, affine_ridge=1000.0)


@dataclass(frozen=True)
class QuickFitSettings:
    """A soft assignment of few points, so stiff that a wrong start keeps its cost.

    The values were tuned together, on partial bunnies with keep 0.8. benchmarks/README.md, section "Own scans", states
    what they give on other seeds. No value was measured alone.

    Attributes:
        points: of a sample of the smaller set.
        most_points: of a sample of the larger set, which is the same share of it.
        mass_share: of the mass that is to be matched: if more points are matched than have partners, a set that has
            slid fits best.
        rank: of the smooth displacements.
        beta: width of their kernel, in RMS radii of the reference.
        soft: of the soft assignment, in RMS radii of the reference.
    """

    points: int = 300
    most_points: int = 1200
    mass_share: float = 0.7
    rank: int = 50
    beta: float = 2.0
    soft: SoftSettings = _STIFF


QUICK_FIT = QuickFitSettings()


def sample(points: Points, size: int, seed: int, purpose: str) -> Points:
    """That many of the points, drawn without replacement for one purpose; all in their order where they are fewer."""
    if size >= len(points):
        return points
    rows = numpy_generator(seed, purpose).choice(len(points), size, replace=False)
    return points[torch.from_numpy(rows)] if isinstance(points, torch.Tensor) else points[rows]


def quick_fit(
    source: np.ndarray, reference: np.ndarray, mass: float, seed: int, rows: np.ndarray | None = None
) -> np.ndarray:
    """The K sources (K, n, D) moved by a quick soft assignment of a mass to the reference (m, D), all normalised.

    Of the source only the points with these numbers take part where ``rows`` names some; the others move with them.
    """
    k, n, _ = source.shape
    y, seeds = torch.from_numpy(source), [derive_seed(seed, "start modes")] * k
    coherence = Coherence(y, nystrom(y, draw_centres(n, QUICK_FIT.rank, seeds), QUICK_FIT.beta))
    transform = Transform("nonrigid", y, coherence.basis)
    x, masses = torch.from_numpy(reference).expand(k, *reference.shape), y.new_full((k,), mass)
    part = transform if rows is None else transform.part(torch.from_numpy(rows).expand(k, -1))
    fitted = soft_assignment(part, transform.parameters, x, masses, QUICK_FIT.soft, seeds)
    return transform.points(fitted).numpy()


def smallest(distances: np.ndarray, count: float) -> np.ndarray:
    """1 for the ``count`` smallest distances of each row (K, n), at least three of them, else 0."""
    last = max(3, round(count)) - 1
    return (distances <= np.partition(distances, last, axis=1)[:, last : last + 1]).astype(float)
