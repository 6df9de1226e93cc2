"""A start for sets that are turned, shifted or scaled against each other: the best of many rotations.

Each rotation of an even covering is led to its nearest optimum by iterated closest points (Besl & McKay 1992), trimmed
(Chetverikov et al. 2002) and looking from both sets, on samples; the best again from shifts to all sides, since missing
parts move the centroids. A deformation can make a wrong one of these the nearest, so the best few also get a quick soft
assignment of fewer points with stiff displacements, and what the closest points left decides together with the partial
transport cost (POT_primal) after it. Only the similarity part of the winner is given back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree
from scipy.spatial.transform import Rotation

from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import draw_centres
from pwan.deformation.transform import Transform
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed, numpy_generator
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.transport import partial_wasserstein

ROTATIONS, ANGLES = 400, 72  # of the covering of SO(3): neighbours about 25 degrees apart; of the ring
COARSE, FINE = 200, 400  # points of a sample for all rotations, and for the best of them
COARSE_STEPS, FINE_STEPS = 8, 25
REFINED, FITTED = 60, 8  # rotations that get the shifts and the fine steps, and the soft assignment
SHIFT = 0.4  # RMS radii of the reference: where a part is missing, the centroids lie about as far apart
SOFT, LARGEST = 300, 1200  # points of its samples: of the smaller set, and at most of the larger one
LOOKED, FEWEST = 800, 20  # points of the source in a second look, and matched ones below which it tells nothing
SCALES = (
    0.4,
    2.5,
)  # of the answer over the ratio of the RMS radii: beyond it a set has shrunk into a part of the other
APART, ASIDE = 20.0, 0.3  # degrees, or RMS radii, between two candidates that count as different
RANK, BETA = 50, 2.0  # of the smooth displacements
# so stiff that a wrong start keeps its cost
QUICK = SoftSettings(steps=40, sigma_start=0.15, sigma_end=0.05, scalings=5, smoothness=150.0, affine_ridge=1000.0)
SHARE = 0.7  # of the smaller set that is matched, where nobody says
FEWER = 0.7  # of the mass in the soft assignment: if more points are matched than have partners, a slid set fits best
LEAST = 1e-3  # RMS radii, added to what the score is of: of sets that fit exactly no rounding error decides
ENOUGH = 1.1  # times the best score: what the start as given may cost and still be kept


@dataclass(frozen=True)
class Start:
    """A similarity: moved = scale * points @ rotation + translation.

    Attributes:
        scale: 1 unless a scale was asked for. rotation: (D, D), determinant 1. translation: (D,), input units.
        cost: how far apart the sets are from this start; cost_given: the same from the sets as given. Which measure it
            is depends on who made the start: of :func:`find_start` the mean distance of the best matched points after
            a quick soft assignment from here (the partial transport cost of samples, divided by its mass), in RMS radii
            of the reference; of :func:`pwan.begin.landmark_start.start_by_landmarks` the weighted mean distance of the
            pairs in the same unit, without any soft assignment; of :func:`second_look` the mean distance of the nearest
            source points to the reference, in the smaller RMS radius of both sets, after its quick registration and,
            as cost_given, where the finished registration left them.
        changed: whether this is anything but the identity.
        reason: in words.
    """

    scale: float
    rotation: np.ndarray
    translation: np.ndarray
    cost: float
    cost_given: float
    changed: bool
    reason: str

    def then(self, other: Start) -> Start:
        """This one and the other after it, with the other's costs and reason."""
        return replace(
            other,
            scale=self.scale * other.scale,
            rotation=self.rotation @ other.rotation,
            translation=other.scale * self.translation @ other.rotation + other.translation,
        )

    def apply(self, points: Any) -> Any:
        """The points (N, D) moved; an array or a tensor, as given."""
        if isinstance(points, torch.Tensor):
            like: dict[str, Any] = {"dtype": points.dtype, "device": points.device}
            return self.scale * points @ torch.tensor(self.rotation, **like) + torch.tensor(self.translation, **like)
        return self.scale * np.asarray(points) @ self.rotation + self.translation


