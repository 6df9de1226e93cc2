"""Bayesian coherent point drift by the package probreg, as it is in 0.3.8. Its updates are wrong: sigma^2 is squared
twice where the posterior's precision is formed, and the kernel is a fixed inverse multiquadric without beta, so expect
failures. ``bcpd`` is the method itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods.cpd import em_stop_reason
from pwan.normalisation import Normalisation
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Settings of BCPD, of those that the package has (it has no beta).

    Attributes:
        smoothness: the paper's lambda.
        outlier_weight: its omega, 0 <= w < 1.
        gamma: factor of the first sigma^2.
        kappa: of the mixture's weights; the larger, the more equal they are.
        max_iterations: at most this many.
        tolerance: it stops when the mean distance of the moved source to its nearest reference points changes by less.
        normalisation: see :func:`pwan.normalisation.normalise`.
    """

    smoothness: float = 2.0
    outlier_weight: float = 0.1
    gamma: float = 1.0
    kappa: float = 1e20
    max_iterations: int = 500
    tolerance: float = 1e-4
    normalisation: Normalisation = "auto"

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("smoothness", "gamma", "kappa", "max_iterations"),
            at_least_zero=("tolerance",),
            below_one=("outlier_weight",),
        )


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    import_peer("probreg")
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    from probreg.bcpd import CombinedBCPD

    steps = 0

    def callback(transformation: Any) -> None:
        nonlocal steps
        steps += 1
        report(steps, settings.max_iterations, transformation.transform(source))

    with peer_call("probreg"):
        method = CombinedBCPD(source, lmd=settings.smoothness, k=settings.kappa, gamma=settings.gamma)
        method.set_callbacks([callback])
        fit = method.registration(
            reference, w=settings.outlier_weight, maxiter=settings.max_iterations, tol=settings.tolerance
        )
        similarity = fit.rigid_trans.scale * fit.rigid_trans.rot.T  # (D, D), for rows of points
        displacement = fit.v @ similarity  # (r, D)
    return Fit(similarity, fit.rigid_trans.t, displacement, steps, em_stop_reason(steps, settings))
