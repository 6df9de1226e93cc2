"""Coherent point drift (Myronenko & Song 2010), non-rigid, by the library rustcpd: exact for small sets, with a
low-rank kernel and nearest neighbours for large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pwan.deformation.kernels import KernelSum
from pwan.methods._baseline import Fit, Report, library_call, register_each
from pwan.normalisation import Normalisation
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of CPD. Lengths in units of the reference's RMS radius.

    Attributes:
        beta: width of the kernel exp(-d^2 / (2 beta^2)) of the displacement. smoothness: the paper's lambda.
        outlier_weight: the paper's w, the share of outliers that the mixture expects; 0 <= w < 1.
        max_iterations, tolerance: of EM, which stops when sigma^2 changes by less than the tolerance (CPD-Matlab's
            150 and 1e-5).
        exact_points: up to this many source and reference points the kernel and the correspondences are exact.
        rank, neighbours: above, the rank of the kernel (pivoted Cholesky), and how many reference points nearest to
            each source point take part.
    """

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    max_iterations: int = 150
    tolerance: float = 1e-5
    normalisation: Normalisation = "auto"
    exact_points: int = 2500
    rank: int = 100
    neighbours: int = 30  # 10 is twice as fast and up to three times less accurate at 2,000 points

    def __post_init__(self) -> None:
        check_cpd(self)
        check_ranges(self, positive=("rank", "neighbours"), at_least_zero=("exact_points",))


def check_cpd(settings: Any) -> None:
    """The ranges of what all CPD methods have."""
    check_ranges(
        settings,
        positive=("beta", "smoothness", "max_iterations"),
        at_least_zero=("tolerance",),
        below_one=("outlier_weight",),
    )


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    import rustcpd  # noqa: F401  (before the clock starts)

    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    import rustcpd

    large = max(len(source), len(reference)) > settings.exact_points
    variances: list[float] = []

    def callback(state: dict[str, Any]) -> None:
        variances.append(float(state["sigma2"]))
        report(len(variances), settings.max_iterations, state["points"])

    with library_call("rustcpd"):
        found = rustcpd.register_deformable(
            reference,
            source,
            alpha=settings.smoothness,
            beta=settings.beta,
            low_rank=min(settings.rank, len(source) - 1) if large else None,
            low_rank_method="pivoted_cholesky",
            outlier_weight=settings.outlier_weight,
            max_iterations=settings.max_iterations,
            tolerance=settings.tolerance,
            k=min(settings.neighbours, len(reference)) if large else None,
            parallel=False,  # one thread, as all methods have
            callback=callback,
        )
    return Fit.displaced(
        found.points - source,
        len(variances),
        em_stop_reason(len(variances), settings),
        {"sigma2": variances},
        # where the kernel was low-rank this one differs from it by about 1e-7
        lambda: KernelSum.of_arrays(source, found.weights, "gaussian", settings.beta),
    )


def em_stop_reason(steps: int, settings: Any) -> str:
    """How EM ended, in words."""
    if steps < settings.max_iterations:
        return f"converged at iteration {steps}"
    return f"took all {steps} iterations without reaching the tolerance"
