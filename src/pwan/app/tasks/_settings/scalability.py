"""Settings of the task ``scalability``."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pwan.settings import check_ranges

MEGABYTE, GIGABYTE = 2**20, 2**30


@dataclass(frozen=True)
class Settings:
    """Which sizes are measured, and when a method is too slow or too large for one.

    Attributes:
        sizes: numbers of points of the source, and of the reference's inliers, measured from small to large.
        repeats: registrations of a size, each of a problem of its own; the mean is over these.
        repeats_up_to: larger sizes than this are registered once.
        limit_seconds: a registration that would take longer, by the power law through the two largest sizes that the
            method did, is not run; one that does take longer is stopped.
        memory_gb: the same of its memory, in GiB; None for 0.8 of the machine's.
    """

    sizes: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 700_000, 1_000_000)
    repeats: int = 10
    repeats_up_to: int = 10_000
    limit_seconds: float = 600.0
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("sizes", "repeats", "limit_seconds", "memory_gb"),
            at_least_zero=("repeats_up_to",),
        )
        if not self.sizes:
            raise ValueError("sizes is empty; name at least one number of points, for example sizes=[1000,3000]")

    def runs(self, points: int) -> int:
        """How many registrations of this size are measured."""
        return self.repeats if points <= self.repeats_up_to else 1

    def memory(self) -> int:
        """The limit in bytes."""
        if self.memory_gb is not None:
            return int(self.memory_gb * GIGABYTE)
        return int(0.8 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

    def limits(self) -> dict[str, float]:
        """The columns that say at which limits a row was measured."""
        return {"limit_seconds": self.limit_seconds, "limit_memory_mb": self.memory() / MEGABYTE}
