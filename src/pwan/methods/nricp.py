"""Non-rigid ICP by the package trimesh: each point of the source's mesh has an affine map of its own, nearly that of
its neighbours, and is drawn to the nearest reference point (Amberg, Romdhani and Vetter, "Optimal step nonrigid ICP
algorithms for surface registration", CVPR 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pwan.methods._baseline import Fit, RegistrationFailedError, Report, register_each
from pwan.methods._peers import import_peer, peer_call
from pwan.methods._settings.nricp import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    """A problem with source points that no face names fails. An observer is told of all steps at the end.

    Raises:
        ValueError: points in the plane.
    """
    assert problem.source_faces is not None  # the catalogue has refused others
    if problem.source.shape[2] != 3:
        raise ValueError("method nricp moves surfaces in 3-D, but the points are 2-D; take another method")
    import_peer("trimesh")
    solves = [partial(_solve, settings, faces) for faces in problem.source_faces.numpy()]
    return register_each(problem, solves, normalisation=settings.normalisation, seeds=seeds, observer=observer)


def _solve(
    settings: Settings, faces: np.ndarray, source: np.ndarray, reference: np.ndarray, seed: int, report: Report
) -> Fit:
    from trimesh import Trimesh
    from trimesh.registration import nricp_amberg

    loose = len(source) - len(np.unique(faces))
    if loose:
        raise RegistrationFailedError(
            f"{loose} source points are in no face, so that nothing moves them; leave them out"
        )
    stages = zip(settings.smoothness, settings.normal_power, settings.iterations, strict=True)
    with peer_call("trimesh", seed):
        moved = nricp_amberg(
            Trimesh(source, faces, process=False),  # which would merge points
            reference,
            steps=[[smoothness, 0.0, power, iterations] for smoothness, power, iterations in stages],
            eps=settings.tolerance,
            gamma=settings.gamma,
            distance_threshold=settings.farthest_match,
            return_records=True,
            use_faces=False,  # of the reference, which is points
            neighbors_count=settings.neighbours,
        )[1:]  # the first is where it began
    for step, now in enumerate(moved, 1):
        report(step, sum(settings.iterations), now)
    return Fit.displaced(
        moved[-1] - source, len(moved), f"took {len(moved)} iterations in {len(settings.iterations)} stages"
    )
