"""Landmarks pinned: behind a registration a small smooth field that brings each pair together. Not in the paper.

With T the transform that was found, T'(y) = T(y) + sum_l G(y, p_l) w_l with Gaussians around the landmarks' places p_l
and the weights for which T'(p_l) is where the landmark belongs. The wider the Gaussian the less it stretches and the
more it moves of what was right, so the narrowest is taken that stretches lengths between neighbours by a tenth at most;
where none does, the one that stretches least: landmarks that lie near each other and contradict each other leave a wide
one no choice but to overshoot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.choices import Kind
from pwan.deformation.corrected import Corrected
from pwan.deformation.kernels import KernelSum, gaussian_kernel
from pwan.deformation.space import SpaceTransform
from pwan.deformation.transform import take_rows
from pwan.normalisation import extent
from pwan.problem import OK, RegistrationProblem, RegistrationResult, SpaceMap
from pwan.registration.matched import matched_points
from pwan.weights import median_spacing

SAME = 1e-7  # of the RMS radius: places nearer than this are one place
ENDED = 1e-9  # of the RMS radius: pairs nearer than this are together
SOLVED = 1e-8  # of the RMS radius, that the field may err by; a Gaussian much wider than the spacing errs by more
GENTLE = 0.1  # |log| of lengths between neighbours: a field that changes them by less is smooth enough
WIDTHS = 12  # that are tried, up to the RMS radius
FEWEST = 2.0  # spacings of the source: a narrower Gaussian moves a point alone, and is tried last
LOOKED_AT = 20_000  # points about the landmarks whose neighbours' lengths are compared
NEIGHBOURS = 4
SHORT = 0.05  # of the median length between neighbours: shorter ones tell rounding


@dataclass(frozen=True)
class Pinning:
    """What pinned the landmarks of one problem, and what it bent.

    Attributes:
        before: how far the pinned landmarks, those of a weight above 0, were apart until then, in the reference's
            units.
        largest: how far the correction moves a point at most, in the reference's units.
        width: of its Gaussian, in the source's units; 0 where nothing was to be corrected.
        stretch: the largest |log| of how it changed a length between neighbours.
        folded: at how many of the points about the landmarks, and of the middles between these, it turned the map
            inside out.
    """

    before: tuple[float, ...]
    largest: float = 0.0
    width: float = 0.0
    stretch: float = 0.0
    folded: int = 0


class _Pairs(NamedTuple):
    """Landmarks by their numbers (L,): where they are in the source (L, D), and where they belong (L, D)."""

    rows: Tensor
    places: Tensor
    goals: Tensor


def check_pinned(problem: RegistrationProblem) -> None:
    """Refuse landmarks that cannot all be pinned.

    Raises:
        ValueError: none at all, or two that begin at one place and belong to different ones.
    """
    if problem.landmarks is None:
        raise ValueError("pinned=True brings landmarks together, and there are none; give landmarks, or leave it out")
    for k in range(len(problem)):
        rows, places, goals = _pairs(problem, k)
        of = f" of problem {k}" if k else ""
        check_apart((places, goals), (problem.source[k], problem.reference[k]), [str(int(row)) for row in rows], of)


def check_apart(places: tuple[Tensor, Tensor], sets: tuple[Tensor, Tensor], names: Sequence[str], of: str = "") -> None:
    """Refuse landmarks, places (L, D) in the source's points (N, D) and in the reference's (M, D), that cannot all be
    pinned.

    Args:
        places: in the source and in the reference.
        sets: the points of both.
        names: (L) of the landmarks, as they are said.
        of: words behind the names.

    Raises:
        ValueError: two that begin at one place and belong to different ones.
    """
    begin, goals = places
    limits = [SAME * float(extent(points[None], None)[1]) for points in sets]
    for first, second in sorted(KDTree(begin).query_pairs(limits[0])) if len(begin) else ():
        if float((goals[first] - goals[second]).norm()) > limits[1]:
            raise ValueError(
                f"landmarks {names[first]} and {names[second]}{of} begin at one place of the source and belong to "
                "different places of the reference, so that they cannot both be pinned; take one of them out, or leave "
                "pinned out"
            )


def pin(
    result: RegistrationResult, problem: RegistrationProblem, kind: Kind
) -> tuple[RegistrationResult, list[Pinning | None]]:
    """The result with a correction that brings each landmark of a weight above 0 to where it belongs, and what it bent;
    None for a registration that has failed and for one without landmarks, which stay as they are.

    Args:
        result: with transforms of all of space.
        problem: in input coordinates, with landmarks that :func:`check_pinned` has passed.
        kind: what limits the discrepancy, by which the matched points are counted again.
    """
    assert result.transform is not None
    transforms: list[SpaceMap] = []
    said: list[Pinning | None] = []
    moved = result.transformed.clone()
    for k, transform in enumerate(result.transform):
        pairs = _pairs(problem, k)
        words = None
        if result.status[k] == OK and len(pairs.places):
            transform, words = _pinned(transform, problem, pairs, k)
            moved[k] = transform(problem.source[k])  # in double precision, so that rows end where places do
        transforms.append(transform)
        said.append(words)
    matched, reference_matched = matched_points(moved, problem, kind, transforms)
    return replace(
        result,
        transformed=moved,
        displacement=moved - (problem.source @ result.affine + result.translation),
        matched=matched,
        reference_matched=reference_matched,
        transform=transforms,
    ), said


def _pinned(transform: SpaceMap, problem: RegistrationProblem, pairs: _Pairs, k: int) -> tuple[SpaceTransform, Pinning]:
    assert isinstance(transform, SpaceTransform)
    frame, source = transform.frame, problem.source[k]
    unit = float(frame.reference_scale)
    p, points = (frame.normalised_source(of_set[None])[0] for of_set in (pairs.places, source))
    rest = (pairs.goals - transform(pairs.places)) / unit  # (L, D)
    radius = float(extent(points[None], None)[1])
    reached = float(extent(problem.reference[k][None], None)[1]) / unit
    lengths = rest.norm(dim=1)  # (L,)
    found = Pinning(tuple((lengths * unit).tolist()))
    if float(lengths.max()) <= ENDED * reached:
        return transform, found
    own = _first_of_places(p, SAME * radius)
    p, rest = p[own], rest[own]
    near = _around(points, p)
    moved = transform(source[near]) / unit
    masses = None if problem.source_weights is None else problem.source_weights[k].numpy()
    spacing = median_spacing(points.numpy(), masses)
    correction, stretch = _gentlest(p, rest, points[near], moved, spacing, radius, SOLVED * reached)
    pinned = replace(transform, displacement=Corrected(transform.displacement, correction))
    at = torch.cat((source[near], _middles(pairs.places[own])))
    before, after = (one.jacobian_determinants(at) for one in (transform, pinned))
    return pinned, replace(
        found,
        largest=float(torch.cat((correction(points[near]), rest)).norm(dim=1).max()) * unit,
        width=correction.beta * float(frame.source_scale),
        stretch=stretch,
        folded=int(((after < 0) & (before >= 0)).sum()),
    )


def _gentlest(
    places: Tensor, rest: Tensor, points: Tensor, moved: Tensor, spacing: float, radius: float, tolerance: float
) -> tuple[KernelSum, float]:
    """The sum of Gaussians that is ``rest`` (L, D) at places (L, D), and how much it stretches the points (n, D), which
    had been moved to (n, D). Normalised coordinates."""
    apart = float(KDTree(places.numpy()).query(places.numpy(), 2)[0][:, 1].min()) if len(places) > 1 else np.inf
    usual = min(FEWEST * spacing, radius)
    widths = [*np.geomspace(usual, max(radius, usual), WIDTHS), *np.geomspace(min(apart / 2, usual), usual, 3)[:-1]]
    edges = _edges(points)
    best: tuple[KernelSum, float] | None = None
    for width in widths:
        kernel = gaussian_kernel(places[None], places[None], float(width))[0]
        weights, info = torch.linalg.solve_ex(kernel, rest)
        if int(info) or not float((kernel @ weights - rest).abs().max()) <= tolerance:
            continue
        found = KernelSum(places, weights, "gaussian", float(width))
        stretch = _stretch(moved, moved + found(points), edges)
        if best is None or stretch < best[1]:
            best = found, stretch
        if stretch <= GENTLE:
            break
    assert best is not None  # the narrowest Gaussians hardly overlap
    return best


def _pairs(problem: RegistrationProblem, k: int) -> _Pairs:
    """The landmarks of problem k that count."""
    assert problem.landmarks is not None
    weights = problem.landmark_weights
    rows = torch.arange(problem.landmarks.shape[1], dtype=torch.int64, device="cpu")
    rows = rows if weights is None else rows[weights[k] > 0]
    pairs = problem.landmarks[k : k + 1, rows]
    places, goals = (
        take_rows(points[k : k + 1], pairs[..., side])[0]
        for side, points in enumerate((problem.source, problem.reference))
    )
    return _Pairs(rows, places, goals)


def _first_of_places(places: Tensor, same: float) -> Tensor:
    """The rows of places (L, D) without those that repeat an earlier one."""
    kept = torch.ones(len(places), dtype=torch.bool, device="cpu")
    for _, second in KDTree(places.numpy()).query_pairs(same):
        kept[second] = False
    return kept.nonzero().flatten()


def _middles(places: Tensor) -> Tensor:
    """Between each of the places (L, D) and the one nearest to it, where two that contradict each other fold a map."""
    if len(places) < 2:
        return places
    return (places + places[torch.from_numpy(KDTree(places.numpy()).query(places.numpy(), 2)[1][:, 1])]) / 2


def _around(points: Tensor, places: Tensor) -> Tensor:
    """Rows of the points (N, D) nearest to the places (L, D): all of few, and of many as many for each place."""
    if len(points) <= LOOKED_AT:
        return torch.arange(len(points), dtype=torch.int64, device="cpu")
    each = max(NEIGHBOURS + 1, LOOKED_AT // len(places))
    return torch.from_numpy(np.unique(KDTree(points.numpy()).query(places.numpy(), each)[1]))


def _edges(points: Tensor) -> Tensor:
    """(E, 2) rows of points (n, D) that are near neighbours."""
    count = min(NEIGHBOURS, len(points) - 1)
    there = torch.from_numpy(KDTree(points.numpy()).query(points.numpy(), count + 1)[1][:, 1:])
    here = torch.arange(len(points), dtype=torch.int64, device="cpu")[:, None].expand_as(there)
    return torch.stack((here.flatten(), there.flatten()), 1)


def _stretch(before: Tensor, after: Tensor, edges: Tensor) -> float:
    lengths = [(points[edges[:, 0]] - points[edges[:, 1]]).norm(dim=1) for points in (before, after)]
    long = lengths[0] > SHORT * lengths[0].median()
    change = (lengths[1][long].clamp(min=1e-300) / lengths[0][long]).log().abs()
    return float(change.max()) if len(change) else 0.0
