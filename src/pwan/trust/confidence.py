"""The probability that a registration is right, by a model that a person can read.

log(p / (1 - p)) = b - sum_k w_k sign_k with weights w >= 0: no sign of doubt may make anything surer. Fitted by
benchmarks/verdict.py on registrations with known truth; the table of what it is worth stands in benchmarks/README.md.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields

from pwan.trust.signs import Signs


@dataclass(frozen=True)
class Weight:
    """What one sign counts.

    Attributes:
        weight: w >= 0.
        usual: what nine of ten right registrations stay below.
        words: what a larger one means, to be followed by the number.
    """

    weight: float
    usual: float
    words: str


BIAS = 9.4
WEIGHTS = {
    "loose": Weight(1.25, 1.0, "half of the matched points lie far from the reference, in spacings"),
    "off": Weight(5.7, 0.65, "half of the points lie off the other surface, in spacings"),
    "stretch": Weight(13.5, 0.28, "lengths between neighbours changed, as a logarithm at one place in twenty"),
    "tilt": Weight(3.7, 0.23, "the two surfaces stand at an angle, as its sine"),
    "merged": Weight(41.0, 0.0, "parts that were apart have come to lie on each other, as a share of the points"),
    "unmatched": Weight(6.5, 0.3, "a part of the smaller set has no partner, as its share"),
    "few": Weight(10.3, 0.13, "few points are matched, as 1 over the root of their number"),
}
REASONS = 3  # at most so many are told


def confidence(signs: Signs) -> float:
    """The probability, 0 to 1, that the source points which have a partner are where they belong: within .02 of the
    shape's mean squared radius, in the mean square."""
    doubt = sum(WEIGHTS[name].weight * value for name, value in _named(signs)) - BIAS
    return 1 / (1 + math.exp(min(doubt, 700.0)))


def reasons(signs: Signs) -> tuple[str, ...]:
    """What speaks most against a registration, the strongest first, in words: signs beyond what is usual of right
    ones."""
    beyond = {name: WEIGHTS[name].weight * (value - WEIGHTS[name].usual) for name, value in _named(signs)}
    strongest = sorted((name for name, much in beyond.items() if much > 0), key=lambda name: -beyond[name])
    found = dict(_named(signs))
    return tuple(
        f"{WEIGHTS[name].words}: {found[name]:.2g} (usual when right: up to {WEIGHTS[name].usual:.2g})"
        for name in strongest[:REASONS]
    )


def _named(signs: Signs) -> list[tuple[str, float]]:
    return list(zip((f.name for f in fields(signs)), astuple(signs), strict=True))
