"""Coherent point drift by the package pycpd: the same method as ``cpd``, exact at any size and slower; it checks it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.extras import needs
from pwan.methods._baseline import Fit, Report, library_call, register_each
from pwan.methods._settings.pycpd import Settings
from pwan.methods.cpd import em_stop_reason
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    with needs("baselines", "method pycpd"):
        import pycpd  # noqa: F401  (before the clock starts)

    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    from pycpd import DeformableRegistration

    with library_call("pycpd"):
        return fit(DeformableRegistration, settings, source, reference, report)


def fit(
    registration: Any, settings: Any, source: np.ndarray, reference: np.ndarray, report: Report, **options: Any
) -> Fit:
    """Run a class with the interface of pycpd's deformable registration, which other packages have taken over."""
    variances: list[float] = []

    def callback(iteration: int, error: float, X: np.ndarray, Y: np.ndarray) -> None:
        variances.append(float(registered.sigma2))
        report(iteration, settings.max_iterations, np.array(Y))

    registered = registration(
        X=reference,
        Y=source,
        alpha=settings.smoothness,
        beta=settings.beta,
        w=settings.outlier_weight,
        max_iterations=settings.max_iterations,
        tolerance=settings.tolerance,
        **options,
    )
    registered.register(callback)
    return Fit.displaced(
        registered.TY - source, len(variances), em_stop_reason(len(variances), settings), {"sigma2": variances}
    )
