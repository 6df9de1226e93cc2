"""From coarse to fine: few points are registered in many steps, onto each other in both directions, and all points
begin from the better of the two. Not in the paper.

The objective has minima in which a limb has gone to the wrong place. Which of them is found depends on the direction:
an arm that hangs beside a hip does not leave it, since a smooth displacement takes both along, but an arm that is
stretched out does come down onto one that hangs. What both directions leave of the discrepancy is comparable, and tells
which of them to follow.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pwan.deformation.graph import thinned_edges
from pwan.deformation.normals import in_product
from pwan.deformation.transform import take_rows
from pwan.problem import OK, ROUNDED, Observer, Progress, RegistrationProblem, RegistrationResult, SpaceMap
from pwan.randomness import numpy_generator
from pwan.registration import pipeline
from pwan.registration.landmarks import GUESS, Pull, equilibrium
from pwan.registration.presets import resolve, resolve_kind
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings
from pwan.transport import TransportResult, partial_wasserstein
from pwan.transport.objective import Kind
from pwan.weights import weights_of_rows

# points of the coarse sets
COARSE = 2000  # of the source
WIDEST = 4000  # of a larger reference
FEWEST = 100  # of the smaller set at least
MOST = 10_000  # of either set at most


class Drive(Protocol):
    """Who takes a registration's steps: :func:`pwan.registration.pipeline.register`, or a trainer's."""

    def __call__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        *,
        seeds: Sequence[int],
        observer: Observer | None = None,
    ) -> RegistrationResult: ...


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    drive: Drive = pipeline.register,
) -> RegistrationResult:
    """As ``drive``; with ``coarse_steps``, from where a coarse registration leads.

    The coarse registrations take no refinement, so that what PWAN reaches before its own stays PWAN's.
    """
    if not settings.coarse_steps:
        return drive(problem, settings, seeds=seeds, observer=observer)
    quick = replace(settings, coarse_steps=0, steps=settings.coarse_steps, refinement="none", sample=0, sample_first=0)
    fine = replace(settings, coarse_steps=0)
    observers = _observers(observer, problem, fine)
    clock = time.perf_counter()
    few = sampled(problem, seeds)
    with warnings.catch_warnings():  # the registration of all points warns of its extents
        warnings.filterwarnings("ignore", message="the extents differ")
        each = [pipeline.Registration(few.select([k]), quick, [seed]) for k, seed in enumerate(seeds)]
        overhead = time.perf_counter() - clock  # beside what the registrations say of themselves
        onto_reference = drive(few, quick, seeds=seeds, observer=observers[0])
        onto_source = drive(turned_round(few, each), quick, seeds=seeds, observer=observers[1])
        clock = time.perf_counter()
        guess, words = (problem.source if problem.guess is None else problem.guess).clone(), []
        for k, running in enumerate(each):
            lead, word = _lead(running, onto_reference, onto_source, k)
            words.append(word)
            if lead is not None:
                guess[k] = lead(problem.source[k])
        overhead = (overhead + time.perf_counter() - clock) / len(problem)
    result = drive(replace(problem, guess=guess), fine, seeds=seeds, observer=observers[2])
    return replace(
        result,
        seconds=[
            sum(of_each) + overhead
            for of_each in zip(onto_reference.seconds, onto_source.seconds, result.seconds, strict=True)
        ],
        stop_reason=[f"{reason}; {word}" for reason, word in zip(result.stop_reason, words, strict=True)],
    )


def sampled(problem: RegistrationProblem, seeds: Sequence[int], points: int = COARSE) -> RegistrationProblem:
    """The same share of both sets, at random but for the points of landmarks, of very many those of most weight;
    without the truth, with what is left of the faces. A point is drawn the likelier the more it weighs, so that few
    vertices show all of a mesh, and weighs the less beside others then.

    Args:
        problem: of any size.
        seeds: one for each problem.
        points: of the source, about; of a larger reference up to twice as many.
    """
    r, q = problem.source.shape[1], problem.reference.shape[1]
    share = max(min(points / r, WIDEST / COARSE * points / q), FEWEST / min(r, q))
    share = min(1.0, share, MOST / max(r, q))
    landmarks, weights = problem.landmarks, problem.landmark_weights
    if landmarks is not None and landmarks.shape[1] > points // 2:
        most = problem.source.new_ones(landmarks.shape[:2]) if weights is None else weights
        kept = most.argsort(dim=1, descending=True, stable=True)[:, : points // 2]
        landmarks, weights = take_rows(landmarks, kept), None if weights is None else weights.gather(1, kept)
    rows, masses = [], (problem.source_weights, problem.reference_weights)
    for side, (name, n) in enumerate((("source", r), ("reference", q))):
        size = min(n, max(FEWEST, round(share * n), 0 if landmarks is None else landmarks.shape[1]))
        needed = [None if landmarks is None else landmarks[k, :, side] for k in range(len(problem))]
        of_set = masses[side]
        of_each = [None if of_set is None else of_set[k] for k in range(len(problem))]
        rows.append(torch.stack([_rows(n, size, *each, name) for each in zip(seeds, needed, of_each, strict=True)]))
    y_weights, x_weights = (
        None if weighed is None else _weights(weighed, of) for weighed, of in zip(masses, rows, strict=True)
    )
    if landmarks is not None:  # their places among the rows, which are in order
        landmarks = torch.stack(
            [torch.searchsorted(of, landmarks[..., side].contiguous()) for side, of in enumerate(rows)], -1
        )
    few = RegistrationProblem(
        source=take_rows(problem.source, rows[0]),
        reference=take_rows(problem.reference, rows[1]),
        distance=problem.distance,
        landmarks=landmarks,
        landmark_weights=weights,
        guess=None if problem.guess is None else take_rows(problem.guess, rows[0]),
        source_faces=_faces(problem.source, problem.source_faces, rows[0]),
        reference_faces=_faces(problem.reference, problem.reference_faces, rows[1]),
        source_weights=y_weights,
        reference_weights=x_weights,
        attributes=problem.attributes and problem.attributes.rows(rows[0], rows[1]),
    )
    if problem.mass is None:
        return few
    # the whole of a set stays the whole of it, whatever rounding does
    some = (problem.mass * rows[0].shape[1] / r).minimum(few.lighter)
    return replace(few, mass=torch.where(problem.mass >= problem.lighter * ROUNDED, few.lighter, some))


def _rows(n: int, size: int, seed: int, needed: Tensor | None, weights: Tensor | None, name: str) -> Tensor:
    """Row numbers (size,) out of n, in order, with the needed ones among them."""
    generator = numpy_generator(seed, "coarse", name)
    if weights is None:
        order = torch.from_numpy(generator.permutation(n))
    else:  # without replacement, by weights (Efraimidis and Spirakis, 2006)
        order = (torch.from_numpy(generator.exponential(size=n)) / weights).argsort(stable=True)
    if needed is not None:
        needed = needed.unique()
        order = torch.cat((needed, order[~torch.isin(order, needed)]))
    return order[:size].sort().values


def _faces(points: Tensor, faces: Tensor | None, rows: Tensor) -> Tensor | None:
    """The edges (B, E, 3) of the meshes of points (B, n, D) among ``rows`` (B, k); the last one is repeated where a
    problem has fewer than another."""
    if faces is None or rows.shape[1] == points.shape[1]:
        return faces
    edges = [
        torch.from_numpy(thinned_edges(*(of.numpy() for of in each))) for each in zip(points, faces, rows, strict=True)
    ]
    most = max(map(len, edges))
    return torch.stack([torch.cat((of_one, of_one[-1:].expand(most - len(of_one), -1))) for of_one in edges])


def _weights(weights: Tensor, rows: Tensor) -> Tensor:
    """Of rows (B, k) that were drawn by weights (B, n): what a point weighs over how likely it was drawn, so scaled
    that they carry their share k / n of all the mass."""
    out = []
    for of_one in weights.numpy():
        least, falling = 0.0, np.sort(of_one)[::-1]
        rest = np.cumsum(falling[::-1])[::-1]  # of the points from here on
        for taken in range(rows.shape[1]):  # so many weigh more than they can be drawn, and are taken surely
            least = rest[taken] / (rows.shape[1] - taken)
            if falling[taken] <= least:
                break
        out.append(np.where(of_one > 0, np.maximum(of_one, least), 0.0))
    evened = torch.from_numpy(np.stack(out))
    scale = weights.sum(1, keepdim=True) / evened.sum(1, keepdim=True)
    return weights_of_rows(evened, rows) * scale


def turned_round(problem: RegistrationProblem, running: Sequence[pipeline.Registration]) -> RegistrationProblem:
    """The reference onto the source, with the same limits.

    Args:
        problem: the source onto the reference.
        running: its problems, each with its frame.
    """
    unit = problem.source.new_tensor([_unit(registration) for registration in running])
    return RegistrationProblem(
        source=problem.reference,
        reference=problem.source,
        mass=problem.mass,
        distance=None if problem.distance is None else problem.distance / unit,
        landmarks=None if problem.landmarks is None else problem.landmarks.flip(-1),
        landmark_weights=problem.landmark_weights,
        source_faces=problem.reference_faces,
        reference_faces=problem.source_faces,
        source_weights=problem.reference_weights,
        reference_weights=problem.source_weights,
        attributes=problem.attributes and problem.attributes.turned_round() / unit,
    )


def _unit(running: pipeline.Registration) -> float:
    """The reference's unit of length over that of the source, where the frame takes it away; of one problem."""
    return float(running.frame.reference_scale / running.frame.source_scale)


