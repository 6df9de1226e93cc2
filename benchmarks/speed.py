"""How long a registration takes, and what it is worth, at several sizes; two states of the program in turn.

    python benchmarks/speed.py [--rows noise partial] [--trials 20] [--before FOLDER]

``--before`` is another checkout of the repository. Each state runs in a process of its own, which has registered one
problem before the clock starts; the problems are taken in turn, so that both meet the same load of the machine. Seconds
are of the processor, one thread. Problems: seed 300, which no setting was chosen by.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

SEED = 300
SHAPES = ("bunny", "monkey", "armadillo")
SMOOTH = {"deformation_lambda": 50.0}
# what is made, how often, and the options of the registration
ROWS: dict[str, tuple[dict[str, Any], int, dict[str, Any]]] = {
    "noise_bunny, 500 + 1,100": ({"points": 500, "outlier_ratio": 1.2}, 20, {}),
    "partial 0.7, 1,000": ({"points": 1000, "keep": 0.7, **SMOOTH}, 20, {}),
    "complete, 1,000": ({"points": 1000, **SMOOTH}, 20, {}),
    "complete, 5,000": ({"points": 5000, **SMOOTH}, 6, {}),
    "body, 5,000, auto": ({"points": 5000, "deformation": "partner", "surface": "both"}, 4, {"flexibility": "auto"}),
    "complete, 10,000": ({"points": 10_000, **SMOOTH}, 3, {}),
    "complete, 30,000": ({"points": 30_000, **SMOOTH}, 2, {}),
    "complete, 100,000": ({"points": 100_000, **SMOOTH}, 2, {}),
    "soft_assignment, 500 + 1,100": ({"points": 500, "outlier_ratio": 1.2}, 20, {"method": "soft_assignment"}),
    "soft_assignment, 5,000": ({"points": 5000, **SMOOTH}, 2, {"method": "soft_assignment"}),
}
BODIES = ("body_lean", "body_lunge", "body_sit", "body_heavy")  # the final half of the packaged pairs


def one(row: str, trial: int) -> dict[str, float]:
    """Seconds, and the mean squared errors over the truth's mean squared radius, of one registration."""
    from pwan import register, shapes
    from pwan.synthesis import SynthesisSettings, make_problem

    synthesis, _, options = ROWS[row]
    if row.startswith("body"):
        name = BODIES[trial % len(BODIES)]
    else:
        name = "bunny" if "bunny" in row else SHAPES[trial % len(SHAPES)]
    problem = make_problem(shapes.load(name), SynthesisSettings(**synthesis), seed=SEED, trials=[trial])
    assert problem.truth is not None
    source, reference, truth = (points[0].numpy() for points in (problem.source, problem.reference, problem.truth))
    mass = None if problem.mass is None else float(problem.mass[0])
    began = time.process_time()
    result = register(source, reference, mass=mass, seed=trial, **options)
    seconds = time.process_time() - began
    radius = np.square(truth - truth.mean(0)).sum(1).mean()
    errors = [
        float(np.square(moved - truth).sum(1).mean() / radius)
        for moved in (result.transformed_unrefined, result.transformed)
    ]
    return {"seconds": seconds, "unrefined": errors[0], "refined": errors[1]}


def serve() -> None:
    """Answer rows and trials on stdin with results on stdout, one line each."""
    one(next(iter(ROWS)), 1000)  # loads what is loaded once
    for line in sys.stdin:
        print(json.dumps(one(*json.loads(line))), flush=True)


def state(folder: Path) -> subprocess.Popen[str]:
    """A process of the program as it is in a checkout."""
    surroundings = {**os.environ, "PYTHONPATH": str(folder.resolve() / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--serve"]
    return subprocess.Popen(command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen[str], row: str, trial: int) -> dict[str, float]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([row, trial]) + "\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[""], help="beginnings of their names; all without it")
    parser.add_argument("--trials", type=int, help="at most")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
        return
    folders = [*([chosen.before] if chosen.before else []), Path(__file__).parents[1]]
    states = [state(folder) for folder in folders]
    print("| problems | trials | seconds | unrefined: median | refined: median | worst |")
    print("|---|---|---|---|---|---|")
    for row, (_, trials, _) in ROWS.items():
        if not row.startswith(tuple(chosen.rows)):
            continue
        count = min(trials, chosen.trials or trials)
        found = [
            [ask(process, row, trial) for process in states] for trial in tqdm(range(count), desc=row, leave=False)
        ]
        cells = []
        for name, of in (("seconds", np.median), ("unrefined", np.median), ("refined", np.median), ("refined", np.max)):
            cells.append(" to ".join(f"{of([both[k][name] for both in found]):.2g}" for k in range(len(states))))
        print(f"| {row} | {count} | {' | '.join(cells)} |", flush=True)
    for process in states:
        process.terminate()


if __name__ == "__main__":
    main()
