"""The frame in which every method works: both sets centred and scaled in float64 before anything becomes float32."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from pwan.choices import Normalisation
from pwan.problem import ROUNDED, RegistrationProblem
from pwan.randomness import numpy_generator

SAMPLE = 250  # source points on which two frames are compared
JOINT_ADVANTAGE = 0.8
ORIGIN = 10.0  # RMS radii from a set's centre, beyond which single precision lets an origin cost digits; chosen by eye
FAR = 2.0  # sums of both RMS radii between the centres, beyond which the sets have nothing to do with each other
EXTENT_RATIO = 3.0  # of two sets; beyond it they are probably in different units, and a warning says so; chosen by eye


@dataclass(frozen=True)
class Frame:
    """Maps input coordinates to normalised ones: (x - centre) / scale, for source and reference.

    Attributes:
        source_centre: (B, 1, D) in input units.
        source_scale: (B, 1, 1) in input units.
        reference_centre: (B, 1, D) in input units.
        reference_scale: (B, 1, 1) in input units.
    """

    source_centre: Tensor
    source_scale: Tensor
    reference_centre: Tensor
    reference_scale: Tensor

    def transform_to_input(
        self, affine: Tensor, translation: Tensor, displacement: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The map y A + t + V of normalised coordinates as one of input coordinates; all float64, shapes kept."""
        affine = affine.double() * (self.reference_scale / self.source_scale)
        translation = (
            translation.double() * self.reference_scale + self.reference_centre - self.source_centre @ affine
        )  # (B, 1, D)
        return affine, translation, displacement.double() * self.reference_scale

    def bring_back(
        self, source: Tensor, affine: Tensor, translation: Tensor, displacement: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A normalised map as a result: source points (B, r, D) in input coordinates moved by it, and its A, t and V in
        input coordinates. V takes up the rounding, so that moved = source @ A + t + V holds at a far origin too; a map
        without V keeps none.
        """
        moved = self.apply(source, affine, translation, displacement)
        bent = bool(displacement.any())
        affine, translation, displacement = self.transform_to_input(affine, translation, displacement)
        if bent:
            displacement = moved - (source @ affine + translation)
        return moved, affine, translation, displacement

    def apply(self, source: Tensor, affine: Tensor, translation: Tensor, displacement: Tensor) -> Tensor:
        """Normalised map applied to source points in input coordinates (B, r, D); far origins lose nothing."""
        moved = self.normalised_source(source) @ affine.double() + translation.double() + displacement.double()
        return moved * self.reference_scale + self.reference_centre

    def normalised_source(self, points: Tensor) -> Tensor:
        """Points of the source's side (B, n, D) in normalised coordinates."""
        return (points - self.source_centre) / self.source_scale

    def select(self, k: int) -> Frame:
        """The frame of problem k alone, B = 1, which keeps no others alive."""
        return Frame(**{f.name: getattr(self, f.name)[k : k + 1].clone() for f in fields(self)})


def matches_whole_source(problem: RegistrationProblem) -> Tensor:
    """Whether all of the source is to be matched, judged by the mass and the sets' own alone; bool (B,)."""
    least = problem.source_total * ROUNDED
    if problem.mass is not None:
        return problem.mass >= least
    if problem.distance is not None:
        return problem.source.new_zeros(len(problem), dtype=torch.bool)
    return problem.reference_total >= least


def normalise(
    problem: RegistrationProblem, mode: Normalisation, *, keep_scale: bool = False
) -> tuple[RegistrationProblem, Frame]:
    """The problem in normalised coordinates (float64), and the frame that leads back.

    Where the centres lie farther apart than twice the sum of both RMS radii, the source begins on the reference's
    centre in every mode: where it stood tells nothing then, and no method finds the way (PWAN's steps end in between).

    A distance threshold and attributes are divided by the reference's scale, a guess goes into the reference's frame;
    the mass stays.
    Warns when the extents of the two sets differ more than threefold.

    Args:
        problem: in input coordinates.
        mode: "separate" centres each set and divides it by its RMS radius (released code, noise experiment), which
            rescales the source silently: right when all of it must be matched, wrong for two parts. "joint" uses
            the reference's centre and radius for both. "none" scales neither and leaves the origin, about which A
            acts, where it is (released code, partial experiment); one farther off than ten RMS radii of the reference
            moves to the reference's centre, since single precision would lose digits. "auto" is joint when a part of
            the source is to be matched; when all of it is, each problem takes separate, unless joint brings the sets
            much nearer, by the partial transport cost of a sample (outliers far beyond the shape would blow the source
            up).
        keep_scale: divide both by the reference's radius whatever the mode, for transforms that may not scale.
    """
    source, reference = problem.source, problem.reference
    source_centre, source_scale = extent(source, problem.source_weights)
    reference_centre, reference_scale = extent(reference, problem.reference_weights)
    ratio = source_scale / reference_scale
    if bool(((ratio > EXTENT_RATIO) | (ratio < 1 / EXTENT_RATIO)).any()):
        worst = int(ratio.log().abs().flatten().argmax())
        warnings.warn(
            f"the extents differ more than threefold: the RMS radius of the source is "
            f"{source_scale.flatten()[worst]:.4g} and that of the reference {reference_scale.flatten()[worst]:.4g}; "
            "are both in the same units?",
            UserWarning,
            stacklevel=2,
        )
    unscaled = torch.ones_like(reference_scale)
    radii = source_scale + reference_scale  # (B, 1, 1)
    if keep_scale:
        source_scale = reference_scale
    joint = Frame(reference_centre, reference_scale, reference_centre, reference_scale)
    frame = Frame(source_centre, source_scale, reference_centre, reference_scale)
    if mode == "none":
        origin = reference_centre * (reference_centre.norm(dim=-1, keepdim=True) > ORIGIN * reference_scale)
        frame = Frame(origin, unscaled, origin, unscaled)
    elif mode == "joint" or (mode == "auto" and not bool(matches_whole_source(problem).all())):
        frame = joint
    elif mode == "auto":
        nearer = [
            _matching_cost(problem, joint, k) < JOINT_ADVANTAGE * _matching_cost(problem, frame, k)
            for k in range(len(problem))
        ]
        shared = torch.tensor(nearer, dtype=torch.bool, device=source_scale.device)[:, None, None]  # (B, 1, 1)
        frame = Frame(
            torch.where(shared, reference_centre, source_centre),
            torch.where(shared, reference_scale, source_scale),
            reference_centre,
            reference_scale,
        )
    place = (reference_centre - frame.reference_centre) / frame.reference_scale * frame.source_scale
    beside = source_centre - place  # what would begin on the reference's centre
    far = (beside - frame.source_centre).norm(dim=-1, keepdim=True) > FAR * radii
    frame = replace(frame, source_centre=torch.where(far, beside, frame.source_centre))
    distance = None if problem.distance is None else problem.distance / frame.reference_scale.flatten()
    normalised = replace(
        problem,
        source=(source - frame.source_centre) / frame.source_scale,
        reference=(reference - frame.reference_centre) / frame.reference_scale,
        distance=distance,
        truth=None,
        guess=None if problem.guess is None else (problem.guess - frame.reference_centre) / frame.reference_scale,
        attributes=problem.attributes and problem.attributes / frame.reference_scale.flatten(),
    )
    return normalised, frame


def _matching_cost(problem: RegistrationProblem, frame: Frame, k: int) -> float:
    """Mean distance of the cheapest one-to-one matching of a sample of source k into the reference, both normalised."""
    generator = numpy_generator(0, "normalisation")
    source = ((problem.source - frame.source_centre) / frame.source_scale)[k]
    reference = ((problem.reference - frame.reference_centre) / frame.reference_scale)[k]
    share = min(1.0, SAMPLE / len(source))
    sizes = min(len(source), SAMPLE), min(max(SAMPLE, round(share * len(reference))), 10 * SAMPLE, len(reference))
    y, x = (
        points[torch.from_numpy(generator.choice(len(points), size, replace=False))]
        for points, size in zip((source, reference), sizes, strict=True)
    )
    distances = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist").numpy()
    return float(distances[linear_sum_assignment(distances)].mean())


def extent(points: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The centre (B, 1, D) and the RMS radius (B, 1, 1) of points (B, n, D) of these weights (B, n), or of 1 each."""

    def mean(values: Tensor) -> Tensor:  # (B, n, k) to (B, 1, k)
        if weights is None:
            return values.mean(1, keepdim=True)
        return (values * weights[..., None]).sum(1, keepdim=True) / weights.sum(1)[:, None, None]

    centre = mean(points)
    return centre, mean((points - centre).square().sum(-1, keepdim=True)).sqrt()