@dataclass(frozen=True)
class Similarities:
    """K similarities of normalised points: y -> scale y rotation + translation.

    Attributes:
        scale: (K,). rotation: (K, D, D). translation: (K, D).
    """

    scale: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Similarities:
        return Similarities(self.scale[rows], self.rotation[rows], self.translation[rows])

    def __add__(self, other: Similarities) -> Similarities:
        return Similarities(
            np.concatenate((self.scale, other.scale)),
            np.concatenate((self.rotation, other.rotation)),
            np.concatenate((self.translation, other.translation)),
        )

    def to_all_sides(self, shift: float) -> Similarities:
        """Each of them as it is and shifted along each axis, forth and back: (2 D + 1) K of them."""
        d = self.translation.shape[1]
        to = np.concatenate((np.zeros((1, d)), shift * np.eye(d), -shift * np.eye(d)))
        rows = np.repeat(np.arange(len(self.scale)), len(to))
        return Similarities(self.scale[rows], self.rotation[rows], (self.translation[:, None] + to).reshape(-1, d))

    def apply(self, points: np.ndarray) -> np.ndarray:
        """(N, D) to (K, N, D)."""
        return self.scale[:, None, None] * (points @ self.rotation) + self.translation[:, None]

    def undo(self, points: np.ndarray) -> np.ndarray:
        """(N, D) to (K, N, D) in the coordinates before."""
        return ((points - self.translation[:, None]) @ self.rotation.swapaxes(1, 2)) / self.scale[:, None, None]


