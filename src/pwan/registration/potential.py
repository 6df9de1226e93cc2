"""The potential that a registration ends with, as a function of any points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pwan.arrays import real_array
from pwan.surroundings import undisturbed
from pwan.transport.potential import PotentialNetwork


@dataclass(frozen=True, eq=False)
class FoundPotential:
    """f of one problem on all of space, in input units: -h <= f <= 0, or of complete transport without bounds.

    Attributes:
        network: of this problem alone, on the CPU.
        centre: (1, D) of the reference, in input units; attributes are about 0.
        scale: of the reference, in input units.
        threshold: h in units of the scale.
        bound: how the output o becomes f: "fold" -|o|, "clamp" -max(o, 0), or "none" o itself.
    """

    network: PotentialNetwork
    centre: Tensor
    scale: float
    threshold: float
    bound: Literal["fold", "clamp", "none"]

    @undisturbed()
    def __call__(self, points: Any) -> Any:
        """f at points (N, D) in input coordinates, or (N, D + A) with the problem's attributes behind: (N,) float64, an
        array or a tensor as the points are.

        Raises:
            ValueError: another shape, or no real numbers.
        """
        given = torch.from_numpy(np.array(real_array("points", points), dtype=np.float64))
        dimension = self.network.dimension
        if given.ndim != 2 or given.shape[1] != dimension:
            raise ValueError(f"points must have shape (N, {dimension}), got {tuple(given.shape)}")
        if isinstance(points, Tensor) and points.requires_grad:
            given = points.to(given)  # so that a derivative goes through
        centre = torch.nn.functional.pad(self.centre, (0, dimension - self.centre.shape[1]))
        x = ((given - centre) / self.scale).to(self.network.parameters.dtype)
        output = self.network.output(self.network.features(x[None]))[0].double()
        if self.bound != "none":
            distance = output.abs() if self.bound == "fold" else output.clamp(min=0.0)
            output = -distance.clamp(max=self.threshold)
        values = output * self.scale
        return values.to(points.device) if isinstance(points, Tensor) else values.numpy()
