"""The coherence energy of the displacement (Eq. bending), batched over B problems.

C = (lambda / 2) Tr(V^T (sigma I + G)^-1 V), half of Eq. bending: its gradient has lambda, as in the paper's released
code, where the text has 2 lambda (see ``PwanSettings.coherence``). The kernel G of the source points has a low-rank
form, G = Phi Phi^T: the Gaussian (:func:`pwan.deformation.factors.nystrom`), or that of distances along the shape
(:mod:`pwan.deformation.geodesic`).
With the eigenvectors of Phi^T Phi, Psi = Phi E has orthogonal columns of squared length s, and

- modes: V = Psi W, so C = (lambda / 2) sum_k s_k / (s_k + sigma) |W_k|^2: only smooth displacements exist;
- free: V itself is the unknown (released code), and the gradient (sigma I + G)^-1 V follows from Woodbury's identity in
  O(r k); it differs from Eq. bending_grad only in the basis.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from pwan.deformation.factors import Agree, as_it_is, draw_centres, nystrom
from pwan.deformation.geodesic import faces_of_each, geodesic_factor
from pwan.deformation.kernels import Displacement
from pwan.deformation.settings import Kernel


class Factor(Protocol):
    """A low-rank factor of a kernel, G = Phi Phi^T, and its displacements on all of space."""

    def basis(self, points: Tensor) -> Tensor:
        """Phi at the source points (B, r, D): (B, r, k)."""
        ...

    def on_space(self, coefficients: Tensor, affine: Tensor) -> Sequence[Displacement]:
        """V = Phi coefficients (B, k, D) on all of space, beside an affine part (B, D, D)."""
        ...


class Coherence:
    """The kernel's eigenbasis on the source points.

    Args:
        source: (B, r, D) float64.
        factor: of the kernel, in the units of the source.
        agree: makes what it is given the same in all processes that share the source: eigenvectors have no sign of
            their own.

    Attributes:
        basis: (B, r, k) Psi, orthogonal columns with squared lengths ``spectrum`` (B, k).
        spectrum: (B, k), the largest first.
        factor: Phi.
        vectors: E (B, k, k), float64; Psi = Phi E.
    """

    def __init__(self, source: Tensor, factor: Factor, agree: Agree = as_it_is) -> None:
        self.factor = factor
        phi = factor.basis(source)  # (B, r, k)
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

    def on_space(self, coefficients: Tensor, affine: Tensor) -> list[Displacement]:
        """V = Psi W as a function on all of space, one for each problem; W (B, k, D), beside A (B, D, D)."""
        return [*self.factor.on_space(self.vectors @ coefficients.to(self.vectors), affine)]

    def slope(self, coefficients: Tensor, strength: float, sigma: float, *, modes: bool) -> Tensor:
        """The gradient of C by W (B, k, D) of the modes, or by a free displacement V (B, r, D), lambda being the
        strength.
        """
        if not modes:  # Eq. bending_grad
            return strength * self.gradient(coefficients, sigma)
        return (strength * self.spectrum / (self.spectrum + sigma))[..., None] * coefficients

    def gradient(self, displacement: Tensor, sigma: float) -> Tensor:
        """(sigma I + G)^-1 V for a free displacement V (B, r, D): half the gradient of Tr(V^T (sigma I + G)^-1 V)."""
        weight = 1.0 / (sigma + self.spectrum)  # (B, k); (sigma I + Psi^T Psi)^-1
        projected = weight[..., None] * (self.basis.mT @ displacement)  # (B, k, D)
        return (displacement - self.basis @ projected) / sigma


def coherence_of(
    source: Tensor, faces: Tensor | None, kernel: Kernel, seeds: Sequence[int], agree: Agree = as_it_is
) -> Coherence:
    """The coherence of the chosen kernel.

    Args:
        source: (B, r, D) float64, normalised.
        faces: (B, F, 3) rows of the source, or None; the geodesic kernel's ways go along their edges.
        kernel: which, and how wide.
        seeds: one for each problem; the kernel's centres are drawn by it.
        agree: see :class:`Coherence`.

    Raises:
        ValueError: faces that name no point.
    """
    if kernel.kind == "gaussian":
        centres = draw_centres(source.shape[1], kernel.rank, seeds)
        return Coherence(source, nystrom(source, centres, kernel.beta, agree=agree), agree)
    of_each = faces_of_each(faces, len(source))
    factor = geodesic_factor(
        source, of_each, kernel.rank, kernel.beta, kernel.share, seeds, agree, neighbours=kernel.neighbours
    )
    return Coherence(source, factor, agree)
