"""How well many shapes come into one numbering, and their modes with them: known shapes, each sampled anew.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/study.py heads auto auto_mean auto_scans plain
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/study.py bodies auto plain
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/study.py heads --files heads    # files, to try the command on

Each scan is a mixture of the twelve shapes of the six packaged pairs (heads or bodies) that serve for the final tables
alone, by random shares (Dirichlet, 0.3 of each), so that most are near one or two of them; turned by up to 30 degrees
about a random axis, shifted, and given as --points points drawn evenly on its surface. The template is a shape of the
pairs for tuning, given as as many places of its own surface. The same places on each mixture are where they belong.

``auto``: flexibility="auto", as `pwan register` has it; ``auto_mean``: to="mean", too; ``auto_scans``: moves="scans" in
place of that; ``plain``: ``register`` as it is. No setting was chosen for this.

Errors are distances in per cent of the shapes' RMS radius: the mean over all points and scans, and of the worst scan;
first that of the template, turned and shifted onto each true shape. Modes are those that explain 95% of the true
shapes' variance: their shares of it, true and found, the angle in degrees between the first ones, and the largest and
the mean principal angle between the spaces that all of them span; in the first row for every other true shape against
all of them, by which angles can be judged.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from scipy.spatial.transform import Rotation

from pwan import register_many, shape_model, shapes
from pwan.many import ShapeModel
from pwan.randomness import numpy_generator
from pwan.shapes.shape import Shape
from pwan.shapes.surface import draw_on_faces, on_faces, sample_surface

FINAL = {
    "heads": ("head_kiss", "head_yawn", "head_frown", "head_heavy", "head_man", "head_call"),
    "bodies": ("body_lean", "body_lunge", "body_sit", "body_heavy", "body_reach", "body_bow"),
}
TEMPLATE = {"heads": "head_smile", "bodies": "body_turn"}
VARIANTS: dict[str, dict[str, Any]] = {
    "auto": {"flexibility": "auto"},
    "auto_mean": {"flexibility": "auto", "to": "mean"},
    "auto_scans": {"flexibility": "auto", "moves": "scans"},
    "plain": {},
}


def family(name: str, count: int, points: int, seed: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """The template (N, 3), the scans (n, 3) and where the template's points belong on each (S, N, 3)."""
    pairs = [shapes.load(one) for one in FINAL[name]]
    known = np.stack([side for pair in pairs for side in (pair.points, pair.partner)])  # (12, V, 3)
    template = shapes.load(TEMPLATE[name])
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
    k = int(np.searchsorted(np.cumsum(true.explained), 0.95) + 1)
    spans = [model.modes[:k].reshape(k, -1).T for model in (true, found.turned_onto(true.mean))]
    first = np.degrees(subspace_angles(*(span[:, :1] for span in spans)))[0]
    angles = np.degrees(subspace_angles(*spans))
    shares = (" ".join(f"{share:.2f}" for share in model.explained[:k]) for model in (true, found))
    return " | ".join((*shares, f"{first:.0f} | {angles.max():.0f} / {angles.mean():.0f}"))


def errors(points: np.ndarray, truth: np.ndarray) -> str:
    each = 100 * np.linalg.norm(points - truth, axis=2).mean(1) / shape_model(truth).sizes.mean()
    return f"{np.nanmean(each):.2f} / {np.nanmax(each):.2f}"


def write_files(folder: Path, template: Shape, scans: list[np.ndarray]) -> None:
    """The template as a mesh and the scans as points, for `pwan register template.off scans output=study`."""
    (folder / "scans").mkdir(parents=True, exist_ok=True)
    vertices, faces = template.points, template.faces
    rows = [" ".join(f"{value:.6f}" for value in row) for row in vertices]
    rows += [f"3 {a} {b} {c}" for a, b, c in faces]
    (folder / "template.off").write_text("\n".join(["OFF", f"{len(vertices)} {len(faces)} 0", *rows, ""]))
    for k, scan in enumerate(scans):
        np.save(folder / "scans" / f"scan_{k:02}.npy", scan)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FINAL)
    parser.add_argument("variants", nargs="*", help=", ".join(VARIANTS))
    parser.add_argument("--scans", type=int, default=20)
    parser.add_argument("--points", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--files", type=Path, help="write template.off and scans/ into this folder, and end")
    chosen = parser.parse_args(arguments)
    template, scans, truth = family(chosen.family, chosen.scans, chosen.points, chosen.seed)
    if chosen.files:
        write_files(chosen.files, shapes.load(TEMPLATE[chosen.family]), scans)
        return
    true = shape_model(truth)
    placed = np.stack([shape_model(np.stack((shape, template))).aligned[1] for shape in truth])
    placed += truth.mean(1, keepdims=True)
    first = compare(shape_model(truth[::2]), true)
    print(
        "| variant | error, all / worst (%) | true shares | found shares | first mode | all | confidence | rounds, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print(f"| template / every other shape | {errors(placed, truth)} | {first} | | |")
    for name in chosen.variants:
        began = time.perf_counter()
        found = register_many(template, scans, workers=chosen.workers, **VARIANTS[name])
        seconds = time.perf_counter() - began
        assert found.model is not None
        sure = f"{np.median(found.confidence):.2f} ({found.confidence.min():.2f})"
        cells = errors(found.points, truth), compare(found.model, true), sure, f"{found.rounds}, {seconds:.0f}"
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        print(f"outlying: {', '.join(found.model.outlying)}; failed: {', '.join(found.failed)}", flush=True)


if __name__ == "__main__":
    main()
