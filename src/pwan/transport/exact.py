"""Exact partial transport: one balanced linear programme with slack points, solved by POT's network simplex.

POT's own ``ot.partial`` is not used: ``partial_wasserstein_lagrange`` raises unless both weights sum to at most 1, and
both functions stop at a fixed number of iterations on a few thousand points. The slack points below are the same idea
for both types, without these faults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from pwan.transport import TransportProblem

SPAN = 1e7  # beyond this ratio of distances the larger ones are tried as if they were all the same


@dataclass(frozen=True)
class ExactSettings:
    """Options of the exact solver.

    Attributes:
        max_iterations: pivots of the network simplex before it gives up; about 100 a point are needed.
    """

    max_iterations: int = 100_000_000

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations must be at least 1, got {self.max_iterations}")


def solve(problem: TransportProblem, settings: ExactSettings) -> tuple[float, np.ndarray]:
    """The value and an optimal plan (q, r) of L_M,m or L_D,h (paper, POT_primal and POT_primal_lag).

    Raises:
        RuntimeError: the network simplex ran out of iterations.
    """
    cost, limit = cdist(problem.reference, problem.source), settings.max_iterations  # (q, r)
    a, b, h, m = problem.reference_weights, problem.source_weights, problem.distance, problem.mass
    if h is not None and not _uniform(a, b):
        a, b = _within_reach(cost < h, a, b)
    # scaled to order 1, because the solver compares numbers with an absolute epsilon; a power of two rounds nothing
    weight = _power_of_two(max(a.max(), b.max()))
    a, b = a / weight, b / weight
    if h is not None:
        unit = _power_of_two(min(h, cost.max()))
        plan = _distance_plan(cost / unit, a, b, h / unit, limit) * weight
        return float((plan * (cost - h)).sum()), plan
    assert m is not None
    for cap in _caps(cost):
        unit = _power_of_two(cap)
        plan = _mass_plan(np.minimum(cost, cap) / unit, a, b, m / weight, limit) * weight
        if not plan[cost > cap].any():  # a best plan of the capped costs that uses none of them is a best plan
            break
    return float((plan * cost).sum()), plan


def _within_reach(near: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each weight, clipped at all that the points nearer than h can take: so much more is not carried and would only
    take the digits of the others.
    """
    a = np.minimum(a, near @ b)
    return a, np.minimum(b, a @ near)


def _caps(cost: np.ndarray) -> list[float]:
    """Bounds of the costs to be tried one after the other, so that an outlier does not take the digits of the others:
    the largest cost alone, unless it is beyond ``SPAN`` times the usual distance of nearest points.
    """
    largest, nearest = float(cost.max()), cost.min(1)
    usual = float(np.median(nearest[nearest > 0])) if (nearest > 0).any() else largest
    steps = int(np.log10(max(largest / usual, 1.0)) / np.log10(SPAN)) if usual > 0 else 0
    return [usual * SPAN**k for k in range(1, steps + 1)] + [largest]


def _distance_plan(cost: np.ndarray, a: np.ndarray, b: np.ndarray, h: float, limit: int) -> np.ndarray:
    h = min(h, 2 * float(cost.max()) + 1)  # beyond all costs h changes no plan, but would take their digits
    gain = np.minimum(cost - h, 0.0)  # (q, r); a pair farther apart than h is left out at no cost
    if not (gain < 0).any():
        return np.zeros_like(cost)
    if _uniform(a, b):
        # with equal weights some optimal plan is an assignment, which is found several times faster
        rows, columns = linear_sum_assignment(gain)
        plan = np.zeros_like(cost)
        plan[rows, columns] = a[0]
    else:
        # slack row and slack column: what is not carried goes there at no cost
        extended = np.zeros((len(a) + 1, len(b) + 1))
        extended[:-1, :-1] = gain
        plan = _simplex(extended, np.append(a, b.sum()), np.append(b, a.sum()), limit)[:-1, :-1]
    return np.where(gain < 0, plan, 0.0)


def _mass_plan(cost: np.ndarray, a: np.ndarray, b: np.ndarray, mass: float, limit: int) -> np.ndarray:
    q, r = cost.shape
    if _uniform(a, b) and mass == min(q, r) * a[0]:
        rows, columns = linear_sum_assignment(cost)
        plan = np.zeros_like(cost)
        plan[rows, columns] = a[0]
        return plan
    # the slack row takes what the source keeps, the slack column what the reference keeps; slack to slack costs more
    # than anything, so exactly the mass is carried between real points
    spare_a, spare_b = max(a.sum() - mass, 0.0), max(b.sum() - mass, 0.0)
    extended = np.zeros((q + 1, r + 1))
    extended[:-1, :-1] = cost
    extended[-1, -1] = 2 * cost.max() + 1
    return _simplex(extended, np.append(a, spare_b), np.append(b, spare_a), limit)[:-1, :-1]


def _simplex(cost: np.ndarray, a: np.ndarray, b: np.ndarray, limit: int) -> np.ndarray:
    """Balanced optimal transport; rows of no mass may be present."""
    import ot  # slow to import, and needed by the exact solver alone

    # one side takes up the rounding, because POT calls sums that differ in the last digits infeasible
    b = b * (a.sum() / b.sum())
    plan, log = ot.emd(a, b, cost, numItermax=limit, log=True, center_dual=False)
    if log["warning"] is not None:
        raise RuntimeError(f"the exact transport of {len(a)} by {len(b)} points did not finish: {log['warning']}")
    return np.asarray(plan)


def _uniform(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a == a[0]).all() and (b == a[0]).all())


def _power_of_two(value: float) -> float:
    """The power of two next above a positive number; 1 for zero."""
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 1.0
