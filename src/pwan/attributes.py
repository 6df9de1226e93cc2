"""What points carry beside their place and a match respects: normals, colours, labels. They are further coordinates, in
units of length, of the product space in which distances are then taken: d((y, a), (x, b))^2 = |y - x|^2 + w^2 |a - b|^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Attributes:
    """The attributes of both sets of B problems, times their weights.

    Attributes:
        source: (B, r, A) float64, in the units of the points.
        reference: (B, q, A) likewise.
        normals: whether the first D columns are normals, which turn with the transform; all others stay.
    """

    source: Tensor
    reference: Tensor
    normals: bool = False

    def __getitem__(self, problems: list[int]) -> Attributes:
        """Those of some of the problems."""
        return replace(self, source=self.source[problems], reference=self.reference[problems])

    def __truediv__(self, unit: Tensor) -> Attributes:
        """In another unit of length, (B,)."""
        unit = unit[:, None, None]
        return replace(self, source=self.source / unit, reference=self.reference / unit)

    def rows(self, source: Tensor, reference: Tensor | None) -> Attributes:
        """Those of some of the points: rows (B, k) of the source, and of the reference or None for all of it."""
        return replace(
            self,
            source=_rows(self.source, source),
            reference=self.reference if reference is None else _rows(self.reference, reference),
        )

    def turned_round(self) -> Attributes:
        """Of the reference that moves onto the source."""
        return replace(self, source=self.reference, reference=self.source)

    def check(self, source: Tensor, reference: Tensor) -> None:
        """Refuse attributes that are not of these points, (B, r, D) and (B, q, D).

        Raises:
            ValueError: another type or number, or numbers that are not finite.
        """
        for name, points in (("source", source), ("reference", reference)):
            given = getattr(self, name)
            if given.dtype != torch.float64 or given.ndim != 3 or given.shape[:2] != points.shape[:2]:
                raise ValueError(
                    f"the attributes of the {name} must be float64 of shape {(*points.shape[:2], 'A')}, a row for each "
                    f"point; got {given.dtype} of shape {tuple(given.shape)}"
                )
            if not bool(given.isfinite().all()):
                raise ValueError(
                    f"the attributes of the {name} must be finite, but {int((~given.isfinite()).sum())} numbers are "
                    "not; correct them, or leave out their points"
                )
        counts = self.source.shape[2], self.reference.shape[2]
        if counts[0] != counts[1] or not counts[0] or (self.normals and counts[0] < source.shape[2]):
            least = source.shape[2] if self.normals else 1
            raise ValueError(
                f"both sets must have the same attributes, {least} numbers a point or more; got {counts[0]} of the "
                f"source and {counts[1]} of the reference"
            )


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[2]))
