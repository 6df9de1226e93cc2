"""Settings of the task ``benchmark``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.bench.settings import PICTURES


@dataclass(frozen=True)
class Settings:
    """What a benchmark has beside the configuration's top level.

    Attributes:
        pictures: "trials": the worst, median and best trial of each method; "example": trial 0 before registration and
            as each method left it; "training": for methods with a potential the source on its way in trial 0, the
            potential, its gradient norm and the curves.

    Raises:
        ValueError: another kind of picture.
    """

    pictures: tuple[str, ...] = ("trials",)

    def __post_init__(self) -> None:
        for kind in self.pictures:
            if kind not in PICTURES:
                raise ValueError(f"options.pictures must name kinds of {', '.join(PICTURES)}, got {kind!r}")
