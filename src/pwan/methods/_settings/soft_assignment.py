"""Settings of the soft assignment alone."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from pwan.choices import KernelKind, Normalisation
from pwan.deformation.settings import NEIGHBOURS, Kernel, check_share
from pwan.registration.settings import PULL
from pwan.settings import check_ranges

if TYPE_CHECKING:
    from pwan.registration.soft_assignment import SoftSettings


@dataclass(frozen=True)
class Settings:
    """Settings of the soft assignment. Lengths in units of the reference's RMS radius.

    Of the settings up to ``affine_ridge``, None follows from whether all of the source is to be matched
    (:class:`pwan.registration.soft_assignment.SoftSettings`).

    Attributes:
        steps: annealing steps; sigma falls geometrically from ``sigma_start`` to ``sigma_end``.
        sigma_start: of the first step.
        sigma_end: of the last step.
        scalings: alternating row and column scalings a step.
        slack: kernel value at which a point would rather stay unmatched.
        smoothness: ridge on the modes' coefficients, times sigma^2.
        affine_ridge: ridge on the change of the affine part, times sigma^2.
        kernel: whose modes make the displacement, as PWAN's.
        geodesic_share: as PWAN's.
        neighbours: as PWAN's.
        beta: width of the kernel, as PWAN's.
        rank: how many modes there are, as PWAN's.
        pull: of the landmarks, as PWAN's.
        normalisation: see :func:`pwan.normalisation.normalise`.
        weighted: the method takes weights of points; no setting.
        attributed: the method takes attributes of points; no setting.
    """

    weighted: ClassVar[bool] = True
    attributed: ClassVar[bool] = True

    steps: int | None = None
    sigma_start: float | None = None
    sigma_end: float | None = None
    scalings: int | None = None
    slack: float | None = None
    smoothness: float | None = None
    affine_ridge: float | None = None
    kernel: KernelKind = "gaussian"
    geodesic_share: float = 1.0
    neighbours: int = NEIGHBOURS
    beta: float | None = None
    rank: int | None = None
    pull: float = PULL
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=(
                "beta",
                "neighbours",
                "steps",
                "sigma_start",
                "sigma_end",
                "scalings",
                "slack",
                "smoothness",
                "rank",
            ),
            at_least_zero=("affine_ridge", "pull"),
        )
        check_share(self.geodesic_share)

    @property
    def coherence_kernel(self) -> Kernel:
        """The kernel whose modes make the displacement."""
        return Kernel.of(self.kernel, self.beta, self.rank, self.geodesic_share, self.neighbours)

    def for_case(self, *, whole: bool) -> SoftSettings:
        """What is used when all of the source is to be matched, or a part of it."""
        from pwan.registration.soft_assignment import SoftSettings  # with torch, which checking a key does not wait for

        defaults = SoftSettings.for_case(whole=whole)
        if whole:  # nothing was found yet: begin wide, and let A and V go where they must
            defaults = replace(defaults, steps=80, sigma_start=0.3, slack=0.94, smoothness=20.0, affine_ridge=10.0)
        chosen = {f.name: getattr(self, f.name) for f in fields(SoftSettings)}
        return replace(defaults, **{name: value for name, value in chosen.items() if value is not None})
