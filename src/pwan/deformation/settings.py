"""Which kernel a displacement is coherent by. Nothing slow is imported here, so that settings are checked at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pwan.choices import KernelKind

NEIGHBOURS = 8  # of a point whose shape has no faces
# Widths and ranks where nobody says otherwise. The Gaussian's are the paper's; the geodesic ones were chosen on the
# packaged bodies, hands and heads that serve for tuning.
BETA: dict[KernelKind, float] = {"gaussian": 2.0, "geodesic": 1.0}
RANK: dict[KernelKind, int] = {"gaussian": 100, "geodesic": 200}
# where another energy keeps the shape together, so that the kernel's modes may bend more
RIGID_BETA, RIGID_RANK = 0.3, 300


def check_share(share: float) -> None:
    """Refuse a share of the geodesic kernel that leaves nothing of it, or more than all.

    Raises:
        ValueError: not above 0, or above 1.
    """
    if not 0 < share <= 1:
        raise ValueError(f"geodesic_share must be above 0 and at most 1, got {share}")


@dataclass(frozen=True)
class Kernel:
    """Which kernel the displacement is coherent by, in normalised units.

    Attributes:
        kind: "gaussian" of straight distances, or "geodesic" of distances along the shape.
        beta: its width.
        rank: k, how many points serve as centres.
        share: tau, of the geodesic kernel; the rest is the Gaussian's.
        neighbours: of a point, where the geodesic kernel has no faces.
    """

    kind: KernelKind
    beta: float
    rank: int
    share: float = 1.0
    neighbours: int = NEIGHBOURS

    @classmethod
    def of(cls, kind: KernelKind, beta: float | None, rank: int | None, share: float, neighbours: int) -> Self:
        """With the width and the rank that are usual for the kind, where they are None."""
        return cls(kind, BETA[kind] if beta is None else beta, RANK[kind] if rank is None else rank, share, neighbours)
