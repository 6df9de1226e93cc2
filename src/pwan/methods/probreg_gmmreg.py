"""GMM-REG with thin-plate splines by the package probreg, as it is in 0.3.8: both sets become mixtures of Gaussians
fitted by EM, and the L2 distance between them is minimised. The gradient of its distance term is half of the true one,
and its Gauss transform takes minutes or gives NaN for a narrow sigma, so it cannot run the paper's schedule. ``gmmreg``
is the method itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.methods._baseline import Fit, RegistrationFailedError, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods._settings.probreg_gmmreg import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    import_peer("probreg")
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    from probreg.l2dist_regs import TPSGMMReg

    steps, total = 0, settings.levels * settings.max_iterations
    basis: np.ndarray | None = None

    def callback(transformation: Any) -> None:
        nonlocal steps, basis
        if basis is None:
            basis = transformation.prepare(source)[0]  # the control points stay where they are
        steps += 1
        report(steps, total, transformation.transform_basis(basis))

    with peer_call("probreg", seed):
        method = TPSGMMReg(
            source,
            sigma=1.0 if settings.sigma is None else settings.sigma,
            use_estimated_sigma=settings.sigma is None,
            delta=settings.shrink,
            n_gmm_components=settings.components,
            beta=settings.bending,
        )
        method.set_callbacks([callback])
        fit = method.registration(
            reference,
            maxiter=settings.levels,
            tol=settings.tolerance,
            opt_maxiter=settings.max_iterations,
            opt_tol=settings.tolerance,
        )
        bent = fit.transform(source) - source @ fit.a[1:] - fit.a[0]  # (r, D)
    if not steps:
        raise RegistrationFailedError("BFGS took no step: its objective is NaN or flat where it starts")
    reason = f"BFGS ended after {steps} of at most {total} iterations"
    return Fit(fit.a[1:], fit.a[0], bent, steps, reason)
