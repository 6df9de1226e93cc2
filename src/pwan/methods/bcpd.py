"""Bayesian coherent point drift (Hirose 2021), own implementation: full, or on a sample with interpolation (BCPD++)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.spatial import KDTree

from pwan.deformation.kernels import KernelSum
from pwan.methods._baseline import Fit, Report, register_each
from pwan.methods._bcpd import State, UpdateSettings, run
from pwan.normalisation import Normalisation
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.randomness import numpy_generator
from pwan.settings import check_ranges

INTERPOLATED = 16384  # points interpolated at once


@dataclass(frozen=True)
class Settings(UpdateSettings):
    """Settings of BCPD; defaults are those of the PWAN paper, else of the author's program.

    Attributes:
        unit: of all lengths here: "radius", the reference's RMS radius; or "coordinate", its RMS coordinate, which
            is that of the author's program and sqrt(D) times shorter, so that the same numbers mean a narrower kernel
            and a stiffer v.
        normalisation: see :func:`pwan.normalisation.normalise`.
        full_points: sets with more points than this are registered by samples of both.
        sample_points: the size of each sample; v is then interpolated to all source points by its Gaussian process.
    """

    unit: Literal["radius", "coordinate"] = "radius"
    normalisation: Normalisation = "auto"
    full_points: int = 5000
    sample_points: int = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, at_least_zero=("full_points",))
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
        lambda: KernelSum.of_arrays(
            found.kernel.centres * unit,
            found.kernel.weights(found.state.coefficients) @ turn * unit,
            "gaussian",
            settings.beta * unit,
        ),
    )


def _sample(points: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """At most ``size`` of the points, each equally likely, so that the share of outliers stays as it is."""
    return points[generator.choice(len(points), min(size, len(points)), replace=False)]
