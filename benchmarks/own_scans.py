"""How well a registration does that knows neither the start nor the mass: partial bunnies, N = 1000.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/own_scans.py start --trials 50 [--scale] [--registered 15]
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/own_scans.py limits --trials 20 [--registered 20]

``start``: the source of keep 0.8 is turned about a random axis by a random angle (uniform rotations), shifted, and with
--scale scaled by 0.5 to 2. The table gives the rotation left by the search against the one that was made, and for the
first --registered trials the MSE from the found start over that from the aligned one, both with the true mass.
``limits``: keep 0.7, 0.85 and 1, and noise problems of 0.2 and 1.2 outliers; the estimated mass, and for the
first --registered trials of the partial cells the median MSE with it and with the true one. --quick takes 40 steps and
one more stage in place of PWAN's own numbers, for both sides.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation
from tqdm import tqdm

import pwan
from pwan import shapes
from pwan.begin.alignment import find_start
from pwan.begin.estimate import estimate_limits
from pwan.randomness import numpy_generator
from pwan.synthesis import SynthesisSettings, make_problem

SEED = 3
QUICK = {"steps": 40, "stages": 1}


def problem(trial: int, **settings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Source, reference, truth and mass of one trial of the packaged bunny."""
    made = make_problem(shapes.load("bunny"), SynthesisSettings(**settings), seed=SEED, trials=[trial])
    assert made.mass is not None and made.truth is not None
    return made.source[0].numpy(), made.reference[0].numpy(), made.truth[0].numpy(), float(made.mass[0])


def mse(source: np.ndarray, reference: np.ndarray, truth: np.ndarray, mass: float, options: dict[str, Any]) -> float:
    moved = pwan.register(source, reference, mass=mass, **options).transformed
    return float(((moved - truth) ** 2).sum(1).mean())


def starts(trials: int, registered: int, scale: bool, options: dict[str, Any]) -> None:
    print("| trial | degrees left | scale left | seconds | MSE found | MSE aligned | ratio |")
    print("|---|---|---|---|---|---|---|")
    lefts, scales, ratios = [], [], []
    for trial in tqdm(range(trials), desc="starts"):
        source, reference, truth, mass = problem(trial, points=1000, keep=0.8, deformation_lambda=50)
        generator = numpy_generator(SEED, trial, "pose")
        turned = Rotation.random(rng=generator).as_matrix()
        factor = float(np.exp(generator.uniform(np.log(0.5), np.log(2)))) if scale else 1.0
        given = factor * source @ turned + generator.normal(size=3) * 5
        began = time.perf_counter()
        start = find_start(given, reference, mass=mass, scale=scale, seed=trial)
        seconds = time.perf_counter() - began
        left = float(np.degrees(Rotation.from_matrix(turned @ start.rotation).magnitude()))
        lefts.append(left)
        scales.append(start.scale * factor)
        row = f"| {trial} | {left:.1f} | {start.scale * factor:.3f} | {seconds:.1f} |"
        if trial < registered:
            found = mse(start.apply(given), reference, truth, mass, options)
            aligned = mse(source, reference, truth, mass, options)
            ratios.append(found / aligned)
            row += f" {found:.5f} | {aligned:.5f} | {ratios[-1]:.2f} |"
        tqdm.write(row)
    turned_back = np.array(lefts) < 15
    print(f"within 15 degrees: {turned_back.sum()} of {trials}, 20: {np.sum(np.array(lefts) < 20)}")
    if scale:
        both = turned_back & (np.abs(np.array(scales) - 1) <= 0.1)
        print(f"and within 10% of the scale: {both.sum()} of {trials}")
    if ratios:
        print(f"at most twice the aligned MSE: {np.sum(np.array(ratios) <= 2)} of {len(ratios)}")


def limits(trials: int, registered: int, options: dict[str, Any]) -> None:
    cells: list[tuple[str, dict[str, Any]]] = [
        *((f"keep {keep}", {"points": 1000, "keep": keep, "deformation_lambda": 50}) for keep in (0.7, 0.85, 1.0)),
        *((f"outliers {ratio}", {"points": 500, "outlier_ratio": ratio}) for ratio in (0.2, 1.2)),
    ]
    print("| cell | mass | estimated: median (least to most) | MSE estimated | MSE true | ratio | trials of it |")
    print("|---|---|---|---|---|---|---|")
    for name, settings in cells:
        masses, errors = [], []
        for trial in tqdm(range(trials), desc=name):
            source, reference, truth, mass = problem(trial, **settings)
            estimated = estimate_limits(source, reference, seed=trial).mass
            masses.append(estimated)
            if trial < registered and name.startswith("keep"):
                own = mse(source, reference, truth, mass, options)
                same = estimated == mass
                errors.append((own if same else mse(source, reference, truth, estimated, options), own))
        row = f"| {name} | {mass:g} | {np.median(masses):g} ({min(masses):g} to {max(masses):g}) |"
        if errors:
            ours, own = np.median(errors, axis=0)
            row += f" {ours:.5f} | {own:.5f} | {ours / own:.2f} | {len(errors)} |"
        tqdm.write(row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "limits"))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--registered", type=int, default=0)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    chosen_options = QUICK if chosen.quick else {}
    if chosen.what == "start":
        starts(chosen.trials, chosen.registered, chosen.scale, chosen_options)
    else:
        limits(chosen.trials, chosen.registered, chosen_options)
