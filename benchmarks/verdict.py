"""Registrations with known truth, right and wrong, from which the verdict's probability is fitted and on which it is
checked.

    OMP_NUM_THREADS=1 PYTHONPATH=src:. python benchmarks/verdict.py make [--part 0/2]   registers; goes on where it was
    OMP_NUM_THREADS=1 PYTHONPATH=src:. python benchmarks/verdict.py fit                 fits, checks, prints the tables

``make`` takes each case the way of two files, as ``task=register`` does: start (where the source was turned), mass,
flexibility, sliding; with fewer steps than by default, and one stage, and ``flexibility=auto`` in a part of them.
What a measure may need of it is kept in a file each, so that another measure costs no registration. A result is right
where the source points that have a partner end, in the mean square, within .02 of the truth's mean squared radius;
results of two different shapes, or of a shape and its mirror image, are wrong whatever they are. The cases of the
shapes in FITTED are for the fit, all others for the check alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation
from tqdm import tqdm

from pwan import shapes
from pwan.bench.measures import measures
from pwan.randomness import numpy_generator
from pwan.registration.flexibility import Fit
from pwan.scans.pair import read_pair
from pwan.scans.registering import register_pair
from pwan.scans.settings import ScanSettings
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.trust.confidence import confidence
from pwan.trust.signs import Signs, signs
from pwan.trust.verdict import Measured, Verdict, judge

FOLDER = Path("outputs/verdict")
SEED = 11
AUTO = {"flexibility": "auto"}
QUICK = {"steps": 40, "stages": 1}
RIDGE = 1e-3  # of the squared weights of standardised signs
RIGHT = 0.02  # of the truth's mean squared radius
TUNING = {
    "body": ("turn", "walk", "raise", "child", "wave", "kick"),
    "hand": ("spread", "fist", "point", "grown", "hook", "two"),
    "head": ("smile", "shout", "puff", "aged", "other", "grin"),
}
FINAL = {
    "body": ("lean", "lunge", "sit", "heavy", "reach", "bow"),
    "hand": ("cup", "pinch", "thumb", "broad", "bend", "three"),
    "head": ("kiss", "yawn", "frown", "heavy", "man", "call"),
}
FITTED = ("bunny", "monkey", "fish", *(f"{family}_{pair}" for family, of in TUNING.items() for pair in of))
CHECKED = ("armadillo", "torus", *(f"{family}_{pair}" for family, of in FINAL.items() for pair in of))


@dataclass(frozen=True)
class Case:
    """One registration: how its sets are made, and how they are spoilt.

    Attributes:
        kind: one word for the table.
        group: synthetic, real, few or different.
        shape: the source's.
        trial: a number of its own.
        synthesis: settings of the problem.
        turned: degrees by which the source is turned about a random axis before.
        share: of the source's points that are given.
        onto: a shape whose points take the reference's place.
        mirrored: whether the reference is its mirror image.
        options: settings of ``task=register``.
        method: settings of the method.
    """

    kind: str
    group: str
    shape: str
    trial: int
    synthesis: dict[str, Any] = field(default_factory=dict)
    turned: float = 0.0
    share: float = 1.0
    onto: str | None = None
    mirrored: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    method: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.shape}-{self.trial}"


def cases() -> list[Case]:
    """All of them, in an order in which any beginning holds some of each kind."""
    found: list[Case] = []
    for number, shape in enumerate(("bunny", "armadillo", "monkey", "armadillo", "bunny", "monkey")):
        for k in range(6):
            found += list(_synthetic(shape, 10 * number + k))
    for k in range(12):
        found += list(_flat(k))
    real = [f"{family}_{pair}" for half in (TUNING, FINAL) for family, of in half.items() for pair in of]
    for k, shape in enumerate(real):
        found += list(_real(shape, k, real))
    # auto tries up to five, which is dear: for real pairs, and for one in three of the others
    found = [replace(case, method=AUTO) if case.group == "real" or case.trial % 3 == 0 else case for case in found]
    order = np.random.default_rng(SEED).permutation(len(found))
    return [found[i] for i in order]


def _synthetic(shape: str, trial: int) -> Iterator[Case]:
    draw = np.random.default_rng(trial)
    points, some = int(draw.integers(150, 350)), int(draw.integers(20, 120))
    smooth: dict[str, Any] = {"points": points}
    turn = float(draw.uniform(20, 180))
    other = {"bunny": "monkey", "monkey": "bunny", "armadillo": "torus"}[shape]
    synthetic, few, different = ("synthetic", "few", "different")
    yield Case("whole", synthetic, shape, trial, smooth)
    yield Case("noise", synthetic, shape, trial, {**smooth, "outlier_ratio": float(draw.choice([0.3, 0.6, 1.2]))})
    stiff = {**smooth, "deformation_lambda": 50.0}
    yield Case("partial", synthetic, shape, trial, {**stiff, "keep": float(draw.choice([0.7, 0.8, 0.9]))})
    yield Case("turned", synthetic, shape, trial, stiff, turn)
    yield Case("turned_partial", synthetic, shape, trial, {**stiff, "keep": 0.8}, turn)
    yield Case("left_turned", synthetic, shape, trial, stiff, turn, options={"init": "none"})
    yield Case("all_of_part", synthetic, shape, trial, {**stiff, "keep": 0.7}, options={"mass": points * 7 // 10 - 1})
    yield Case("few", few, shape, trial, {**stiff, "points": some})
    yield Case("few_turned", few, shape, trial, {**stiff, "points": some}, turn)
    yield Case("few_onto_many", few, shape, trial, {**stiff, "points": 400}, share=some / 400)
    yield Case("few_different", different, shape, trial, {**stiff, "points": some}, onto=other)
    yield Case("different", different, shape, trial, smooth, onto=other)
    yield Case("mirrored", different, shape, trial, smooth, mirrored=True)


def _flat(trial: int) -> Iterator[Case]:
    draw = np.random.default_rng(500 + trial)
    shape: dict[str, Any] = {"points": int(draw.integers(50, 91))}
    yield Case("flat", "few", "fish", trial, shape)
    yield Case("flat_noise", "few", "fish", trial, {**shape, "outlier_ratio": 0.5})
    yield Case("flat_turned", "few", "fish", trial, {**shape, "deformation_lambda": 50.0}, float(draw.uniform(20, 180)))


def _real(shape: str, trial: int, real: list[str]) -> Iterator[Case]:
    draw = np.random.default_rng(1000 + trial)
    pair: dict[str, Any] = {"points": 350, "deformation": "partner", "surface": "both", "noise": 0.005}
    yield Case("real", "real", shape, trial, pair)
    spoilt = (
        Case("real_cropped", "real", shape, trial, {**pair, "keep": 0.7, "crop": "reference"}),
        Case("real_outliers", "real", shape, trial, {**pair, "outlier_ratio": 0.5}),
        Case("real_turned", "real", shape, trial, pair, float(draw.uniform(40, 180))),
    )
    yield spoilt[trial % 3]
    half = real[: len(real) // 2] if trial < len(real) // 2 else real[len(real) // 2 :]
    others = [name for name in half if name[:4] != shape[:4]]
    yield Case("real_different", "different", shape, trial, pair, onto=str(draw.choice(others)))


def registered(case: Case) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is known of a case after its registration: numbers, and arrays."""
    shape = shapes.load(case.shape)
    problem = make_problem(shape, SynthesisSettings(**case.synthesis), seed=SEED, trials=[case.trial])
    assert problem.truth is not None
    source, reference, truth = (x[0].numpy().copy() for x in (problem.source, problem.reference, problem.truth))
    draw = numpy_generator(SEED, case.trial, "spoilt")
    if case.onto is not None:
        other = make_problem(
            shapes.load(case.onto), SynthesisSettings(**case.synthesis), seed=SEED, trials=[case.trial]
        )
        reference = other.reference[0].numpy().copy()
    if case.mirrored:
        reference[:, 0] *= -1
    if case.share < 1:
        rows = np.sort(draw.choice(len(source), max(8, round(case.share * len(source))), replace=False))
        source, truth = source[rows], truth[rows]
    if case.turned:
        axis = draw.normal(size=3)
        angle = np.radians(case.turned)
        if source.shape[1] == 3:
            source = source @ Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
        else:
            source = source @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, points in (("source", source), ("reference", reference)):
            files[name] = str(Path(folder) / f"{name}.xyz")
            np.savetxt(files[name], points, fmt="%.9g")
        options = {"init": "auto" if case.turned else "none", **case.options}
        settings = ScanSettings(**files, output=f"{folder}/out", method_settings={**QUICK, **case.method}, **options)
        pair = read_pair(settings)
        began = time.process_time()
        outcome = register_pair(settings, pair, tell=lambda _: None)
    one = type(problem)(*(torch.from_numpy(x)[None] for x in (source, reference)), truth=torch.from_numpy(truth)[None])
    moved = outcome.result.transformed
    radius = float(((truth - truth.mean(0)) ** 2).sum(1).mean())
    error = measures(one, 0, moved)["mse_partnered"] / radius
    wrong = case.onto is not None or case.mirrored
    numbers = {
        **asdict(case),
        "name": case.name,
        "seen": case.shape in FITTED,
        "error": error,
        "right": bool(error < RIGHT) and not wrong,
        "good": outcome.verdict.trusted,
        "warnings": list(outcome.verdict.warnings),
        "measured": asdict(outcome.measured),
        "seconds": time.process_time() - began,
        "mass": outcome.mass,
        "start": None if outcome.start is None else outcome.start.reason,
    }
    arrays = {
        "source": source,
        "at_start": outcome.at_start,
        "moved": moved,
        "reference": reference,
        "truth": truth,
        "matched": outcome.matched,
        "reference_matched": outcome.result.reference_matched,
    }
    return numbers, arrays


