"""How near a displacement grid comes to the map, and how near its inverse: packaged pairs, by name.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/exports.py head_smile body_walk [--kinds smooth rigid]

Each pair is registered once, the vertices onto as many points drawn on the partner's surface, by the flexibilities
named in --kinds. Errors are those of :class:`pwan.deformation.grid.DisplacementGrid` over the registration's, which is
the median distance of its matched points to the reference.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.spatial import KDTree

import pwan
from pwan import shapes
from pwan.deformation.grid import Direction
from pwan.randomness import numpy_generator
from pwan.shapes.surface import sample_surface
from pwan.trust.faces import face_faults

SHARE = 0.01  # of the registration's error, which the grids are made for
OPTIONS = {"auto": {"flexibility": "auto"}, "smooth": {}, "rigid": {"energy": "rigid", "kernel": "geodesic"}}
DIRECTIONS: tuple[Direction, ...] = ("forward", "back")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--kinds", nargs="+", default=["smooth", "rigid"], choices=list(OPTIONS))
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    print("| pair | kind | grid | spacing / radius | nodes | error at points: 95%, most; between | missing | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.pairs:
        shape = shapes.load(name)
        assert shape.partner is not None and shape.faces is not None, f"{name} is no pair of meshes"
        other = sample_surface(shape.partner, shape.faces, len(shape.points), numpy_generator(0, name))
        for kind in arguments.kinds:
            options = OPTIONS[kind] | {"steps": arguments.steps}
            result = pwan.register(shape.points, other, source_faces=shape.faces, seed=0, **options)
            report(name, kind, shape, other, result)


def report(name: str, kind: str, shape: shapes.Shape, other: np.ndarray, result: pwan.RegistrationResult) -> None:
    residual = float(np.median(KDTree(other).query(result.transformed[result.matched])[0]))
    radius = float(np.sqrt(shape.points.var(0).sum()))
    for direction in DIRECTIONS:
        began = time.perf_counter()
        grid = result.transform.to_grid(shape.points, direction=direction, tolerance=SHARE * residual)
        seconds = time.perf_counter() - began
        errors = f"{grid.error / residual:.2%}, {grid.largest_error / residual:.2%}, {grid.between / residual:.2%}"
        nodes = f"{np.prod(grid.shape):,}"
        print(
            f"| {name} | {kind} | {direction} | {grid.spacing / radius:.3f} | {nodes} | {errors} | {grid.missing:.2%} "
            f"| {seconds:.1f} |",
            flush=True,
        )
    assert shape.faces is not None
    print(f"  faces: {face_faults(shape.points, result.transformed, shape.faces).sentence}", flush=True)


if __name__ == "__main__":
    main()