def _lead(
    running: pipeline.Registration, onto_reference: RegistrationResult, onto_source: RegistrationResult, k: int
) -> tuple[SpaceMap | None, str]:
    """Where problem k is to begin, and in words why: with what brought the source to the reference, or the inverse of
    what brought the reference to the source, whichever leaves less. None where both have failed.

    Args:
        running: of problem k alone, before its first step.
        onto_reference: the coarse result of all problems, the source onto the reference.
        onto_source: the same, the reference onto the source.
        k: number of the problem.
    """
    forward, backward = way_there(running, onto_reference, k), way_back(running, onto_source, k)
    word = "began where a coarse registration of {} led"
    if forward is None and backward is None:
        return None, "both coarse registrations failed"
    if backward is None or (forward is not None and forward.value <= backward.value):
        assert onto_reference.transform is not None
        return onto_reference.transform[k], word.format("fewer points")
    # a map with two sheets near each other has no inverse of its own, but each point has a partner
    plan = torch.from_numpy(backward.plan)
    return led(running, plan.argmax(0), plan.sum(0)), word.format("the reference onto the source")


def way_there(running: pipeline.Registration, onto_reference: RegistrationResult, k: int = 0) -> TransportResult | None:
    """The optimal transport from the reference to its source brought there; None where that failed.

    Args:
        running: of problem k alone, before its first step.
        onto_reference: the result of all problems.
        k: number of the problem.
    """
    if onto_reference.status[k] != OK:
        return None
    source, reference = _in_product(running.input, onto_reference, k)
    return _transport(running.input, running.kind, reference, source)


