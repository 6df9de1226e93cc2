"""Coherent point drift by the package biocpd: the same method as ``cpd``, exact for small sets, with a low-rank kernel
and nearest neighbours for large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pwan.methods._baseline import Fit, Report, is_small, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods.cpd import Settings
from pwan.methods.pycpd import fit
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

    large = not is_small(settings.exact_points, source, reference)
    with peer_call("biocpd"):
        return fit(
            DeformableRegistration,
            settings,
            source,
            reference,
            report,
            low_rank=large,
            num_eig=settings.rank,
            low_rank_method="pivoted_cholesky",  # its default, a randomised SVD, draws from the global generator
            use_kdtree=large,
            k=settings.neighbours,
            dtype=np.float64,
        )
