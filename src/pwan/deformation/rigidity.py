"""How far a transform is from rigid around each point: the energy of shapes that bend but hardly stretch.

E(T) = min_s mean_ik |T(y_k) - T(y_i) - s (y_k - y_i) R_i|^2 / (s |y_k - y_i|)^2 over points i and their neighbours k
along the shape, with the rotation R_i that fits best around each point and one scale s for all: "as rigid as possible"
(Sorkine and Alexa, 2007), but for the scale. An arm may turn as far as it will, which the energy of a kernel punishes.
Not in the paper.

B problems, n nodes (some points of each source), k neighbours of each, p columns of a transform's design.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from pwan.deformation.geodesic import faces_of_each
from pwan.deformation.graph import graph_neighbours, shape_graph, thinned
from pwan.deformation.rigid import best_rotation
from pwan.deformation.settings import NEIGHBOURS
from pwan.deformation.transform import Transform, take_rows

# Chosen on the packaged bodies and hands that serve for tuning.
NODES = 800  # points of a larger source around which the transform shall be rigid
AROUND = 16  # neighbours of each node: of 8 some limbs are led wrong
SHORT = 0.3  # of the median length between neighbours: a shorter one counts as this
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Rigidity:
    """E of B transforms that share a design, T(nodes) = design theta; all float64.

    Attributes:
        design: (B, n, p) rows of y, 1 and the modes at the nodes.
        neighbours: (B, n, k) int64, rows of the nodes.
        apart: (B, n, k, D) y_k - y_i.
        weights: (B, n, k), 1 / |y_k - y_i|^2, shared so that E is a mean; 0 where a neighbour stands twice.
        normal: (B, p, p) such that E without its rotations is theta^T normal theta.
        metric: (B, p, p), design^T design / n: how far a change of theta moves the nodes, as a mean square.
    """

    design: Tensor
    neighbours: Tensor
    apart: Tensor
    weights: Tensor
    normal: Tensor
    metric: Tensor

    @classmethod
    def of(
        cls,
        transform: Transform,
        source: Tensor,
        faces: Tensor | None,
        neighbours: int = NEIGHBOURS,
    ) -> Rigidity:
        """Of a transform with modes, around points that lie far from each other.

        Args:
            transform: of all source points.
            source: (B, r, D) float64, the same points.
            faces: (B, F, 3) rows of the source, or None for a graph of near neighbours.
            neighbours: of a point in that graph.
        """
        assert transform.basis is not None
        each = zip(source.numpy(), faces_of_each(faces, len(source)), strict=True)
        rows, near = zip(*(_nodes(y, of_one, neighbours) for y, of_one in each), strict=True)
        nodes, around = torch.stack(rows), torch.stack(near)
        y = take_rows(source, nodes)
        modes = take_rows(transform.basis, nodes).double()
        design = torch.cat((y, torch.ones_like(y[..., :1]), modes), -1)
        apart = _apart(y, around)
        squared = apart.square().sum(-1)  # (B, n, k)
        there = _first_of_equals(around)
        median = torch.stack([of_one[mask].median() for of_one, mask in zip(squared, there, strict=True)])
        weights = there / squared.maximum(SHORT**2 * median[:, None, None]).clamp(min=TINY)
        weights = weights / there.sum((1, 2), keepdim=True)
        return cls(design, around, apart, weights, _normal(design, around, weights), design.mT @ design / len(y[0]))

    def to(self, device: torch.device) -> Rigidity:
        """The same on a device."""
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def value(self, theta: Tensor) -> Tensor:
        """(B,) E of parameters (B, p, D)."""
        rest, _ = self._rest(theta)
        return (self.weights * rest.square().sum(-1)).sum((1, 2))

    def gradient(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Half the gradient of E (B, p, D) at parameters (B, p, D), and the curvature (B, p, p) of E / 2 where the
        rotations and the scale stay."""
        rest, scale = self._rest(theta)
        at_nodes = _gathered(self.weights[..., None] * rest / scale, self.neighbours)
        return self.design.mT @ at_nodes, self.normal / scale[:, 0].square()

    def _rest(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """What is left of T(y_k) - T(y_i) beside s (y_k - y_i) R_i, over s, (B, n, k, D); s (B, 1, 1, 1)."""
        moved = _apart(self.design @ theta.double(), self.neighbours)  # (B, n, k, D)
        turned = self.apart @ _rotations(self.apart, moved, self.weights)
        of_moved, of_both = (
            (self.weights * (moved * other).sum(-1)).sum((1, 2)).clamp(min=TINY) for other in (moved, turned)
        )
        scale = (of_moved / of_both)[:, None, None, None]
        return moved / scale - turned, scale


def _nodes(source: np.ndarray, faces: np.ndarray | None, neighbours: int) -> tuple[Tensor, Tensor]:
    """Rows (n,) of the source that lie far from each other, and the neighbours (n, k) of each among them."""
    graph = shape_graph(source, faces, neighbours=neighbours)
    rows = np.arange(len(source))
    if len(source) > NODES:
        rows = np.sort(_far_apart(source, NODES))
        graph, _ = thinned(source, graph, rows)
    near = graph_neighbours(source[rows], graph, min(AROUND + 1, len(rows)))[:, 1:]
    return torch.from_numpy(rows), torch.from_numpy(near)


def _far_apart(points: np.ndarray, count: int) -> np.ndarray:
    """Rows of points in space, each the farthest one from those before it."""
    rows, nearest = np.zeros(count, dtype=np.int64), np.full(len(points), np.inf)
    for k in range(1, count):
        np.minimum(nearest, cdist(points[rows[k - 1 : k]], points)[0], out=nearest)
        nearest[rows[k - 1]] = -1.0  # not again, also where all others are at the same places
        rows[k] = nearest.argmax()
    return rows


def _apart(points: Tensor, neighbours: Tensor) -> Tensor:
    """(B, n, k, D) from each point (B, n, D) to its neighbours."""
    b, n, k = neighbours.shape
    return take_rows(points, neighbours.reshape(b, n * k)).view(b, n, k, -1) - points[:, :, None]


def _gathered(of_pairs: Tensor, neighbours: Tensor) -> Tensor:
    """(B, n, D): what stands for pairs (B, n, k, D), added at the neighbour and taken off at the point."""
    b, n, k, d = of_pairs.shape
    out = -of_pairs.sum(2)
    return out.scatter_add_(1, neighbours.reshape(b, n * k, 1).expand(-1, -1, d), of_pairs.reshape(b, n * k, d))


def _normal(design: Tensor, neighbours: Tensor, weights: Tensor) -> Tensor:
    of_pairs = weights[..., None] * _apart(design, neighbours)  # (B, n, k, p)
    return design.mT @ _gathered(of_pairs, neighbours)


def _first_of_equals(neighbours: Tensor) -> Tensor:
    """(B, n, k) false for a point as its own neighbour, and where the last one is repeated."""
    own = torch.arange(neighbours.shape[1], dtype=torch.int64, device=neighbours.device)[:, None]
    there = neighbours != own
    there[..., 1:] &= neighbours[..., 1:] != neighbours[..., :-1]
    return there


def _rotations(before: Tensor, after: Tensor, weights: Tensor) -> Tensor:
    """(B, n, D, D) those that fit best around each node: before R is nearest to after."""
    return best_rotation((weights[..., None] * before).mT @ after)[0]
