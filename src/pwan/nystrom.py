"""Nystrom factors of the Gaussian kernel G(x, y) = exp(-|x - y|^2 / (2 beta^2)), the paper's coherence kernel.

The released code's kernel has 2 beta^2 as its denominator; the paper's text calls it rho, so rho = 2 beta^2.
Needs O(n k) memory for n points and k landmarks; an n x n matrix is never formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def gaussian_kernel(x: Tensor, y: Tensor, beta: float) -> Tensor:
    """exp(-|x_i - y_j|^2 / (2 beta^2)); (B, n, D) and (B, k, D) to (B, n, k)."""
    # differences rather than |x|^2 + |y|^2 - 2 x.y: the latter loses all digits far from the origin
    distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return distance.square().mul_(-0.5 / beta**2).exp_()


@dataclass(frozen=True)
class Nystrom:
    """A feature map Phi of all of space such that G(x, y) is nearly Phi(x) Phi(y)^T.

    Attributes:
        landmarks: (B, k, D).
        whitening: (B, k, k), U S^(-1/2) of the landmarks' kernel U S U^T. Columns of dropped eigenvalues are zero, so
            that the problems of a batch keep equal shapes although their numerical ranks differ.
        beta: the kernel's width, in the units of the points.
    """

    landmarks: Tensor
    whitening: Tensor
    beta: float

    def basis(self, points: Tensor) -> Tensor:
        """Phi at any points, the landmarks' own set or others; (B, n, D) to (B, n, k)."""
        return gaussian_kernel(points, self.landmarks, self.beta) @ self.whitening

    def weights(self, coefficients: Tensor) -> Tensor:
        """Of the landmarks' kernels, such that G(x, landmarks) weights = Phi(x) coefficients at any x; (B, k, D) to
        (B, k, D)."""
        return self.whitening @ coefficients


def nystrom(points: Tensor, indices: Tensor, beta: float, *, tolerance: float | None = None) -> Nystrom:
    """The Nystrom factor of each problem's Gaussian kernel.

    Args:
        points: (B, n, D), float32 or float64; the factor has its dtype and device.
        indices: (B, k) int64, the rows of the points that serve as landmarks; k = n gives the whole kernel.
        beta: the kernel's width, in the units of the points.
        tolerance: eigenvalues below this share of the largest are dropped, since rounding alone decides their sign and
            the factor divides by their roots; 1e-6 for float32 and 1e-10 for float64 when not given.

    Raises:
        ValueError: beta not positive, or indices not of shape (B, k) with 1 <= k <= n.
    """
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta, the kernel's width, must be positive, got {beta}")
    b, n, d = points.shape
    if indices.ndim != 2 or indices.shape[0] != b or not 1 <= indices.shape[1] <= n:
        raise ValueError(f"landmark indices must have shape ({b}, k) with k from 1 to {n}, got {tuple(indices.shape)}")
    if tolerance is None:
        tolerance = 1e-6 if points.dtype == torch.float32 else 1e-10
    landmarks = points.gather(1, indices.unsqueeze(-1).expand(-1, -1, d))  # (B, k, D)
    exact = landmarks.double()  # float32 would make about half of the small eigenvalues negative
    values, vectors = torch.linalg.eigh(gaussian_kernel(exact, exact, beta))  # (B, k), (B, k, k)
    kept = values > tolerance * values[:, -1:]
    inverse_roots = torch.where(kept, values.clamp_min(torch.finfo(values.dtype).tiny).rsqrt(), 0.0)  # (B, k)
    return Nystrom(landmarks, (vectors * inverse_roots.unsqueeze(1)).to(points.dtype), beta)