def find_start(
    source: Any,
    reference: Any,
    *,
    mass: float | None = None,
    rotation: bool = True,
    scale: bool = False,
    seed: int = 0,
) -> Start:
    """The rotation, shift and (if asked for) scale from which a registration of the two sets should start.

    Sets that a quick registration brings together as they are stay as they are; sets that only a shift keeps apart are
    only shifted.

    Args:
        source: (r, D) points that move, D 2 or 3; an array or a tensor. reference: (q, D) points that stay.
        mass: how many points are to be matched, at most min(r, q), None for 0.7 of the smaller set.
        rotation: try all rotations; without it only shifts (and scales). scale: find a scale as well.
        seed: of the samples; the same seed gives the same start.

    Raises:
        ValueError: for points or a mass that cannot be registered.
    """
    y, x = (torch.as_tensor(points).detach().to("cpu", torch.float64) for points in (source, reference))
    limit = None if mass is None else torch.tensor([float(mass)], dtype=torch.float64)
    RegistrationProblem(y[None], x[None], mass=limit)  # checks them
    moving, staying = y.numpy(), x.numpy()
    (r, d), q = moving.shape, len(staying)
    matched = SHARE * min(r, q) if mass is None else float(mass)
    shares = matched / r, matched / q
    y_centre, x_centre = moving.mean(0), staying.mean(0)
    y_radius, x_radius = (np.sqrt(p.var(0).sum()) for p in (moving, staying))
    unit = y_radius if scale else x_radius  # with a scale to be found, both sets start with an RMS radius of 1
    moving, staying = (moving - y_centre) / unit, (staying - x_centre) / x_radius
    given = Similarities(np.array([unit / x_radius]), np.eye(d)[None], (y_centre - x_centre)[None] / x_radius)
    shifted = Similarities(given.scale, given.rotation, np.zeros((1, d)))

    def samples(y_size: int, x_size: int) -> tuple[np.ndarray, np.ndarray]:
        # by a seed for each set: the same rows of both would flatter sets whose rows correspond
        y_seed, x_seed = derive_seed(seed, "y", y_size), derive_seed(seed, "x", x_size)
        return _sample(moving, y_size, y_seed), _sample(staying, x_size, x_seed)

    around = _rotations(d) if rotation else np.eye(d)[None]
    as_given = given + shifted  # rows 0 and 1 from here on
    tried = Similarities(np.ones(len(around)), around, np.zeros((len(around), d)))
    tried, left = _closest_points(tried, *samples(COARSE, COARSE), shares, COARSE_STEPS, rotation, False)
    tried = (as_given + tried[np.argsort(left, kind="stable")[:REFINED]]).to_all_sides(SHIFT)
    tried, left = _closest_points(tried, *samples(COARSE, COARSE), shares, COARSE_STEPS, rotation, scale)
    tried = as_given + tried[np.argsort(left, kind="stable")[:REFINED]]
    tried, left = _closest_points(tried, *samples(FINE, FINE), shares, FINE_STEPS, rotation, scale)
    kept = _different(tried, np.argsort(left, kind="stable"))[:FITTED]
    sizes = [min(round(SOFT * max(1.0, ratio)), LARGEST) for ratio in (r / q, q / r)]  # the same share of both sets
    y_sample, x_sample = samples(*sizes)
    candidates, costs = _softly(as_given + tried[kept], y_sample, x_sample, shares, rotation, scale, seed)
    score = np.sqrt((left[[0, 1, *kept]] + LEAST) * (costs + LEAST))
    best = int(np.argmin(score))
    chosen = next(k for k in (0, 1, best) if score[k] <= ENOUGH * score[best])
    found_scale = float(candidates.scale[chosen] * x_radius / unit) if scale else 1.0
    turned = candidates.rotation[chosen]
    translation = x_centre + x_radius * candidates.translation[chosen] - found_scale * y_centre @ turned
    words = f"a quick registration leaves {costs[chosen]:.3g} RMS radii between matched points from this start"
    if chosen == 0:
        return Start(1.0, np.eye(d), np.zeros(d), float(costs[0]), float(costs[0]), False, f"kept as given: {words}")
    how = f"turned by {angles(turned[None], np.eye(d))[0]:.0f} degrees" if chosen > 1 and rotation else "shifted"
    scaled = f", scaled by {found_scale:.3g}" if scale else ""
    reason = f"{how}{scaled}: {words}, and {costs[0]:.3g} from the sets as given"
    return Start(found_scale, turned, translation, float(costs[chosen]), float(costs[0]), True, reason)


def second_look(source: Any, reference: Any, moved: Any, *, mass: float, seed: int = 0) -> tuple[float, Start] | None:
    """Whether a quick registration that matches fewer points brings them nearer than a finished one has: then that one
    has slid along the reference, as it may where a part of both sets is missing.

    Args:
        source: (r, D) points as the registration found them. reference: (q, D). moved: (r, D) where it left the source.
        mass: of the registration, in points of the source.
        seed: of the samples; the same seed gives the same.

    Returns:
        The mean distance of the nearest points to the reference after the quick registration over that of as many in
        ``moved``, infinite where these lie on it; and the rigid start from the source to where the former went. None
        where so few points would be matched that their distances tell nothing.
    """
    y, x, found = (torch.as_tensor(p).detach().to("cpu", torch.float64).numpy() for p in (source, reference, moved))
    share = min(1.0, LOOKED / len(y))
    # the same share of both sets, but of a far smaller reference as many as have its shape
    size = min(len(x), LARGEST, max(SOFT, round(share * len(x))))
    fewer = FEWER * min(share * mass, len(y), size)
    if fewer < FEWEST:
        return None
    x_sample = _sample(x, size, derive_seed(seed, "look", "x"))
    rows = _sample(np.arange(len(y)), LOOKED, derive_seed(seed, "look", "y"))
    y, found = y[rows], found[rows]
    # the smaller radius, since that of the other may come from a few far outliers
    centre, radius = x.mean(0), min(float(np.sqrt(p.var(0).sum())) for p in (y, x))
    quick = radius * _assigned((y - centre)[None] / radius, (x_sample - centre) / radius, fewer, seed)[0] + centre
    tree = KDTree(x)
    distances = np.stack([tree.query(points)[0] for points in (quick, found)])
    near = _nearest(distances, fewer)
    after, before = (near * distances).sum(1) / near.sum(1)
    led = procrustes(y[None], quick[None], near[:1], rotation=True, scale=False)
    words = (
        f"turned by {angles(led.rotation, np.eye(y.shape[1]))[0]:.0f} degrees and shifted to where a quick "
        "registration of fewer points goes"
    )
    start = Start(1.0, led.rotation[0], led.translation[0], after / radius, before / radius, True, words)
    return float(after / before) if before > 0 else np.inf, start


