"""Normals, and other attributes of the source's points, where a transform has taken them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwan.attributes import Attributes
from pwan.deformation.coherence import Coherence
from pwan.deformation.kernels import Displacement, KernelSum
from pwan.deformation.space import on_space
from pwan.deformation.transform import Transform, take_rows
from pwan.normalisation import Frame
from pwan.problem import RegistrationProblem, SpaceMap

TURN = 10  # steps of PWAN and of the soft assignment after which normals are turned as the transform has them then


def turned(normals: Tensor, jacobians: Tensor) -> Tensor:
    """Normals (..., D) of a surface that moves, with the lengths that they had.

    With the tangents J_i = d moved / d y_i, the rows of a Jacobian, a normal n becomes n_1 J_2 x J_3 + n_2 J_3 x J_1 +
    n_3 J_1 x J_2, of which no fold makes a division by 0; in the plane a quarter turn stands for the product.

    Args:
        normals: (..., D), D 2 or 3.
        jacobians: (..., D, D) d moved_j / d y_i.
    """
    rows = jacobians.unbind(-2)
    if len(rows) == 2:
        x, y = rows[1][..., 1], rows[1][..., 0]
        out = torch.stack((x, -y), -1) * normals[..., :1]
        out = out + torch.stack((-rows[0][..., 1], rows[0][..., 0]), -1) * normals[..., 1:]
    else:
        pairs = ((1, 2), (2, 0), (0, 1))
        crossed = torch.stack([torch.linalg.cross(rows[i], rows[k]) for i, k in pairs], -2)  # (..., D, D)
        out = (normals[..., None] * crossed).sum(-2)
    lengths = out.norm(dim=-1, keepdim=True)
    return out * (normals.norm(dim=-1, keepdim=True) / torch.where(lengths > 0, lengths, 1.0))


def carried(attributes: Attributes, points: Tensor, maps: Sequence[SpaceMap] | None) -> Tensor:
    """The source's attributes (B, r, A) where the maps have taken its points (B, r, D): its normals turned, all else as
    it was; without maps, of methods that know none, all."""
    if not attributes.normals or maps is None:
        return attributes.source
    d = points.shape[-1]
    jacobians = torch.stack([one.jacobians(of_one) for one, of_one in zip(maps, points, strict=True)])
    return torch.cat((turned(attributes.source[..., :d], jacobians), attributes.source[..., d:]), -1)


def in_product(
    problem: RegistrationProblem, moved: Tensor | None = None, maps: Sequence[SpaceMap] | None = None
) -> tuple[Tensor, Tensor]:
    """The source, moved by the maps if it was, and the reference as points of the product of space and attributes,
    (B, r, D + A) and (B, q, D + A); of space alone where there are no attributes."""
    moved = problem.source if moved is None else moved
    if problem.attributes is None:
        return moved, problem.reference
    of_source = carried(problem.attributes, problem.source, maps)
    return torch.cat((moved, of_source), -1), torch.cat((problem.reference, problem.attributes.reference), -1)


@dataclass(frozen=True, eq=False)
class Carried:
    """The attributes of a source while it moves.

    Attributes:
        attributes: of both sets, normalised.
        source: (B, r, D) normalised.
        coherence: of its displacement; None where V = 0.
    """

    attributes: Attributes
    source: Tensor
    coherence: Coherence | None

    @classmethod
    def of(cls, problem: RegistrationProblem, coherence: Coherence | None) -> Carried | None:
        """The attributes of a normalised problem; None where it has none."""
        return None if problem.attributes is None else cls(problem.attributes, problem.source, coherence)

    def part(self, rows: Tensor | None) -> Carried:
        """Of some rows (B, k) of the source; of all where there are none."""
        if rows is None:
            return self
        rows = rows.to(self.source.device)
        return replace(self, attributes=self.attributes.rows(rows, None), source=take_rows(self.source, rows))

    def under(self, transform: Transform, parameters: Tensor) -> Tensor:
        """(B, r, A) as a transform with these parameters (B, P, D) takes them, in their type."""
        parameters = parameters.detach().to(self.source.device)
        coefficients = parameters[:, transform.dimension + 1 :]
        return self.at(transform.final_affine(parameters), coefficients).to(parameters)

    def at(self, affine: Tensor, coefficients: Tensor) -> Tensor:
        """(B, r, A) with the normals as y A + t + Psi W turns them; A (B, D, D), W (B, k, D)."""
        b, _, d = self.source.shape
        affine = affine.to(self.source)
        none = self.source.new_zeros(b, 1, d)
        displacements: Sequence[Displacement] = [KernelSum.zero(d)] * b
        if self.coherence is not None:
            displacements = self.coherence.on_space(coefficients, affine)
        unit = torch.ones_like(none[..., :1])
        maps = on_space(Frame(none, unit, none, unit), affine, none, displacements)
        return carried(self.attributes, self.source, maps)
