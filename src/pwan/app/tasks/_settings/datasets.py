"""Settings of the task ``datasets``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """What is drawn.

    Attributes:
        shapes: names of the catalogue, from left to right; where they come from is ``shape.source``.
        trial: whose deformation, of the problem that ``problem`` describes.
    """

    shapes: tuple[str, ...] = ("bunny", "armadillo", "monkey")
    trial: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, at_least_zero=("trial",))
        if not self.shapes:
            raise ValueError("shapes is empty; name at least one, for example shapes=[bunny]")
