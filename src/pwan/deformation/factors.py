"""Low-rank factors of a kernel, G = Phi Phi^T, whose Phi is a feature map on all of space.

:func:`nystrom` takes k points as centres (Nystrom), in O(n k) memory: PWAN's and the soft assignment's, and the
synthesis's. :func:`pivoted_cholesky` takes as many as an error needs, of the whole n x n matrix: BCPD's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from torch import Tensor

from pwan.deformation.kernels import KernelSum, gaussian_kernel
from pwan.randomness import numpy_generator

Agree = Callable[[Tensor], Tensor]

CHOLESKY_TOLERANCE = 1e-12  # largest error of an entry of the factored kernel, whose largest entry is 1


def as_it_is(of_this_process: Tensor) -> Tensor:
    """What a process that works alone agrees on with all others."""
    return of_this_process


@dataclass(frozen=True)
class Nystrom:
    """A feature map Phi of all of space such that G(x, y) is nearly Phi(x) Phi(y)^T.

    Attributes:
        centres: (B, k, D).
        whitening: (B, k, k), U S^(-1/2) of the centres' kernel U S U^T. Columns of dropped eigenvalues are zero, so
            that the problems of a batch keep equal shapes although their numerical ranks differ.
        beta: the kernel's width, in the units of the points.
    """

    centres: Tensor
    whitening: Tensor
    beta: float

    def basis(self, points: Tensor) -> Tensor:
        """Phi at any points, the centres' own set or others; (B, n, D) to (B, n, k)."""
        return gaussian_kernel(points, self.centres, self.beta) @ self.whitening

    def weights(self, coefficients: Tensor) -> Tensor:
        """Of the centres' kernels, such that G(x, centres) weights = Phi(x) coefficients at any x; (B, k, D) to
        (B, k, D)."""
        return self.whitening @ coefficients

    def on_space(self, coefficients: Tensor, affine: Tensor) -> list[KernelSum]:
        """V = Phi coefficients (B, k, D) on all of space, for each problem; ``affine`` (B, D, D) plays no part."""
        return [
            KernelSum(centres.clone(), weights.clone(), "gaussian", self.beta)
            for centres, weights in zip(self.centres, self.weights(coefficients), strict=True)
        ]


def nystrom(
    points: Tensor, indices: Tensor, beta: float, *, tolerance: float | None = None, agree: Agree = as_it_is
) -> Nystrom:
    """The Nystrom factor of each problem's Gaussian kernel.

    Args:
        points: (B, n, D), float32 or float64; the factor has its dtype and device.
        indices: (B, k) int64, the rows of the points that serve as centres; k = n gives the whole kernel.
        beta: the kernel's width, in the units of the points.
        tolerance: eigenvalues below this share of the largest are dropped, since rounding alone decides their sign and
            the factor divides by their roots; 1e-6 for float32 and 1e-10 for float64 when not given.
        agree: makes a matrix the same in all processes that build this factor.

    Raises:
        ValueError: beta not positive, or indices not of shape (B, k) with 1 <= k <= n.
    """
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta, the kernel's width, must be positive, got {beta}")
    b, n, d = points.shape
    if indices.ndim != 2 or indices.shape[0] != b or not 1 <= indices.shape[1] <= n:
        raise ValueError(f"centre indices must have shape ({b}, k) with k from 1 to {n}, got {tuple(indices.shape)}")
    if tolerance is None:
        tolerance = 1e-6 if points.dtype == torch.float32 else 1e-10
    centres = points.gather(1, indices.unsqueeze(-1).expand(-1, -1, d))  # (B, k, D)
    exact = centres.double()  # float32 would make about half of the small eigenvalues negative
    values, vectors = torch.linalg.eigh(gaussian_kernel(exact, exact, beta))  # (B, k), (B, k, k)
    kept = values > tolerance * values[:, -1:]
    inverse_roots = torch.where(kept, values.clamp_min(torch.finfo(values.dtype).tiny).rsqrt(), 0.0)  # (B, k)
    return Nystrom(centres, agree((vectors * inverse_roots.unsqueeze(1)).to(points.dtype)), beta)


def draw_centres(points: int, rank: int, seeds: Sequence[int]) -> Tensor:
    """(B, k) indices of the Nystrom centres, uniform without replacement (released code); k = min(rank, points)."""
    k = min(rank, points)
    rows = [numpy_generator(seed, "landmarks").choice(points, k, replace=False) for seed in seeds]
    return torch.stack([torch.from_numpy(row) for row in rows])


@dataclass(frozen=True)
class Cholesky:
    """The Gaussian kernel of M points, G = Phi Phi^T, factored until no entry errs by more than 1e-12.

    Attributes:
        phi: (M, K).
        centres: (K, D), the points that were pivots.
        root: (K, K), their lower triangular factor.
        beta: the kernel's width.
    """

    phi: np.ndarray
    centres: np.ndarray
    root: np.ndarray
    beta: float

    def basis(self, points: np.ndarray) -> np.ndarray:
        """Phi at other points, (n, D) to (n, K): Phi(points) Phi^T is the kernel between them and the M points."""
        return solve_triangular(self.root, _gaussian(self.centres, points, self.beta), lower=True).T

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Of the centres' kernels, such that G(x, centres) weights = Phi(x) coefficients; (K, D)."""
        return solve_triangular(self.root, coefficients, lower=True, trans="T")


def pivoted_cholesky(points: np.ndarray, beta: float) -> Cholesky:
    """The factor of the points' Gaussian kernel, (M, D) float64; a smooth one needs a few hundred columns at any M."""
    root, order, rank, _ = dpstrf(_gaussian(points, points, beta), tol=CHOLESKY_TOLERANCE, lower=1)
    lower = np.tril(root[:, :rank])  # (M, K)
    order = order - 1  # LAPACK counts from one
    phi = np.empty_like(lower)
    phi[order] = lower
    return Cholesky(phi, points[order[:rank]], lower[:rank].copy(), beta)


def _gaussian(x: np.ndarray, y: np.ndarray, beta: float) -> np.ndarray:
    return gaussian_kernel(torch.from_numpy(x)[None], torch.from_numpy(y)[None], beta)[0].numpy()
