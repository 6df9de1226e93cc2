"""What tells a right registration from a wrong one when nobody knows the truth: a handful of measures.

Each grows with doubt. All are ratios, so that neither units nor the number of points matter much; r source and q
reference points in D dimensions. numpy and scipy, float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

from pwan.deformation.graph import shape_graph
from pwan.registration.flexibility import Fit

LOOKED_AT = 1500  # points of either set at most
FROM = 60  # points from which ways along the shapes are compared
AROUND = 12  # neighbours that span a plane
NEXT = 3  # neighbours of a moved point that are asked where they came from
FAR_BEFORE = 3.0  # times the distance of the 8th neighbour: from there on two source points were no neighbours
EIGHTH = 8
TINY = 1e-300


@dataclass(frozen=True)
class Signs:
    """Measures of a registration, all of them growing with doubt.

    Attributes:
        far: the larger one of both sets' 95% quantiles of the distance to the other set, of matched points in spacings
            of the reference.
        loose: the median of the matched source points' distances, in the same unit.
        stretch: the 95% quantile of |log| of how the lengths between neighbours of the source changed, beside what all
            of them did.
        detour: the median of |log| of the lengths of ways along the reference over those along the source, between the
            same points, beside what all of them did: of shapes that differ, or that lie wrongly on each other, the ways
            differ.
        detour_tail: the 90% quantile of the same.
        tilt: the median angle between the moved source and the reference at matched points, as the sine, beyond that
            between neighbours of the reference.
        merged: the share of matched points whose nearest neighbours after the registration were none before.
        left_source: the share of the source that is not within 3 spacings of the reference.
        left_reference: the same of the reference.
        left_both: the smaller one of the two: what two shapes do not have in common is in one of them, or in both.
        unmatched: the share of the smaller set that has no partner.
        few: 1 over the square root of the number of matched points.
        searched: the same where the start was searched for and changed, else 0: few points fit in many ways.
        rival: what the start leaves, over what the best one leaves that is turned otherwise; 0 where none was tried.
    """

    far: float
    loose: float
    stretch: float
    detour: float
    detour_tail: float
    tilt: float
    merged: float
    left_source: float
    left_reference: float
    left_both: float
    unmatched: float
    few: float
    searched: float
    rival: float


def signs(
    source: np.ndarray,
    moved: np.ndarray,
    reference: np.ndarray,
    matched: np.ndarray,
    reference_matched: np.ndarray,
    fit: Fit,
    *,
    searched: bool = False,
    rival: float = 0.0,
) -> Signs:
    """The signs of a registration of source points (r, D), moved to (r, D), onto a reference (q, D), of which those
    in ``matched`` (r,) and ``reference_matched`` (q,) have partners, and which fit as ``fit`` says; ``searched`` where
    the start was searched for and changed, ``rival`` as :class:`Signs` has it."""
    mass = max(1.0, float(matched.sum()))
    few = float(1 / np.sqrt(mass))
    tree = KDTree(reference)
    places = np.unique(reference, axis=0)
    spacing = max(float(np.median(KDTree(places).query(places, 2)[0][:, 1])), TINY)
    to_reference, nearest = tree.query(moved)
    left = [float((of > 3 * spacing).mean()) for of in (to_reference, KDTree(moved).query(reference)[0])]
    rows = np.flatnonzero(matched) if matched.any() else np.arange(len(source))
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), LOOKED_AT)).round().astype(np.int64)]
    detour, tail = _detours(source[rows], reference, nearest[rows], reference_matched)
    return Signs(
        far=fit.distance,
        loose=float(np.median(to_reference[rows])) / spacing,
        stretch=fit.stretch,
        detour=detour,
        detour_tail=tail,
        tilt=_tilt(moved[rows], reference, nearest[rows]),
        merged=_merged(source[rows], moved[rows]),
        left_source=left[0],
        left_reference=left[1],
        left_both=min(left),
        unmatched=max(0.0, 1 - mass / min(len(source), len(reference))),
        few=few,
        searched=few if searched else 0.0,
        rival=rival,
    )


def _detours(
    source: np.ndarray, reference: np.ndarray, partner: np.ndarray, reference_matched: np.ndarray
) -> tuple[float, float]:
    """Ways along both shapes between the same points: the median and 90% quantile of |log| of their ratio."""
    others = np.flatnonzero(reference_matched)
    others = others[np.linspace(0, len(others) - 1, min(len(others), 2 * LOOKED_AT)).round().astype(np.int64)]
    staying = np.union1d(others, partner)
    place = np.searchsorted(staying, partner)
    if len(source) < 4 or len(staying) < 4:
        return 0.0, 0.0
    start = np.linspace(0, len(source) - 1, min(len(source), FROM)).round().astype(np.int64)
    of_source = dijkstra(shape_graph(source), directed=False, indices=start)
    of_reference = dijkstra(shape_graph(reference[staying]), directed=False, indices=place[start])[:, place]
    apart = of_source > np.quantile(of_source, 0.2)  # near ones are one spacing or two
    apart &= of_reference > 0
    if not apart.any():
        return 0.0, 0.0
    change = np.log(of_reference[apart] / of_source[apart])
    change = np.abs(change - np.median(change))
    return float(np.median(change)), float(np.quantile(change, 0.9))


def _tilt(moved: np.ndarray, reference: np.ndarray, partner: np.ndarray) -> float:
    """The angle between both surfaces beyond that between neighbours of the reference, whose shape may be rough."""
    if len(reference) < 3:
        return 0.0
    _, near = KDTree(reference).query(reference[partner], 2)
    neighbour = np.where(near[:, 0] == partner, near[:, 1], near[:, 0])
    there = _normals(reference[partner], reference)
    found, usual = (
        float(np.median(np.sqrt(1 - np.square((there * other).sum(1)).clip(max=1.0))))
        for other in (_normals(moved, moved), _normals(reference[neighbour], reference))
    )
    return max(0.0, found - usual)


def _normals(at: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(n, D) the direction in which the neighbours of each place (n, D) among the points extend least."""
    count = min(AROUND, len(points))
    near = points[KDTree(points).query(at, count)[1].reshape(len(at), count)]
    near = near - near.mean(1, keepdims=True)
    return np.linalg.eigh(near.swapaxes(1, 2) @ near)[1][:, :, 0]


def _merged(source: np.ndarray, moved: np.ndarray) -> float:
    if len(source) <= EIGHTH + 1:
        return 0.0
    usual = KDTree(source).query(source, EIGHTH + 1)[0][:, -1]
    near = KDTree(moved).query(moved, NEXT + 1)[1][:, 1:]
    before = np.linalg.norm(source[near] - source[:, None], axis=-1)
    return float((before > FAR_BEFORE * usual[:, None]).any(1).mean())
