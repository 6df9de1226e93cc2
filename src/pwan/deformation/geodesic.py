"""The coherence kernel of distances along a shape: what belongs together moves together, not what is near in space.

G(y_i, y_j) = tau exp(-g_ij^2 / (2 beta^2)) + (1 - tau) exp(-|y_i - y_j|^2 / (2 beta^2)) with the distance g along the
shape and a share tau of it, as in geodesic-based Bayesian coherent point drift (Hirose, IEEE TPAMI 45(5), 2023). It is
within the paper's model ("let G be a kernel matrix, e.g. the Gaussian"). The kernel is known at the source points
alone; :mod:`pwan.deformation.surface_map` leads its displacements to other points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from pwan.deformation.graph import farthest_points, shape_graph, thinned
from pwan.deformation.kernels import gaussian_kernel
from pwan.deformation.settings import NEIGHBOURS
from pwan.deformation.surface_map import SurfaceDisplacement
from pwan.randomness import numpy_generator

TOLERANCE = 1e-3  # eigenvalues below this share of the largest are dropped: a kernel of geodesics has negative ones too
NODES = 6000  # points of a larger source from which the others' kernel follows
FAR = 4.0  # widths beyond which the kernel is taken for zero (3e-4)


@dataclass(frozen=True, eq=False)
class GeodesicFactor:
    """Phi at the source points such that G is nearly Phi Phi^T.

    Attributes:
        source: (B, r, D) float64, the points that the factor belongs to.
        phi: (B, r, k). Columns of dropped eigenvalues are zero.
        graphs: of each problem, the graph (r, r) of its shape.
    """

    source: Tensor
    phi: Tensor
    graphs: list[csr_array]

    def basis(self, points: Tensor) -> Tensor:
        """Phi at the source's own points; (B, r, D) to (B, r, k)."""
        assert points.shape == self.source.shape
        return self.phi

    def on_space(self, coefficients: Tensor, affine: Tensor) -> list[SurfaceDisplacement]:
        """V = Phi coefficients as a function on all of space, for each problem.

        Args:
            coefficients: (B, k, D).
            affine: (B, D, D) A of the transform, beside which V moves the points.
        """
        moved = self.phi @ coefficients.to(self.phi)  # (B, r, D)
        each = zip(self.source, moved, affine.double(), self.graphs, strict=True)
        return [SurfaceDisplacement.of(*one) for one in each]


def geodesic_factor(
    source: Tensor,
    faces: Sequence[np.ndarray | None],
    rank: int,
    beta: float,
    share: float,
    seeds: Sequence[int],
    agree: Callable[[Tensor], Tensor],
    neighbours: int = NEIGHBOURS,
) -> GeodesicFactor:
    """The factor of each problem's kernel, in O(k r log r) time and O(k r) memory.

    Args:
        source: (B, r, D) float64.
        faces: of each problem (F, 3) rows of its source, or None for a graph of near neighbours.
        rank: k, how many points serve as centres: far from each other along the shape, the first one drawn by the seed.
        beta: the kernel's width, in the units of the source.
        share: tau, of the geodesic kernel, above 0 and at most 1; the rest is the Gaussian's.
        seeds: one for each problem.
        agree: makes what it is given the same in all processes that share the source.
        neighbours: of a point, where there are no faces.

    Raises:
        ValueError: faces that name no point.
    """
    b, r, _ = source.shape
    phi = source.new_zeros(b, r, min(rank, r))
    graphs = []
    for k, (points, of_points, seed) in enumerate(zip(source, faces, seeds, strict=True)):
        graph = shape_graph(points.numpy(), of_points, neighbours=neighbours)
        generator = numpy_generator(seed, "centres")
        if r <= NODES:
            of_one = _feature_map(points, graph, min(rank, r), beta, share, generator, agree)
        else:
            nodes = np.sort(generator.choice(r, NODES, replace=False))
            few, weights = thinned(points.numpy(), graph, nodes)
            of_nodes = _feature_map(points[nodes], few, min(rank, NODES), beta, share, generator, agree)
            of_one = torch.from_numpy(weights @ of_nodes.numpy())
        phi[k, :, : of_one.shape[1]] = of_one
        graphs.append(graph)
    return GeodesicFactor(source, phi, graphs)


def faces_of_each(faces: Tensor | None, problems: int) -> list[np.ndarray | None]:
    """The faces (B, F, 3) of each problem, or None for each."""
    return [None] * problems if faces is None else list(faces.numpy())


def _feature_map(
    points: Tensor,
    graph: csr_array,
    rank: int,
    beta: float,
    share: float,
    generator: np.random.Generator,
    agree: Callable[[Tensor], Tensor],
) -> Tensor:
    """Phi (r, n) of one problem, n at most the rank."""
    rows, lengths = farthest_points(graph, rank, int(generator.integers(len(points))), reach=FAR * beta)
    kernel = share * np.exp(-0.5 * (lengths.T / beta) ** 2)  # (r, n), 0 where out of reach
    if share < 1:
        kernel += (1 - share) * gaussian_kernel(points[None], points[rows][None], beta)[0].numpy()
    among = kernel[rows]
    values, vectors = np.linalg.eigh((among + among.T) / 2)
    kept = values > TOLERANCE * values[-1]
    whitening = np.where(kept, vectors / np.sqrt(np.where(kept, values, 1.0)), 0.0)  # as many columns on all ranks
    return torch.from_numpy(kernel) @ agree(torch.from_numpy(whitening))
