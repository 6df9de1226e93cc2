"""Settings of the task ``toy_correspondence``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The two sets and the two discrepancies.

    Attributes:
        reference_points: how many.
        source_points: how many.
        width: of the rectangle of each set.
        height: of the rectangle of each set.
        shift: of the source's rectangle against the reference's, along both axes.
        mass: m of L_M,m.
        distance: h of L_D,h.
    """

    reference_points: int = 12
    source_points: int = 10
    width: float = 4.0
    height: float = 3.0
    shift: tuple[float, ...] = (1.6, 0.6)
    mass: float = 6.0
    distance: float = 0.9

    def __post_init__(self) -> None:
        for name in ("reference_points", "source_points", "width", "height"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if len(self.shift) != 2:
            raise ValueError(f"shift must be two numbers, got {self.shift}")
