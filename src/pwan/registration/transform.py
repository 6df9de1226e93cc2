"""The transform T(y) = y A + t + V(y) and its coherence energy, batched over B problems.

Coherence (Eq. bending): C = lambda Tr(V^T (sigma I + G)^-1 V) with the Gaussian kernel G of the source points, in
Nystrom form G = Phi Phi^T. With the eigenvectors of Phi^T Phi, Psi = Phi E has orthogonal columns of squared length s,
and

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

from pwan.choices import TransformKind
from pwan.nystrom import nystrom
from pwan.registration.space import KernelSum


class Coherence:
    """The kernel's eigenbasis on the source points.

    Attributes:
        basis: (B, r, k) Psi, orthogonal columns with squared lengths ``spectrum`` (B, k).
        factor, vectors: Phi and E (B, k, k), float64; Psi = Phi E at any points.
    """

    def __init__(
        self,
        source: Tensor,
        landmarks: Tensor,
        beta: float,
        agree: Callable[[Tensor], Tensor] = lambda of_this_process: of_this_process,
    ) -> None:
        """source (B, r, D) float64, landmarks (B, k) indices; beta in the units of the source. ``agree`` makes
        what it is given the same in all processes that share the source: eigenvectors have no sign of their own.
        """
        factor = nystrom(source, landmarks, beta)
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
            for centres, of_centres in zip(self.factor.landmarks, weights, strict=True)
        ]

    def gradient(self, displacement: Tensor, sigma: float) -> Tensor:
        """(sigma I + G)^-1 V for a free displacement V (B, r, D): half the gradient of Tr(V^T (sigma I + G)^-1 V)."""
        weight = 1.0 / (sigma + self.spectrum)  # (B, k); (sigma I + Psi^T Psi)^-1
        projected = weight[..., None] * (self.basis.mT @ displacement)  # (B, k, D)
        return (displacement - self.basis @ projected) / sigma


class Transform:
    """Parameters of the B transforms, in one tensor ``parameters`` (B, P, D): rows of A or the rotation vector, t, and
    W or V.

    rigid: A in SO(D), as the exponential of a skew matrix: it stays a rotation whatever the step. affine: V = 0.
    """

    def __init__(self, kind: TransformKind, source: Tensor, basis: Tensor | None) -> None:
        """source (B, r, D) normalised; basis (B, r, k) for the modes, None for a free displacement."""
        b, r, d = source.shape
        self.kind, self.source, self.dimension = kind, source, d
        self.basis = basis if kind == "nonrigid" else None
        extra = 0 if kind != "nonrigid" else r if basis is None else basis.shape[-1]
        parameters = source.new_zeros(b, d + 1 + extra, d)
        if kind != "rigid":
            parameters[:, :d] = torch.eye(d, dtype=source.dtype)
        self.parameters = torch.nn.Parameter(parameters, requires_grad=False)

    def part(self, rows: Tensor) -> Transform:
        """The same transforms, with the same parameters, of some of the source points: rows (B, n) of them."""
        part = copy.copy(self)
        part.source = take_rows(self.source, rows)
        part.basis = None if self.basis is None else take_rows(self.basis, rows)
        return part

    def copy_points(self, other: Transform) -> None:
        """Take over the source points of a part of the same size, into the tensors that hold them here."""
        self.source.copy_(other.source)
        if self.basis is not None and other.basis is not None:
            self.basis.copy_(other.basis)

    @property
    def coefficients(self) -> Tensor:
        """(B, k, D) W, or (B, r, D) V; empty for rigid and affine transforms."""
        return self.parameters[:, self.dimension + 1 :]

    def affine(self, parameters: Tensor | None = None) -> Tensor:
        """(B, D, D) A, of these parameters or of the current ones."""
        first = (self.parameters if parameters is None else parameters)[:, : self.dimension]
        return rotation_matrix(first) if self.kind == "rigid" else first

    def displacement(self, parameters: Tensor | None = None) -> Tensor:
        """(B, r, D) V."""
        rest = (self.parameters if parameters is None else parameters)[:, self.dimension + 1 :]
        if self.kind != "nonrigid":
            return torch.zeros_like(self.source)
        return rest if self.basis is None else torch.bmm(self.basis, rest)

    def translation(self, parameters: Tensor | None = None) -> Tensor:
        """(B, 1, D) t."""
        d = self.dimension
        return (self.parameters if parameters is None else parameters)[:, d : d + 1]

    def points(self, parameters: Tensor | None = None) -> Tensor:
        """(B, r, D) the transformed source."""
        moved = torch.baddbmm(self.translation(parameters), self.source, self.affine(parameters))
        return moved + self.displacement(parameters) if self.kind == "nonrigid" else moved

    def pull_back(self, gradient: Tensor, parameters: Tensor | None = None) -> Tensor:
        """From the gradient with respect to the transformed points (B, r, D) to that of the parameters (B, P, D), at
        these parameters or at the current ones."""
        out, d = torch.zeros_like(self.parameters), self.dimension
        affine_gradient = torch.bmm(self.source.mT, gradient)  # (B, D, D)
        if self.kind == "rigid":
            with torch.enable_grad():
                at = self.parameters if parameters is None else parameters
                vector = at[:, :d].detach().requires_grad_()
                (affine_gradient,) = torch.autograd.grad(rotation_matrix(vector), vector, affine_gradient)
        out[:, :d] = affine_gradient
        out[:, d] = gradient.sum(1)
        if self.kind == "nonrigid":
            out[:, d + 1 :] = gradient if self.basis is None else torch.bmm(self.basis.mT, gradient)
        return out


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """The rows (B, n) of (B, r, k): (B, n, k)."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[-1]))


def rotation_matrix(rows: Tensor) -> Tensor:
    """exp of the skew matrix held in the strict upper triangle of (B, D, D): a rotation for any numbers."""
    upper = rows.triu(1)
    return torch.linalg.matrix_exp(upper - upper.mT)
