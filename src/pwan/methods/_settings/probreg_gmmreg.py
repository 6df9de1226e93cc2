"""Settings of GMM-REG by probreg."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of the package's GMM-REG. Lengths in units of the reference's RMS radius.

    Attributes:
        sigma: width of the Gaussians that are compared; None takes the package's estimate, the source's own width.
        shrink: sigma's factor from one level to the next.
        levels: how many there are.
        bending: weight of the spline's bending energy.
        components: at most so many Gaussians a set; never more than 0.8 times the source's points.
        max_iterations: of BFGS at each level.
        tolerance: of BFGS at each level; the levels end early when the objective changes by less between two.
        normalisation: see :func:`pwan.normalisation.normalise`.
    """

    sigma: float | None = None
    shrink: float = 0.9
    levels: int = 1
    bending: float = 0.1
    components: int = 800
    max_iterations: int = 50
    tolerance: float = 1e-3
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("sigma", "shrink", "levels", "components", "max_iterations", "tolerance"),
            at_least_zero=("bending",),
        )
