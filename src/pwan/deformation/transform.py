"""The transform T(y) = y A + t + V(y), batched over B problems; see :mod:`pwan.deformation.coherence` for V."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from pwan.choices import TransformKind
from pwan.deformation.rigid import orthogonal_rotation, rotation_matrix


class Transform:
    """B transforms of one kind.

    A rigid one has A in SO(D), as the exponential of a skew matrix: it stays a rotation whatever the step. Rigid and
    affine ones have V = 0.

    Args:
        kind: "nonrigid", "affine" or "rigid".
        source: (B, r, D) normalised.
        basis: (B, r, k) for the modes; None for a free displacement.
        attributes: (B, r, A) what the points carry beside their place, which the transform leaves; or None.

    Attributes:
        parameters: (B, P, D), one below the other: the rows of A (or the rotation vector), t, and W or V.
    """

    def __init__(
        self, kind: TransformKind, source: Tensor, basis: Tensor | None, attributes: Tensor | None = None
    ) -> None:
        b, r, d = source.shape
        self.kind, self.source, self.dimension, self.attributes = kind, source, d, attributes
        self.basis = basis if kind == "nonrigid" else None
        extra = 0 if kind != "nonrigid" else r if basis is None else basis.shape[-1]
        parameters = source.new_zeros(b, d + 1 + extra, d)
        if kind != "rigid":
            parameters[:, :d] = torch.eye(d, dtype=source.dtype, device=source.device)
        self.parameters = torch.nn.Parameter(parameters, requires_grad=False)

    def part(self, rows: Tensor) -> Transform:
        """The same transforms, with the same parameters, of some of the source points: rows (B, n) of them."""
        part = copy.copy(self)
        part.source = take_rows(self.source, rows)
        part.basis = None if self.basis is None else take_rows(self.basis, rows)
        part.attributes = None if self.attributes is None else take_rows(self.attributes, rows)
        return part

    def copy_points(self, other: Transform) -> None:
        """Take over the source points of a part of the same size, into the tensors that hold them here."""
        self.source.copy_(other.source)
        if self.basis is not None and other.basis is not None:
            self.basis.copy_(other.basis)
        if self.attributes is not None and other.attributes is not None:
            self.attributes.copy_(other.attributes)

    @property
    def coefficients(self) -> Tensor:
        """(B, k, D) W, or (B, r, D) V; empty for rigid and affine transforms."""
        return self.parameters[:, self.dimension + 1 :]

    def affine(self, parameters: Tensor | None = None) -> Tensor:
        """(B, D, D) A, of these parameters or of the current ones."""
        first = (self.parameters if parameters is None else parameters)[:, : self.dimension]
        return rotation_matrix(first) if self.kind == "rigid" else first

    def final_affine(self, parameters: Tensor) -> Tensor:
        """(B, D, D) float64 A of a result: of a rigid transform a rotation to the last digit."""
        first = parameters[:, : self.dimension]
        return orthogonal_rotation(first) if self.kind == "rigid" else first.double()

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

    def in_product(self, parameters: Tensor | None = None) -> Tensor:
        """(B, r, D + A) the transformed source with its attributes."""
        points = self.points(parameters)
        return points if self.attributes is None else torch.cat((points, self.attributes), -1)

    def parameter_gradient(self, gradient: Tensor, parameters: Tensor | None = None) -> Tensor:
        """The gradient with respect to the parameters (B, P, D), from that with respect to the transformed points
        (B, r, D); at these parameters or at the current ones."""
        out, d = torch.zeros_like(self.parameters), self.dimension
        affine_gradient = torch.bmm(self.source.mT, gradient)  # (B, D, D)
        if self.kind == "rigid":
            at = self.parameters if parameters is None else parameters
            with torch.inference_mode(False), torch.enable_grad():
                vector = at[:, :d].detach().clone().requires_grad_()
                (affine_gradient,) = torch.autograd.grad(rotation_matrix(vector), vector, affine_gradient)
        out[:, :d] = affine_gradient
        out[:, d] = gradient.sum(1)
        if self.kind == "nonrigid":
            out[:, d + 1 :] = gradient if self.basis is None else torch.bmm(self.basis.mT, gradient)
        return out


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """The rows (B, n) of (B, r, k): (B, n, k)."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[-1]))
