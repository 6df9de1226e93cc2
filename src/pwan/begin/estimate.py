"""How much of two sets to match and how far, where nobody says: the paper's m and h from a quick registration.

The paper takes for m the overlap and for h a number near the mean distance of neighbours (appendix "Parameter
selection"). Here a soft assignment with slack and smooth displacements, which needs neither, brings the sets together,
and the points that then have a neighbour in the other set are counted on both sides. What lies within reach because it
is near the edge of the overlap is taken off: an even strip beside the edge holds as many points within one reach as
between one and two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree

from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import draw_centres
from pwan.deformation.transform import Transform
from pwan.normalisation import extent
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed, numpy_generator
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.weights import own_dimension, weights_of_rows

COUNTED, FITTED, LARGEST = 4000, 500, 1500  # points of a set: counted; in the fit, of the smaller and of the larger set
SHARES = (1.0, 0.7, 0.4)  # of the smaller set, to which the fits keep; the one with the greatest overlap counts
RANK, BETA = 60, 2.0  # of the smooth displacements
# wide at first, since nobody knows how far the sets are apart, and stiff, since one part must not stretch over another
QUICK = SoftSettings(steps=40, sigma_start=0.15, sigma_end=0.04, scalings=6, smoothness=150.0, affine_ridge=1000.0)
# flexible, each set centred and scaled by itself: it finds strong deformations of a whole set, but stretches a part,
# so that it counts only where (nearly) all of the smaller set is matched
FLEXIBLE = replace(QUICK, sigma_start=0.3, slack=0.94, smoothness=20.0, affine_ridge=10.0)
SURE = 0.97
# Of independent even draws of one surface, this share has its neighbour within this many median spacings: the distance
# to a neighbour is Rayleigh distributed there, so 0.95 = 1 - 2^-(REACH^2).
WITHIN, REACH = 0.95, 2.079
WHOLE = 0.95  # of the smaller set; above it the rest is taken for the count's error
LEAST_ROOM = 1e-3  # of a point's cell, in the mean one's mass: a point without mass has next to none
LITTLE = 0.3  # of the smaller set; below it a registration has too little to go by


@dataclass(frozen=True)
class Limits:
    """The estimated limits of one problem.

    Attributes:
        mass: the paper's m, in points, at least one and at most all of the smaller set. distance: the paper's h, in
            input units. overlap: the share of the smaller set that has partners, 0 to 1.
        spacing: mean distance of neighbours in the matched part of the reference, in input units.
        little: whether the overlap is too little to trust a registration.
        reason: in words.
    """

    mass: float
    distance: float
    overlap: float
    spacing: float
    little: bool
    reason: str


def estimate_limits(
    source: Any, reference: Any, *, source_weights: Any = None, reference_weights: Any = None, seed: int = 0
) -> Limits:
    """Mass and distance for a registration of the two sets, which must be roughly aligned (see
    :func:`pwan.begin.alignment.find_start`) and may differ by a smooth deformation.

    Args:
        source: (r, D) points that move, D 2 or 3; an array or a tensor. reference: (q, D) points that stay.
        source_weights, reference_weights: (r,) and (q,) masses of the points, None for 1 each; then the mass counts
            them. Of points at the same place the weights add up, while without weights they are taken for one.
        seed: of the samples; the same seed gives the same limits.

    Raises:
        ValueError: for points or weights that cannot be registered.
    """
    y, x, b, a = (
        None if given is None else torch.as_tensor(given).detach().to("cpu", torch.float64)
        for given in (source, reference, source_weights, reference_weights)
    )
    assert y is not None and x is not None
    problem = RegistrationProblem(
        y[None],
        x[None],
        source_weights=None if b is None else b[None],
        reference_weights=None if a is None else a[None],
    )  # checks them
    r, q = float(problem.source_total), float(problem.reference_total)
    y, b = _places(y, b)
    x, a = _places(x, a)
    all_staying = x.numpy()
    y, b = _sample(y, b, COUNTED, derive_seed(seed, "source"))
    x, a = _sample(x, a, COUNTED, derive_seed(seed, "reference"))
    staying = x.numpy()
    y_weights, x_weights = (None if weights is None else weights.numpy() for weights in (b, a))
    smaller = min(r, q)
    best, counts, nearest = -1.0, (0.0, 0.0), np.empty(0, dtype=int)
    for moved, flexible in _fits(y, x, b, a, seed):
        here, here_within, found = _partners(moved, staying, y_weights, x_weights)
        there, there_within, _ = _partners(staying, moved, x_weights, y_weights)
        if here >= WHOLE:  # reference points beside it are outliers, but each can take one source point only
            matched = min(r, there_within * q)
        elif there >= WHOLE:
            matched = min(q, here_within * r)
        else:
            matched = min(here * r, there * q)
        if flexible and (max(here, there) < SURE or matched < SURE * smaller):
            continue
        if matched > best:
            best, counts, nearest = matched, (here * r, there * q), found
    overlap = float(min(best / smaller, 1.0))
    whole = overlap >= WHOLE
    mass = smaller if whole else min(smaller, max(1.0, float(round(overlap * smaller))))
    own = KDTree(all_staying).query(staying[np.unique(nearest)], 2)[0][:, 1]  # of the full set, not of its sample
    spacing = float(own.mean())
    words = f"{counts[0]:.0f} of {r:.0f} source points and {counts[1]:.0f} of {q:.0f} reference points have partners"
    if a is not None or b is not None:
        words += ", by their weights"
    if whole:
        words += f", so all {smaller:.0f} of the smaller set are matched"
    elif overlap < LITTLE:
        words += (
            ": too little overlap to trust a registration; check that the sets show the same thing, and their start"
        )
    else:
        words += f", so {mass:.0f} are matched"
    return Limits(mass, spacing, 1.0 if whole else overlap, spacing, overlap < LITTLE, words)


def spacing_of(points: np.ndarray) -> float:
    """The median distance of points (N, D) to the nearest other place that holds one, in their units."""
    places = np.unique(points, axis=0)
    return float(np.median(KDTree(places).query(places, 2)[0][:, 1]))


def _places(points: torch.Tensor, weights: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The different points, since a mesh that repeats its vertices has no spacing, and what lies at each."""
    if weights is None:
        return torch.unique(points, dim=0), None
    places, at = torch.unique(points, dim=0, return_inverse=True)
    return places, torch.zeros(len(places), dtype=weights.dtype).index_add_(0, at, weights)


