"""Coherent point drift by the package probreg, as it is in 0.3.8: the same method as ``cpd``, exact at any size, with
the kernel in single precision; in 2-D it reckons with three coordinates all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods.cpd import em_stop_reason
from pwan.methods.pycpd import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    import_peer("probreg")
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    from probreg.cpd import NonRigidCPD

    steps = 0

    def callback(transformation: Any) -> None:
        nonlocal steps
        steps += 1
        report(steps, settings.max_iterations, transformation.transform(source))

    with peer_call("probreg"):
        # its kernel is exp(-d^2 / (2 beta))
        method = NonRigidCPD(source, beta=settings.beta**2, lmd=settings.smoothness)
        method.set_callbacks([callback])
        fit = method.registration(
            reference, w=settings.outlier_weight, maxiter=settings.max_iterations, tol=settings.tolerance
        )
        moved = fit.transformation.transform(source)
    return Fit.displaced(moved - source, steps, em_stop_reason(steps, settings))
