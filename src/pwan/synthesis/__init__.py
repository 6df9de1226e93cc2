"""Synthetic problems: a shape, deformed smoothly, with noise, outliers and missing parts (the paper's experiments)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from pwan.problem import RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.settings import check_ranges
from pwan.shapes import Shape
from pwan.synthesis.corruption import crop, uniform_outliers
from pwan.synthesis.deformation import random_deformation

__all__ = ["SynthesisSettings", "make_problem"]


@dataclass(frozen=True)
class SynthesisSettings:
    """How a problem is made from a shape; lengths are in the shape's units (an RMS radius of 1 if packaged).

    Attributes:
        points: N, points drawn for each set before cropping; the two draws are independent, so there are no pairs.
        outlier_ratio: outliers added to the reference, in units of N (the paper's noise experiments: 0.2 to 1.2).
        keep: share of each set that the crop leaves (the paper's s), above 0.5; 1 for no crop.
        deformation: "random", the smooth one that the next settings describe, or "partner": the reference is drawn from
            the shape's partner, whose rows belong to those of the points (recorded frames of a face, say).
        beta: width of the deformation's kernel exp(-d^2 / (2 beta^2)).
        rank: Nystrom rank of the deformation, at most the shape's size.
        deformation_lambda: stiffness; the mean squared displacement is about D / lambda (the released code: 10 for
            noise, 50 for partial problems).
        noise: standard deviation of the normal noise added once to each coordinate of the reference (the paper's text;
            the released code adds it twice, which gives 0.028).
        box: edge of the outliers' box over that of the reference's.
        distance: the problem's distance threshold (the paper's h), or None for none.
        mass_factor: the problem's mass over the true one, (2 keep - 1) N; 1 is the paper's choice. The mass is never
            more than all source points (appendix "Parameter selection": what too small or too large an m does).

    Raises:
        ValueError: a value out of its range.
    """

    points: int = 500
    outlier_ratio: float = 0.0
    keep: float = 1.0
    deformation: Literal["random", "partner"] = "random"
    beta: float = 2.0
    rank: int = 100
    deformation_lambda: float = 10.0
    noise: float = 0.02
    box: float = 1.2
    distance: float | None = None
    mass_factor: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(
            self,
            positive=("points", "rank", "beta", "deformation_lambda", "box", "distance", "mass_factor"),
            at_least_zero=("outlier_ratio", "noise"),
        )
        if not 0.5 < self.keep <= 1:
            raise ValueError(
                f"keep must be above 0.5 and at most 1, got {self.keep}; with less the two crops may share nothing "
                "and the mass (2 keep - 1) N would not be positive"
            )


def make_problem(shape: Shape, settings: SynthesisSettings, *, seed: int, trials: Sequence[int]) -> RegistrationProblem:
    """One problem for each trial, as a batch; trial t's problem depends on (seed, t) alone, not on its batch.

    The source is N random points of the shape; the reference is an independent draw of N points, deformed, cropped,
    with noise, then outliers after them; the truth is where the deformation takes the source, free of noise. The source
    and the reference are cropped by planes of their own. The mass is (2 keep - 1) N, the overlap on average, times the
    mass factor, but at most the number of source points, which are the smaller set.

    Returns:
        source and truth (B, round(keep N), D); reference (B, round(keep N) + round(outlier_ratio N), D); mass (B,);
        distance (B,) if the settings name one.

    Raises:
        ValueError: no trials, too few points for a registration, or more points than a shape without a surface has.
    """
    if not trials:
        raise ValueError("trials is empty; name at least one trial")
    sources, references, truths = zip(*(_make_one(shape, settings, seed, trial) for trial in trials), strict=True)
    n = len(trials)
    overlap = (2 * settings.keep - 1) * settings.points
    # rounded, since 0.8 would leave a trace of its binary form
    mass = min(round(settings.mass_factor * overlap, 9), len(sources[0]))
    return RegistrationProblem(
        source=torch.from_numpy(np.stack(sources)),
        reference=torch.from_numpy(np.stack(references)),
        mass=torch.full((n,), mass, dtype=torch.float64),
        distance=None if settings.distance is None else torch.full((n,), settings.distance, dtype=torch.float64),
        truth=torch.from_numpy(np.stack(truths)),
    )


def _make_one(
    shape: Shape, settings: SynthesisSettings, seed: int, trial: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def generator(purpose: str) -> np.random.Generator:
        return numpy_generator(seed, trial, purpose)

    if settings.deformation == "partner":
        source, truth = _paired_rows(shape, settings.points, generator("source"))
        _, reference = _paired_rows(shape, settings.points, generator("reference"))
    else:
        displacement = random_deformation(
            shape.points,
            beta=settings.beta,
            rank=settings.rank,
            deformation_lambda=settings.deformation_lambda,
            landmark_generator=generator("deformation landmarks"),
            generator=generator("deformation"),
        )
        source = shape.sample(settings.points, generator("source"))
        truth = source + displacement(source)
        reference = shape.sample(settings.points, generator("reference"))
        reference = reference + displacement(reference)
    kept = round(settings.keep * settings.points)
    if kept < settings.points:
        rows = crop(source, kept, generator("source crop"))
        source, truth = source[rows], truth[rows]
        reference = reference[crop(reference, kept, generator("reference crop"))]
    reference = reference + settings.noise * generator("noise").standard_normal(reference.shape)
    outliers = round(settings.outlier_ratio * settings.points)
    reference = np.concatenate([reference, uniform_outliers(reference, outliers, settings.box, generator("outliers"))])
    return source, reference, truth


def _paired_rows(shape: Shape, n: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """n rows of the shape's points, and the same rows of its partner; both (n, D)."""
    if shape.partner is None or shape.partner.shape != shape.points.shape:
        raise ValueError(
            "deformation=partner needs a shape whose partner has the same rows, but shape "
            f"{shape.name} ({shape.source}) has none; take deformation=random, or a shape such as faces_1_2 of "
            "source=paper"
        )
    if n > len(shape.points):
        raise ValueError(f"shape {shape.name} has {len(shape.points)} pairs of points, but {n} were asked for")
    rows = generator.choice(len(shape.points), n, replace=False)
    return shape.points[rows], shape.partner[rows]
