"""How each method looks in every figure: one colour for a method and its variants, and its name in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# (what a method's name must contain, its colour), the first that fits; Okabe and Ito's colours and Tol's, which
# colour-blind readers can tell apart
_FAMILIES = (
    (("pwan", "distance"), "#882255"),
    (("pwan",), "#d55e00"),
    (("biocpd",), "#332288"),
    (("bcpd",), "#009e73"),
    (("cpd",), "#0072b2"),
    (("gmmreg",), "#cc79a7"),
    (("tpsrpm",), "#e69f00"),
    (("soft_assignment",), "#56b4e9"),
    (("nricp",), "#000000"),
    (("wgan",), "#999933"),
)
_OTHERS = ("#777777", "#a6761d", "#aa4499", "#117733")  # of methods of no family, in the order of their coming
_MARKS = "Doh^sdv<>pPH8"  # a family's, by its place; neither star nor cross, which mean something else
_DASHES = ("-", "--", "-.")
_WORDS = {
    "pwan": "PWAN",
    "pwan_distance": "PWAN, distance type",
    "pwan_paper": "PWAN as published",
    "pwan_paper_distance": "PWAN as published, distance type",
    "pwan_text": "PWAN as in the text",
    "cpd": "CPD",
    "bcpd": "BCPD",
    "gmmreg": "GMM-REG",
    "tpsrpm": "TPS-RPM",
    "soft_assignment": "soft assignment, no network",
}


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes:
        colour: of its line and marks.
        mark: matplotlib's sign for it.
        dash: matplotlib's sign for it.
    """

    colour: str
    mark: str
    dash: str


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method of a figure; variants of one method have its colour, other marks and other dashes."""
    found: dict[str, Look] = {}
    places: list[int] = []
    for method in methods:
        strangers = sum(place >= len(_FAMILIES) for place in places)
        place = next(
            (i for i, (parts, _) in enumerate(_FAMILIES) if all(part in method for part in parts)),
            len(_FAMILIES) + strangers % len(_OTHERS),
        )
        variant = places.count(place)
        places.append(place)
        colour = (*(colour for _, colour in _FAMILIES), *_OTHERS)[place]
        found[method] = Look(colour, _MARKS[(place + variant) % len(_MARKS)], _DASHES[variant % len(_DASHES)])
    return found


def in_words(method: str) -> str:
    """The method as a paper names it; a name that is not known stays as it is."""
    return _WORDS.get(method, method)
