"""Landmarks, known pairs of points, that pull softly: (pull / 2) sum_l w_l |T(y_l) - x_l|^2 with weights that sum to 1,
beside the discrepancy and the coherence energy. Not in the paper.

A registration with landmarks begins where this pull and the energies of the transform balance, from where the
discrepancy does the rest. Of the soft assignment, whose energy is sum_j |T(y_j) - image_j|^2 / (2 sigma^2), a landmark
is another row: n pull sigma w_l of them, n the number of its source points, which makes a landmark and a point that is
sigma away from its image as strong against each other as in PWAN's steps, where the force on each point is 1 / n
whatever its distance.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.rigid import rigid_fit, rigid_parameters
from pwan.deformation.transform import Transform, take_rows
from pwan.problem import RegistrationProblem
from pwan.registration.settings import PwanSettings

TINY = 1e-9  # ridge that keeps a fit regular where nothing else does
GUESS = 300.0  # strength of a guess
GUESSED = 20_000  # points of which a guess is followed
LINE = 1e-3  # singular values of landmarks on one line over the largest one: they leave the rotation open


class Pull:
    """What the landmarks add to the gradient of a transform's parameters, to an energy and to a least-squares fit.

    It holds the landmarks' points alone (of a free displacement all), on one device, and takes the parameters from
    outside.

    Args:
        transform: of all source points.
        reference: (B, q, D), perhaps with attributes behind.
        landmarks: (B, L, 2) rows of the transform's source and of the reference.
        weights: (B, L), or None for equal ones.
        strength: ``PwanSettings.pull``.
    """

    def __init__(
        self, transform: Transform, reference: Tensor, landmarks: Tensor, weights: Tensor | None, strength: float
    ) -> None:
        rows, reference_rows = landmarks.to(reference.device).unbind(-1)  # (B, L)
        self.strength, self.rows = strength, rows if transform.basis is None and transform.kind == "nonrigid" else None
        source, basis = transform.source, transform.basis
        if self.rows is None:
            source, basis = take_rows(source, rows), None if basis is None else take_rows(basis, rows)
        self.transform = Transform(transform.kind, source, basis)
        self.goals = take_rows(reference, reference_rows)[..., : transform.dimension]  # (B, L, D)
        given = reference.new_ones(rows.shape, dtype=torch.float64) if weights is None else weights
        total = given.sum(1, keepdim=True)
        self.weights = (given / torch.where(total > 0, total, 1.0)).to(reference)[..., None]  # (B, L, 1)

    @classmethod
    def of(cls, problem: RegistrationProblem, transform: Transform, reference: Tensor, strength: float) -> Pull | None:
        """The pull of a problem's landmarks, or None where it has none or they shall not pull."""
        if problem.landmarks is None or strength == 0:
            return None
        return cls(transform, reference, problem.landmarks, problem.landmark_weights, strength)

    @classmethod
    def towards(cls, transform: Transform, goals: Tensor) -> Pull:
        """Of points that all know where they may belong, (B, r, D), of very many some: strong enough to be followed as
        far as the transform can."""
        b, r, _ = goals.shape
        even = torch.linspace(0, r - 1, min(r, GUESSED), dtype=torch.float64, device=goals.device)
        rows = even.round().long().expand(b, -1)
        return cls(transform, goals.to(transform.source), torch.stack((rows, rows), -1), None, GUESS)

    def placed(self, place: Callable[[Tensor], Tensor]) -> Pull:
        """The same with its tensors as ``place`` gives them: on another device, or as another process has them."""
        out, given = object.__new__(type(self)), self.transform
        out.strength, out.rows = self.strength, None if self.rows is None else place(self.rows)
        out.transform = Transform(given.kind, place(given.source), None if given.basis is None else place(given.basis))
        out.goals, out.weights = place(self.goals), place(self.weights)
        return out

    def residual(self, parameters: Tensor) -> Tensor:
        """(B, L, D) T(y_l) - x_l for parameters (B, P, D)."""
        points = self.transform.points(parameters)
        return (points if self.rows is None else take_rows(points, self.rows)) - self.goals

    def energy(self, parameters: Tensor) -> Tensor:
        """(B,)"""
        return 0.5 * self.strength * (self.weights * self.residual(parameters).square()).sum((1, 2))

    def gradient(self, parameters: Tensor) -> Tensor:
        """(B, P, D) of the energy with respect to the parameters."""
        at_landmarks = self.strength * self.weights * self.residual(parameters)  # (B, L, D)
        if self.rows is not None:
            to = self.rows[..., None].expand_as(at_landmarks)
            at_landmarks = torch.zeros_like(self.transform.source).scatter_add_(1, to, at_landmarks)
        return self.transform.parameter_gradient(at_landmarks, parameters)

    def curvature(self) -> Tensor:
        """(B, p, p) float64 of the energy, in the columns of :meth:`design`."""
        design = self.design().double()
        return self.strength * ((design * self.weights.double()).mT @ design)

    def design(self) -> Tensor:
        """(B, L, p) such that T(y_l) is a row of it times the parameters: y, 1 and the modes; of a rigid transform the
        rotation's matrix stands for its vector."""
        source, basis = self.transform.source, self.transform.basis
        return torch.cat((source, torch.ones_like(source[..., :1]), *([] if basis is None else [basis])), -1)

    def settled(self, identity: Tensor, ridge: Tensor) -> Tensor:
        """The parameters (B, P, D) at which the pull and ridge / 2 |change from ``identity``|^2 balance.

        Of a rigid transform, which takes no ridge, the rotation and shift of least squares, or the shift alone where
        the landmarks lie on a line and leave the rotation open. A problem whose weights are all 0 keeps ``identity``.

        Args:
            identity: (B, P, D); not of a free displacement.
            ridge: (B, P) or (P,), zero or positive.
        """
        exact = torch.float64
        design, weight = self.design().to(exact), self.strength * self.weights.to(exact)
        image = weight * self.goals.to(exact)
        if self.transform.kind == "rigid":
            found = self._turned(weight, image, identity)
        else:
            normal = torch.bmm((design * weight).mT, design)  # (B, p, p)
            ridge = (ridge.to(exact) + TINY).expand(identity.shape[:2])
            normal.diagonal(dim1=1, dim2=2).add_(ridge)
            found, _ = torch.linalg.solve_ex(
                normal, torch.bmm(design.mT, image) + ridge[..., None] * identity.to(exact)
            )
        good = (weight.sum((1, 2)) > 0) & found.isfinite().all(-1).all(-1)
        return torch.where(good[:, None, None], found.to(identity.dtype), identity)

    def _turned(self, weight: Tensor, image: Tensor, identity: Tensor) -> Tensor:
        y, d = self.transform.source.to(weight), self.transform.dimension
        total = weight.sum(1, keepdim=True).clamp(min=TINY)
        y_mean, x_mean = (weight * y).sum(1, keepdim=True) / total, image.sum(1, keepdim=True) / total
        values = torch.linalg.svdvals(torch.bmm((y - y_mean).mT, image - weight * x_mean))  # (B, D)
        shifted = identity.clone()
        shifted[:, d : d + 1] = (x_mean - y_mean).to(identity.dtype)  # at no rotation
        turned = torch.cat((self.transform.affine(identity), identity[:, d:]), 1).to(weight)
        turned = rigid_parameters(rigid_fit(y, weight, image, turned), identity)
        determined = values[:, d - 2] > LINE * values[:, 0]  # in the plane any two landmarks determine the rotation
        return torch.where(determined[:, None, None], turned, shifted)


