"""Settings of the task ``toy_discrepancies``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """The sets, the translations and the discrepancies.

    Attributes:
        points: data points, equally spaced on ``data_interval``.
        outliers: the numbers N of outliers, a curve for each.
        data_interval: the ends of the data.
        outlier_interval: the ends of the outliers.
        translations: the first and the last t.
        step: between values of t.
        mass: m of L_M,m.
        distance: h of L_D,h.
        variance: of the Gaussians of KL and L2.
        outlier_weight: of the uniform term of KL.
        modes: the values of t at which the paper sees a minimum: the right alignment, and the source on the outliers.
        near: how far from a mode a minimum may be that counts as this mode's.
    """

    points: int = 10
    outliers: tuple[int, ...] = (1, 10, 1000)
    data_interval: tuple[float, ...] = (0.0, 3.0)
    outlier_interval: tuple[float, ...] = (7.8, 8.2)
    translations: tuple[float, ...] = (-3.0, 11.0)
    step: float = 0.01
    mass: float = 10.0
    distance: float = 2.0
    variance: float = 1.0
    outlier_weight: float = 0.2
    modes: tuple[float, ...] = (0.0, 6.5)
    near: float = 0.3

    def __post_init__(self) -> None:
        for name in ("data_interval", "outlier_interval", "translations", "modes"):
            value = getattr(self, name)
            if len(value) != 2 or not value[0] < value[1]:
                raise ValueError(f"{name} must be two numbers, the smaller first, got {value}")
        check_ranges(self, positive=("points", "step", "mass", "distance", "variance", "near"))
        check_ranges(self, at_least_zero=("outliers",), below_one=("outlier_weight",))
        if not self.outliers:
            raise ValueError("outliers must hold at least one number")
        if self.mass > self.points:
            raise ValueError(f"mass can be at most the {self.points} points of the source, got {self.mass:g}")
