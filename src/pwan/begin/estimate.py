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
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed, numpy_generator
from pwan.registration.soft_assignment import SoftSettings, soft_assignment

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


def estimate_limits(source: Any, reference: Any, *, seed: int = 0) -> Limits:
    """Mass and distance for a registration of the two sets, which must be roughly aligned (see
    :func:`pwan.begin.alignment.find_start`) and may differ by a smooth deformation.

    Args:
        source: (r, D) points that move, D 2 or 3; an array or a tensor. reference: (q, D) points that stay.
        seed: of the samples; the same seed gives the same limits.

    Raises:
        ValueError: for points that cannot be registered.
    """
    y, x = (torch.as_tensor(points).detach().to("cpu", torch.float64) for points in (source, reference))
    RegistrationProblem(y[None], x[None])  # checks them
    r, q = len(y), len(x)
    y, x = (torch.unique(points, dim=0) for points in (y, x))  # a mesh that repeats its vertices has no spacing
    all_staying = x.numpy()
    y, x = (_sample(points, COUNTED, derive_seed(seed, name)) for points, name in ((y, "source"), (x, "reference")))
    staying = x.numpy()
    smaller = min(r, q)
    best, counts, nearest = -1.0, (0.0, 0.0), np.empty(0, dtype=int)
    for moved, flexible in _fits(y, x, seed):
        (here, here_within, found), (there, there_within, _) = _partners(moved, staying), _partners(staying, moved)
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
    mass = float(smaller) if whole else max(1.0, float(round(overlap * smaller)))
    own = KDTree(all_staying).query(staying[np.unique(nearest)], 2)[0][:, 1]  # of the full set, not of its sample
    spacing = float(own.mean())
    words = f"{counts[0]:.0f} of {r} source points and {counts[1]:.0f} of {q} reference points have partners"
    if whole:
        words += f", so all {smaller} of the smaller set are matched"
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


def _sample(points: torch.Tensor, size: int, seed: int) -> torch.Tensor:
    if size >= len(points):
        return points
    rows = numpy_generator(seed, "estimate").choice(len(points), size, replace=False)
    return points[torch.from_numpy(rows)]


def _fits(source: torch.Tensor, reference: torch.Tensor, seed: int) -> list[tuple[np.ndarray, bool]]:
    """The source (n, D) moved by a soft assignment of samples, in input units: stiff, once for each of ``SHARES``, and
    flexible (True).
    """
    n, m = len(source), len(reference)
    centres = [p.mean(0) for p in (source, reference)]
    radii = [float((p - c).square().sum(-1).mean().sqrt()) for p, c in zip((source, reference), centres, strict=True)]
    share = min(1.0, FITTED / min(n, m))
    sizes = [min(round(share * size), LARGEST) for size in (n, m)]
    y_rows, x_rows = (
        torch.from_numpy(numpy_generator(seed, "estimate fit", name).choice(size, some, replace=False))
        for name, size, some in (("source", n, sizes[0]), ("reference", m, sizes[1]))
    )
    common = min(radii)  # the larger one may come from a few far outliers

    def fit(
        y_centre: torch.Tensor, y_radius: float, x_radius: float, shares: tuple[float, ...], settings: SoftSettings
    ) -> np.ndarray:
        y, x = (source - y_centre) / y_radius, (reference[x_rows] - centres[1]) / x_radius
        k = len(shares)
        basis = Coherence(y[None], draw_centres(n, RANK, [seed]), BETA).basis  # (1, n, modes)
        transform = Transform("nonrigid", y.expand(k, *y.shape), basis.expand(k, *basis.shape[1:]))
        found = soft_assignment(
            transform.part(y_rows.expand(k, -1)),
            transform.parameters,
            x.expand(k, *x.shape),
            torch.tensor(shares, dtype=torch.float64) * min(sizes),
            settings,
            [seed] * k,
        )
        return (transform.points(found) * x_radius + centres[1]).numpy()  # (k, n, D)

    stiff = fit(centres[1], common, common, SHARES, QUICK)
    flexible = fit(centres[0], radii[0], radii[1], (1.0,), FLEXIBLE)
    return [*((moved, False) for moved in stiff), (flexible[0], True)]


def _partners(points: np.ndarray, others: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The share of the points (n, D) that have a partner among the others (m, D), from 0 to 1; the share within reach
    of one, edge included; and the number of each one's nearest other (n,).

    The reach is ``REACH`` median spacings of those others that are somebody's nearest, so that scattered outliers do
    not widen it. Of O points in the overlap ``WITHIN`` O are within it, the rest mostly within twice that; F points of
    the strip beside the edge are in each of the two, so the difference of the two counts is (2 ``WITHIN`` - 1) O.
    """
    tree = KDTree(others)
    distances, nearest = tree.query(points)
    reach = REACH * float(np.median(tree.query(others[np.unique(nearest)], 2)[0][:, 1]))
    within = float(np.mean(distances <= reach))
    beyond = float(np.mean((distances > reach) & (distances <= 2 * reach)))
    inside = min(1.0, max(0.0, within - beyond) / (2 * WITHIN - 1))
    return inside, min(1.0, within / WITHIN), nearest
