"""Settings of CPD by pycpd."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Normalisation
from pwan.methods._settings.cpd import check_cpd


@dataclass(frozen=True)
class Settings:
    """Settings of CPD, as in :class:`pwan.methods.cpd.Settings`."""

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    max_iterations: int = 150
    tolerance: float = 1e-5  # the package's own 1e-3 stops early
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_cpd(self)