def make(part: int, parts: int) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in tqdm(cases()[part::parts], desc="registrations"):
        path = FOLDER / f"{case.name}.npz"
        if path.exists():
            continue
        with contextlib.suppress(FloatingPointError):
            numbers, arrays = registered(case)
            half = path.with_suffix(".half.npz")
            np.savez_compressed(half, numbers=json.dumps(numbers, default=float), **arrays)
            half.rename(path)


@dataclass(frozen=True)
class Row:
    """One kept registration: what the case was, the signs, and the verdict of today."""

    numbers: dict[str, Any]
    signs: Signs
    verdict: Verdict

    @property
    def right(self) -> bool:
        return bool(self.numbers["right"])


def kept() -> list[Row]:
    """All that ``make`` has kept, judged by what is measured today."""
    rows = []
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as file:
            numbers, arrays = json.loads(str(file["numbers"])), {name: file[name] for name in file if name != "numbers"}
        sets = [arrays[name] for name in ("at_start", "moved", "reference", "matched", "reference_matched")]
        fit = Fit(**numbers["measured"]["fit"])
        found = signs(*sets, fit)
        known = {**numbers["measured"], "fit": fit, "signs": found, "confidence": confidence(found)}
        rows.append(Row(numbers, found, judge(Measured(**{**known, "beyond": tuple(known["beyond"])}))))
    return rows


