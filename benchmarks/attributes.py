"""What attributes of the points are worth: labels where parts touch or look alike, normals where a sheet is thin.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/attributes.py tuning [--weights 0 1 3] [--kinds row sheet]
    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/attributes.py report

Each case is registered without attributes (weight 0) and with them, at weights in spacings of the reference. The
default weights were chosen on the cases of ``tuning``; those of ``report`` are other seeds and other shapes.

- row: three of four alike balls that touch, onto another three of the bent row, from a place a ball too far along;
  labelled.
- limbs: 800 vertices of a packaged hand or body onto 800 others of it elsewhere; labelled by the nearest, along the
  surface, of its middle and its five extremities.
- sheet: both sides of a thin plate onto the upper side of a bent one, which lies nearer to the lower side; normals.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

from pwan import register, shapes
from pwan.deformation.graph import shape_graph
from pwan.randomness import numpy_generator
from pwan.weights import median_spacing

LIMBS = {
    "tuning": ("hand_spread", "hand_point", "hand_hook", "body_walk", "body_kick", "body_wave"),
    "report": ("hand_cup", "hand_pinch", "hand_three", "body_lean", "body_lunge", "body_reach"),
}
SEEDS = {"tuning": range(4), "report": range(100, 106)}
POINTS, EXTREMITIES = 800, 5
QUICK: dict[str, Any] = {"steps": 2, "stages": 0, "warmup": 2, "rank": 20, "width": 8, "features": 8}


@dataclass(frozen=True)
class Pair:
    """Two sets with known matches.

    Attributes:
        source: (r, D).
        reference: (q, D).
        truth: (r, D) where the source belongs.
        attributes: of the source and of the reference, by name.
        sides: (r,) and (q,) on which part or side each point is.
        inside: (r,) which points have a partner.
        options: of the registration.
    """

    source: np.ndarray
    reference: np.ndarray
    truth: np.ndarray
    attributes: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]
    sides: tuple[np.ndarray, np.ndarray]
    inside: np.ndarray
    options: dict[str, Any]


def row(seed: int, points: int = 150) -> Pair:
    """Parts 1, 2, 3 of a row of four alike balls that touch, onto 2, 3, 4 of the bent row; what both have is matched.

    The source lies about a part too far along, so that its 2 and 3 lie on the reference's 3 and 4.
    """
    generator = numpy_generator(seed, "row")
    bend, along = generator.uniform(0.05, 0.15), generator.uniform(0.6, 1.0)

    def drawn(parts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        side = np.repeat(parts, points)
        inside = generator.normal(size=(len(side), 3))
        inside *= generator.random((len(side), 1)) ** (1 / 3) / np.linalg.norm(inside, axis=1, keepdims=True)
        return inside * (1.0, 0.9, 0.7) + np.outer(2.0 * side - 5.0, (1.0, 0.0, 0.0)), side

    def bent(flat: np.ndarray) -> np.ndarray:
        return flat + np.outer(bend * flat[:, 0] ** 2, (0.0, 0.0, 1.0))

    (y, y_side), (x, x_side) = drawn((1, 2, 3)), drawn((2, 3, 4))
    attributes = {"part": y_side}, {"part": x_side}
    shift = np.array([2 * along, 0.0, 0.0])
    return Pair(y + shift, bent(x), bent(y), attributes, (y_side, x_side), y_side > 1, {"mass": 2 * points})


def limbs(name: str, points: int = POINTS) -> Pair:
    """Vertices of a packaged pair."""
    shape = shapes.load(name)
    assert shape.partner is not None and shape.faces is not None
    generator = numpy_generator(0, "limbs", name)
    rows = [generator.choice(len(shape.points), points, replace=False) for _ in range(2)]
    graph = shape_graph(shape.points, shape.faces)
    middle = int(np.linalg.norm(shape.points - shape.points.mean(0), axis=1).argmin())
    lengths = [dijkstra(graph, directed=False, indices=middle)]
    for _ in range(EXTREMITIES):
        nearest = np.min(lengths, axis=0)
        lengths.append(
            dijkstra(graph, directed=False, indices=int(np.where(np.isfinite(nearest), nearest, 0).argmax()))
        )
    parts = np.argmin(lengths, axis=0)
    sides = parts[rows[0]], parts[rows[1]]
    return Pair(
        source=shape.points[rows[0]],
        reference=shape.partner[rows[1]],
        truth=shape.partner[rows[0]],
        attributes=({"part": sides[0]}, {"part": sides[1]}),
        sides=sides,
        inside=np.ones(points, dtype=bool),
        options={"energy": "rigid", "kernel": "geodesic"},
    )


def sheet(seed: int, points: int = 400) -> Pair:
    """Both sides of a plate of 2 by 1.5, .15 thick, onto the upper side of a bent one, which lies at its lower."""
    generator = numpy_generator(seed, "sheet")
    bend, thickness = generator.uniform(0.2, 0.5), 0.15

    def place(flat: np.ndarray, side: np.ndarray, curvature: float) -> tuple[np.ndarray, np.ndarray]:
        """On a cylinder of this curvature, with the outward normals of either side."""
        angle = curvature * flat[:, 0]
        up = np.column_stack((np.sin(angle), np.zeros(len(flat)), np.cos(angle)))
        middle = np.column_stack((np.sin(angle) / curvature, flat[:, 1], (np.cos(angle) - 1) / curvature))
        return middle + side[:, None] * up * thickness / 2, side[:, None] * up

    flat, other = (generator.uniform((-1, -0.75), (1, 0.75), (n, 2)) for n in (2 * points, points))
    side, upper = np.where(np.arange(2 * points) < points, 1, -1), np.ones(points, dtype=np.int64)
    (y, y_normals), (truth, _) = place(flat, side, 1e-3), place(flat, side, bend)
    x, x_normals = place(other, upper, bend)
    y[:, 2] += 0.9 * thickness
    attributes = {"normals": y_normals}, {"normals": x_normals}
    return Pair(y, x, truth, attributes, (side, upper), side > 0, {"mass": points})


def cases(which: str, kinds: Sequence[str]) -> Iterator[tuple[str, str, Callable[..., Pair]]]:
    """Kind, name and maker of each case."""
    for kind, maker in (("row", row), ("sheet", sheet)):
        if kind in kinds:
            yield from ((kind, str(seed), partial(maker, seed)) for seed in SEEDS[which])
    if "limbs" in kinds:
        yield from (("limbs", name, partial(limbs, name)) for name in LIMBS[which])


def measured(pair: Pair, weight: float, options: dict[str, Any]) -> tuple[float, float, float]:
    """Without attributes for a weight of 0: the mean squared error of the points that have a partner, over the mean
    squared radius of their truth; the share of the matched points whose nearest reference point is on another part or
    side; and the seconds."""
    given: dict[str, Any] = {}
    if weight:
        given = dict(zip(("source_attributes", "reference_attributes"), pair.attributes, strict=True))
        given["attribute_weight"] = weight * median_spacing(pair.reference)
    result = register(pair.source, pair.reference, **given, **pair.options, **options)
    truth, there = pair.truth[pair.inside], result.transformed[pair.inside]
    error = np.square(there - truth).sum(1).mean() / np.square(truth - truth.mean(0)).sum(1).mean()
    partner = KDTree(pair.reference).query(result.transformed)[1]
    wrong = pair.sides[1][partner] != pair.sides[0]
    return float(error), float(wrong[result.matched].mean()), result.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=sorted(SEEDS))
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="+", default=["row", "limbs", "sheet"])
    parser.add_argument("--quick", action="store_true", help="few steps and the first case of each kind, for the tests")
    wanted = parser.parse_args(arguments)
    rows: dict[tuple[str, float], list[tuple[float, float, float]]] = defaultdict(list)
    print("| case | " + " | ".join(f"weight {weight:g}" for weight in wanted.weights) + " |")
    print("|---|" + "---|" * len(wanted.weights))
    for kind, name, make in cases(wanted.which, wanted.kinds):
        if wanted.quick and (kind, wanted.weights[0]) in rows:
            continue
        pair, words = make(), []
        for weight in wanted.weights:
            found = measured(pair, weight, QUICK if wanted.quick else {})
            rows[kind, weight].append(found)
            words.append(f"{found[0]:.5f}, {found[1]:.1%}")
        print(f"| {kind} {name} | " + " | ".join(words) + " |", flush=True)
    for kind in wanted.kinds:
        each = [
            [statistics.median(column) for column in zip(*rows[kind, weight], strict=True)] for weight in wanted.weights
        ]
        words = [f"**{error:.5f}**, {wrong:.1%}, {seconds:.1f} s" for error, wrong, seconds in each]
        print(f"| **{kind}**, median | " + " | ".join(words) + " |")


if __name__ == "__main__":
    main()
