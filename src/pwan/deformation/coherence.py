"""The coherence energy of the displacement (Eq. bending), batched over B problems.

C = lambda Tr(V^T (sigma I + G)^-1 V) with the Gaussian kernel G of the source points, in Nystrom form G = Phi Phi^T.
With the eigenvectors of Phi^T Phi, Psi = Phi E has orthogonal columns of squared length s, and

- modes: V = Psi W, so C = lambda sum_k s_k / (s_k + sigma) |W_k|^2: only smooth displacements exist;
- free: V itself is the unknown (released code), and the gradient (sigma I + G)^-1 V follows from Woodbury's identity in
  O(r k); it differs from Eq. bending_grad only in the basis.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pwan.deformation.factors import nystrom
from pwan.deformation.kernels import KernelSum


class Coherence:
    """The kernel's eigenbasis on the source points.

    Args:
        source: (B, r, D) float64.
        centres: (B, k) indices of source points.
        beta: width of the kernel, in the units of the source.
        agree: makes a tensor the same in all processes that share the source; eigenvectors have no sign of their own.

    Attributes:
        factor: Phi, float64, a feature map on all of space.
        vectors: (B, k, k) E, float64, such that Psi = Phi E at any points.
        spectrum: (B, k) squared lengths of the columns of Psi, largest first.
        basis: (B, r, k) Psi at the source points; its columns are orthogonal.
    """

    def __init__(
        self,
        source: Tensor,
        centres: Tensor,
        beta: float,
        agree: Callable[[Tensor], Tensor] = lambda of_this_process: of_this_process,
    ) -> None:
        factor = nystrom(source, centres, beta)
        self.factor = replace(factor, whitening=agree(factor.whitening))
        phi = self.factor.basis(source)  # (B, r, k)
        spectrum, vectors = torch.linalg.eigh(phi.mT @ phi)
        self.spectrum = agree(spectrum).flip(-1).clamp(min=0.0)  # (B, k), largest first
        self.vectors = agree(vectors).flip(-1)  # (B, k, k)
        self.basis = phi @ self.vectors  # (B, r, k)

    def to(self, dtype: torch.dtype) -> None:
        """Convert basis and spectrum in place."""
        self.basis, self.spectrum = self.basis.to(dtype), self.spectrum.to(dtype)

    def part(self, own: Callable[[Tensor], Tensor], device: torch.device) -> Coherence:
        """The same energy on a device, with the basis at the points that ``own`` takes of (B, r, k)."""
        part = copy.copy(self)
        part.basis, part.spectrum = own(self.basis), self.spectrum.to(device)
        return part

    def on_space(self, coefficients: Tensor) -> list[KernelSum]:
        """V = Psi W as a function on all of space, one for each problem; coefficients W (B, k, D)."""
        weights = self.factor.weights(self.vectors @ coefficients.to(self.vectors))  # (B, k, D)
        return [
            KernelSum(centres.clone(), of_centres.clone(), "gaussian", self.factor.beta)
            for centres, of_centres in zip(self.factor.centres, weights, strict=True)
        ]

    def gradient(self, displacement: Tensor, sigma: float) -> Tensor:
        """(sigma I + G)^-1 V for a free displacement V (B, r, D): half the gradient of Tr(V^T (sigma I + G)^-1 V)."""
        weight = 1.0 / (sigma + self.spectrum)  # (B, k); (sigma I + Psi^T Psi)^-1
        projected = weight[..., None] * (self.basis.mT @ displacement)  # (B, k, D)
        return (displacement - self.basis @ projected) / sigma
