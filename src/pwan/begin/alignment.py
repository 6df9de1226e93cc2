"""A start for sets that are turned, shifted or scaled against each other: the best of many rotations.

Each rotation of an even covering is led to its nearest optimum by iterated closest points (Besl & McKay 1992), on
samples. The iteration is trimmed (Chetverikov et al. 2002) and looks from both sets. The best are tried again from
shifts to all sides, since missing parts move the centroids. A deformation can make a wrong one of these the nearest.
So the best few and the sets as given all get the same quick soft assignment with stiff displacements, and are compared
by what it leaves between the two surfaces. The sets stay as given unless another start leaves less by a margin that
chance does not give. Only a similarity is given back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

from pwan.arrays import to_points
from pwan.attributes import Attributes
from pwan.begin.nearness import distances_left, nearest_rows
from pwan.begin.quick_fit import QUICK_FIT, quick_fit, sample, smallest
from pwan.begin.similarities import NormalisedSets, Similarities, angles, in_words, procrustes
from pwan.begin.start import Start
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed, numpy_generator


@dataclass(frozen=True)
class SearchSettings:
    """How the search for a start goes. Lengths in RMS radii of the reference.

    The search was tuned on partial bunnies with keep 0.8, the comparison on the half of benchmarks/starts.py that
    serves for tuning. benchmarks/README.md, section "Own scans", states what both give on other shapes and seeds.

    Attributes:
        rotations: of the covering of SO(3); neighbours are about 25 degrees apart.
        ring_rotations: of the covering in the plane; neighbours are 5 degrees apart.
        coarse_points: of the sample of each set, for all rotations.
        coarse_steps: of iterated closest points, for all rotations and for their shifts.
        refined: how many of the best rotations get the shifts, and how many of those the fine steps.
        shift: to each side, from where the best rotations are tried again; where a part is missing, the centroids lie
            about as far apart.
        fine_points: of the sample of each set, for the best candidates.
        fine_steps: of iterated closest points, for the best candidates.
        fitted: how many candidates that differ get the soft assignment, each as it is and as all of both sets draw it.
        degrees_apart: two candidates that are turned against each other by more count as different.
        shift_apart: two candidates that are shifted against each other by more count as different.
        least_scale: of the answer over the ratio of the RMS radii; below it the source has shrunk into a part of the
            reference.
        most_scale: of the same; above it the reference is a small part of the source.
        matched_share: of the smaller set, where nobody says how much is to be matched.
        measured_points: of the sample of each set, between which distances are measured.
        compared: shares of the mass by whose distances starts are compared: of all for whole sets, of less for parts.
        rounding: added to the distances, so that no rounding error decides between sets that fit exactly.
        margin: the sets stay as given, or are only shifted, unless another start divides each distance of a part (the
            compared shares but the first) by more than this, and by more still for few points: :func:`margin_of`.
        in_place: factor of this margin where the sets as given lie nearer than next to all random placements do.
        nearer: so many of these placements, of ``rotations`` at least, may lie nearer than the sets as given.
        tie: where another turn leaves less than this many times as much, the shapes do not determine the turn.
        given_factor: landmarks that are this near to the best stay as given.
    """

    rotations: int = 400
    ring_rotations: int = 72
    coarse_points: int = 200
    coarse_steps: int = 8
    refined: int = 60
    shift: float = 0.4
    fine_points: int = 400
    fine_steps: int = 25
    fitted: int = 8
    degrees_apart: float = 20.0
    shift_apart: float = 0.3
    least_scale: float = 0.4
    most_scale: float = 2.5
    matched_share: float = 0.7
    measured_points: int = 1000
    compared: tuple[float, ...] = (1.0, 0.7, 0.45)
    rounding: float = 1e-3
    margin: float = 1.4
    in_place: float = 2.0
    nearer: int = 1
    tie: float = 1.1
    given_factor: float = 1.1


SEARCH = SearchSettings()


@dataclass(frozen=True)
class _Search:
    """One search: two normalised sets, how much of each is to be matched, and what is sought."""

    sets: NormalisedSets
    shares: tuple[float, float]  # of source and reference, to be matched
    unknown: bool  # whether these shares are a guess, of sets that may be whole
    rotation: bool
    scale: bool
    seed: int
    attributes: Attributes | None  # of the one pair, in units of the reference's radius

    def samples(self, y_size: int, x_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Of source and reference, (y_size, D) and (x_size, D) at most."""
        # by a seed for each set: the same rows of both would flatter sets whose rows correspond
        y_seed, x_seed = derive_seed(self.seed, "y", y_size), derive_seed(self.seed, "x", x_size)
        return (
            sample(self.sets.source, y_size, y_seed, "start sample"),
            sample(self.sets.reference, x_size, x_seed, "start sample"),
        )

    def candidates(self) -> Similarities:
        """The start as given, a mere shift, and then the best that differ."""
        given, d = self.sets.as_given(), self.sets.source.shape[1]
        first_two = given + Similarities(given.scale, given.rotation, np.zeros((1, d)))
        covering = _rotations(d) if self.rotation else np.eye(d)[None]
        coarse = self.samples(SEARCH.coarse_points, SEARCH.coarse_points)
        fine = self.samples(SEARCH.fine_points, SEARCH.fine_points)
        tried = Similarities(np.ones(len(covering)), covering, np.zeros((len(covering), d)))
        tried, left = self._closest(tried, coarse, SEARCH.coarse_steps, scale=False)
        tried = (first_two + tried[_best(left, SEARCH.refined)]).to_all_sides(SEARCH.shift)
        tried, left = self._closest(tried, coarse, SEARCH.coarse_steps, scale=self.scale)
        tried = first_two + tried[_best(left, SEARCH.refined)]
        tried, left = self._closest(tried, fine, SEARCH.fine_steps, scale=self.scale)
        tried = tried[_different(tried, _best(left, len(left)))[: SEARCH.fitted]]
        whole = (self.shares[0] * self.of_mass(), self.shares[1] * self.of_mass())
        drawn, _ = _closest_points(tried, *fine, whole, SEARCH.fine_steps, self.rotation, self.scale)
        return first_two + tried + drawn

    def in_place(self) -> bool:
        """Whether the sets as given lie nearer to each other than next to all sources that are turned at random and
        shifted as far, before anything is led anywhere: it is no chance then that they do."""
        given, d = self.sets.as_given(), self.sets.source.shape[1]
        if not self.rotation:
            return False
        covering = np.tile(_rotations(d), (-(-SEARCH.rotations // len(_rotations(d))), 1, 1))
        k = len(covering)
        shifts = numpy_generator(self.seed, "start placements").standard_normal((k, d))
        shifts *= np.linalg.norm(given.translation) / np.linalg.norm(shifts, axis=1)[:, None]
        placed = given + Similarities(np.full(k, given.scale[0]), covering, shifts)
        shares = [share * self.of_mass() * SEARCH.compared[-1] for share in self.shares]
        fine = self.samples(SEARCH.fine_points, SEARCH.fine_points)
        _, left = _closest_points(placed, *fine, (shares[0], shares[1]), 0, True, False)
        return int((left[1:] < left[0]).sum()) <= SEARCH.nearer

    def of_mass(self) -> float:
        """What is to be matched, of the part that is taken for it."""
        return 1 / SEARCH.matched_share if self.unknown else 1.0

    def _closest(
        self, tried: Similarities, samples: tuple[np.ndarray, np.ndarray], steps: int, *, scale: bool
    ) -> tuple[Similarities, np.ndarray]:
        return _closest_points(tried, *samples, self.shares, steps, self.rotation, scale)


def find_start(
    source: Any,
    reference: Any,
    *,
    mass: float | None = None,
    rotation: bool = True,
    scale: bool = False,
    seed: int = 0,
    attributes: Attributes | None = None,
) -> Start:
    """The rotation, shift and (if asked for) scale from which a registration of the two sets should start.

    The sets stay as they are unless a quick registration from another start leaves less by a margin that chance does
    not give for so many points; by twice that where they lie nearer than next to all random placements would. Sets
    that only a shift keeps apart are only shifted.

    Args:
        source: (r, D) points that move, D 2 or 3; an array or a tensor.
        reference: (q, D) points that stay.
        mass: how many points are to be matched, at most min(r, q); None for 0.7 of the smaller set.
        rotation: try all rotations; without it only shifts (and scales).
        scale: find a scale as well.
        seed: of the samples; the same seed gives the same start.
        attributes: of the one pair of sets, in the units of the reference. The starts that are tried come from the
            places alone; attributes count in which of them is taken.

    Returns:
        The start. Its costs are the RMS distance between the surfaces of both sets, of the nearest 0.7 of what is to be
        matched, after a quick soft assignment from here; in RMS radii of the reference.

    Raises:
        ValueError: for points or a mass that cannot be registered.
    """
    y, x = to_points("source", source), to_points("reference", reference)
    limit = None if mass is None else y.new_tensor([float(mass)])
    RegistrationProblem(y[None], x[None], mass=limit, attributes=attributes)  # checks them
    (r, d), q = y.shape, len(x)
    matched = SEARCH.matched_share * min(r, q) if mass is None else float(mass)
    sets = NormalisedSets.of(y.numpy(), x.numpy(), scale=scale)
    in_radii = attributes and attributes / y.new_tensor([sets.reference_radius])
    search = _Search(sets, (matched / r, matched / q), mass is None, rotation, scale, seed, in_radii)
    candidates, left = _softly(search, search.candidates())
    chosen, best, rival = _choose(search, candidates, left)
    cost, cost_given = float(left[chosen, 1]), float(left[0, 1])
    words = f"a quick registration leaves {cost:.3g} RMS radii between the nearest parts from this start"
    if left[best, 1] < cost:
        words += f" (another one leaves {left[best, 1]:.3g}, which may be chance)"
    if rival < SEARCH.tie:
        words += "; the turn is not determined by the shapes: others fit as well"
    if chosen == 0:
        return replace(Start.kept_as_given(d, cost_given, words), rival=rival)
    factor, turned, translation = sets.in_input_units(candidates, chosen)
    how = in_words(turned if chosen > 1 and rotation else None, factor if scale else None)
    reason = f"{how}: {cost_given:.3g} RMS radii are left from the sets as given; {words}"
    return Start(factor, turned, translation, cost, cost_given, True, reason, rival)


def _choose(search: _Search, candidates: Similarities, left: np.ndarray) -> tuple[int, int, float]:
    """Which of the K candidates is taken, which one is the best, and the rival of the one that is taken.

    Args:
        search: of which they are.
        candidates: K, first the sets as given and then a mere shift.
        left: (K, S) distances at the compared shares.
    """
    r, d = search.sets.source.shape
    logs = np.log(left + SEARCH.rounding)
    scores = logs.mean(1)
    best = int(scores.argmin())
    parts = logs[:, 1:]  # since of sets that have a part in common all of both lies nearer after they have slid
    gains = np.exp((parts - parts[best]).min(1))  # (K,)
    margin = margin_of(min(r, len(search.sets.reference)), d)
    if gains[0] <= margin or (gains[0] <= SEARCH.in_place * margin and search.in_place()):
        chosen = 0
    else:
        chosen = 1 if gains[1] <= margin and (parts[1] < parts[0]).all() else best
    apart = angles(candidates.rotation, candidates.rotation[chosen]) > SEARCH.degrees_apart
    rival = float(np.exp(scores[apart].min() - scores[chosen])) if apart.any() else np.inf
    return chosen, best, rival


def margin_of(points: int, d: int) -> float:
    """How many times as far apart the sets as given must be as another start leaves them, for chance not to give it.

    A rigid motion has 3 numbers to choose in 2-D and 6 in 3-D, so of few points' squared distances only points less
    these are left to compare: infinite where none are.
    """
    free = points - d * (d + 1) // 2
    return SEARCH.margin * points / free if free > 0 else np.inf


def _rotations(d: int) -> np.ndarray:
    """An even covering of the rotations, the identity among them, (K, D, D).

    In 3-D the super-Fibonacci spiral of Alexa (CVPR 2022), the most even of the simple ones; in 2-D a ring.
    """
    if d == 2:
        radians = np.arange(SEARCH.ring_rotations) * (2 * np.pi / SEARCH.ring_rotations)
        cos, sin = np.cos(radians), np.sin(radians)
        return np.stack((np.stack((cos, sin), -1), np.stack((-sin, cos), -1)), -2)
    count = SEARCH.rotations
    phi, psi = np.sqrt(2.0), 1.533751168755204288118041  # psi of psi^4 = psi + 4
    height = (np.arange(count) + 0.5) / count
    turns = 2 * np.pi * (np.arange(count) + 0.5)
    low, high = np.sqrt(height), np.sqrt(1 - height)
    first, second = turns / phi, turns / psi
    spiral = np.stack((low * np.sin(first), low * np.cos(first), high * np.sin(second), high * np.cos(second)), -1)
    return np.concatenate((np.eye(3)[None], Rotation.from_quat(spiral).as_matrix()))


def _best(left: np.ndarray, count: int) -> np.ndarray:
    """The numbers of the smallest, at most so many, in order."""
    return np.argsort(left, kind="stable")[:count]


def _different(similarities: Similarities, order: np.ndarray) -> np.ndarray:
    """The row numbers in order, without those that turn and shift much as an earlier one does."""
    rotation, translation = similarities.rotation, similarities.translation
    kept: list[int] = []
    for k in order.tolist():
        turned = angles(rotation[kept], rotation[k]) > SEARCH.degrees_apart
        shifted = np.linalg.norm(translation[kept] - translation[k], axis=1) > SEARCH.shift_apart
        if (turned | shifted).all():
            kept.append(k)
    return np.array(kept)


def _closest_points(
    start: Similarities,
    y: np.ndarray,
    x: np.ndarray,
    shares: tuple[float, float],
    steps: int,
    rotation: bool,
    scale: bool,
) -> tuple[Similarities, np.ndarray]:
    """Trimmed iterated closest points from K starts, in both directions, and the distance (K,) that is left: the RMS
    distance of the kept points over the root of the scale, which favours neither a small nor a large source.

    Args:
        start: K of them.
        y: (n, D) moves.
        x: (m, D) stays.
        shares: of y and of x that are kept.
        steps: of the iteration; with 0 only the distance is measured.
        rotation: whether to find one.
        scale: whether to find one.
    """
    now, k = start, len(start.scale)
    for step in range(steps + 1):
        moved = now.apply(y)  # (k, n, D)
        to_x, to_y = x[nearest_rows(moved, x)], y[nearest_rows(now.undo(x), y)]  # (k, n, D), (k, m, D)
        y_distance = np.linalg.norm(moved - to_x, axis=2)
        x_distance = np.linalg.norm(now.apply(to_y) - x, axis=2)
        y_weight, x_weight = smallest(y_distance, shares[0] * len(y)), smallest(x_distance, shares[1] * len(x))
        if step == steps:
            break
        points = np.concatenate((np.broadcast_to(y, (k, *y.shape)), to_y), 1)  # (k, n + m, D)
        goals = np.concatenate((to_x, np.broadcast_to(x, (k, *x.shape))), 1)
        now = _fit(points, goals, np.concatenate((y_weight, x_weight), 1), rotation, scale)
    squares = [(w * e**2).sum(1) / w.sum(1) for w, e in ((y_weight, y_distance), (x_weight, x_distance))]
    return now, np.sqrt(0.5 * sum(squares) / now.scale)


def _fit(points: np.ndarray, goals: np.ndarray, weights: np.ndarray, rotation: bool, scale: bool) -> Similarities:
    """:func:`procrustes` with a scale within what the search allows."""
    limits = {"least_scale": SEARCH.least_scale, "most_scale": SEARCH.most_scale}
    return procrustes(points, goals, weights, rotation=rotation, scale=scale, **limits)


def _softly(search: _Search, candidates: Similarities) -> tuple[Similarities, np.ndarray]:
    """A quick soft assignment with smooth displacements from each of the K candidates, of a part of the mass.

    Returns:
        The candidates, all but the first two led to where the assignment took the nearest points; and the distances
        (K, S) that are left after it at the compared shares, over the root of the scale; with what the attributes of
        near points differ by.
    """
    r, q = len(search.sets.source), len(search.sets.reference)
    y, x = search.samples(SEARCH.measured_points, SEARCH.measured_points)
    sizes = [min(round(QUICK_FIT.points * max(1.0, ratio)), QUICK_FIT.most_points) for ratio in (r / q, q / r)]
    y_rows, x_rows = (  # the same share of both sets
        sample(np.arange(len(points)), size, derive_seed(search.seed, name, size), "start fit")
        for name, points, size in (("y", y, sizes[0]), ("x", x, sizes[1]))
    )
    k, n, m = len(candidates.scale), len(y_rows), len(x_rows)
    mass = QUICK_FIT.mass_share * min(search.shares[0] * n, search.shares[1] * m, n, m)
    moved = quick_fit(candidates.apply(y), x[x_rows], mass, search.seed, y_rows)
    near = smallest(KDTree(x).query(moved)[0], mass * len(y) / n)  # (K, n)
    led = _fit(np.broadcast_to(y, moved.shape), moved, near, search.rotation, search.scale)
    led = candidates[np.arange(2)] + led[np.arange(2, k)]
    of_mass = [search.of_mass() * share for share in SEARCH.compared]
    shares = [(part * search.shares[0], part * search.shares[1]) for part in of_mass]
    left = distances_left(moved, x, shares) / np.sqrt(candidates.scale)[:, None]
    return led, np.hypot(left, _unlike(search, candidates, moved, x)[:, None])


def _unlike(search: _Search, candidates: Similarities, moved: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The RMS difference (K,) between the attributes of moved sources (K, n, D), their normals turned as each candidate
    turns them, and of the points of the reference (m, D) that are nearest to them: of the nearest of what is to be
    matched."""
    attributes, (k, n, d) = search.attributes, moved.shape
    if attributes is None:
        return np.zeros(k)
    of_y, of_x = (
        sample(
            of_set[0].numpy(),
            SEARCH.measured_points,
            derive_seed(search.seed, name, SEARCH.measured_points),
            "start sample",
        )
        for name, of_set in (("y", attributes.source), ("x", attributes.reference))
    )
    lengths, partner = KDTree(x).query(moved)
    near, carried = smallest(lengths, search.shares[0] * n), np.tile(of_y, (k, 1, 1))
    if attributes.normals:
        carried[..., :d] = carried[..., :d] @ candidates.rotation
    squares = np.square(carried - of_x[partner]).sum(-1)
    return np.sqrt((near * squares).sum(1) / near.sum(1))