def equilibrium(pull: Pull, transform: Transform, coherence: Coherence | None, settings: PwanSettings) -> Tensor:
    """The parameters (B, P, D) at which the pull and the energies of PWAN's own steps balance; there a registration
    begins.

    Args:
        pull: of the transform, on its device.
        transform: of all source points.
        coherence: of the same points; None where V = 0.
        settings: resolved.
    """
    assert settings.coherence is not None and settings.affine_penalty is not None
    within, d = transform, transform.dimension
    if pull.rows is not None:  # a free displacement begins within the modes, where its energy is the same
        assert coherence is not None
        within = Transform("nonrigid", transform.source, coherence.basis)
        numbers = torch.arange(pull.rows.shape[1], dtype=torch.int64, device=pull.rows.device).expand_as(pull.rows)
        pull = Pull(within, pull.goals, torch.stack((pull.rows, numbers), -1), pull.weights[..., 0], pull.strength)
    identity = within.parameters.detach()
    ridge = identity.new_zeros(identity.shape[:2], dtype=torch.float64)
    ridge[:, :d] = max(settings.affine_penalty, settings.coherence)  # without one A would follow the landmarks' errors
    if coherence is not None:
        ridge[:, d + 1 :] = settings.coherence * coherence.spectrum / (coherence.spectrum + settings.sigma)
    found = pull.settled(identity, ridge)
    if within is not transform:
        return torch.cat((found[:, : d + 1], within.displacement(found)), 1)
    return found
