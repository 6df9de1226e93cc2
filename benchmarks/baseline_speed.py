"""Seconds of the baselines on one thread, and `cpd` against the library that it calls, in turn in one run.

OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/baseline_speed.py
"""

from __future__ import annotations

import statistics
import time

import rustcpd
import torch

from pwan import methods, shapes
from pwan.methods._baseline import is_small
from pwan.normalisation import normalise
from pwan.problem import RegistrationProblem
from pwan.synthesis import SynthesisSettings, make_problem

ROUNDS = 5
CASES = [
    ("gmmreg", 500, 1.2),
    ("tpsrpm", 500, 1.2),
    ("bcpd", 1000, 0.0),
    ("pycpd", 500, 1.2),
    ("soft_assignment", 500, 1.2),
]


def bunny(points: int, outlier_ratio: float) -> RegistrationProblem:
    settings = SynthesisSettings(points=points, outlier_ratio=outlier_ratio, deformation_lambda=50.0)
    return make_problem(shapes.load("bunny"), settings, seed=0, trials=[0])


def seconds(method: str, problem: RegistrationProblem) -> float:
    return methods.run(method, problem, {}, seeds=[0]).seconds[0]


def library_seconds(problem: RegistrationProblem) -> float:
    """rustcpd alone, on the same normalised points with the same options."""
    settings = methods.settings("cpd")
    points = normalise(problem, settings.normalisation)[0]
    large = not is_small(settings.exact_points, points.source[0].numpy(), points.reference[0].numpy())
    started = time.perf_counter()
    rustcpd.register_deformable(
        points.reference[0].numpy(),
        points.source[0].numpy(),
        alpha=settings.smoothness,
        beta=settings.beta,
        low_rank=settings.rank if large else None,
        low_rank_method="pivoted_cholesky",
        outlier_weight=settings.outlier_weight,
        max_iterations=settings.max_iterations,
        tolerance=settings.tolerance,
        k=settings.neighbours if large else None,
        parallel=False,
    )
    return time.perf_counter() - started


def main() -> None:
    torch.set_num_threads(1)
    for points in (500, 1000, 5000):
        problem = bunny(points, 0.2)
        pairs = [(seconds("cpd", problem), library_seconds(problem)) for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"cpd, {points} points: {ours:.3f} s, rustcpd alone {theirs:.3f} s, ratio {ratio:.3f}", flush=True)
    for method, points, ratio in CASES:
        problem = bunny(points, ratio)
        each = [seconds(method, problem) for _ in range(ROUNDS)]
        print(f"{method}, {points} points, outlier ratio {ratio}: {statistics.median(each):.2f} s", flush=True)


if __name__ == "__main__":
    main()
