"""Settings of BCPD by probreg."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of BCPD, of those that the package has (it has no beta).

    Attributes:
        smoothness: the paper's lambda.
        outlier_weight: its omega, 0 <= w < 1.
        gamma: factor of the first sigma^2.
        kappa: of the mixture's weights; the larger, the more equal they are.
        max_iterations: at most so many.
        tolerance: it stops when the mean distance of the moved source to its nearest reference points changes by less.
        normalisation: see :func:`pwan.normalisation.normalise`.
    """

    smoothness: float = 2.0
    outlier_weight: float = 0.1
    gamma: float = 1.0
    kappa: float = 1e20
    max_iterations: int = 500
    tolerance: float = 1e-4
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("smoothness", "gamma", "kappa", "max_iterations"),
            at_least_zero=("tolerance",),
            below_one=("outlier_weight",),
        )
