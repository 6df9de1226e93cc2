"""Bayesian coherent point drift (Hirose 2021), own implementation: full, or on a sample with interpolation (BCPD++), by
a Gaussian kernel, or by one of distances along the shape (GBCPD; Hirose, IEEE TPAMI 45(5), 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.spatial import KDTree

from pwan.deformation.factors import as_it_is, pivoted_cholesky
from pwan.deformation.geodesic import faces_of_each, geodesic_factor
from pwan.deformation.kernels import Displacement, KernelSum
from pwan.methods._baseline import Fit, Report, is_small, register_each
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
    solves = [partial(_solve, settings, faces) for faces in faces_of_each(problem.source_faces, len(problem))]
    return register_each(problem, solves, normalisation=settings.normalisation, seeds=seeds, observer=observer)


@dataclass(frozen=True)
class _Factor:
    """The kernel's factor at the m registered ones of the r source points, and what coefficients (K, D) amount to.

    Attributes:
        phi: (m, K).
        everywhere: from coefficients to the displacement of all source points, (r, D).
        on_space: from coefficients and an affine part A (D, D) beside them to V as a function on all of space.
    """

    phi: np.ndarray
    everywhere: Callable[[np.ndarray], np.ndarray]
    on_space: Callable[[np.ndarray, np.ndarray], Displacement]


def _solve(
    settings: Settings,
    faces: np.ndarray | None,
    source: np.ndarray,
    reference: np.ndarray,
    seed: int,
    report: Report,
) -> Fit:
    unit = 1.0 if settings.unit == "radius" else 1 / math.sqrt(source.shape[1])
    source, reference = source / unit, reference / unit
    sampled = not is_small(settings.full_points, source, reference)
    rows = nearest = np.arange(len(source))
    used_reference = reference
    if sampled:
        generator = numpy_generator(seed, "bcpd sample")
        rows = _sample(len(source), settings.sample_points, generator)
        used_reference = reference[_sample(len(reference), settings.sample_points, generator)]
        nearest = KDTree(source[rows]).query(source)[1]  # (r,)
    if settings.kernel == "gaussian":
        factor = _gaussian(settings.beta, source, rows, unit)
    else:
        factor = _geodesic(settings, faces, source, rows, unit, seed)

    def tell(step: int, state: State) -> None:
        moved = state.similarity.apply(source + state.displacement[nearest]) if sampled else state.moved
        report(step, settings.max_iterations, moved * unit)

    fit = run(source[rows], used_reference, factor.phi, settings, tell)
    coefficients, similarity = fit.state.coefficients, fit.state.similarity
    displacement = factor.everywhere(coefficients) if sampled else fit.state.displacement  # (r, D)
    turn = similarity.scale * similarity.rotation.T
    return Fit(
        turn,
        similarity.translation * unit,
        displacement @ turn * unit,
        len(fit.sigma2),
        fit.stop_reason + (f"; by samples of {len(rows)} and {len(used_reference)} points" if sampled else ""),
        {"sigma2": fit.sigma2},
        lambda: factor.on_space(coefficients, turn),
    )


def _gaussian(beta: float, source: np.ndarray, rows: np.ndarray, unit: float) -> _Factor:
    """Of the Gaussian kernel, by the registered points alone."""
    kernel = pivoted_cholesky(source[rows], beta)

    def everywhere(coefficients: np.ndarray) -> np.ndarray:
        blocks = np.array_split(source, math.ceil(len(source) / INTERPOLATED))
        return np.concatenate([kernel.basis(block) @ coefficients for block in blocks])

    def on_space(coefficients: np.ndarray, affine: np.ndarray) -> KernelSum:
        weights = kernel.weights(coefficients) @ affine * unit
        return KernelSum.of_arrays(kernel.centres * unit, weights, "gaussian", beta * unit)

    return _Factor(kernel.phi, everywhere, on_space)


def _geodesic(
    settings: Settings, faces: np.ndarray | None, source: np.ndarray, rows: np.ndarray, unit: float, seed: int
) -> _Factor:
    """Of the kernel of distances along the shape, which all source points make up."""
    kernel = settings.coherence_kernel
    of_all = geodesic_factor(
        torch.from_numpy(source * unit)[None],
        [faces],
        kernel.rank,
        kernel.beta * unit,
        kernel.share,
        [seed],
        as_it_is,
        neighbours=kernel.neighbours,
    )
    phi = of_all.phi[0].numpy()  # (r, K)

    def on_space(coefficients: np.ndarray, affine: np.ndarray) -> Displacement:
        beside = torch.from_numpy(coefficients @ affine * unit)[None], torch.from_numpy(affine)[None]
        return of_all.on_space(*beside)[0]

    return _Factor(phi[rows], lambda coefficients: phi @ coefficients, on_space)


def _sample(points: int, size: int, generator: np.random.Generator) -> np.ndarray:
    """Rows of at most ``size`` of the points, each equally likely, so that the share of outliers stays as it is."""
    return generator.choice(points, min(size, points), replace=False)
