"""Settings of CPD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of CPD. Lengths in units of the reference's RMS radius.

    Attributes:
        beta: width of the kernel exp(-d^2 / (2 beta^2)) of the displacement.
        smoothness: the paper's lambda.
        outlier_weight: the paper's w, the share of outliers that the mixture expects; 0 <= w < 1.
        max_iterations: of EM (CPD-Matlab's 150).
        tolerance: EM stops when sigma^2 changes by less (CPD-Matlab's 1e-5).
        normalisation: see :func:`pwan.normalisation.normalise`.
        exact_points: up to this many source points, and as many pairs as its square (at least 25 million), the
            kernel and the correspondences are exact.
        rank: of the kernel (pivoted Cholesky), of larger sets.
        neighbours: of larger sets, how many reference points nearest to each source point take part.
    """

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    max_iterations: int = 150
    tolerance: float = 1e-5
    normalisation: Normalisation = "auto"
    exact_points: int = 2500
    rank: int = 100
    neighbours: int = 30  # 10 is twice as fast and up to three times less accurate at 2,000 points

    def __post_init__(self) -> None:
        check_cpd(self)
        check_ranges(self, positive=("rank", "neighbours"), at_least_zero=("exact_points",))


def check_cpd(settings: Any) -> None:
    """The ranges of what all CPD methods have."""
    check_ranges(
        settings,
        positive=("beta", "smoothness", "max_iterations"),
        at_least_zero=("tolerance",),
        below_one=("outlier_weight",),
    )
