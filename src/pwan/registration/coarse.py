"""From coarse to fine: few points are registered in many steps, onto each other in both directions, and all points
begin from the better of the two. Not in the paper.

The objective has minima in which a limb has gone to the wrong place. Which of them is found depends on the direction:
an arm that hangs beside a hip does not leave it, since a smooth displacement takes both along, but an arm that is
stretched out does come down onto one that hangs. What both directions leave of the discrepancy is comparable, and tells
which of them to follow.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pwan.problem import Observer, Progress, RegistrationProblem, RegistrationResult, SpaceMap
from pwan.randomness import numpy_generator
from pwan.registration import pipeline
from pwan.registration.pairs import GUESS, Pull, begun
from pwan.registration.settings import PwanSettings
from pwan.registration.transform import take_rows
from pwan.transport import TransportResult, partial_wasserstein
from pwan.transport.objective import Kind

COARSE, WIDEST, FEWEST = 2000, 4000, 100  # points of the coarse sets: of the source, of a larger reference, at least
PASSES, WAY = 3, 100  # registrations in all, and how many steps each is told as


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
    started = time.perf_counter()
    few = sampled(problem, seeds)
    there = drive(few, quick, seeds=seeds, observer=_part_of(observer, 0, problem.source))
    back = drive(turned_round(few), quick, seeds=seeds, observer=_part_of(observer, 1, problem.source))
    assert there.transform is not None
    guess, words = torch.empty_like(problem.source), []
    for k, seed in enumerate(seeds):
        found = _way_back(few.select([k]), quick, seed, there.transformed[k], back.transformed[k])
        guess[k] = (found or there.transform[k])(problem.source[k])
        words.append("of the reference onto the source" if found else "of fewer points")
    seconds = (time.perf_counter() - started) / len(problem)
    fine = replace(settings, coarse_steps=0)
    result = drive(replace(problem, guess=guess), fine, seeds=seeds, observer=_part_of(observer, 2, problem.source))
    return replace(
        result,
        seconds=[fine_seconds + seconds for fine_seconds in result.seconds],
        stop_reason=[
            f"{reason}; began where a coarse registration {word} led"
            for reason, word in zip(result.stop_reason, words, strict=True)
        ],
    )


def sampled(problem: RegistrationProblem, seeds: Sequence[int]) -> RegistrationProblem:
    """The same share of both sets, at random but for the points of known pairs, which all stay; without the truth."""
    r, q = problem.source.shape[1], problem.reference.shape[1]
    share = min(1.0, COARSE / r, WIDEST / q)
    least = max(FEWEST, 0 if problem.pairs is None else problem.pairs.shape[1])
    rows = []
    for side, (name, n) in enumerate((("source", r), ("reference", q))):
        size = min(n, max(least, round(share * n)))
        needed = [None if problem.pairs is None else problem.pairs[k, :, side] for k in range(len(problem))]
        rows.append(torch.stack([_rows(n, size, *each, name) for each in zip(seeds, needed, strict=True)]))
    kept = rows[0].shape[1] / r
    pairs = problem.pairs
    if pairs is not None:  # their places among the rows, which are in order
        pairs = torch.stack([torch.searchsorted(of, pairs[..., side].contiguous()) for side, of in enumerate(rows)], -1)
    return replace(
        problem,
        source=take_rows(problem.source, rows[0]),
        reference=take_rows(problem.reference, rows[1]),
        mass=None if problem.mass is None else (problem.mass * kept).clamp(max=min(part.shape[1] for part in rows)),
        truth=None,
        pairs=pairs,
    )


def _rows(n: int, size: int, seed: int, needed: Tensor | None, name: str) -> Tensor:
    """Row numbers (size,) out of n, in order, with the needed ones among them."""
    order = torch.from_numpy(numpy_generator(seed, "coarse", name).permutation(n))
    if needed is not None:
        needed = needed.unique()
        order = torch.cat((needed, order[~torch.isin(order, needed)]))
    return order[:size].sort().values


def turned_round(problem: RegistrationProblem) -> RegistrationProblem:
    """The reference onto the source, with the same limit."""
    pairs = None if problem.pairs is None else problem.pairs.flip(-1)
    return replace(problem, source=problem.reference, reference=problem.source, truth=None, pairs=pairs)


def _way_back(
    problem: RegistrationProblem, settings: PwanSettings, seed: int, there: Tensor, back: Tensor
) -> SpaceMap | None:
    """The inverse of what brought the reference of one problem to ``back`` (q, D), or None where ``there`` (r, D), the
    source brought to the reference, is nearer.

    A map with two sheets near each other has no inverse of its own: each source point goes where the optimal transport
    takes it from ``back``, as smoothly as the transform can.
    """
    running = pipeline.Registration(problem, settings, [seed])
    # a scale that the frame takes away is none that one direction has the better of
    unit = float(running.frame.reference_scale / running.frame.source_scale)
    forward, backward = (
        _transport(running.input, running.kind, *sets)
        for sets in ((problem.reference[0], there), (back * unit, problem.source[0] * unit))
    )
    if forward.value <= backward.value:
        return None
    carried = torch.from_numpy(backward.plan)  # (q, r)
    partner = torch.stack((torch.arange(carried.shape[1]), carried.argmax(0)), -1)  # (r, 2)
    whole = running.solver.whole
    pull = Pull(whole.transform, whole.reference, partner[None], carried.sum(0)[None], GUESS)
    maps = running.space_maps(begun(pull, whole, running.settings))
    assert maps is not None
    return maps[0]


def _transport(problem: RegistrationProblem, kind: Kind, reference: Tensor, source: Tensor) -> TransportResult:
    """What the discrepancy leaves between two sets of the problem's sizes, exactly."""
    mass, distance = (None if limit is None else float(limit[0]) for limit in (problem.mass, problem.distance))
    # complete transport limits nothing, and both sets carry the mass of the source
    weights = np.full(len(reference), len(source) / len(reference)) if kind == "complete" else None
    return partial_wasserstein(reference, source, mass=mass, distance=distance, reference_weights=weights)


def _part_of(observer: Observer | None, number: int, source: Tensor) -> Observer | None:
    """An observer of one of the three registrations, each of which is a third of the way; before the last one the
    source stays where it is."""
    if observer is None:
        return None

    def told(progress: Progress) -> None:
        step = round((number + progress.step / progress.steps) * WAY)
        observer(Progress(step, PASSES * WAY, progress.transformed if number == PASSES - 1 else lambda: source))

    return told
