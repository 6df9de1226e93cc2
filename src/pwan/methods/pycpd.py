"""Coherent point drift by the package pycpd: the same method as ``cpd``, exact at any size and slower; it checks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pwan.extras import needs
from pwan.methods._baseline import Fit, Report, library_call, register_each
from pwan.methods.cpd import check_cpd, em_stop_reason
from pwan.normalisation import Normalisation
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


@dataclass(frozen=True)
class Settings:
    """Settings of CPD, as in :class:`pwan.methods.cpd.Settings`."""

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    max_iterations: int = 150
    tolerance: float = 1e-5  # the package's own 1e-3 stops early
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_cpd(self)


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
        variances.append(float(found.sigma2))
        report(iteration, settings.max_iterations, np.array(Y))

    found = registration(
        X=reference,
        Y=source,
        alpha=settings.smoothness,
        beta=settings.beta,
        w=settings.outlier_weight,
        max_iterations=settings.max_iterations,
        tolerance=settings.tolerance,
        **options,
    )
    found.register(callback)
    return Fit.displaced(
        found.TY - source, len(variances), em_stop_reason(len(variances), settings), {"sigma2": variances}
    )
