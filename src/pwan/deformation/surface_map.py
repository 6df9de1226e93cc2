"""A displacement that is known at the points of a shape, led on to all of space along the shape.

Around each point of the shape the whole transform is nearly a similarity, which the point's neighbours along the shape
tell (Umeyama 1991). A point off the shape goes where the similarities of its nearest point and of that one's
neighbours take it, weighted by 1 / distance^4: not through the gap between two legs, however near the other leg is.

r points of the shape, D coordinates, n neighbours; normalised coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.graph import graph_neighbours
from pwan.deformation.rigid import best_rotation

AROUND = 12  # neighbours that tell a point's similarity, and lead a point off the shape
TINY = 1e-12
SURFACE = "surface"


@dataclass(frozen=True, eq=False)
class SurfaceDisplacement:
    """V on all of space, from its values and slopes at the points of a shape.

    Attributes:
        points: (r, D) of the shape.
        values: (r, D) V at them.
        slopes: (r, D, D) by which V changes around each: V(x) is nearly V_i + (x - y_i) slope_i.
        neighbours: (r, n) int64, rows of the points near each one along the shape, itself first.
    """

    points: Tensor
    values: Tensor
    slopes: Tensor
    neighbours: Tensor

    @classmethod
    def of(cls, points: Tensor, values: Tensor, affine: Tensor, graph: csr_array) -> SurfaceDisplacement:
        """Of V (r, D) at points (r, D) beside an affine part A (D, D), with the shape's graph (r, r)."""
        neighbours = torch.from_numpy(graph_neighbours(points.numpy(), graph, min(AROUND, len(points))))
        slopes = _similarities(points, points @ affine + values, neighbours) - affine
        return cls(points, values, slopes, neighbours)

    @property
    def kind(self) -> str:
        """Its name in a file."""
        return SURFACE

    @property
    def width(self) -> None:
        """No kernel, no width."""

    def arrays(self) -> dict[str, Tensor]:
        """All fields."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def turned(self, rotation: Tensor) -> SurfaceDisplacement:
        """x -> V(x R): which neighbours lead a point does not change."""
        return replace(self, points=self.points @ rotation.mT, slopes=rotation @ self.slopes)

    @property
    def centres(self) -> Tensor:
        """(r, D) the points that the displacement is known at."""
        return self.points

    def __call__(self, points: Tensor) -> Tensor:
        """V at points (M, D): (M, D), all at once."""
        weights, _, each, _ = self._led(points)
        return (weights[..., None] * each).sum(1)

    def gradient(self, points: Tensor) -> Tensor:
        """d V_j / d x_i at points (M, D): (M, D, D), all at once."""
        weights, change, each, slopes = self._led(points)
        return (weights[..., None, None] * slopes).sum(1) + torch.einsum("mnd,mne->mde", change, each)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.points.numpy())

    def _led(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights (M, n), their gradients (M, n, D), V as each neighbour tells it (M, n, D), slopes (M, n, D, D)."""
        rows = self.neighbours[torch.from_numpy(self._tree.query(points.numpy())[1])]  # (M, n)
        apart = points[:, None] - self.points[rows]  # (M, n, D)
        slopes = self.slopes[rows]
        each = self.values[rows] + (apart[..., None, :] @ slopes)[..., 0, :]
        squared = apart.square().sum(-1)
        nearest = squared.amin(1, keepdim=True)
        repeated = torch.zeros_like(rows, dtype=torch.bool)
        repeated[:, 1:] = rows[:, 1:] == rows[:, :-1]  # few points: the last one stands more than once
        at_point = nearest <= TINY * (1 + squared.amax(1, keepdim=True))
        ratio = torch.where(at_point, (squared == nearest).to(points), nearest / squared.clamp(min=1e-300))
        weights = torch.where(repeated, 0.0, ratio.square())
        weights = weights / weights.sum(1, keepdim=True)
        logarithmic = torch.where(at_point[..., None], 0.0, -4.0 * apart / squared.clamp(min=1e-300)[..., None])
        mean = (weights[..., None] * logarithmic).sum(1, keepdim=True)
        return weights, weights[..., None] * (logarithmic - mean), each, slopes


def _similarities(points: Tensor, moved: Tensor, neighbours: Tensor) -> Tensor:
    """(r, D, D) the rotation and scale that take each point's neighbours to where they moved, by least squares."""
    before, after = points[neighbours], moved[neighbours]  # (r, n, D)
    before, after = before - before.mean(1, keepdim=True), after - after.mean(1, keepdim=True)
    rotation, values = best_rotation(before.mT @ after)
    scale = values.sum(-1) / before.square().sum((1, 2)).clamp(min=1e-300)
    return scale.clamp(min=TINY)[:, None, None] * rotation
