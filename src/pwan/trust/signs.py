"""What tells a right registration from a wrong one when nobody knows the truth: a handful of measures.

Each grows with doubt. All are ratios, so that units do not matter; r source and q reference points in D dimensions.
numpy and scipy, float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from pwan.begin.estimate import spacing_of
from pwan.begin.nearness import Surface
from pwan.registration.flexibility import Fit

LOOKED_AT = 1500  # points of either set at most
NEXT = 3  # neighbours of a moved point that are asked where they came from
FAR_BEFORE = 3.0  # times the distance of the 8th neighbour: from there on two source points were no neighbours
EIGHTH = 8
TINY = 1e-300


@dataclass(frozen=True)
class Signs:
    """Measures of a registration, all of them growing with doubt.

    Attributes:
        loose: the median of the matched source points' distances to the reference, in spacings of the reference.
        off: the larger one of both sets' medians of the distance from the other one's surface (the plane through
            neighbours) at matched points, in the same unit.
        stretch: the 95% quantile of |log| of how the lengths between neighbours of the source changed, beside what all
            of them did.
        tilt: the median angle between the moved source and the reference at matched points, as the sine, beyond that
            between neighbours of the reference, whose shape may be rough.
        merged: the share of matched points whose nearest neighbours after the registration were none before.
        unmatched: the share of the smaller set that has no partner.
        few: 1 over the square root of the number of matched points.
    """

    loose: float
    off: float
    stretch: float
    tilt: float
    merged: float
    unmatched: float
    few: float


def signs(
    source: np.ndarray,
    moved: np.ndarray,
    reference: np.ndarray,
    matched: np.ndarray,
    reference_matched: np.ndarray,
    fit: Fit,
) -> Signs:
    """The signs of a registration of source points (r, D), moved to (r, D), onto a reference (q, D), of which those
    in ``matched`` (r,) and ``reference_matched`` (q,) have partners, and which fit as ``fit`` says."""
    both = min(matched.sum(), reference_matched.sum())  # within h a point may have several partners
    spacing = max(spacing_of(reference), TINY)
    rows, staying = _some(matched), _some(reference_matched)
    surfaces = Surface.through(moved), Surface.through(reference)
    distance, nearest = surfaces[1].tree.query(moved[rows])
    off = surfaces[1].distance(moved[rows]), surfaces[0].distance(reference[staying])
    return Signs(
        loose=float(np.median(distance)) / spacing,
        off=max(float(np.median(of)) for of in off) / spacing,
        stretch=fit.stretch,
        tilt=_tilt(surfaces[0], surfaces[1], rows, nearest),
        merged=_merged(source[rows], moved[rows]),
        unmatched=1 - float(both) / min(len(source), len(reference)),
        few=float(1 / np.sqrt(max(1, matched.sum()))),
    )


def _some(matched: np.ndarray) -> np.ndarray:
    """Rows of matched points, all or evenly drawn ones; of all points where none is matched."""
    rows = np.flatnonzero(matched) if matched.any() else np.arange(len(matched))
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), LOOKED_AT)).round().astype(np.int64)]


def _tilt(moved: Surface, reference: Surface, rows: np.ndarray, partner: np.ndarray) -> float:
    """Of rows of the moved source and their partners; 0 where either set is no surface, or too small to show it."""
    if moved.normals is None or reference.normals is None:
        return 0.0
    here, there = moved.normals[rows], reference.normals[partner]
    near = reference.tree.query(reference.tree.data[partner], 2)[1]
    neighbour = reference.normals[np.where(near[:, 0] == partner, near[:, 1], near[:, 0])]
    found, usual = (
        float(np.median(np.sqrt(1 - np.square((there * other).sum(1)).clip(max=1.0)))) for other in (here, neighbour)
    )
    return max(0.0, found - usual)


def _merged(source: np.ndarray, moved: np.ndarray) -> float:
    if len(source) <= EIGHTH + 1:
        return 0.0
    usual = KDTree(source).query(source, EIGHTH + 1)[0][:, -1]
    near = KDTree(moved).query(moved, NEXT + 1)[1][:, 1:]
    before = np.linalg.norm(source[near] - source[:, None], axis=-1)
    return float((before > FAR_BEFORE * usual[:, None]).any(1).mean())
