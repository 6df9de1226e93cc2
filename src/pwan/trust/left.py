"""What of two registered sets lies far from the other one, and where. numpy and scipy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from pwan.begin.estimate import spacing_of
from pwan.trust.verdict import BEYOND

# Chosen by eye.
NOTED = 0.02  # share of a set from which on it is worth a word that it lies far from the other one
SCATTERED = 0.1  # share of what lies far that is in its largest place: below it no place is worth naming
NEARLY_ALL = 0.9  # the same: from here on the other places are not worth a word
LOOKED_AT = 20_000  # points of a set, at most, among which places are sought
NEIGHBOURS = 8  # of each point; those within BEYOND spacings of their own set lie in one place with it


@dataclass(frozen=True)
class Left:
    """What of one set lies far from the other one.

    Attributes:
        distance: (N,) of its points to the other set, in spacings of the reference.
        share: of its points, farther than ``BEYOND`` spacings from the other set.
        together: share of those that lie in one place, the largest; 0 where there are none.
        row: of the point that is nearest to the middle of that place; 0 where there are none.
        centre: (D,) the middle of that place.
        radius: how far from the middle it extends, in the points' units.
    """

    distance: np.ndarray
    share: float
    together: float = 0.0
    row: int = 0
    centre: tuple[float, ...] = ()
    radius: float = 0.0

    @property
    def noted(self) -> bool:
        """Whether it is worth a word."""
        return self.share >= NOTED


def left_behind(moved: np.ndarray, reference: np.ndarray, spacing: float) -> tuple[Left, Left]:
    """What of the moved source (r, D) and of the reference (q, D) lies far from the other set, in the reference's
    ``spacing``, the median distance of its neighbours."""
    return _left(moved, reference, spacing), _left(reference, moved, spacing)


def _left(points: np.ndarray, other: np.ndarray, spacing: float) -> Left:
    distance = KDTree(other).query(points)[0] / spacing
    far = distance > BEYOND
    some = np.arange(0, len(points), -(-len(points) // LOOKED_AT))
    rows = some[far[some]]
    if not len(rows):
        return Left(distance, float(far.mean()))
    place = rows[_largest(points[rows], BEYOND * spacing_of(points[some]))]
    centre = points[place].mean(0)
    away = np.linalg.norm(points[place] - centre, axis=1)
    middle = int(place[away.argmin()])
    share, together = float(far.mean()), len(place) / len(rows)
    return Left(distance, share, together, middle, tuple(centre.tolist()), float(away.max()))


def _largest(points: np.ndarray, reach: float) -> np.ndarray:
    """(n,) bool: the largest of the parts of points (n, D) that are joined by neighbours within ``reach``."""
    count = min(NEIGHBOURS + 1, len(points))
    length, to = (found.reshape(len(points), count) for found in KDTree(points).query(points, count))
    at, column = np.nonzero(length <= reach)
    graph = coo_array((np.ones(len(at)), (at, to[at, column])), shape=(len(points), len(points)))
    part = connected_components(graph, directed=False)[1]
    return part == np.bincount(part).argmax()


def where(left: tuple[Left, Left]) -> tuple[str, ...]:
    """A sentence for each set of which much lies far from the other one: where the largest part of it is."""
    names = ("moved source", "reference")
    return tuple(
        f"of the {one.share:.0%} of the {name} beyond {BEYOND:g} spacings {_place(one)}"
        for name, one in zip(names, left, strict=True)
        if one.noted
    )


def _place(left: Left) -> str:
    if left.together < SCATTERED:
        return "no place holds much: it is scattered"
    part = "nearly all" if left.together > NEARLY_ALL else f"the largest part, {left.share * left.together:.0%},"
    middle = ", ".join(f"{value:.3g}" for value in left.centre)
    return f"{part} lies around ({middle}), within {left.radius:.2g}"