def _sample(
    points: torch.Tensor, weights: torch.Tensor | None, size: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if size >= len(points):
        return points, weights
    rows = torch.from_numpy(numpy_generator(seed, "estimate").choice(len(points), size, replace=False))
    return points[rows], None if weights is None else weights_of_rows(weights[None], rows[None])[0]


def _fits(
    source: torch.Tensor,
    reference: torch.Tensor,
    source_weights: torch.Tensor | None,
    reference_weights: torch.Tensor | None,
    seed: int,
) -> list[tuple[np.ndarray, bool]]:
    """The source (n, D) moved by a soft assignment of samples, in input units: stiff, once for each of ``SHARES``, and
    flexible (True).
    """
    n, m = len(source), len(reference)
    (y_centre, y_radius), (x_centre, x_radius) = (
        (centre[0, 0], float(radius))
        for centre, radius in (
            extent(points[None], None if weights is None else weights[None])
            for points, weights in ((source, source_weights), (reference, reference_weights))
        )
    )
    share = min(1.0, FITTED / min(n, m))
    sizes = [min(round(share * size), LARGEST) for size in (n, m)]
    y_rows, x_rows = (
        torch.from_numpy(numpy_generator(seed, "estimate fit", name).choice(size, some, replace=False))
        for name, size, some in (("source", n, sizes[0]), ("reference", m, sizes[1]))
    )
    b, a = (
        None if weights is None else weights_of_rows(weights[None], rows[None])
        for weights, rows in ((source_weights, y_rows), (reference_weights, x_rows))
    )
    lighter = min(
        float(some) if weights is None else float(weights.sum()) for weights, some in zip((b, a), sizes, strict=True)
    )
    common = min(y_radius, x_radius)  # the larger one may come from a few far outliers

    def fit(
        centre: torch.Tensor, y_unit: float, x_unit: float, shares: tuple[float, ...], settings: SoftSettings
    ) -> np.ndarray:
        y, x = (source - centre) / y_unit, (reference[x_rows] - x_centre) / x_unit
        k = len(shares)
        basis = Coherence(y[None], draw_centres(n, RANK, [seed]), BETA).basis  # (1, n, modes)
        transform = Transform("nonrigid", y.expand(k, *y.shape), basis.expand(k, *basis.shape[1:]))
        found = soft_assignment(
            transform.part(y_rows.expand(k, -1)),
            transform.parameters,
            x.expand(k, *x.shape),
            torch.tensor(shares, dtype=torch.float64) * lighter,
            settings,
            [seed] * k,
            weights=(None if a is None else a.expand(k, -1), None if b is None else b.expand(k, -1)),
        )
        return (transform.points(found) * x_unit + x_centre).numpy()  # (k, n, D)

    stiff = fit(x_centre, common, common, SHARES, QUICK)
    flexible = fit(y_centre, y_radius, x_radius, (1.0,), FLEXIBLE)
    return [*((moved, False) for moved in stiff), (flexible[0], True)]


def _partners(
    points: np.ndarray,
    others: np.ndarray,
    weights: np.ndarray | None = None,
    other_weights: np.ndarray | None = None,
) -> tuple[float, float, np.ndarray]:
    """The share of the points (n, D) that have a partner among the others (m, D), from 0 to 1; the share within reach
    of one, edge included; and the number of each one's nearest other (n,). Both shares are of the points' weights.

    The reach is ``REACH`` median spacings of those others that are somebody's nearest, so that scattered outliers do
    not widen it. Of O points in the overlap ``WITHIN`` O are within it, the rest mostly within twice that; F points of
    the strip beside the edge are in each of the two, so the difference of the two counts is (2 ``WITHIN`` - 1) O.
    Where the others are weighted, each weighs as much as it has room around it, and the reach grows with that.
    """
    tree = KDTree(others)
    distances, nearest = tree.query(points)
    places = np.unique(nearest)
    spacings = tree.query(others[places], 2)[0][:, 1]
    room = np.ones(len(others)) if other_weights is None else _room(others, other_weights)
    reach = REACH * float(np.median(spacings / room[places])) * room[nearest]
    within = float(np.average(distances <= reach, weights=weights))
    beyond = float(np.average((distances > reach) & (distances <= 2 * reach), weights=weights))
    inside = min(1.0, max(0.0, within - beyond) / (2 * WITHIN - 1))
    return inside, min(1.0, within / WITHIN), nearest


def _room(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the lengths of the cells of a shape whose masses are the points' weights, in the mean one's."""
    return np.maximum(weights / weights.mean(), LEAST_ROOM) ** (1 / own_dimension(points))
