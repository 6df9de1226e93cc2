"""Whether a registration is to be trusted, in plain words, from what can be measured without a truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from pwan.begin.estimate import ESTIMATE
from pwan.registration.flexibility import TORN, Fit
from pwan.registration.pinning import Pinning
from pwan.trust.confidence import reasons
from pwan.trust.signs import Signs

# Limits of the verdict. Where no measurement is named they were chosen by eye.
NEAR = 1.5  # median distance of matched points, in spacings of the reference: a good fit up to here
FAR = 3.0  # the same: a bad fit from here on
SLID = 0.6  # distance after a quick registration of fewer points over that of as many in this one: slid below this
# Spread of the ratio of the two sets' spacings over the matched points, from which on a mass in points draws the source
# to where the reference is dense. Independent even draws of one surface give up to 1.9, since 32 neighbours are still a
# chance count.
UNEVEN = 2.2
NEIGHBOURS = 32  # a spacing is the distance of the neighbour with this number
FEWEST_UNEVEN = 4 * NEIGHBOURS  # points of both sets: of fewer that neighbour is no neighbour
UNEVEN_POINTS = 20_000  # about so many points of the source are looked at
SETTLED_SHARE = 0.1  # change of the discrepancy over itself, up to which it is the potential's noise
SETTLED_SHARE_OF_LARGEST = 0.03  # change of the discrepancy over its largest value, up to which it is noise
ALL = 0.999  # of the smaller set: with so much matched no larger mass can be given
HALF = 0.45  # of the smaller set: with less matched by an estimate, most of the answer is extrapolated
FOLDED = 0.01  # share of points at which the map turns space inside out
BEYOND = 3.0  # spacings of the reference from the other set, from which on a point is said to lie apart
BOTH = 0.2  # of both sets beyond that: of the registrations with known truth 80 of 87 were wrong
# Spacings within which 95% of the matched points of both sets lie near the other one: of the packaged pairs that serve
# for tuning all right results were below 3.1, and the wrong ones above 3.5 but for one fist.
UNCOVERED = 3.5
# Matched points: of fewer the confidence was fitted to hardly any of real shapes, and four of eight heads of 30 points
# were wrong at 91% and more.
FEWEST_JUDGED = 40
SURE = 0.8  # probability of being right from which on a registration is called good
# Matched points whose nearest one has another label, from which on that is a warning: of benchmarks/attributes.py right
# results have up to 5%, from points beside a border, and wrong ones mostly more than 10%.
MISLABELLED = 0.1
TOLD = 8  # landmarks that are told by name, the farthest first
TAIL = 6.0  # 95th percentile of the matched points' distances over their median: something was matched by force


@dataclass(frozen=True)
class LandmarkResidual:
    """Where the landmarks ended.

    Attributes:
        count: how many there are.
        median: of their distances, input units.
        largest: of their distances, input units.
        farthest: which landmark that is, in words.
        each: the name and the distance of each, where they are to be told.
    """

    count: int
    median: float
    largest: float
    farthest: str
    each: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Measured:
    """What is known of a finished registration.

    Attributes:
        failed: the method's reason where it failed, else empty.
        matched: share of the source's points that are matched.
        of_smaller: the mass that both sets have matched over that of the lighter set; by points where none has weights.
        residual: median distance of the matched points to the reference, input units.
        tail: 95th percentile of these distances, input units.
        spacing: median distance of neighbours in the reference, input units.
        folded: share of the points at which the map folds; None where the method cannot tell.
        settled: whether the discrepancy had stopped falling; None where the method has no history.
        at_bound: all of the smaller set was matched although nobody asked for it.
        doubt: about the input, a sentence or empty.
        turn_open: the search turned or shifted the source, and a start that is turned otherwise fits about as well.
        estimated: nobody said how much is to be matched.
        landmarks: where the landmarks ended; None without any.
        pinned: what pinning them bent; None where they were not pinned.
        slide_ratio: see :class:`pwan.begin.sliding.SlidingCheck`; None where it was not checked.
        unevenness: see :func:`unevenness`.
        fit: how near both sets lie to each other, and how far the source is stretched; None where it was not measured.
        beyond: the shares of the moved source and of the reference that lie farther than ``BEYOND`` spacings from the
            other set.
        choice: which flexibility was chosen, and why; None where nothing was to choose.
        mislabelled: share of the matched points whose nearest reference point has another label; None without labels.
        signs: what the confidence is made of; None where it was not measured.
        confidence: see :func:`pwan.trust.confidence.confidence`; None where it was not measured.
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
    turn_open: bool = False
    estimated: bool = False
    landmarks: LandmarkResidual | None = None
    pinned: Pinning | None = None
    slide_ratio: float | None = None
    unevenness: float = 1.0
    fit: Fit | None = None
    beyond: tuple[float, float] = (0.0, 0.0)
    choice: str | None = None
    mislabelled: float | None = None
    signs: Signs | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to trust a registration.

    Attributes:
        trusted: there is no warning.
        sentences: what was found.
        warnings: why it is not to be trusted.
        confidence: the probability that it is right; None where it was not measured.
    """

    trusted: bool
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    confidence: float | None = None


def judge(measured: Measured) -> Verdict:
    """The verdict on what was measured."""
    sentences: list[str] = []
    warnings = [measured.doubt] if measured.doubt else []
    if measured.failed:
        return Verdict(False, (), (*warnings, f"the registration failed: {measured.failed}"), 0.0)
    ratio, all_matched = measured.residual / measured.spacing, measured.of_smaller >= ALL
    sentences.append(f"{measured.matched:.0%} of the source's points are matched")
    sentences.append(
        f"half of them lie within {measured.residual:.4g} of the reference, {ratio:.2g} times the spacing of its points"
    )
    if measured.settled and ratio <= FAR:  # it may settle anywhere
        sentences.append("it has converged")
    if measured.settled is False:
        words = "the discrepancy was still changing at the end: more steps may bring them nearer (method.steps=)"
        # of registrations with known truth all wrong ones that had not settled were doubtful in another way too
        sure = measured.confidence is not None and measured.confidence >= SURE
        (sentences if sure else warnings).append(words)
    if ratio > FAR:
        warnings.append(
            f"matched points lie {ratio:.2g} spacings from the reference: the sets do not fit. Is the start right "
            "(init=auto), do both show the same thing, can so stiff a transform bend one into the other?"
        )
    elif ratio > NEAR:
        sentences.append("that is a loose fit")
    misplaced = measured.landmarks is not None and _judge_landmarks(
        measured.landmarks, measured.spacing, measured.pinned is not None, sentences, warnings
    )
    if measured.pinned is not None:
        names = () if measured.landmarks is None else tuple(name for name, _ in measured.landmarks.each)
        _judge_pinning(measured.pinned, names, measured.spacing, sentences, warnings)
    _judge_share(measured, warnings)
    if measured.turn_open:
        warnings.append(
            "the start was changed, but starts turned otherwise fit about as well: the turn is not determined by "
            "the shapes; take init=none if the sets are in place, or landmarks="
        )
    if measured.choice:
        sentences.append(f"the flexibility was chosen by measurement: {measured.choice}")
    if max(measured.beyond) > 0:
        sentences.append(
            f"{measured.beyond[0]:.0%} of the moved source and {measured.beyond[1]:.0%} of the reference lie farther "
            f"than {BEYOND:g} spacings from the other set"
        )
    if min(measured.beyond) >= BOTH:
        advice = "" if all_matched else "; if both show all of the same thing, give mass= of all"
        warnings.append(
            f"in both sets {min(measured.beyond):.0%} or more lie far from the other one: the same part was probably "
            f"left out of both, such as a limb that moved far{advice}"
        )
    if measured.fit is not None:
        _judge_fit(measured.fit, all_matched, warnings)
    if measured.at_bound and measured.tail > TAIL * max(measured.residual, measured.spacing):
        warnings.append(
            "all of the smaller set was matched, and some of it lies far from any partner: give a smaller mass"
        )
    if measured.folded:
        words = f"the map folds at {measured.folded:.1%} of the points"
        (warnings if measured.folded > FOLDED else sentences).append(words)
    if measured.slide_ratio is not None and measured.slide_ratio < SLID and not misplaced:  # else that is why
        warnings.append(
            f"a quick registration of fewer points brings them {1 / measured.slide_ratio:.2g} times nearer: this one "
            "has slid along the reference; give a smaller mass, or another seed"
        )
    if measured.unevenness > UNEVEN:
        warnings.append(
            f"the density of one set against the other differs by a factor of {measured.unevenness:.2g} in point "
            "distances from place to place, and dense places draw the source: take source_weights=even "
            "reference_weights=even, or thin the sets to an even spacing"
        )
    if measured.mislabelled is not None:
        _judge_labels(measured.mislabelled, sentences, warnings)
    if measured.signs is not None and measured.confidence is not None:
        _judge_confidence(measured.signs, measured.confidence, sentences, warnings)
    return Verdict(not warnings, tuple(sentences), tuple(warnings), measured.confidence)


def _judge_share(measured: Measured, warnings: list[str]) -> None:
    """Add that little has partners, where it is so."""
    if measured.of_smaller < ESTIMATE.little:
        warnings.append(f"only {measured.of_smaller:.0%} of the smaller set has partners: too little to go by")
    elif measured.estimated and measured.of_smaller < HALF:
        warnings.append(
            f"by the estimate only {measured.of_smaller:.0%} of the smaller set has partners, and the rest goes where "
            "the smooth displacement takes it: if the sets share more, give mass="
        )


def _judge_labels(mislabelled: float, sentences: list[str], warnings: list[str]) -> None:
    """Add what share of the matched points lies nearest to another label."""
    words = f"{mislabelled:.0%} of the matched points lie nearest to a point with another label"
    (warnings if mislabelled > MISLABELLED else sentences).append(words)


def _judge_confidence(signs: Signs, confidence: float, sentences: list[str], warnings: list[str]) -> None:
    """Add how probable it is that the registration is right, and what speaks against it."""
    sentences.append(f"of registrations with such measures {confidence:.0%} are right")
    points = round(signs.few**-2)
    if points < FEWEST_JUDGED:
        warnings.append(f"only {points} points are matched: so few fit by chance as well")
    if confidence < SURE:
        why = "; ".join(reasons(signs)) or "no sign is far off, but several are a little"
        warnings.append(f"only {confidence:.0%} of registrations with such measures are right: {why}")


def _judge_fit(fit: Fit, all_matched: bool, warnings: list[str]) -> None:
    """Add what is left uncovered, and what was torn."""
    if fit.distance > UNCOVERED:
        side, other = ("reference", "moved source") if fit.reference > fit.source else ("moved source", "reference")
        advice = "" if all_matched else "mass= if all is in both sets, or "
        warnings.append(
            f"one in twenty of the matched points of the {side} lies {fit.distance:.2g} spacings or more from the "
            f"{other}: a part was left behind, such as a limb that moved far; give {advice}landmarks= for what moved"
        )
    if fit.stretch > TORN:
        warnings.append(
            f"lengths between neighbours changed by {np.expm1(fit.stretch):.0%} and more at one place in twenty: a "
            "part of the source was torn or has collapsed"
        )


def _judge_landmarks(
    residual: LandmarkResidual, spacing: float, pinned: bool, sentences: list[str], warnings: list[str]
) -> bool:
    """Add what the landmarks show; returns whether it is a warning."""
    sentences.append(
        f"the {residual.count} landmarks end at a median distance of {residual.median:.4g}, "
        f"{residual.median / spacing:.2g} times the spacing of the reference's points"
    )
    if residual.each and not pinned:
        sentences.append(f"landmarks: {_falling(residual.each)}")
    if residual.median > FAR * spacing:
        warnings.append(
            f"the landmarks end {residual.median / spacing:.2g} spacings apart: is the transform too stiff for them, "
            "or do they belong to other scans? A larger method.pull= pulls more"
        )
    elif residual.largest > FAR * spacing:
        warnings.append(
            f"a landmark ends {residual.largest / spacing:.2g} spacings apart, {residual.farthest}: is it right?"
        )
    return max(residual.median, residual.largest) > FAR * spacing


def _falling(each: Iterable[tuple[str, float]]) -> str:
    """Landmarks and their distances, the farthest first."""
    falling = sorted(each, key=lambda one: -one[1])
    more = f"; and {len(falling) - TOLD} nearer ones" if len(falling) > TOLD else ""
    return "; ".join(f"{name} {length:.4g}" for name, length in falling[:TOLD]) + more


def _judge_pinning(
    pinned: Pinning, names: tuple[str, ...], spacing: float, sentences: list[str], warnings: list[str]
) -> None:
    """Add what pinning the landmarks bent."""
    if not pinned.width:
        sentences.append("the landmarks were together already: pinning them moved nothing")
        return
    sentences.append(
        f"pinning the {len(pinned.before)} landmarks moved points by up to {pinned.largest:.4g}, "
        f"{pinned.largest / spacing:.2g} times the spacing of the reference's points, and changed lengths between "
        f"neighbours by up to {np.expm1(pinned.stretch):.0%}"
    )
    if names:
        sentences.append(f"until then the landmarks were apart: {_falling(zip(names, pinned.before, strict=True))}")
    if pinned.folded:
        warnings.append(
            f"pinning the landmarks folds the map at {pinned.folded} of the places around them: two of them that lie "
            "near each other contradict each other, or one is wrong"
        )
    elif pinned.largest > FAR * spacing or pinned.stretch > TORN:
        farthest = int(np.argmax(pinned.before))
        name = names[farthest] if names else f"number {farthest} of those pinned"
        warnings.append(
            f"pinning the landmarks bent much: is one of them wrong ({name} was the farthest until then, "
            f"{pinned.before[farthest]:.4g}), or the transform too stiff for them?"
        )


def unevenness(
    source: np.ndarray,
    moved: np.ndarray,
    reference: np.ndarray,
    matched: np.ndarray,
    evened: tuple[bool, bool] = (False, False),
) -> float:
    """How much the ratio of the two sets' spacings differs from place to place, at least 1: the 90th over the 10th
    percentile over the matched points; 1 for sets too small to tell.

    Args:
        source: (N, D) before the registration, which changes its spacing.
        moved: (N, D) the source after the registration.
        reference: (q, D).
        matched: (N,) bool.
        evened: whether the source's and the reference's points were weighted by the room around them, so that no place
            of theirs is denser than another.
    """
    y, rows = np.unique(source, axis=0, return_index=True)
    x = np.unique(reference, axis=0)
    rows = rows[matched[rows]]
    if min(len(y), len(x)) < FEWEST_UNEVEN or len(rows) == 0:
        return 1.0
    rows = rows[:: max(1, len(rows) // UNEVEN_POINTS)]
    tree = KDTree(x)
    nearest = tree.query(moved[rows])[1]
    ones = np.ones(len(rows))
    y_spacing = ones if evened[0] else KDTree(y).query(source[rows], NEIGHBOURS + 1)[0][:, -1]
    x_spacing = ones if evened[1] else tree.query(x[nearest], NEIGHBOURS + 1)[0][:, -1]
    low, high = np.quantile(x_spacing / y_spacing, (0.1, 0.9))
    return float(high / low)


def settled(losses: list[float]) -> bool | None:
    """Whether the mean discrepancy of the last tenth of the steps is that of the tenth before, but for its noise; None
    for fewer than 30 steps."""
    part = len(losses) // 10
    if part < 3:
        return None
    last, before = np.mean(losses[-part:]), np.mean(losses[-2 * part : -part])
    noise = max(SETTLED_SHARE * abs(before), SETTLED_SHARE_OF_LARGEST * np.abs(losses).max())
    return bool(abs(last - before) <= noise)
