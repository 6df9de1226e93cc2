"""What the search for a start does, alone: turns of 20 to 180 degrees, sets that must stay, shapes of no right turn.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/starts.py tuning      # what the settings were chosen on
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/starts.py report      # other shapes and seeds

Settings are chosen on ``tuning``. Cases that are there already are not run again; another --rows for another search.
"turned": right within 25 degrees and 0.3 RMS radii of the truth. "stay": kept as given, or nearer to the truth than
that. "open": nothing is right; kept, or said to be open. Pairs from public reports are taken too where the environment
variable PWAN_REPORTS names their folder.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation
from tqdm import tqdm

from pwan import shapes
from pwan.begin.alignment import SEARCH, find_start
from pwan.begin.similarities import angles, procrustes
from pwan.bench.rows import Row, RowFile, environment
from pwan.randomness import numpy_generator
from pwan.shapes import Shape
from pwan.synthesis import SynthesisSettings, make_problem

HALVES = {"tuning": 1, "report": 2}  # the seed of each
SOLID = {
    "tuning": ("bunny", "body_walk", "hand_point", "pear_1", "pear_2"),
    "report": ("armadillo", "monkey", "body_lunge", "head_kiss", "pear_3", "pear_4"),
}
REAL = {
    "tuning": "body_child body_kick body_raise body_turn body_walk body_wave hand_fist hand_grown hand_hook hand_point "
    "hand_spread hand_two head_aged head_grin head_other head_puff head_shout head_smile",
    "report": "body_bow body_heavy body_lean body_lunge body_reach body_sit hand_bend hand_broad hand_cup hand_pinch "
    "hand_thumb hand_three head_call head_frown head_heavy head_kiss head_man head_yawn",
}
DEGREES = (20, 45, 70, 110, 150, 180)
SIZES = (300, 600, 1200)
RIGHT = (25.0, 0.3)  # degrees, RMS radii

Sets = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # source, reference, truth


@dataclass(frozen=True)
class Case:
    """One search: its name is "group/which", and what is wanted is "turned", "stay" or "open"."""

    name: str
    wanted: str
    make: Callable[[], Sets]


def cases(half: str) -> Iterator[Case]:
    """All cases of a half."""
    seed = HALVES[half]
    for number, name in enumerate(SOLID[half]):
        for k, degrees in enumerate(DEGREES):
            points = SIZES[(k + number) % 3]
            make = partial(synthetic, name, seed, degrees, points=points, deformation_lambda=400)
            yield Case(f"turn/{name}_{degrees}_{points}", "turned", make)
        for few in (8, 20, 50):
            for many in (300, 2000):
                make = partial(few_onto_many, name, seed, few, many)
                yield Case(f"few/{name}_{few}_{many}", "stay", make)
        for trial in range(2):
            for share in (0.4, 0.6):
                make = partial(halves_of, name, seed, trial, share)
                yield Case(f"part/{name}_{share}_{trial}", "stay", make)
            make = partial(synthetic, name, seed, 0, trial=trial, outlier_ratio=0.5)
            yield Case(f"outliers/{name}_{trial}", "stay", make)
    for name in REAL[half].split():
        real: dict[str, Any] = {"deformation": "partner", "surface": "both", "points": 800}
        yield Case(f"real/{name}", "stay", partial(synthetic, name, seed, 0, **real))
        for trial, again in enumerate(("", "_1", "_2") if half == "report" else ("",)):
            by = float(numpy_generator(seed, "turn", name + again).uniform(20, 180))
            make = partial(synthetic, name, seed, by, trial=trial, **real)
            yield Case(f"real_turned/{name}{again}", "turned", make)
    for trial in range(10 if half == "tuning" else 20):
        by = float(np.degrees(Rotation.random(rng=numpy_generator(seed, "pose", trial)).magnitude()))
        partly: dict[str, Any] = {"points": 1000, "keep": 0.8, "deformation_lambda": 50}
        yield Case(f"bunny_0.8/{trial}", "turned", partial(synthetic, "bunny", seed, by, trial=trial, **partly))
    for share in (0.25, 0.4, 0.5, 0.6, 1.0):
        for trial in range(2):
            yield Case(f"sections/{share}_{trial}", "stay", partial(sections, seed, trial, share))
    for name in ("sphere", "cylinder", "box"):
        for points in SIZES:
            yield Case(f"open/{name}_{points}", "open", partial(symmetric, name, seed, points))
    if "PWAN_REPORTS" in os.environ and half == "report":
        yield from reported(Path(os.environ["PWAN_REPORTS"]) / "pairs")


def synthetic(name: str, seed: int, degrees: float, *, trial: int = 0, **settings: Any) -> Sets:
    shape = pear(name) if name.startswith("pear") else shapes.load(name)
    made = make_problem(shape, SynthesisSettings(turn=degrees, **settings), seed=seed, trials=[trial])
    assert made.truth is not None
    return made.source[0].numpy(), made.reference[0].numpy(), made.truth[0].numpy()


def pear(name: str) -> Shape:
    """A ball with a few wide bumps: smooth, and nearly the same after many turns."""
    generator = numpy_generator(0, name)
    points = generator.normal(size=(8000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    bumps = generator.normal(size=(4, 3))
    bumps /= np.linalg.norm(bumps, axis=1)[:, None]
    heights = np.array([0.8, 0.3, -0.2, 0.2])
    points *= 1 + (heights * np.exp(4 * (points @ bumps.T - 1))).sum(1, keepdims=True)
    points -= points.mean(0)
    return Shape(name, "analytic", points / np.sqrt((points**2).sum(1).mean()))


def few_onto_many(name: str, seed: int, few: int, many: int) -> Sets:
    """A few points of a surface onto many of it, bent by 0.1 RMS radii."""
    source, reference, truth = synthetic(name, seed, 0, points=many, deformation_lambda=300)
    assert truth is not None
    rows = numpy_generator(seed, "few", name, few, many).choice(many, few, replace=False)
    return source[rows], reference, truth[rows]


def halves_of(name: str, seed: int, trial: int, share: float) -> Sets:
    """Two parts along a random axis, so that this share of each one is in the other."""
    source, reference, truth = synthetic(name, seed, 0, trial=trial, points=1500, deformation_lambda=300)
    assert truth is not None
    axis = numpy_generator(seed, "axis", name, trial).normal(size=3)
    there, end = reference @ axis, truth @ axis
    size = 1 / (2 - share)  # of the whole, so that both overlap by ``share`` of themselves
    low, high = np.quantile(end, size), np.quantile(end, 1 - size)
    return source[end < low], reference[there > high], truth[end < low]


def sections(seed: int, trial: int, share: float) -> Sets:
    """Two windows of one tissue with round holes, side by side with this share in common, one of them bent."""
    generator = numpy_generator(seed, "sections", trial)
    points = generator.uniform(0, 1, (2, 4000, 2)) * [16, 4]
    holes = np.column_stack((generator.uniform(0, 1, (40, 2)) * [16, 4], generator.uniform(0.2, 0.7, 40)))
    apart = np.linalg.norm(points[:, :, None] - holes[:, :2], axis=-1) > holes[:, 2]
    y, x = (side[kept] for side, kept in zip(points, apart.all(-1), strict=True))
    shift = 7.0 * (1 - share)
    y, x = y[y[:, 0] < 7], x[(x[:, 0] > shift) & (x[:, 0] < shift + 7)]
    turned = Rotation.from_euler("z", 5 * (-1) ** trial, degrees=True).as_matrix()[:2, :2]
    bent = (y - 3) @ turned + 3 + 0.15 * np.sin(y[:, ::-1] + trial)
    return bent, x + 0.02 * generator.normal(size=x.shape), y


def symmetric(name: str, seed: int, points: int) -> Sets:
    """Two draws of a surface that several turns leave alike, in place."""
    generator = numpy_generator(seed, "symmetric", name, points)
    made = []
    for _ in range(2):
        side = generator.normal(size=(points, 3))
        if name == "sphere":
            side /= np.linalg.norm(side, axis=1)[:, None]
        elif name == "cylinder":
            side[:, :2] /= np.linalg.norm(side[:, :2], axis=1)[:, None]
            side[:, 2] = generator.uniform(-2, 2, points)
        else:
            side = generator.uniform(-1, 1, (points, 3))
            at, axis = np.arange(points), generator.integers(0, 3, points)
            side[at, axis] = np.sign(side[at, axis])
            side *= [2.0, 1.4, 1.0]
        made.append(side + 0.01 * generator.normal(size=side.shape))
    return made[0], made[1], None


def reported(folder: Path) -> Iterator[Case]:
    """The pairs of a folder: <name>_source.npy, _reference.npy, and _truth.npy where there is one."""
    for path in sorted(folder.glob("*_source.npy")):
        name = path.name.removesuffix("_source.npy")
        files = [folder / f"{name}_{part}.npy" for part in ("source", "reference", "truth")]
        wanted = "open" if not files[2].exists() else "turned" if name.startswith("turn") else "stay"
        yield Case(f"reported/{name}", wanted, partial(read, files))


def read(files: Sequence[Path]) -> Sets:
    source, reference = np.load(files[0]), np.load(files[1])
    return source, reference, np.load(files[2]) if files[2].exists() else None


def measure(case: Case) -> Row:
    """Run one search."""
    source, reference, truth = case.make()
    began = time.perf_counter()
    start = find_start(source, reference)
    row: Row = {
        "settings": case.name,
        "trial": 0,
        "name": case.name,
        "wanted": case.wanted,
        "seconds": time.perf_counter() - began,
        "kept": not start.changed,
        "reason": start.reason,
        "rival": start.rival if np.isfinite(start.rival) else None,
        **environment(),
    }
    if truth is None:
        return row | {"right": not start.changed or start.rival < SEARCH.tie}
    radius = float(np.sqrt(truth.var(0).sum()))
    best = procrustes(source[None], truth[None], np.ones((1, len(source))), rotation=True, scale=False)
    moved = start.apply(source)
    left = float(angles(best.rotation, start.rotation)[0])
    shift = float(np.linalg.norm(moved.mean(0) - truth.mean(0)) / radius)
    given, found = (float(np.sqrt(((points - truth) ** 2).sum(1).mean())) / radius for points in (source, moved))
    near = left <= RIGHT[0] and shift <= RIGHT[1]
    right = near if case.wanted == "turned" else not start.changed or found <= given
    return row | {"degrees_left": left, "shift_left": shift, "given": given, "found": found, "right": right}


def table(rows: Sequence[Row]) -> None:
    print("| group | cases | right | kept as given | median degrees left | seconds: median, most |")
    print("|---|---|---|---|---|---|")
    for group in dict.fromkeys(row["name"].split("/")[0] for row in rows):
        here = [row for row in rows if row["name"].startswith(f"{group}/")]
        lefts = [row["degrees_left"] for row in here if "degrees_left" in row]
        seconds = [row["seconds"] for row in here]
        left = f"{np.median(lefts):.1f}" if lefts else ""
        counts = f"{len(here)} | {sum(row['right'] for row in here)} | {sum(row['kept'] for row in here)}"
        print(f"| {group} | {counts} | {left} | {np.median(seconds):.1f}, {max(seconds):.1f} |")
    for row in rows:
        if not row["right"]:
            left = f"{row['degrees_left']:.0f} degrees left; " if "degrees_left" in row else ""
            print(f"{row['name']}: {left}{row['reason']}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("--cases", nargs="*", default=["*"], help="names or patterns")
    parser.add_argument("--rows", type=Path, default=Path("outputs/starts"), help="the folder of the rows")
    chosen = parser.parse_args(arguments)
    wanted = [c for c in cases(chosen.half) if any(fnmatch.fnmatch(c.name, pattern) for pattern in chosen.cases)]
    with RowFile(chosen.rows / chosen.half) as file:
        known = {row["name"] for row in file.rows}
        for case in tqdm([c for c in wanted if c.name not in known], desc="starts"):
            file.append(measure(case))
        by_name = {row["name"]: row for row in file.rows}
    table([by_name[case.name] for case in wanted])


if __name__ == "__main__":
    main()
