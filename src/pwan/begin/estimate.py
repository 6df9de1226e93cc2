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

from pwan.arrays import real_array, to_points
from pwan.begin.quick_fit import sample
from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import draw_centres, nystrom
from pwan.deformation.transform import Transform
from pwan.normalisation import extent
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed, numpy_generator
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.weights import own_dimension, weights_of_rows

_STIFF = SoftSettings(steps=40, sigma_start=0.15, sigma_end=0.04, scalings=6, smoothness=150.0, affine_ridge=1000.0)
_FLEXIBLE = replace(_STIFF, sigma_start=0.3, slack=0.94, smoothness=20.0, affine_ridge=10.0)


@dataclass(frozen=True)
class EstimateSettings:
    """How the estimate goes.

    The shares ``sure``, ``whole`` and ``little`` were tuned together, on partial bunnies and bunnies among outliers.
    benchmarks/README.md, section "Own scans", states what they give, partly on the same trials. No value was measured
    alone.

    Attributes:
        counted_points: of each set, at most, that are counted.
        fitted_points: of the smaller set's sample, in the fit.
        most_fitted_points: of the larger set's sample, which is the same share of it.
        shares: of the smaller set, to which the stiff fits keep; the one with the greatest overlap counts.
        rank: of the smooth displacements.
        beta: width of their kernel, in the unit of the fit.
        stiff: wide at first, since nobody knows how far the sets are apart, and stiff, since one part must not stretch
            over another. Lengths in the smaller RMS radius of both sets.
        flexible: of sets that are each centred and scaled by their own RMS radius. It finds strong deformations of a
            whole set, but stretches a part.
        sure: share of the smaller set; the flexible fit counts only where this much has partners.
        within: of independent even draws of one surface this share has its neighbour within ``reach``.
        reach: in median spacings. The distance to a neighbour is Rayleigh distributed on an even draw, so
            within = 1 - 2^-(reach^2).
        whole: share of the smaller set; above it the rest is taken for the count's error.
        little: share of the smaller set; below it a registration has too little to go by.
    """

    counted_points: int = 4000
    fitted_points: int = 500
    most_fitted_points: int = 1500
    shares: tuple[float, ...] = (1.0, 0.7, 0.4)
    rank: int = 60
    beta: float = 2.0
    stiff: SoftSettings = _STIFF
    flexible: SoftSettings = _FLEXIBLE
    sure: float = 0.97
    within: float = 0.95
    reach: float = 2.079
    whole: float = 0.95
    little: float = 0.3


ESTIMATE = EstimateSettings()
LEAST_ROOM = 1e-3  # of a point's cell, in the mean one's mass: a point without mass has next to none


