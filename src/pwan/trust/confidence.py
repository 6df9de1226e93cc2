"""The probability that a registration is right, by a model that a person can read.

log(p / (1 - p)) = b - sum_k w_k sign_k with weights w >= 0: no sign of doubt may make anything surer. Fitted by
benchmarks/verdict.py on registrations with known truth; the table of what it is worth stands in benchmarks/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields

from pwan.trust.signs import Signs


@dataclass(frozen=True)
class Weight:
    """What one sign counts.

    Attributes:
        weight: w >= 0.
        usual: what nine of ten right registrations stay below.
        words: what a larger one means, to be followed by the number.
        shown: the number in a unit that people know.
    """

    weight: float
    usual: float
    words: str
    shown: Callable[[float], str]


def _spacings(value: float) -> str:
    return f"{value:.2f} spacings"


def _share(value: float) -> str:
    return f"{value:.1%}"


BIAS = 9.4
WEIGHTS = {
    "loose": Weight(1.25, 1.0, "half of the matched points lie farther from the reference than", _spacings),
    "off": Weight(5.7, 0.65, "half of the points lie farther from the other one's surface than", _spacings),
    "stretch": Weight(
        13.5,
        0.28,
        "at one place in twenty neighbours came apart or together by more than",
        lambda value: _share(math.expm1(value)),
    ),
    "tilt": Weight(
        3.7,
        0.23,
        "the two surfaces stand at an angle, at half of the points by more than",
        lambda value: f"{math.degrees(math.asin(min(1.0, value))):.0f} degrees",
    ),
    "merged": Weight(41.0, 0.0, "points lie on a part of the source that they were far from before:", _share),
    "unmatched": Weight(6.5, 0.3, "without a partner is of the smaller set", _share),
    "few": Weight(10.3, 0.13, "few points are matched:", lambda value: f"{value**-2:.0f}"),
}
REASONS = 3  # at most so many are told


def confidence(signs: Signs) -> float:
    """The probability, 0 to 1, that the source points which have a partner are where they belong: within .02 of the
    shape's mean squared radius, in the mean square."""
    doubt = sum(WEIGHTS[name].weight * value for name, value in _named(signs)) - BIAS
    return 1 / (1 + math.exp(min(doubt, 700.0)))


def reasons(signs: Signs) -> tuple[str, ...]:
    """What speaks most against a registration, the strongest first, in words: signs beyond what is usual of right
    ones, where that shows."""
    found = dict(_named(signs))
    beyond = {name: of.weight * (found[name] - of.usual) for name, of in WEIGHTS.items()}
    strongest = [name for name in sorted(beyond, key=lambda name: -beyond[name]) if beyond[name] > 0]
    told = []
    for name in strongest:
        of = WEIGHTS[name]
        here, usual = of.shown(found[name]), of.shown(of.usual)
        if here != usual:
            told.append(f"{of.words} {here} (usual when right: {'from' if name == 'few' else 'up to'} {usual})")
    return tuple(told[:REASONS])


def _named(signs: Signs) -> list[tuple[str, float]]:
    return list(zip((f.name for f in fields(signs)), astuple(signs), strict=True))
