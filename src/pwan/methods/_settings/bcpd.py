"""Settings of BCPD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.choices import KernelKind, Normalisation
from pwan.deformation.settings import NEIGHBOURS, Kernel, check_share
from pwan.settings import check_ranges


@dataclass(frozen=True)
class UpdateSettings:
    """Settings of the updates. The model is moved = s R (source + v) + t with a Gaussian process v of variance
    1 / smoothness for each coordinate.

    Attributes:
        beta: width of the kernel exp(-d^2 / (2 beta^2)) of v, in units of length; d is straight, or along the shape.
        smoothness: the paper's lambda, in 1 / units^2.
        outlier_weight: the paper's omega, the share of outliers that is expected; 0 <= w < 1. The author's program has
            0 as its default, the PWAN paper states 0.1.
        gamma: factor of the first sigma; 2 to 10 for a reference that is turned far (the author's advice).
        kappa: evenness of the mixing coefficients; None stands for infinity, all equal.
        similarity: whether s, R and t are estimated; without, they stay the identity.
        max_iterations: of sweeps, at most.
        min_iterations: of sweeps, at least.
        tolerance: sweeps end when sigma (units) or its change is below it.
    """

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    gamma: float = 1.0
    kappa: float | None = None
    similarity: bool = True
    max_iterations: int = 500
    min_iterations: int = 30
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("beta", "smoothness", "gamma", "kappa", "max_iterations"),
            at_least_zero=("min_iterations", "tolerance"),
            below_one=("outlier_weight",),
        )


@dataclass(frozen=True)
class Settings(UpdateSettings):
    """Settings of BCPD; defaults are those of the PWAN paper, else of the author's program.

    Attributes:
        unit: of all lengths here: "radius", the reference's RMS radius; or "coordinate", its RMS coordinate, which
            is that of the author's program and sqrt(D) times shorter, so that the same numbers mean a narrower kernel
            and a stiffer v.
        normalisation: see :func:`pwan.normalisation.normalise`.
        full_points: sets with more source points than this, or with more pairs of points than its square (and than 25
            million), are registered by samples of both.
        sample_points: the size of each sample; v is then interpolated to all source points by its Gaussian process.
        kernel: of v, "gaussian"; or "geodesic" for GBCPD, by ways along the source's faces where the problem has them,
            else between near neighbours.
        geodesic_share: the paper's tau, of the geodesic kernel; the rest is the Gaussian's.
        neighbours: of a source point, where there are no faces.
        rank: of the geodesic kernel, None for 200; the Gaussian takes as many columns as it needs.
    """

    unit: Literal["radius", "coordinate"] = "radius"
    normalisation: Normalisation = "auto"
    full_points: int = 5000
    sample_points: int = 3000
    kernel: KernelKind = "gaussian"
    geodesic_share: float = 1.0
    neighbours: int = NEIGHBOURS
    rank: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, positive=("neighbours", "rank"), at_least_zero=("full_points",))
        check_share(self.geodesic_share)
        if self.sample_points < 4:
            raise ValueError(f"sample_points must be at least 4, got {self.sample_points}")

    @property
    def coherence_kernel(self) -> Kernel:
        """The kernel of v, in these units."""
        return Kernel.of(self.kernel, self.beta, self.rank, self.geodesic_share, self.neighbours)
