"""Time and memory of BCPD, each size in a process of its own: full at 1,000 and 2,000 points, by samples at 100,000.

    OMP_NUM_THREADS=1 python benchmarks/bcpd_speed.py [sizes]

The points are fresh draws from the surface of the packaged bunny. The memory is the process's largest resident set,
Python and torch included.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import torch

from pwan import methods, shapes
from pwan.problem import mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem

SIZES = (1000, 2000, 5000, 20_000, 100_000)


def measure(points: int) -> None:
    settings = SynthesisSettings(points=points, deformation_lambda=50.0)
    problem = make_problem(shapes.load("bunny"), settings, seed=0, trials=[0])
    assert problem.truth is not None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux counts in KiB
    result = methods.run("bcpd", problem, {}, seeds=[0])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    idle, error = (float(mean_squared_error(p, problem.truth)) for p in (problem.source, result.transformed))
    print(
        f"{points:>8} {result.seconds[0]:>8.2f} {result.steps[0]:>6} {before:>10.2f} {after:>8.2f} {idle:>9.5f} "
        f"{error:>9.5f}  {result.status[0]}, {result.stop_reason[0]}",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        torch.set_num_threads(1)
        measure(int(sys.argv[2]))
        return
    head = ("points", "seconds", "sweeps", "GiB before", "GiB peak", "MSE idle", "MSE")
    print("{:>8} {:>8} {:>6} {:>10} {:>8} {:>9} {:>9}".format(*head), flush=True)
    for size in sys.argv[1:] or map(str, SIZES):
        subprocess.run([sys.executable, __file__, "--one", size], check=True)


if __name__ == "__main__":
    main()
