"""How well many heads come into one numbering, and their modes with them: known heads, each sampled anew.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/study.py plain auto auto_mean auto_scans --scans 20

Each scan is a mixture of the twelve shapes of the six packaged pairs of heads that serve for the final tables alone, by
random shares (Dirichlet, 0.3 of each), so that most are near one or two of them; turned by up to 30 degrees about a
random axis, shifted, and given as --points points drawn evenly on its surface. The template is a head of the pairs for
tuning, given as as many places of its own surface. The same places on each mixture are where they belong.

``plain``: ``register`` as it is; ``auto``: flexibility="auto", as pwan register has it; ``auto_mean``: to="mean",
too; ``auto_scans``: moves="scans" in place of that. No setting was chosen for this.

Errors are distances in per cent of the heads' RMS radius: the mean over all points and scans, and of the worst scan.
Modes are those that explain 90% of the true shapes' variance: their share of the variance, true and found, and the
largest and the mean principal angle between the two spaces that they span; for the true shapes from half of the scans
against all as well, by which the angles can be judged.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.spatial.transform import Rotation

from pwan import register_many, shape_model, shapes
from pwan.many import ShapeModel
from pwan.randomness import numpy_generator
from pwan.shapes.surface import draw_on_faces, on_faces, sample_surface

FINAL = ("head_kiss", "head_yawn", "head_frown", "head_heavy", "head_man", "head_call")
TEMPLATE = "head_smile"
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "auto": {"flexibility": "auto"},
    "auto_mean": {"flexibility": "auto", "to": "mean"},
    "auto_scans": {"flexibility": "auto", "moves": "scans"},
}


def heads(count: int, points: int, seed: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """The template (N, 3), the scans (n, 3) and where the template's points belong on each (S, N, 3)."""
    pairs = [shapes.load(name) for name in FINAL]
    known = np.stack([side for pair in pairs for side in (pair.points, pair.partner)])  # (12, V, 3)
    template = shapes.load(TEMPLATE)
    faces = template.faces
    places = draw_on_faces(template.points, faces, points, numpy_generator(seed, "study template"))
    scans, truth = [], []
    for k in range(count):
        generator = numpy_generator(seed, k, "study scan")
        mixed = np.tensordot(generator.dirichlet(np.full(len(known), 0.3)), known, 1)
        axis = generator.standard_normal(3)
        angle = np.radians(generator.uniform(0, 30))
        turned = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
        mixed = mixed @ turned + generator.normal(size=3)
        scans.append(sample_surface(mixed, faces, points, generator))
        truth.append(on_faces(mixed, faces, *places))
    return on_faces(template.points, faces, *places), scans, np.stack(truth)


def compare(found: ShapeModel, true: ShapeModel) -> str:
    """Shares of variance and angles between the modes, in a table's cells."""
    k = int(np.searchsorted(np.cumsum(true.explained), 0.9) + 1)
    spans = [_turned(model, true).reshape(len(model.modes), -1)[:k].T for model in (true, found)]
    angles = np.degrees(subspace_angles(*spans))
    shares = (" ".join(f"{share:.2f}" for share in model.explained[:k]) for model in (true, found))
    return " | ".join((str(k), *shares, f"{angles.max():.0f} / {angles.mean():.0f}"))


def _turned(model: ShapeModel, onto: ShapeModel) -> np.ndarray:
    """The modes of a model whose mean is turned onto that of another one."""
    return model.modes @ Rotation.align_vectors(onto.mean, model.mean)[0].as_matrix().T


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="+", choices=VARIANTS)
    parser.add_argument("--scans", type=int, default=20)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    template, scans, truth = heads(chosen.scans, chosen.points, chosen.seed)
    true = shape_model(truth)
    radius = true.sizes.mean()
    print("| variant | error, all / worst scan (%) | modes | true shares | found shares | angles | confidence | s |")
    print("|---|---|---|---|---|---|---|---|")
    halves = compare(shape_model(truth[::2]), true)
    print(f"| true shapes, every other one | 0 / 0 | {halves} | | |")
    for name in chosen.variants:
        began = time.perf_counter()
        found = register_many(template, scans, workers=chosen.workers, **VARIANTS[name])
        seconds = time.perf_counter() - began
        errors = 100 * np.linalg.norm(found.points - truth, axis=2).mean(1) / radius
        assert found.model is not None
        words = f"{errors.mean():.2f} / {np.nanmax(errors):.2f} | {compare(found.model, true)}"
        sure = found.confidence
        print(f"| {name} | {words} | {np.median(sure):.2f} ({sure.min():.2f}) | {seconds:.0f}, {found.rounds} rounds |")
        print(f"  outlying: {found.model.outlying}; failed: {found.failed}", flush=True)
