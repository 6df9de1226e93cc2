"""Whether a registration is to be trusted, in plain words, from what can be measured without a truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwan.registration.estimate import LITTLE

NEAR, FAR = 1.5, 3.0  # median distance of matched points, in spacings of the reference: good up to, bad from
CLOSE = 0.1  # the same; where points lie as near, what still changes is the noise of the potential
FOLDED = 0.01  # share of points at which the map turns space inside out
TAIL = 6.0  # distance of the worst twentieth of the matched points, in their median: something was matched by force


@dataclass(frozen=True)
class Landmarks:
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
        landmarks: where known pairs ended; None without any.
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
    landmarks: Landmarks | None = None


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
    if found.settled is False and ratio > CLOSE:
        warnings.append("the discrepancy was still changing at the end: it needs more steps")
    if ratio > FAR:
        warnings.append(
            f"matched points lie {ratio:.2g} spacings from the reference: the sets do not fit. Is the start right "
            "(init=auto), do both show the same thing, can so stiff a transform bend one into the other?"
        )
    elif ratio > NEAR:
        sentences.append("that is a loose fit")
    if found.of_smaller < LITTLE:
        warnings.append(f"only {found.of_smaller:.0%} of the smaller set has partners: too little to go by")
    if found.at_bound and found.tail > TAIL * max(found.residual, found.spacing):
        warnings.append(
            "all of the smaller set was matched, and some of it lies far from any partner: give a smaller mass"
        )
    if found.folded:
        words = f"the map folds at {found.folded:.1%} of the points"
        (warnings if found.folded > FOLDED else sentences).append(words)
    if found.landmarks is not None:
        _judge_landmarks(found.landmarks, found.spacing, sentences, warnings)
    return Verdict(not warnings, tuple(sentences), tuple(warnings))


def _judge_landmarks(found: Landmarks, spacing: float, sentences: list[str], warnings: list[str]) -> None:
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


def settled(losses: list[float]) -> bool | None:
    """Whether the mean discrepancy of the last tenth of the steps is within a tenth of that of the tenth before; None
    for too few steps."""
    part = len(losses) // 10
    if part < 3:
        return None
    last, before = np.mean(losses[-part:]), np.mean(losses[-2 * part : -part])
    return bool(abs(last - before) <= 0.1 * abs(before) + 1e-9 * abs(losses[0]))