def way_back(running: pipeline.Registration, onto_source: RegistrationResult, k: int = 0) -> TransportResult | None:
    """The optimal transport from the reference brought to its source; None where that failed.

    Args:
        running: of problem k alone, before its first step.
        onto_source: the result for the references of all problems, see :func:`turned_round`.
        k: number of the problem.
    """
    if onto_source.status[k] != OK:
        return None
    reference, source = _in_product(turned_round(running.input, [running]), onto_source, k)
    unit = _unit(running)
    return _transport(running.input, running.kind, reference * unit, source * unit)


def _in_product(problem: RegistrationProblem, result: RegistrationResult, k: int) -> tuple[Tensor, Tensor]:
    """What moves (r, D + A), where the result of all problems has brought it, and what stays, of problem k alone."""
    maps = result.transform and [result.transform[k]]
    moved, staying = in_product(problem, result.transformed[k : k + 1], maps)
    return moved[0], staying[0]


def led(running: pipeline.Registration, partner: Tensor, weights: Tensor) -> SpaceMap:
    """What leads the source points of one problem to their partners as smoothly as the transform can.

    Args:
        running: of the one problem, before its first step.
        partner: (r,) rows of the reference.
        weights: (r,) how much each counts; a point of 0 follows the others.
    """
    rows = torch.arange(len(partner), dtype=partner.dtype, device=partner.device)
    pairs = torch.stack((rows, partner), -1)[None]
    setup = running.solver.setup
    pull = Pull(setup.transform, setup.reference, pairs, weights[None], GUESS)
    maps = running.space_maps(equilibrium(pull, setup.transform, setup.coherence, running.settings))
    assert maps is not None
    return maps[0]


def _transport(problem: RegistrationProblem, kind: Kind, reference: Tensor, source: Tensor) -> TransportResult:
    """What the discrepancy leaves between two sets of the problem's sizes, exactly."""
    mass, distance = (None if limit is None else float(limit[0]) for limit in (problem.mass, problem.distance))
    a, b = (None if weights is None else weights[0] for weights in problem.masses)
    if kind == "complete":  # it limits nothing, and both sets carry the mass of the source
        a = reference.new_ones(len(reference), dtype=torch.float64) if a is None else a
        a = a * (problem.source_total / problem.reference_total)
    return partial_wasserstein(reference, source, mass=mass, distance=distance, reference_weights=a, source_weights=b)


def _observers(
    observer: Observer | None, problem: RegistrationProblem, settings: PwanSettings
) -> Sequence[Observer | None]:
    """Observers of the three registrations, each of which is a third of the way. During the first two the source stays
    where it is."""
    if observer is None:
        return None, None, None
    kind, limited = resolve_kind(problem, settings.type)
    steps = Schedule(resolve(settings, limited, kind)[0], None, None).total * len(pipeline.same_case(problem, settings))
    last = 0

    def coarse(progress: Progress, number: int) -> None:
        nonlocal last
        step = steps * (number * progress.steps + progress.step) // progress.steps
        if step > last:  # a coarse step is less than one of these
            last = step
            observer(Progress(step, 3 * steps, lambda: problem.source, before=2 * steps))

    def fine(progress: Progress) -> None:
        observer(replace(progress, step=2 * steps + progress.step, steps=2 * steps + progress.steps, before=2 * steps))

    return partial(coarse, number=0), partial(coarse, number=1), fine
