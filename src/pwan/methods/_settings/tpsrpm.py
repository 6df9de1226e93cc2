"""Settings of TPS-RPM."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of TPS-RPM; the defaults are the published ones, and those of the PWAN paper. Temperatures are squared
    lengths in units of the reference's RMS radius: the correspondences are Gaussians exp(-d^2 / temperature).

    Attributes:
        start_temperature: the published ``T_init``.
        cooling: the start temperature divided by the last; the published ``T_finalfac``.
        rate: each temperature is this times the one before (``anneal_rate``).
        inner_steps: how often correspondences and spline are found in turn at each temperature (``perT_maxit``).
        smoothness: weight of the bending energy, for each source point and unit of temperature (``lamda1_init``).
        affine_smoothness: weight of the affine part's distance from the identity, for each source point and unit of
            temperature (``lamda2_init``).
        correspondence: "mixture" shares each reference point among the source points and an outlier class; "rpm" also
            each source point among the reference points and an outlier class (the published ``m_method``).
        every: only each point of both sets with a number divisible by this takes part, and the spline carries the
            others; the published ``frac``.
        normalisation: see :func:`pwan.normalisation.normalise`.
    """

    start_temperature: float = 1.5
    cooling: float = 500.0
    rate: float = 0.93
    inner_steps: int = 5
    smoothness: float = 1.0
    affine_smoothness: float = 0.01
    correspondence: Literal["mixture", "rpm"] = "mixture"
    every: int = 1
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("start_temperature", "rate", "inner_steps", "smoothness", "affine_smoothness", "every"),
            below_one=("rate",),
        )
        if not (math.isfinite(self.cooling) and self.cooling >= 1):
            raise ValueError(f"cooling must be at least 1, got {self.cooling}")