@dataclass(frozen=True)
class Limits:
    """The estimated limits of one problem.

    Attributes:
        mass: the paper's m, in points, at least one and at most all of the smaller set; with weights in these, at least
            one of mean weight and at most all of the lighter set.
        distance: the paper's h, in input units.
        overlap: the share of the smaller set that has partners, 0 to 1.
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
    """Mass and distance for a registration of the two sets.

    The sets must be roughly aligned (see :func:`pwan.begin.alignment.find_start`) and may differ by a smooth
    deformation.

    Args:
        source: (r, D) points that move, D 2 or 3; an array or a tensor.
        reference: (q, D) points that stay.
        source_weights: (r,) masses of the points, None for 1 each; the mass then counts them. Weights of points at the
            same place add up, while without weights such points are taken for one.
        reference_weights: (q,), the same of the reference.
        seed: of the samples; the same seed gives the same limits.

    Raises:
        ValueError: for points or weights that cannot be registered.
    """
    y, x = to_points("source", source), to_points("reference", reference)
    b, a = (
        None if weights is None else torch.from_numpy(real_array(name, weights).astype(np.float64))
        for name, weights in (("source_weights", source_weights), ("reference_weights", reference_weights))
    )
    problem = RegistrationProblem(
        y[None],
        x[None],
        source_weights=None if b is None else b[None],
        reference_weights=None if a is None else a[None],
    )  # checks them
    r, q = float(problem.source_total), float(problem.reference_total)
    sizes = len(y), len(x)
    y, b = _places(y, b)
    x, a = _places(x, a)
    whole_reference = x.numpy()
    y, b = _sample(y, b, derive_seed(seed, "source"))
    x, a = _sample(x, a, derive_seed(seed, "reference"))
    staying = x.numpy()
    y_weights, x_weights = (None if weights is None else weights.numpy() for weights in (b, a))
    smaller = min(r, q)
    most, counts, partners = -1.0, (0.0, 0.0), np.empty(0, dtype=int)
    for moved, flexible in _fits(y, x, b, a, seed):
        y_share, y_within, nearest = _partners(moved, staying, y_weights, x_weights)
        x_share, x_within, _ = _partners(staying, moved, x_weights, y_weights)
        if (
            y_share >= ESTIMATE.whole
        ):  # reference points beside it are outliers, but each can take one source point only
            matched = min(r, x_within * q)
        elif x_share >= ESTIMATE.whole:
            matched = min(q, y_within * r)
        else:
            matched = min(y_share * r, x_share * q)
        if flexible and (max(y_share, x_share) < ESTIMATE.sure or matched < ESTIMATE.sure * smaller):
            continue
        if matched > most:
            most, counts, partners = matched, (y_share * r, x_share * q), nearest
    overlap = float(min(most / smaller, 1.0))
    whole = overlap >= ESTIMATE.whole
    of_a_point = 1.0 if a is None and b is None else smaller / sizes[int(q < r)]  # the mean weight, which may be small
    points = max(1, round(overlap * smaller / of_a_point))
    mass = smaller if whole else min(smaller, points * of_a_point)
    matched_part = staying[np.unique(partners)]
    spacing = float(KDTree(whole_reference).query(matched_part, 2)[0][:, 1].mean())  # in the full set, not its sample
    digits = ".0f" if of_a_point > 0.5 else ".3g"
    words = (
        f"{counts[0]:{digits}} of {r:{digits}} source points and {counts[1]:{digits}} of {q:{digits}} reference points"
    )
    words += " have partners" if a is None and b is None else " have partners, by their weights"
    if whole:
        words += f", so all {smaller:{digits}} of the smaller set are matched"
    elif overlap < ESTIMATE.little:
        words += (
            ": too little overlap to trust a registration; check that the sets show the same thing, and their start"
        )
    else:
        words += f", so {mass:{digits}} are matched"
    return Limits(mass, spacing, 1.0 if whole else overlap, spacing, overlap < ESTIMATE.little, words)


def spacing_of(points: np.ndarray) -> float:
    """The median distance of points (N, D) to the nearest other place that holds one, in their units."""
    places = np.unique(points, axis=0)
    return float(np.median(KDTree(places).query(places, 2)[0][:, 1]))


def _places(points: torch.Tensor, weights: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The different points, since a mesh that repeats its vertices has no spacing, and what lies at each."""
    if weights is None:
        return torch.unique(points, dim=0), None
    places, at = torch.unique(points, dim=0, return_inverse=True)
    return places, weights.new_zeros(len(places)).index_add_(0, at, weights)


