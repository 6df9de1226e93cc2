"""Bayesian coherent point drift by the package probreg, as it is in 0.3.8. Its updates are wrong: sigma^2 is squared
twice where the posterior's precision is formed, and the kernel is a fixed inverse multiquadric without beta, so expect
failures. ``bcpd`` is the method itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods._settings.probreg_bcpd import Settings
from pwan.methods.cpd import em_stop_reason
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


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
