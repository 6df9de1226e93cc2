"""The error against the number of the frame: a body on its way from one pose to another, drawn anew in each.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/frames.py body_walk [--frames 10] [--spoilt] [--picture a.png]

``straight``: the first frame onto each other one, begun where it is. ``chain``: each frame onto the next one.
``both``: register_sequence. The error is the mean distance to where the points belong, in % of the RMS radius; a ?
marks frames that are not trusted.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

import pwan
from pwan import shapes
from pwan.randomness import numpy_generator
from pwan.shapes.surface import draw_on_faces, on_faces

SEED = 5


def between(vertices: np.ndarray, others: np.ndarray, faces: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The mesh (V, 3) on its way to the other pose of it, (T, V, 3) for shares (T,) of the way from 0 to 1.

    Each triangle's map is parted into a rotation and a stretch, which go from the identity to it on their own; the
    vertices follow by least squares (Alexa, Cohen-Or and Levin, 2000), and their mean goes straight.
    """
    before, after = _with_normals(vertices[faces]), _with_normals(others[faces])  # (F, 3, 3), columns
    u, values, vt = np.linalg.svd(after @ np.linalg.inv(before))
    turns = Rotation.from_matrix(u @ vt).as_rotvec()
    stretch = vt.transpose(0, 2, 1) * values[:, None] @ vt
    ends = np.stack((faces, np.roll(faces, -1, 1)), -1).reshape(-1, 2)  # (3 F, 2)
    lengths = (vertices[ends[:, 1]] - vertices[ends[:, 0]]).reshape(len(faces), 3, 3)
    rows = np.repeat(np.arange(len(ends)), 2)
    difference = csr_array(coo_array((np.tile([-1.0, 1.0], len(ends)), (rows, ends.ravel()))))
    solve = splu((difference.T @ difference + 1e-9 * eye_array(len(vertices))).tocsc()).solve
    out = []
    for share in shares:
        maps = Rotation.from_rotvec(share * turns).as_matrix() @ (np.eye(3) * (1 - share) + share * stretch)
        moved = solve(difference.T @ (lengths @ maps.transpose(0, 2, 1)).reshape(-1, 3))
        out.append(moved - moved.mean(0) + (1 - share) * vertices.mean(0) + share * others.mean(0))
    return np.stack(out)


def _with_normals(corners: np.ndarray) -> np.ndarray:
    edges = corners[:, 1:] - corners[:, :1]  # (F, 2, 3)
    normals = np.cross(edges[:, 0], edges[:, 1])
    normals /= np.sqrt(np.linalg.norm(normals, axis=1, keepdims=True))
    return np.concatenate((edges, normals[:, None]), 1).transpose(0, 2, 1)


def made(name: str, frames: int, points: int, spoilt: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Frames, each drawn anew on the body there, and where the points of the first one are in each of them.

    Of spoilt ones every third, from the second on, lacks a part (a half-space cuts off 15%), and the one after it has
    10% outliers.
    """
    shape = shapes.load(name)
    assert shape.vertices is not None and shape.faces is not None and shape.partner is not None
    way = between(shape.vertices, shape.partner, shape.faces, np.linspace(0.0, 1.0, frames))
    places = draw_on_faces(way[0], shape.faces, points, numpy_generator(SEED, 0, "frame"))
    truths = [on_faces(vertices, shape.faces, *places) for vertices in way]
    seen = [truths[0]]
    for k, vertices in enumerate(way[1:], 1):
        draw = numpy_generator(SEED, k, "frame")
        frame = on_faces(vertices, shape.faces, *draw_on_faces(vertices, shape.faces, points, draw))
        if spoilt and k % 3 == 1:
            along = frame @ draw.normal(size=3)
            frame = frame[along < np.quantile(along, 0.85)]
        if spoilt and k % 3 == 2:
            least, most = frame.min(0), frame.max(0)
            frame = np.concatenate((frame, least + (most - least) * draw.random((points // 10, 3))))
        seen.append(frame)
    return seen, truths


def led(seen: list[np.ndarray], way: str, mass: str | None) -> tuple[np.ndarray, list[bool]]:
    """Where the points of the first frame are in each other one, (F - 1, N, 3), and which frames are trusted."""
    if way == "both":
        done = pwan.register_sequence(seen, mass=mass)
        return done.points[1:], done.trusted[1:].tolist()
    source, points, trusted = seen[0], [], []
    for frame in seen[1:]:
        result = pwan.register(source, frame, mass=mass, flexibility="auto")
        points.append(result.transformed)
        trusted.append(not result.warnings)
        source = result.transformed if way == "chain" else source
    return np.stack(points), trusted


def picture(errors: dict[str, np.ndarray], path: str) -> None:
    """The errors (F - 1,) of each way against the number of the frame."""
    figure = Figure(figsize=(5.0, 2.8), layout="constrained")
    axes = figure.add_subplot()
    for way, of_way in errors.items():
        axes.plot(np.arange(1, len(of_way) + 1), of_way, marker="o", markersize=3, label=way)
    axes.set(xlabel="frame", ylabel="error, % of the radius", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("body")
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--spoilt", action="store_true")
    parser.add_argument("--ways", nargs="+", default=["straight", "chain", "both"])
    parser.add_argument("--picture", help="a file for the curves")
    chosen = parser.parse_args(arguments)
    curves = {}
    seen, truths = made(chosen.body, chosen.frames, chosen.points, chosen.spoilt)
    print(f"| {chosen.body} | " + " | ".join(map(str, range(1, chosen.frames))) + " | seconds |")
    print("|---" * (chosen.frames + 1) + "|")
    for way in chosen.ways:
        began = time.perf_counter()
        points, trusted = led(seen, way, "auto" if chosen.spoilt else None)
        seconds = time.perf_counter() - began
        curves[way] = errors = 100 * np.linalg.norm(points - truths[1:], axis=-1).mean(1)
        cells = [f"{error:.1f}{'' if sure else '?'}" for error, sure in zip(errors, trusted, strict=True)]
        print(f"| {way} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)
    if chosen.picture:
        picture(curves, chosen.picture)


if __name__ == "__main__":
    main()
