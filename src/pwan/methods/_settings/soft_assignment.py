"""Settings of the soft assignment alone."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

from pwan.choices import Normalisation
from pwan.registration.settings import PULL
from pwan.settings import check_ranges

if TYPE_CHECKING:
    from pwan.registration.soft_assignment import SoftSettings


@dataclass(frozen=True)
class Settings:
    """Settings of the soft assignment. Lengths in units of the reference's RMS radius.

    Attributes:
        steps, sigma_start, sigma_end, scalings, slack, smoothness, affine_ridge: as in
            :class:`pwan.registration.soft_assignment.SoftSettings`; None follows from whether all of the source is
            to be matched.
        beta: width of the kernel exp(-d^2 / (2 beta^2)) whose modes make the displacement. rank: how many of them.
        pull: of known pairs, as PWAN's.
    """

    weighted: ClassVar[bool] = True  # a point may count more than another

    steps: int | None = None
    sigma_start: float | None = None
    sigma_end: float | None = None
    scalings: int | None = None
    slack: float | None = None
    smoothness: float | None = None
    affine_ridge: float | None = None
    beta: float = 2.0
    rank: int = 100
    pull: float = PULL
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("steps", "sigma_start", "sigma_end", "scalings", "slack", "smoothness", "beta", "rank"),
            at_least_zero=("affine_ridge", "pull"),
        )

    def for_case(self, *, whole: bool) -> SoftSettings:
        """What is used when all of the source is to be matched, or a part of it."""
        from pwan.registration.soft_assignment import SoftSettings  # with torch, which checking a key does not wait for

        defaults = SoftSettings.for_case(whole=whole)
        if whole:  # nothing was found yet: begin wide, and let A and V go where they must
            defaults = replace(defaults, steps=80, sigma_start=0.3, slack=0.94, smoothness=20.0, affine_ridge=10.0)
        chosen = {f.name: getattr(self, f.name) for f in fields(SoftSettings)}
        return replace(defaults, **{name: value for name, value in chosen.items() if value is not None})