def _sample(points: torch.Tensor, weights: torch.Tensor | None, seed: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    rows = torch.from_numpy(sample(np.arange(len(points)), ESTIMATE.counted_points, seed, "estimate"))
    return points[rows], None if weights is None else weights_of_rows(weights[None], rows[None])[0]


def _fits(
    source: torch.Tensor,
    reference: torch.Tensor,
    source_weights: torch.Tensor | None,
    reference_weights: torch.Tensor | None,
    seed: int,
) -> list[tuple[np.ndarray, bool]]:
    """The source (n, D) moved by a soft assignment of samples, in input units: stiff, once for each
    share (False), and flexible (True).
    """
    n, m = len(source), len(reference)
    (y_centre, y_radius), (x_centre, x_radius) = (
        (centre[0, 0], float(radius))
        for centre, radius in (
            extent(points[None], None if weights is None else weights[None])
            for points, weights in ((source, source_weights), (reference, reference_weights))
        )
    )
    share = min(1.0, ESTIMATE.fitted_points / min(n, m))
    sizes = [min(round(share * size), ESTIMATE.most_fitted_points) for size in (n, m)]
    y_rows, x_rows = (
        torch.from_numpy(numpy_generator(seed, "estimate fit", name).choice(size, drawn, replace=False))
        for name, size, drawn in (("source", n, sizes[0]), ("reference", m, sizes[1]))
    )
    b, a = (
        None if weights is None else weights_of_rows(weights[None], rows[None])
        for weights, rows in ((source_weights, y_rows), (reference_weights, x_rows))
    )
    lighter = min(
        float(drawn) if weights is None else float(weights.sum()) for weights, drawn in zip((b, a), sizes, strict=True)
    )
    common = min(y_radius, x_radius)  # the larger one may come from a few far outliers

    def fit(
        centre: torch.Tensor, y_unit: float, x_unit: float, shares: tuple[float, ...], settings: SoftSettings
    ) -> np.ndarray:
        y, x = (source - centre) / y_unit, (reference[x_rows] - x_centre) / x_unit
        k = len(shares)
        factor = nystrom(y[None], draw_centres(n, ESTIMATE.rank, [seed]), ESTIMATE.beta)
        basis = Coherence(y[None], factor).basis  # (1, n, modes)
        transform = Transform("nonrigid", y.expand(k, *y.shape), basis.expand(k, *basis.shape[1:]))
        fitted = soft_assignment(
            transform.part(y_rows.expand(k, -1)),
            transform.parameters,
            x.expand(k, *x.shape),
            x.new_tensor(shares) * lighter,
            settings,
            [seed] * k,
            weights=(None if a is None else a.expand(k, -1), None if b is None else b.expand(k, -1)),
        )
        return (transform.points(fitted) * x_unit + x_centre).numpy()  # (k, n, D)

    stiff = fit(x_centre, common, common, ESTIMATE.shares, ESTIMATE.stiff)
    flexible = fit(y_centre, y_radius, x_radius, (1.0,), ESTIMATE.flexible)
    return [*((moved, False) for moved in stiff), (flexible[0], True)]


def _partners(
    points: np.ndarray,
    others: np.ndarray,
    weights: np.ndarray | None = None,
    other_weights: np.ndarray | None = None,
) -> tuple[float, float, np.ndarray]:
    """The share of the points (n, D) that have a partner among the others (m, D), from 0 to 1; the share within reach
    of one, edge included; and the number of each one's nearest other (n,). Both shares are of the points' weights.

    The reach is ``reach`` median spacings of those others that are somebody's nearest: scattered outliers must not
    widen it. Of O points in the overlap ``within`` O are within it, the rest mostly within twice that; F points of
    the strip beside the edge are in each of the two, so the difference of the two counts is (2 ``within`` - 1) O.
    Where the others are weighted, each weighs as much as it has room around it, and the reach grows with that.
    """
    tree = KDTree(others)
    distances, nearest = tree.query(points)
    places = np.unique(nearest)
    spacings = tree.query(others[places], 2)[0][:, 1]
    room = np.ones(len(others)) if other_weights is None else _room(others, other_weights)
    reach = ESTIMATE.reach * float(np.median(spacings / room[places])) * room[nearest]
    within = float(np.average(distances <= reach, weights=weights))
    beyond = float(np.average((distances > reach) & (distances <= 2 * reach), weights=weights))
    inside = min(1.0, max(0.0, within - beyond) / (2 * ESTIMATE.within - 1))
    return inside, min(1.0, within / ESTIMATE.within), nearest


def _room(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the lengths of the cells of a shape whose masses are the points' weights, in the mean one's."""
    return np.maximum(weights / weights.mean(), LEAST_ROOM) ** (1 / own_dimension(points))
