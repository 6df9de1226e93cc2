"""Settings of non-rigid ICP by trimesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pwan.choices import Normalisation
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of non-rigid ICP; the defaults are the package's. Lengths in units of the diagonal of the source's
    bounding box.

    Attributes:
        smoothness: the paper's stiffness alpha, which keeps the maps of neighbouring points alike, one a stage.
        normal_power: a match counts by this power of the cosine between the normals, one a stage; 0 for all alike.
        iterations: in each stage, at most.
        gamma: the paper's; how much the translations of the points' maps count in alpha's term beside the rest.
        farthest_match: points farther from the reference than this are moved by their neighbours alone.
        tolerance: a stage ends when the mean distance of the matches falls by less.
        neighbours: reference points that tell a normal, at least 3.
        normalisation: see :func:`pwan.normalisation.normalise`.
        needs_faces: the method moves a mesh; no setting.
    """

    needs_faces: ClassVar[bool] = True

    smoothness: tuple[float, ...] = (0.01, 0.02, 0.03, 0.01)
    normal_power: tuple[float, ...] = (0.5, 0.5, 0.5, 0.0)
    iterations: tuple[int, ...] = (10, 10, 10, 10)
    gamma: float = 1.0
    farthest_match: float = 0.1
    tolerance: float = 1e-4
    neighbours: int = 8
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("smoothness", "iterations", "gamma", "farthest_match"),
            at_least_zero=("normal_power", "tolerance"),
        )
        if not len(self.smoothness) == len(self.normal_power) == len(self.iterations) > 0:
            raise ValueError(
                "smoothness, normal_power and iterations must hold one number for each stage, got "
                f"{len(self.smoothness)}, {len(self.normal_power)} and {len(self.iterations)} numbers"
            )
        if self.neighbours < 3:
            raise ValueError(f"neighbours must be at least 3, which span a plane, got {self.neighbours}")
