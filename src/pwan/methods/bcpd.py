"""Bayesian coherent point drift (Hirose 2021), own implementation: full, or on a sample with interpolation (BCPD++)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.spatial import KDTree

from pwan.methods._baseline import Fit, Report, kernel_sum, register_each
from pwan.methods._bcpd import State, run
from pwan.normalisation import Normalisation
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.randomness import numpy_generator
from pwan.settings import check_ranges

INTERPOLATED = 16384  # points interpolated at once


@dataclass(frozen=True)
class Settings:
    """Settings of BCPD; defaults are those of the PWAN paper, else of the author's program.

    Its model is moved = s R (source + v) + t with a Gaussian process v of variance 1 / smoothness for each coordinate.

    Attributes:
        beta: width of the kernel exp(-d^2 / (2 beta^2)) of v, in units of length. smoothness: the paper's lambda, in
            1 / units^2.
        outlier_weight: the paper's omega, the share of outliers that is expected; 0 <= w < 1. The author's program has
            0 as its default, the PWAN paper states 0.1.
        gamma: factor of the first sigma; 2 to 10 for a reference that is turned far (the author's advice).
        kappa: evenness of the mixing coefficients; None stands for infinity, all equal.
        similarity: whether s, R and t are estimated; without, they stay the identity.
        max_iterations, min_iterations, tolerance: sweeps end when sigma (units) or its change is below the tolerance.
        unit: of all lengths here: "radius", the reference's RMS radius; or "coordinate", its RMS coordinate, which
            is that of the author's program and sqrt(D) times shorter, so that the same numbers mean a narrower kernel
            and a stiffer v.
        full_points: sets with more points than this are registered by samples of both.
        sample_points: the size of each sample; v is then interpolated to all source points by its Gaussian process.
    """

    beta: float = 2.0
    smoothness: float = 2.0
    outlier_weight: float = 0.1
    gamma: float = 1.0
    kappa: float | None = None
    similarity: bool = True
    max_iterations: int = 500
    min_iterations: int = 30
    tolerance: float = 1e-4
    unit: Literal["radius", "coordinate"] = "radius"
    normalisation: Normalisation = "auto"
    full_points: int = 5000
    sample_points: int = 3000

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("beta", "smoothness", "gamma", "kappa", "max_iterations"),
            at_least_zero=("min_iterations", "tolerance", "full_points"),
            below_one=("outlier_weight",),
        )
        if self.sample_points < 4:
            raise ValueError(f"sample_points must be at least 4, got {self.sample_points}")


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

    found = run(used_source, used_reference, settings, tell)
    displacement = found.state.displacement  # (r, D) or that of the sample
    if sampled:
        blocks = np.array_split(source, math.ceil(len(source) / INTERPOLATED))
        displacement = np.concatenate([found.kernel.basis(block) @ found.state.coefficients for block in blocks])
    similarity = found.state.similarity
    turn = similarity.scale * similarity.rotation.T
    return Fit(
        turn,
        similarity.translation * unit,
        displacement @ turn * unit,
        len(found.sigma2),
        found.stop_reason,
        {"sigma2": found.sigma2},
        lambda: kernel_sum(
            found.kernel.landmarks * unit,
            found.kernel.weights(found.state.coefficients) @ turn * unit,
            "gaussian",
            settings.beta * unit,
        ),
    )


def _sample(points: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """At most ``size`` of the points, each equally likely, so that the share of outliers stays as it is."""
    return points[generator.choice(len(points), min(size, len(points)), replace=False)]
