"""Whether a registration is to be trusted, in plain words, from what can be measured without a truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from pwan.begin.estimate import LITTLE

NEAR, FAR = 1.5, 3.0  # median distance of matched points, in spacings of the reference: good up to, bad from
SLID = 0.6  # what a quick registration of fewer points leaves between them, over the distance of as many in this one
# Spread of the ratio of the two sets' spacings over the matched points, from which a mass in points pulls the source to
# where the reference is dense; a spacing is the distance of the COUNTED-th neighbour, looked at for some MANY points.
# Independent even draws of one surface give up to 1.9, since so many neighbours are still a chance count.
UNEVEN, COUNTED, MANY = 2.2, 32, 20_000
STILL = 0.1, 0.03  # change of the discrepancy, in itself or in the largest one, up to which it is the potential's noise
HALF = 0.45  # of the smaller set: with less matched by an estimate, most of the answer is extrapolated
FOLDED = 0.01  # share of points at which the map turns space inside out
TAIL = 6.0  # distance of the worst twentieth of the matched points, in their median: something was matched by force


@dataclass(frozen=True)
class LandmarkResidual:
    """Where known pairs ended: how many there are, the median of their distances and the largest one, input units, and
    which pair that is, in words."""

    count: int
    median: float
    largest: float
    farthest: str


@dataclass(frozen=True)
class Measured:
    """What is known of a finished registration.

    Attributes:
        failed: the method's reason where it failed, else empty.
        matched: share of the source's points that are matched. of_smaller: matched points over the smaller set.
        residual, tail: median and 95th percentile of the distances of matched points to the reference, input units.
        spacing: median distance of neighbours in the reference, input units.
        folded: share of the points at which the map folds; None where the method cannot tell.
        settled: whether the discrepancy had stopped to fall; None where the method has no history.
        at_bound: all of the smaller set was matched without being asked for. doubt: of the input, a sentence or empty.
        estimated: nobody said how much is to be matched.
        landmarks: where known pairs ended; None without any.
        slid: distance of the best matched points after a quick registration of fewer points over that in this one; None
            where nobody looked. uneven: see :func:`unevenness`.
    """

    failed: str
    matched: float
    of_smaller: float
    residual: float
    tail: float
    spacing: float
    folded: float | None
    settled: bool | None
    at_bound: bool
    doubt: str = ""
    estimated: bool = False
    landmarks: LandmarkResidual | None = None
    slid: float | None = None
    uneven: float = 1.0


@dataclass(frozen=True)
class Verdict:
    """trusted: no warning. sentences: what was found. warnings: why it is not to be trusted."""

    trusted: bool
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]


def judge(found: Measured) -> Verdict:
    """The verdict on what was measured."""
    sentences: list[str] = []
    warnings = [found.doubt] if found.doubt else []
    if found.failed:
        return Verdict(False, (), (*warnings, f"the registration failed: {found.failed}"))
    ratio = found.residual / found.spacing
    sentences.append(f"{found.matched:.0%} of the source's points are matched")
    sentences.append(
        f"half of them lie within {found.residual:.4g} of the reference, {ratio:.2g} times the spacing of its points"
    )
    if found.settled and ratio <= FAR:  # it may settle anywhere
        sentences.append("it has converged")
    if found.settled is False:
        warnings.append("the discrepancy was still changing at the end: it needs more steps")
    if ratio > FAR:
        warnings.append(
            f"matched points lie {ratio:.2g} spacings from the reference: the sets do not fit. Is the start right "
            "(init=auto), do both show the same thing, can so stiff a transform bend one into the other?"
        )
    elif ratio > NEAR:
        sentences.append("that is a loose fit")
    misplaced = found.landmarks is not None and _judge_landmarks(found.landmarks, found.spacing, sentences, warnings)
    if found.of_smaller < LITTLE:
        warnings.append(f"only {found.of_smaller:.0%} of the smaller set has partners: too little to go by")
    elif found.estimated and found.of_smaller < HALF:
        warnings.append(
            f"by the estimate only {found.of_smaller:.0%} of the smaller set has partners, and the rest goes where the "
            "smooth displacement takes it: if the sets share more, give mass="
        )
    if found.at_bound and found.tail > TAIL * max(found.residual, found.spacing):
        warnings.append(
            "all of the smaller set was matched, and some of it lies far from any partner: give a smaller mass"
        )
    if found.folded:
        words = f"the map folds at {found.folded:.1%} of the points"
        (warnings if found.folded > FOLDED else sentences).append(words)
    if found.slid is not None and found.slid < SLID and not misplaced:  # else that is why
        warnings.append(
            f"a quick registration of fewer points brings them {1 / found.slid:.2g} times nearer: this one has slid "
            "along the reference; give a smaller mass, or another seed"
        )
    if found.uneven > UNEVEN:
        warnings.append(
            f"the density of one set against the other differs by a factor of {found.uneven:.2g} in point distances "
            "from place to place, and the dense places pull: take source_weights=even reference_weights=even, or thin "
            "the sets to an even spacing"
        )
    return Verdict(not warnings, tuple(sentences), tuple(warnings))


def _judge_landmarks(found: LandmarkResidual, spacing: float, sentences: list[str], warnings: list[str]) -> bool:
    """Adds what the pairs tell; whether it is a warning."""
    sentences.append(
        f"the {found.count} landmark pairs end at a median distance of {found.median:.4g}, "
        f"{found.median / spacing:.2g} times the spacing of the reference's points"
    )
    if found.median > FAR * spacing:
        warnings.append(
            f"the landmark pairs end {found.median / spacing:.2g} spacings apart: is the transform too stiff for "
            "them, or do they belong to other scans? A larger method.pull= pulls more"
        )
    elif found.largest > FAR * spacing:
        warnings.append(
            f"a landmark pair ends {found.largest / spacing:.2g} spacings apart, {found.farthest}: is it right?"
        )
    return max(found.median, found.largest) > FAR * spacing


def unevenness(
    begun: np.ndarray,
    moved: np.ndarray,
    reference: np.ndarray,
    matched: np.ndarray,
    evened: tuple[bool, bool] = (False, False),
) -> float:
    """How much the ratio of the two sets' spacings differs from place to place, at least 1: the 90th over the 10th
    percentile over the matched points; 1 for sets too small to tell.

    Args:
        begun: (N, D) the source before the registration, which changes its spacing. moved: (N, D) after it.
        reference: (q, D). matched: (N,) bool. evened: whether the source's and the reference's points were weighted by
            the room around them, so that no place of theirs is denser than another.
    """
    y, rows = np.unique(begun, axis=0, return_index=True)
    x = np.unique(reference, axis=0)
    rows = rows[matched[rows]]
    if min(len(y), len(x)) <= COUNTED or len(rows) == 0:
        return 1.0
    rows = rows[:: max(1, len(rows) // MANY)]
    tree = KDTree(x)
    nearest = tree.query(moved[rows])[1]
    ones = np.ones(len(rows))
    here = ones if evened[0] else KDTree(y).query(begun[rows], COUNTED + 1)[0][:, -1]
    there = ones if evened[1] else tree.query(x[nearest], COUNTED + 1)[0][:, -1]
    low, high = np.quantile(there / here, (0.1, 0.9))
    return float(high / low)


def settled(losses: list[float]) -> bool | None:
    """Whether the mean discrepancy of the last tenth of the steps is that of the tenth before, but for its noise; None
    for too few steps."""
    part = len(losses) // 10
    if part < 3:
        return None
    last, before = np.mean(losses[-part:]), np.mean(losses[-2 * part : -part])
    return bool(abs(last - before) <= max(STILL[0] * abs(before), STILL[1] * np.abs(losses).max()))
