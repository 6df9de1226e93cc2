"""Partial Wasserstein-1 discrepancies: exact by linear programming, or by the Kantorovich-Rubinstein form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pwan.settings import build_settings

if TYPE_CHECKING:  # neural imports this module, and torch takes seconds to load
    import torch

    from pwan.transport.neural import Potential

# Share of the mass: a sum of float32 weights and the same sum computed elsewhere differ by about this much.
MASS_TOLERANCE = 1e-6
LARGEST = 1e150  # of coordinates and weights


@dataclass(frozen=True)
class TransportResult:
    """A partial Wasserstein discrepancy.

    Attributes:
        value: L_M,m (>= 0, a sum of mass times distance) or L_D,h (<= 0), not divided by anything.
        plan: exact solver: (q, r) float64, plan[i, j] is the mass carried between reference i and source j; else None.
        potential: neural solver: maps (N, D) points in input coordinates (array or tensor) to their (N,) values, an
            array in input units; its method ``gradient`` maps them to the (N, D) gradients. Else None.
        lower_bound: neural solver: at most the exact value, by duality: the objective at values of the potential that
            were lowered until no pair of a reference and a source point breaks the slope limit of 1, or at plain
            nearest distances where these give more. It may lie above ``value``, and is often the better estimate. For
            the exact solver the value itself.
        checked_pairs: neural solver: the share of the pairs that ``lower_bound`` rests on. 1: it is proved, to
            rounding. Below 1 (more pairs than the option ``certificate_pairs``) it holds as far as the sample tells.
            None for the exact solver.
        gradient_norm: neural solver: the largest norm of the potential's gradient at every point of both sets and at
            random points of segments between them (option ``certificate_points``). ``value`` exceeds the exact value
            where the slope exceeds 1, here or at points that were not looked at; None for the exact solver.
        doubt: neural solver: in words, where ``value`` and ``lower_bound`` are more than a tenth apart; else None.
    """

    value: float
    plan: np.ndarray | None = field(default=None, repr=False)
    potential: Potential | None = field(default=None, repr=False)
    lower_bound: float | None = None
    checked_pairs: float | None = None
    gradient_norm: float | None = None
    doubt: str | None = None

    @property
    def source_share(self) -> np.ndarray | None:
        """(r,) the mass that the plan carries of each source point, in units of the weights; None without a plan."""
        return None if self.plan is None else self.plan.sum(0)

    @property
    def reference_share(self) -> np.ndarray | None:
        """(q,) the mass that the plan carries to each reference point; None without a plan."""
        return None if self.plan is None else self.plan.sum(1)


@dataclass(frozen=True)
class TransportProblem:
    """Checked input of both solvers: float64 arrays, and exactly one of mass and distance.

    Attributes:
        reference: (q, D).
        source: (r, D).
        reference_weights: (q,), not negative, of positive total; none above what can be carried.
        source_weights: (r,), not negative, of positive total; none above what can be carried.
        mass: the mass to carry, or None.
        distance: the threshold h in the units of the points, or None.
    """

    reference: np.ndarray
    source: np.ndarray
    reference_weights: np.ndarray
    source_weights: np.ndarray
    mass: float | None
    distance: float | None


def partial_wasserstein(
    reference: ArrayLike | torch.Tensor,
    source: ArrayLike | torch.Tensor,
    *,
    mass: float | None = None,
    distance: float | None = None,
    reference_weights: ArrayLike | torch.Tensor | None = None,
    source_weights: ArrayLike | torch.Tensor | None = None,
    solver: Literal["exact", "neural"] = "exact",
    **options: Any,
) -> TransportResult:
    """The partial Wasserstein-1 discrepancy of two weighted point sets.

    With ``mass`` it is L_M,m, the least cost of carrying the mass m (paper, equation POT_primal); with ``distance`` it
    is L_D,h, in which each carried unit of mass costs its distance minus h (POT_primal_lag); with neither, all mass of
    the lighter set is carried.

    Args:
        reference: (q, D) points, any D >= 1; array or tensor. Attributes of the points (normals, labels), times a
            weight w, are further columns of both sets: d^2 = |y - x|^2 + w^2 |a - b|^2; see
            :func:`pwan.attributes.attributes_of`.
        source: (r, D) points.
        mass: the mass m to carry, at most the total weight of the lighter set; fractions are allowed. A mass above
            that total by less than one millionth counts as the total (float32 weights).
        distance: the threshold h, in the units of the points.
        reference_weights: (q,) masses of the points, 1 each when not given; they need not sum to 1.
        source_weights: (r,) masses of the points, 1 each when not given.
        solver: "exact" (linear programme by POT, in float64; memory q times r) or "neural" (Theorems 1 and 2: a
            potential network climbs the Kantorovich-Rubinstein form; memory q plus r).
        options: settings of the solver: ``exact.ExactSettings`` or ``neural.NeuralSettings``.

    Raises:
        ValueError: for input that is not a pair of weighted point sets, a mass or distance out of range or both given,
            or an unknown solver or option; says what was expected, what came and what to do.
        RuntimeError: the exact solver ran out of iterations.
    """
    problem = check_problem(reference, source, mass, distance, reference_weights, source_weights)
    if solver == "exact":
        from pwan.transport import exact

        value, plan = exact.solve(problem, build_settings(exact.ExactSettings, options, owner="the exact solver"))
        return TransportResult(value=value, plan=plan, lower_bound=value)
    if solver == "neural":
        from pwan.transport import neural

        return neural.solve([problem], build_settings(neural.NeuralSettings, options, owner="the neural solver"))[0]
    raise ValueError(f"solver must be 'exact' or 'neural', got {solver!r}")


def check_problem(
    reference: ArrayLike | torch.Tensor,
    source: ArrayLike | torch.Tensor,
    mass: float | None = None,
    distance: float | None = None,
    reference_weights: ArrayLike | torch.Tensor | None = None,
    source_weights: ArrayLike | torch.Tensor | None = None,
) -> TransportProblem:
    """The arguments of ``partial_wasserstein`` as float64 arrays, with the mass filled in where neither is given.

    Raises:
        ValueError: as ``partial_wasserstein``.
    """
    x, y = _points("reference", reference), _points("source", source)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"reference and source must have the same number of coordinates, but reference is {x.shape[1]}-D and "
            f"source is {y.shape[1]}-D; drop or add coordinates in one of them"
        )
    a = _weights("reference_weights", reference_weights, len(x))
    b = _weights("source_weights", source_weights, len(y))
    if mass is not None and distance is not None:
        raise ValueError("give mass or distance, not both: the first fixes how much is carried, the second how far")
    total = float(min(a.sum(), b.sum()))
    if distance is not None:
        h = _positive("distance", distance)
        return TransportProblem(x, y, *_clipped(a, b, total), mass=None, distance=h)
    if mass is None:
        return TransportProblem(x, y, *_clipped(a, b, total), mass=total, distance=None)
    m = _positive("mass", mass)
    if m > total * (1 + MASS_TOLERANCE):
        raise ValueError(
            f"mass can be at most the total weight of the lighter set, {total:g}, got {m:g}; give a smaller mass"
        )
    return TransportProblem(x, y, *_clipped(a, b, min(m, total)), mass=min(m, total), distance=None)


def _clipped(a: np.ndarray, b: np.ndarray, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """No point carries more than is carried in all; a larger weight would only take the digits of the others."""
    return np.minimum(a, mass), np.minimum(b, mass)


def _points(name: str, value: Any) -> np.ndarray:
    from pwan.arrays import real_array  # loads torch

    points = real_array(name, value, "biuf").astype(np.float64)
    if points.ndim == 3 and points.shape[1] == 1:
        raise ValueError(f"{name} must have shape (N, D), got {points.shape}; for one set give {name}[:, 0]")
    if points.ndim != 2 or 0 in points.shape:
        raise ValueError(f"{name} must have shape (N, D) with at least one point, got {points.shape}")
    bad = ~np.isfinite(points).all(1)
    if bad.any():
        raise ValueError(
            f"{name} must be finite, but {int(bad.sum())} of its {len(points)} points hold NaN or infinity (the first "
            f"is row {int(bad.argmax())}); remove these rows"
        )
    if (largest := float(np.abs(points).max())) > LARGEST:
        raise ValueError(f"{name} holds numbers up to {largest:.3g}, whose squares overflow; give larger units")
    return points


def _weights(name: str, value: Any, n: int) -> np.ndarray:
    if value is None:
        return np.ones(n)
    from pwan.arrays import real_array

    weights = real_array(name, value, "biuf").astype(np.float64)  # float32 does not sum to what float64 sums to
    if weights.shape != (n,):
        raise ValueError(f"{name} must hold one weight for each of the {n} points, got shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{name} must be finite and not negative, got values from {weights.min()} to {weights.max()}")
    if weights.max() > LARGEST:
        raise ValueError(f"{name} holds weights up to {weights.max():.3g}, whose sum may overflow; divide all weights")
    if weights.sum() == 0:
        raise ValueError(f"{name} must not all be zero: there is nothing to carry")
    return weights


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be one positive number, got {value!r}") from None
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, got {number:g}")
    return number
