"""A displacement with a correction beside it: how landmarks are pinned, whatever bends the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwan.deformation.kernels import Displacement, KernelSum

PREFIX = "pinned_"  # of the correction's arrays in a file


@dataclass(frozen=True, eq=False)
class Corrected:
    """V(x) = base(x) + correction(x), in normalised coordinates.

    Attributes:
        base: the displacement that a registration found.
        correction: a sum of Gaussians around the landmarks' places.
    """

    base: Displacement
    correction: KernelSum

    @property
    def kind(self) -> str:
        """That of the base."""
        return self.base.kind

    @property
    def width(self) -> float | None:
        """That of the base."""
        return self.base.width

    @property
    def centres(self) -> Tensor:
        """(k, D) those of both."""
        return torch.cat((self.base.centres, self.correction.centres))

    def __call__(self, points: Tensor) -> Tensor:
        """V at points (M, D): (M, D)."""
        return self.base(points) + self.correction(points)

    def gradient(self, points: Tensor) -> Tensor:
        """d V_j / d x_i at points (M, D): (M, D, D)."""
        return self.base.gradient(points) + self.correction.gradient(points)

    def arrays(self) -> dict[str, Tensor]:
        """Those of the base, and beside them the correction's."""
        width = self.correction.centres.new_tensor(self.correction.beta)
        ours = {**self.correction.arrays(), "beta": width}
        return self.base.arrays() | {f"{PREFIX}{name}": array for name, array in ours.items()}

    def turned(self, rotation: Tensor) -> Corrected:
        """x -> V(x R)."""
        return Corrected(self.base.turned(rotation), self.correction.turned(rotation))


def correction_of(arrays: dict[str, Tensor]) -> KernelSum | None:
    """Take the correction out of what :meth:`Corrected.arrays` gave; None where there is none.

    Raises:
        KeyError: only a part of it is there.
    """
    if not any(name.startswith(PREFIX) for name in arrays):
        return None
    centres, weights, beta = (arrays.pop(f"{PREFIX}{name}") for name in ("centres", "weights", "beta"))
    return KernelSum(centres, weights, "gaussian", float(beta))