def _sample(points: np.ndarray, size: int, seed: int) -> np.ndarray:
    if size >= len(points):
        return points
    return points[numpy_generator(seed, "start sample").choice(len(points), size, replace=False)]


def _rotations(d: int) -> np.ndarray:
    """An even covering of the rotations, the identity among them, (K, D, D).

    In 3-D the super-Fibonacci spiral of Alexa (CVPR 2022), the most even of the simple ones; in 2-D a ring.
    """
    if d == 2:
        angles = np.arange(ANGLES) * (2 * np.pi / ANGLES)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.stack((np.stack((cos, sin), -1), np.stack((-sin, cos), -1)), -2)
    root, other = np.sqrt(2.0), 1.533751168755204288118041  # of psi^4 = psi + 4
    height = (np.arange(ROTATIONS) + 0.5) / ROTATIONS
    turns = 2 * np.pi * (np.arange(ROTATIONS) + 0.5)
    low, high = np.sqrt(height), np.sqrt(1 - height)
    first, second = turns / root, turns / other
    spiral = np.stack((low * np.sin(first), low * np.cos(first), high * np.sin(second), high * np.cos(second)), -1)
    return np.concatenate((np.eye(3)[None], Rotation.from_quat(spiral).as_matrix()))


def angles(rotations: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Degrees between rotations (K, D, D) and one (D, D): (K,)."""
    trace = np.einsum("kij,ij->k", rotations, other)
    cosine = (trace - 1) / 2 if other.shape[0] == 3 else trace / 2
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def _different(similarities: Similarities, order: np.ndarray) -> np.ndarray:
    """The row numbers in order, without those that turn and shift much as an earlier one does."""
    rotation, translation = similarities.rotation, similarities.translation
    kept: list[int] = []
    for k in order.tolist():
        turned = angles(rotation[kept], rotation[k]) > APART
        shifted = np.linalg.norm(translation[kept] - translation[k], axis=1) > ASIDE
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
    """Trimmed iterated closest points from K starts, in both directions, and the cost (K,) of where they end: the RMS
    distance of the kept points over the root of the scale, which favours neither a small nor a large source.

    Args:
        y: (n, D) moves. x: (m, D) stays. shares: of y and of x that are kept.
    """
    y_tree, x_tree = KDTree(y), KDTree(x)
    now, k, n, m = start, len(start.scale), len(y), len(x)

    for step in range(steps + 1):
        there, nearest_x = x_tree.query(now.apply(y).reshape(-1, y.shape[1]))
        back, nearest_y = y_tree.query(now.undo(x).reshape(-1, y.shape[1]))
        there, back = there.reshape(k, n), back.reshape(k, m) * now.scale[:, None]
        y_weight, x_weight = _nearest(there, shares[0] * n), _nearest(back, shares[1] * m)
        if step == steps:
            break
        here = np.concatenate((np.broadcast_to(y, (k, *y.shape)), y[nearest_y.reshape(k, m)]), 1)  # (k, n + m, D)
        goal = np.concatenate((x[nearest_x.reshape(k, n)], np.broadcast_to(x, (k, *x.shape))), 1)
        weight = np.concatenate((y_weight, x_weight), 1)
        now = procrustes(here, goal, weight, rotation=rotation, scale=scale, scales=SCALES)
    squares = [(w * e**2).sum(1) / w.sum(1) for w, e in ((y_weight, there), (x_weight, back))]
    return now, np.sqrt(0.5 * sum(squares) / now.scale)


def _nearest(distances: np.ndarray, count: float) -> np.ndarray:
    """1 for the ``count`` smallest distances of each row (K, n), at least three of them, else 0."""
    last = max(3, round(count)) - 1
    return (distances <= np.partition(distances, last, axis=1)[:, last : last + 1]).astype(float)


def procrustes(
    here: np.ndarray,
    goal: np.ndarray,
    weight: np.ndarray,
    *,
    rotation: bool,
    scale: bool,
    scales: tuple[float, float] | None = None,
) -> Similarities:
    """The similarities that bring points nearest to their goals in the weighted least squares (Umeyama 1991).

    Args:
        here, goal: (K, N, D). weight: (K, N). rotation, scale: whether to find one, else it is 1. No mirror images.
        scales: the least and the largest scale that is allowed; None for any.
    """
    total = weight.sum(1)[:, None]
    y_mean, x_mean = ((weight[..., None] * p).sum(1) / total for p in (here, goal))
    y, x = here - y_mean[:, None], goal - x_mean[:, None]
    covariance = np.einsum("kn,kni,knj->kij", weight, y, x)
    turned = np.broadcast_to(np.eye(y.shape[2]), covariance.shape)
    if rotation:
        left, _, right = np.linalg.svd(covariance)
        left[:, :, -1] *= np.sign(np.linalg.det(left @ right))[:, None]
        turned = left @ right
    grown = np.ones(len(y))
    if scale:
        grown = np.einsum("kij,kij->k", covariance, turned) / np.einsum("kn,kni->k", weight, y**2)
        if scales is not None:
            grown = grown.clip(*scales)
    shift = x_mean - grown[:, None] * np.einsum("ki,kij->kj", y_mean, turned)
    return Similarities(grown, turned, shift)


def _softly(
    candidates: Similarities,
    y: np.ndarray,
    x: np.ndarray,
    shares: tuple[float, float],
    rotation: bool,
    scale: bool,
    seed: int,
) -> tuple[Similarities, np.ndarray]:
    """A quick soft assignment with smooth displacements from each of the K candidates, of ``FEWER`` of the mass.

    Returns:
        The candidates, all but the first two led to where the assignment took the matched points; and the partial
        transport cost (K,) after it, divided by the mass.
    """
    k, n = len(candidates.scale), len(y)
    mass = FEWER * min(shares[0] * n, shares[1] * len(x), n, len(x))
    moved = _assigned(candidates.apply(y), x, mass, seed)
    near = _nearest(KDTree(x).query(moved)[0], mass)  # (K, n)
    led = procrustes(np.broadcast_to(y, moved.shape), moved, near, rotation=rotation, scale=scale, scales=SCALES)
    led = candidates[np.arange(2)] + led[np.arange(2, k)]
    return led, np.array([partial_wasserstein(x, points, mass=mass).value / mass for points in moved])


def _assigned(source: np.ndarray, x: np.ndarray, mass: float, seed: int) -> np.ndarray:
    """The K sources (K, n, D) moved by a quick soft assignment of this mass to x (m, D)."""
    k, n, _ = source.shape
    y, seeds = torch.from_numpy(source), [derive_seed(seed, "start modes")] * k
    transform = Transform("nonrigid", y, Coherence(y, draw_centres(n, RANK, seeds), BETA).basis)
    staying, limits = torch.from_numpy(x).expand(k, *x.shape), torch.full((k,), mass, dtype=torch.float64)
    found = soft_assignment(transform, transform.parameters, staying, limits, QUICK, seeds)
    return transform.points(found).numpy()