def fit() -> None:
    """Prints the weights for pwan/trust/confidence.py, fitted on the shapes of FITTED, and what the verdict of today
    is worth on all others."""
    rows = kept()
    seen = [row for row in rows if row.numbers["seen"]]
    names = [f.name for f in fields(Signs)]
    values, right = np.array([astuple(row.signs) for row in seen]), np.array([row.right for row in seen])
    middle, spread = values.mean(0), values.std(0) + 1e-12
    standard = (values - middle) / spread

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logit = parameters[0] - standard @ parameters[1:]
        chance = 1 / (1 + np.exp(-logit))
        miss = chance - right
        value = np.logaddexp(0, np.where(right, -logit, logit)).mean() + RIDGE * np.square(parameters[1:]).sum()
        slope = np.concatenate(([miss.mean()], -(standard * miss[:, None]).mean(0) + 2 * RIDGE * parameters[1:]))
        return float(value), slope

    bounds = [(None, None)] + [(0.0, None)] * len(names)
    found = minimize(loss, np.zeros(len(names) + 1), jac=True, bounds=bounds, method="L-BFGS-B").x
    weights = found[1:] / spread
    print(f"fitted on {len(seen)} registrations, {right.sum()} of them right")
    print(f"BIAS = {found[0] + weights @ middle:.3g}")
    for name, weight, column in zip(names, weights, values.T, strict=True):
        print(f"{name}: weight {weight:.3g}, usual {np.quantile(column[right], 0.9):.2g}")
    print("| | registrations | right | called good | of these right | of the right ones called good |")
    print("|---|---|---|---|---|---|")
    for half, words in ((True, "fitted"), (False, "checked")):
        for group in ("all", "synthetic", "real", "few", "different"):
            of = [row for row in rows if row.numbers["seen"] == half and group in ("all", row.numbers["group"])]
            good = [row for row in of if row.verdict.trusted]
            both, truly = sum(row.right for row in good), sum(row.right for row in of)
            shares = [f"{both / max(1, len(good)):.1%}", f"{both / max(1, truly):.1%}"]
            print(f"| {words}, {group} | {len(of)} | {truly} | {len(good)} | {' | '.join(shares)} |")
    for row in rows:
        if row.verdict.trusted and not row.right:
            print(f"called good: {row.numbers['name']}, error {row.numbers['error']:.3g}", row.signs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "fit"))
    parser.add_argument("--part", default="0/1", help="which part of how many, as 0/2 and 1/2 beside each other")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "make":
        make(*map(int, given.part.split("/")))
    else:
        fit()


if __name__ == "__main__":
    main()
