"""Settings of GMM-REG."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of GMM-REG; the defaults are those of the PWAN paper's experiments. Lengths in units of the reference's
    RMS radius, which is the frame that the published program normalises to.

    Attributes:
        widths: of the Gaussians exp(-d^2 / width^2), one a stage; the published option ``sigma``.
        smoothness: weight of the bending energy, one a stage; the published ``lambda``. The affine part is free.
        evaluations: of the objective, the most in each stage (L-BFGS may end its last line search beyond them); the
            published ``max_function_evals``. The number of stages is the published ``level``.
        tolerance: a stage ends early when the largest entry of the gradient falls below it.
        control_grid: None for a control point at each source point, else that many along each axis of a grid over the
            source's bounding box; the published option is a file of control points, its Matlab helper's are 5 an axis.
        normalisation: see :func:`pwan.normalisation.normalise`.
    """

    widths: tuple[float, ...] = (0.5, 0.2, 0.02)
    smoothness: tuple[float, ...] = (0.1, 0.02, 0.01)
    evaluations: tuple[int, ...] = (50, 50, 100)
    tolerance: float = 1e-5
    control_grid: int | None = None
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("widths", "evaluations"),
            at_least_zero=("smoothness", "tolerance"),
        )
        if not len(self.widths) == len(self.smoothness) == len(self.evaluations) > 0:
            raise ValueError(
                "widths, smoothness and evaluations must hold one number for each stage, got "
                f"{len(self.widths)}, {len(self.smoothness)} and {len(self.evaluations)} numbers"
            )
        if self.control_grid is not None and self.control_grid < 2:
            raise ValueError(f"control_grid must be at least 2 points along each axis, got {self.control_grid}")
