"""Bayesian coherent point drift (Hirose 2021), own implementation: full, or on a sample with interpolation (BCPD++)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.spatial import KDTree

from pwan.deformation.kernels import KernelSum
from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._bcpd import State, run
from pwan.methods._settings.bcpd import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.randomness import numpy_generator

INTERPOLATED = 16384  # points interpolated at once; chosen by eye


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    """Each problem's ``history`` holds "sigma2" after each sweep, in units^2 (see ``unit``); "affine" is s R^T.

    Above ``full_points`` an observer sees a point outside the sample with the displacement of the nearest sampled one.
    """
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    unit = 1.0 if settings.unit == "radius" else 1 / math.sqrt(source.shape[1])
    source, reference = source / unit, reference / unit
    sampled = max(len(source), len(reference)) > settings.full_points
    used_source, used_reference, nearest = source, reference, np.arange(len(source))
    if sampled:
        generator = numpy_generator(seed, "bcpd sample")
        used_source = _sample(source, settings.sample_points, generator)
        used_reference = _sample(reference, settings.sample_points, generator)
        nearest = KDTree(used_source).query(source)[1]  # (r,)

    def tell(step: int, state: State) -> None:
        moved = state.similarity.apply(source + state.displacement[nearest]) if sampled else state.moved
        report(step, settings.max_iterations, moved * unit)

    fit = run(used_source, used_reference, settings, tell)
    displacement = fit.state.displacement  # (r, D) or that of the sample
    if sampled:
        blocks = np.array_split(source, math.ceil(len(source) / INTERPOLATED))
        displacement = np.concatenate([fit.kernel.basis(block) @ fit.state.coefficients for block in blocks])
    similarity = fit.state.similarity
    turn = similarity.scale * similarity.rotation.T
    return Fit(
        turn,
        similarity.translation * unit,
        displacement @ turn * unit,
        len(fit.sigma2),
        fit.stop_reason,
        {"sigma2": fit.sigma2},
        lambda: KernelSum.of_arrays(
            fit.kernel.centres * unit,
            fit.kernel.weights(fit.state.coefficients) @ turn * unit,
            "gaussian",
            settings.beta * unit,
        ),
    )


def _sample(points: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """At most ``size`` of the points, each equally likely, so that the share of outliers stays as it is."""
    return points[generator.choice(len(points), min(size, len(points)), replace=False)]
