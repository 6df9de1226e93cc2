"""One large problem on the CPU: memory and time a step, and a sample a step against all points in each step.

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/large.py steps         1e4, 1e5 and 7e5 points in each set, 10 steps
    python benchmarks/large.py sample        1e5 points: a sample of them a step against all of them in each step

``steps``: rank 100, all points in each step; each size in a process of its own. The memory is the largest resident size
beyond that of the program with its libraries before it made the problem. The exponent is that of a power law through
the times.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import torch

from pwan import shapes
from pwan.problem import RegistrationProblem, mean_squared_error
from pwan.registration.pipeline import Registration, register
from pwan.registration.settings import PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

GIBI_IN_KIBI = 2**20


def problem(points: int) -> RegistrationProblem:
    return make_problem(shapes.load("bunny"), SynthesisSettings(points=points), seed=0, trials=[0])


def largest_gib() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIBI_IN_KIBI


def measure_steps(points: int, steps: int) -> tuple[float, float, float]:
    """Seconds a step (median), GiB beyond the program's own, and GiB of the whole process."""
    torch.set_num_threads(1)
    Registration(problem(50), PwanSettings(), [0]).step()  # what the libraries take at first use
    own = largest_gib()
    settings = replace(PwanSettings(), sample=0, warmup=0, refinement="none")
    registration = Registration(problem(points), settings, [0])
    registration.step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        registration.step()
        times.append(time.perf_counter() - start)
    return statistics.median(times), largest_gib() - own, largest_gib()


def steps_table(sizes: Sequence[int], steps: int) -> None:
    print("| points in each set | seconds a step | GiB beyond the program's own | GiB in all |\n|---|---|---|---|")
    times = []
    for points in sizes:
        with get_context("spawn").Pool(1) as pool:
            seconds, beyond, whole = pool.apply(measure_steps, (points, steps))
        times.append(seconds)
        print(f"| {points} | {seconds:.3f} | {beyond:.2f} | {whole:.2f} |", flush=True)
    if len(sizes) > 1:
        print(f"exponent of the time: {np.polyfit(np.log(sizes), np.log(times), 1)[0]:.3f}")


def sample_table(points: int) -> None:
    torch.set_num_threads(1)
    given = problem(points)
    assert given.truth is not None
    print("| points in each set | a step looks at | MSE unrefined | refined | seconds |\n|---|---|---|---|---|")
    for sample in (None, 0):
        result = register(given, replace(PwanSettings(), sample=sample), seeds=[0])
        unrefined, refined = (
            float(mean_squared_error(moved, given.truth)[0])
            for moved in (result.transformed_unrefined, result.transformed)
        )
        seen = "all" if sample == 0 else "a sample"
        print(f"| {points} | {seen} | {unrefined:.6f} | {refined:.6f} | {result.seconds[0]:.0f} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("steps", "sample"))
    parser.add_argument("--sizes", type=int, nargs="*", help="points in each set")
    parser.add_argument("--steps", type=int, default=10)
    chosen = parser.parse_args(arguments)
    if chosen.what == "steps":
        steps_table(chosen.sizes or [10_000, 100_000, 700_000], chosen.steps)
    else:
        for points in chosen.sizes or [100_000]:
            sample_table(points)


if __name__ == "__main__":
    main()
