"""Coherent point drift (Myronenko & Song 2010), non-rigid, by the library rustcpd: exact for small sets, with a
low-rank kernel and nearest neighbours for large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.deformation.kernels import KernelSum
from pwan.extras import needs
from pwan.methods._baseline import Fit, Report, is_small, library_call, register_each
from pwan.methods._settings.cpd import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    with needs("baselines", "method cpd"):
        import rustcpd  # noqa: F401  (before the clock starts)

    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    import rustcpd

    large = not is_small(settings.exact_points, source, reference)
    rank, neighbours = min(settings.rank, len(source) - 1), min(settings.neighbours, len(reference))
    variances: list[float] = []

    def callback(state: dict[str, Any]) -> None:
        variances.append(float(state["sigma2"]))
        report(len(variances), settings.max_iterations, state["points"])

    with library_call("rustcpd"):
        fit = rustcpd.register_deformable(
            reference,
            source,
            alpha=settings.smoothness,
            beta=settings.beta,
            low_rank=rank if large else None,
            low_rank_method="pivoted_cholesky",
            outlier_weight=settings.outlier_weight,
            max_iterations=settings.max_iterations,
            tolerance=settings.tolerance,
            k=neighbours if large else None,
            parallel=False,  # one thread, as all methods have
            callback=callback,
        )
    return Fit.displaced(
        fit.points - source,
        len(variances),
        em_stop_reason(len(variances), settings) + (f"; rank {rank}, {neighbours} neighbours" if large else ""),
        {"sigma2": variances},
        # where the kernel was low-rank this one differs from it by about 1e-7
        lambda: KernelSum.of_arrays(source, fit.weights, "gaussian", settings.beta),
    )


def em_stop_reason(steps: int, settings: Any) -> str:
    """How EM ended, in words."""
    if steps < settings.max_iterations:
        return f"converged at iteration {steps}"
    return f"took all {steps} iterations without reaching the tolerance"
