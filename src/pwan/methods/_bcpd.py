"""The mathematics of Bayesian coherent point drift: the variational updates of one problem, and their interpolation.

O. Hirose, "A Bayesian formulation of coherent point drift", IEEE TPAMI 43(7), 2021 (the equations of its Fig. 2), and
"Acceleration of non-rigid point set registration with downsampling and Gaussian process regression", IEEE TPAMI 43(8),
2021 (BCPD++). As in the author's program the posterior covariance of the displacement is left out of the matching.

Shapes: M source points, N reference points, D coordinates, K columns of the kernel's factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.special import digamma

from pwan.deformation.rigid import nearest_rotation
from pwan.methods._baseline import RegistrationFailedError
from pwan.methods._settings.bcpd import UpdateSettings

BLOCK_NUMBERS = 1 << 19  # matching probabilities held at once: 4 MB
LOWEST_EXPONENT = -690.0  # exp underflows below, where processors become ten times slower
TINY = 1e-300  # keeps a division by zero away
LEAST_MATCH = 1e-20  # the author's floor of nu
LEAST_VARIANCE = 1e-9  # the sets agree to 3e-5 of a unit; below, rounding rules the updates
MOST_VARIANCE = 1e12  # units^2; above, the updates have run away; chosen by eye
LEAST_SCALE = 1e-3  # below, the similarity has collapsed; chosen by eye
MOST_SCALE = 1e3  # above, it has exploded; chosen by eye
FLAT = 1e-3  # thinnest edge of the reference's box, as a share of its longest; chosen by eye


@dataclass(frozen=True)
class Similarity:
    """The map y -> scale R y + translation; R (D, D), translation (D,). Points are rows."""

    scale: float
    rotation: np.ndarray
    translation: np.ndarray

    def apply(self, points: np.ndarray) -> np.ndarray:
        return self.scale * points @ self.rotation.T + self.translation

    def undo(self, points: np.ndarray) -> np.ndarray:
        return (points - self.translation) @ self.rotation / self.scale


@dataclass(frozen=True)
class Matching:
    """What the matching probabilities P (M, N) amount to.

    Attributes:
        matches: (M,), P 1, the paper's nu.
        points: (M, D), P X.
        square: the sum over n of |x_n|^2, each times the matched share of x_n.
    """

    matches: np.ndarray
    points: np.ndarray
    square: float


@dataclass(frozen=True)
class State:
    """Where the updates stand. moved = similarity.apply(source + displacement).

    Attributes:
        similarity: s, R and t of the paper.
        coefficients: (K, D), with displacement = Phi coefficients.
        displacement: (M, D), the paper's v.
        moved: (M, D), the source where the map takes it.
        sigma2: variance of the matched points, for each coordinate.
        mixing: (M,), exp <ln alpha> of the paper.
        matching: the one that this state was computed from; None at the start.
    """

    similarity: Similarity
    coefficients: np.ndarray
    displacement: np.ndarray
    moved: np.ndarray
    sigma2: float
    mixing: np.ndarray
    matching: Matching | None = None


def box_volume(reference: np.ndarray) -> float:
    """Volume of the bounding box, in which outliers are uniform; a flat set's box gets a thin edge."""
    edges = np.ptp(reference, axis=0)
    return float(np.prod(np.maximum(edges, FLAT * edges.max())))


def initial_state(source: np.ndarray, reference: np.ndarray, gamma: float) -> State:
    """The identity, with gamma^2 times the mean squared difference of all pairs as variance.

    Raises:
        RegistrationFailedError: the variance overflows.
    """
    m, d = source.shape
    square = (source**2).sum(1).mean() + (reference**2).sum(1).mean() - 2 * source.mean(0) @ reference.mean(0)
    identity = Similarity(1.0, np.eye(d), np.zeros(d))
    no_displacement = np.zeros((m, d))
    sigma2 = _variance(gamma * gamma * float(square) / d)
    return State(identity, np.zeros((0, d)), no_displacement, source, sigma2, np.full(m, 1 / m))


def _variance(sigma2: float) -> float:
    if not sigma2 < MOST_VARIANCE:
        raise RegistrationFailedError(f"the variance sigma^2 overflowed: it became {sigma2:.3g}")
    return max(sigma2, LEAST_VARIANCE)


