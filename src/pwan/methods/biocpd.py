"""Coherent point drift by the package biocpd: the same method as ``cpd``, exact for small sets, with a low-rank kernel
and nearest neighbours for large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods.cpd import Settings, em_stop_reason
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    import_peer("biocpd")
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    from biocpd import DeformableRegistration

    large = max(len(source), len(reference)) > settings.exact_points
    variances: list[float] = []

    def callback(iteration: int, error: float, X: np.ndarray, Y: np.ndarray) -> None:
        variances.append(float(found.sigma2))
        report(iteration, settings.max_iterations, np.array(Y))

    with peer_call("biocpd"):
        found: Any = DeformableRegistration(
            X=reference,
            Y=source,
            alpha=settings.smoothness,
            beta=settings.beta,
            w=settings.outlier_weight,
            max_iterations=settings.max_iterations,
            tolerance=settings.tolerance,
            low_rank=large,
            num_eig=settings.rank,
            low_rank_method="pivoted_cholesky",  # its default, a randomised SVD, draws from the global generator
            use_kdtree=large,
            k=settings.neighbours,
            dtype=np.float64,
        )
        found.register(callback)
    return Fit.displaced(
        found.TY - source, len(variances), em_stop_reason(len(variances), settings), {"sigma2": variances}
    )