def match(moved: np.ndarray, reference: np.ndarray, mixing: np.ndarray, sigma2: float, outliers: float) -> Matching:
    """Matching probabilities P_mn = b_m K_mn / (sum_m b_m K_mn + c), K_mn = exp(-|x_n - y_m|^2 / (2 sigma^2)), summed.

    P is computed in blocks of reference points and never held as a whole.

    Args:
        moved: (M, D), y.
        reference: (N, D), x.
        mixing: (M,), b.
        sigma2: sigma^2.
        outliers: c = w / (1 - w) (2 pi sigma^2)^(D/2) / V.
    """
    m, d = moved.shape
    # -|x - y|^2 / (2 sigma^2) as one matrix product, (n, D + 2) by (D + 2, M)
    right = np.column_stack([moved / sigma2, np.full(m, -0.5 / sigma2), (moved**2).sum(1) * (-0.5 / sigma2)]).T
    squares = (reference**2).sum(1)  # (N,)
    left = np.column_stack([reference, squares, np.ones(len(reference))])
    sums, square = np.zeros((m, d + 1)), 0.0
    rows = max(1, BLOCK_NUMBERS // m)
    for i in range(0, len(reference), rows):
        kernel = left[i : i + rows] @ right  # (n, M)
        torch.from_numpy(kernel).clamp_(LOWEST_EXPONENT, 0.0).exp_()  # twice as fast as numpy's
        density = kernel @ mixing  # (n,)
        q = 1 / np.maximum(density + outliers, TINY)
        sums += kernel.T @ np.column_stack([q, q[:, None] * reference[i : i + rows]])
        square += float(density * q @ squares[i : i + rows])
    sums *= mixing[:, None]
    return Matching(np.maximum(sums[:, 0], LEAST_MATCH), sums[:, 1:], square)


def update(state: State, source: np.ndarray, reference: np.ndarray, phi: np.ndarray, settings: UpdateSettings) -> State:
    """One sweep of the updates: the matching, the displacement, the mixing, the similarity and the variance.

    Args:
        state: where they stand.
        source: (M, D).
        reference: (N, D).
        phi: (M, K), the factor of the source's kernel, G = Phi Phi^T.
        settings: of the updates.

    Raises:
        RegistrationFailedError: next to nothing is matched, the scale collapses or explodes, the variance overflows.
    """
    m, d = source.shape
    w, old = settings.outlier_weight, state.similarity
    outliers = w / (1 - w) * (2 * math.pi * state.sigma2) ** (d / 2) / box_volume(reference)
    matching = match(state.moved, reference, state.mixing, state.sigma2, outliers)
    nu, total = matching.matches, float(matching.matches.sum())
    if not total > d:
        raise RegistrationFailedError(
            f"only {total:.2g} reference points are matched, too few for a similarity; lower outlier_weight"
        )
    partners = matching.points / nu[:, None]  # (M, D), the paper's x hat
    # (G + c diag(1/nu))^-1 through the factor: G Z = Phi a with (Phi^T diag(nu) Phi + c) a = Phi^T diag(nu) E
    weighted = phi * nu[:, None]  # (M, K)
    normal = phi.T @ weighted  # (K, K)
    normal.flat[:: len(normal) + 1] += settings.smoothness * state.sigma2 / old.scale**2
    coefficients = cho_solve(cho_factor(normal), weighted.T @ (old.undo(partners) - source))  # (K, D)
    displacement = phi @ coefficients  # (M, D)
    bent = source + displacement
    mixing = state.mixing
    if settings.kappa is not None:
        mixing = np.exp(digamma(settings.kappa + nu) - digamma(settings.kappa * m + total))
    similarity = procrustes(bent, partners, nu) if settings.similarity else old
    moved = similarity.apply(bent)
    square = matching.square - 2 * float((matching.points * moved).sum()) + float(nu @ (moved**2).sum(1))
    sigma2 = square / (total * d)
    return State(similarity, coefficients, displacement, moved, _variance(sigma2), mixing, matching)


def procrustes(points: np.ndarray, partners: np.ndarray, weights: np.ndarray) -> Similarity:
    """The similarity that takes the points nearest to their partners, both (M, D), in the weighted mean square.

    Raises:
        RegistrationFailedError: the scale collapses or explodes.
    """
    total = weights.sum()
    centre, goal = weights @ points / total, weights @ partners / total  # (D,)
    points = points - centre
    covariance = (weights[:, None] * (partners - goal)).T @ points  # (D, D)
    rotation = nearest_rotation(covariance)
    spread = float(weights @ (points**2).sum(1))
    scale = float((rotation * covariance).sum()) / max(spread, TINY)
    if not LEAST_SCALE < scale < MOST_SCALE:
        raise RegistrationFailedError(f"the scale {'collapsed' if scale < 1 else 'exploded'}: it became {scale:.3g}")
    return Similarity(scale, rotation, goal - scale * rotation @ centre)


@dataclass(frozen=True)
class Run:
    """The last state of a run, sigma^2 after each step, and why it stopped."""

    state: State
    sigma2: list[float]
    stop_reason: str


def run(
    source: np.ndarray,
    reference: np.ndarray,
    phi: np.ndarray,
    settings: UpdateSettings,
    report: Callable[[int, State], None],
) -> Run:
    """Sweeps until sigma, the root of sigma^2, or its change falls below the tolerance (the author's criterion).

    ``source`` (M, D), ``reference`` (N, D) and ``phi`` (M, K) as in :func:`update`.

    Raises:
        RegistrationFailedError: as :func:`update`.
    """
    state, history = initial_state(source, reference, settings.gamma), []
    for step in range(1, settings.max_iterations + 1):
        before = math.sqrt(state.sigma2)
        state = update(state, source, reference, phi, settings)
        history.append(state.sigma2)
        report(step, state)
        sigma = math.sqrt(state.sigma2)
        small = min(sigma, abs(before - sigma)) < settings.tolerance
        if state.sigma2 <= LEAST_VARIANCE or (small and step >= settings.min_iterations):
            return Run(state, history, f"converged at iteration {step}")
    return Run(state, history, f"took all {settings.max_iterations} iterations without reaching the tolerance")
