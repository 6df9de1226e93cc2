"""A map of space as displacements on a regular grid, which image software reads: forward, or the way back.

Between the nodes the displacement is linear in each coordinate, as ITK interpolates it, and so exact for an affine map.
The spacing follows from the map: it is made finer until what the grid says lies near enough to what the map says, at
the points and in the middles of the cells around them; but not finer than the points lie where the map is known at the
points of a surface alone and only led on between them (:mod:`pwan.deformation.surface_map`): there the nodes around the
points are changed instead, by the little that leads the points where they belong.

N points, D coordinates.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse import csr_array
from scipy.sparse.linalg import lsmr
from scipy.spatial import KDTree

from pwan.arrays import real_array, to_numpy
from pwan.deformation.inverse import Map, points_behind, points_beside

Direction = Literal["forward", "back"]
MARGIN = 0.1  # of the longest side of the points' box, left free around it
COARSEST = 16  # cells along the longest side, at least
CHECKED = 2000  # points at which the error is measured, at most; and the middles of their cells
KNOWN = 20_000  # points beside which the way back is looked for, at most
LED = 200_000  # points that a grid is led through, at most
QUANTILE = 0.95  # of the errors at these places, that is held below the tolerance
MOST_NODES = 4_000_000  # of a spacing that follows from the map: 96 MB in 3-D
COPIES = 6  # of the displacements that are in memory while they are computed and written
NOT_THERE = 1e-3  # spacings that are left of the way back to a node, from which on no point goes there
ROUNDS = 12
LEADING_STEPS = 200
DAMPED = 0.1  # what a change of a node costs beside the points' errors, so that points side by side do not tear it
DEFAULT_TOLERANCE = 1e-3  # of the moved points' RMS radius


@dataclass(frozen=True, eq=False)
class DisplacementGrid:
    """Displacements at the nodes of a regular grid.

    Calling it with points (N, D) says where they go: (N, D). Outside the grid they stay, as in ITK.

    Attributes:
        direction: "forward" takes points of the source to the reference; "back" the other way, which is what ITK needs
            to resample an image of the source in the reference's place.
        origin: (D,) the first node.
        spacing: between the nodes, the same along all axes.
        displacements: (n_1, ..., n_D, D) float64, what is added to a node.
        error: how far the grid leads the points beside where the map does, in the reference's units: the 95% quantile.
            Of the way back: where the map takes what the grid gives.
        largest_error: the largest of these.
        between: the same as ``error`` in the middles of the cells around the points.
        missing: the share of the nodes around the points (the corners of their cells) that no point goes to, as where
            the map folds; there the grid holds the nearest that was found. 0 where it is not asked: of a
            forward grid, and where the map is known at the points alone.
    """

    direction: Direction
    origin: np.ndarray
    spacing: float
    displacements: np.ndarray
    error: float
    largest_error: float
    between: float
    missing: float = 0.0

    def __call__(self, points: Any) -> np.ndarray:
        points = to_numpy(points)
        axes = [start + self.spacing * np.arange(n) for start, n in zip(self.origin, self.shape, strict=True)]
        along = RegularGridInterpolator(axes, self.displacements, bounds_error=False, fill_value=0.0)
        return points + along(points)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of nodes (n_1, ..., n_D)."""
        return self.displacements.shape[:-1]

    def __repr__(self) -> str:
        nodes = " x ".join(map(str, self.shape))
        return f"DisplacementGrid: {self.direction}, {nodes} nodes, {self.spacing:.4g} apart, error {self.error:.3g}"


def to_grid(
    transform: Map,
    points: Any,
    *,
    direction: Direction = "forward",
    spacing: float | None = None,
    tolerance: float | None = None,
    at_points: bool = False,
) -> DisplacementGrid:
    """The map around these points as a grid, a tenth of the longest side wider than they are on each side.

    Args:
        transform: a result's ``transform``, or one that was loaded.
        points: (N, D) of the source, in input coordinates.
        direction: "forward", from the source to the reference; "back", an approximate inverse around the moved points.
        spacing: between nodes, in the units of the set that the grid lies around; without one it follows from the map.
        tolerance: the error that the spacing is made for, in the reference's units; a thousandth of the moved points'
            RMS radius by default. Four million nodes are the most that are taken for it; ``between`` says what is left.
        at_points: the map is known at the points alone and led on between them; no grid is finer than they lie then,
            unless ``spacing`` says so.

    Raises:
        ValueError: another direction, no points or of another shape, a spacing or tolerance that is not positive, or
            more nodes than memory holds.
    """
    source = real_array("points", points).astype(np.float64)
    if direction not in ("forward", "back"):
        raise ValueError(f"direction must be forward or back, got {direction!r}")
    if source.ndim != 2 or not len(source):
        raise ValueError(f"expected points of shape (N, D) with N at least 1, got {source.shape}")
    for name, value in (("spacing", spacing), ("tolerance", tolerance)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}")
    moved = transform(source)
    task = _Task(transform, source, moved, direction, at_points)
    if spacing is not None:
        check_nodes(task.around, spacing)
    if spacing is None:
        wanted = tolerance or DEFAULT_TOLERANCE * float(np.sqrt(moved.var(0).sum()))
        spacing = _spacing(task, wanted, _apart(task.around) if at_points else 0.0)
    return task.grid(spacing)


def check_nodes(points: np.ndarray, spacing: float, name: str = "spacing") -> None:
    """Refuse a grid around points (N, D) that memory does not hold, before anything is computed.

    Raises:
        ValueError: with the spacing that would fit.
    """
    d, most = points.shape[1], _most_nodes(points.shape[1])
    nodes = math.prod(float(n) for n in _counts(points, spacing))
    if nodes > most:
        memory = f"{8 * d * COPIES * nodes / 1e9:.3g} GB"
        raise ValueError(
            f"a grid of {name}={spacing:g} has {nodes:.3g} nodes and takes {memory}, more than the memory that is "
            f"free; take {name}={_rounded_up(finest(points, most)):g} or more, or leave it out"
        )


def finest(points: np.ndarray, most: float) -> float:
    """The least spacing with which a grid around points (N, D) has no more than so many nodes, nearly."""
    sides = _sides(points)
    low, high = 0.0, float(sides.max())
    for _ in range(60):
        middle = (low + high) / 2
        fits = math.prod(float(n) for n in _counts(points, middle)) <= most
        low, high = (low, middle) if fits else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class _Task:
    transform: Map
    source: np.ndarray  # (N, D)
    moved: np.ndarray  # (N, D)
    direction: Direction
    at_points: bool  # see to_grid

    @property
    def around(self) -> np.ndarray:
        """(N, D) the points that the grid lies around."""
        return self.source if self.direction == "forward" else self.moved

    def displaced(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the nodes at these places (M, D) go (M, D), and what is left of the way back (M,)."""
        if self.direction == "back":
            known = _some(self.source, KNOWN)
            if self.at_points:
                return points_beside(self.transform, places, known), np.zeros(len(places))
            return points_behind(self.transform, places, known)
        return self.transform(places), np.zeros(len(places))

    def errors(self, places: np.ndarray, found: np.ndarray) -> np.ndarray:
        """(M,) how far a grid leads beside the map that takes places (M, D) to ``found``, in the reference's units."""
        if self.direction == "back":
            return np.linalg.norm(self.transform(found) - places, axis=1)
        return np.linalg.norm(found - self.transform(places), axis=1)

    def checked(self, spacing: float) -> tuple[np.ndarray, np.ndarray]:
        """(M, D) points, at most ``CHECKED``, and the middles of their cells."""
        points, first = _some(self.around, CHECKED), _first_node(self.around, spacing)
        return points, first + spacing * (np.unique(np.floor((points - first) / spacing), axis=0) + 0.5)

    def error_of(self, spacing: float) -> float:
        """Of a plain grid, the larger one of those at the points and in the middles, from the nodes that these need."""
        points, middles = self.checked(spacing)
        places, first = np.concatenate((points, middles)), _first_node(self.around, spacing)
        numbers, share = _corners((places - first) / spacing)
        corners, inverse = np.unique(numbers.reshape(-1, numbers.shape[-1]), axis=0, return_inverse=True)
        nodes = first + spacing * corners
        moves = (self.displaced(nodes)[0] - nodes)[inverse.reshape(share.shape)]  # (M, 2^D, D)
        errors = self.errors(places, places + (share[..., None] * moves).sum(1))
        return max(float(np.quantile(part, QUANTILE)) for part in (errors[: len(points)], errors[len(points) :]))

    def grid(self, spacing: float) -> DisplacementGrid:
        """The whole grid, its errors measured."""
        first, counts = _first_node(self.around, spacing), _counts(self.around, spacing).astype(np.int64)
        axes = [start + spacing * np.arange(n) for start, n in zip(first, counts, strict=True)]
        nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(counts))
        gone, left = self.displaced(nodes)
        moves = gone - nodes
        around = _some(self.around, LED)
        numbers, share = _corners((around - first) / spacing)
        corners = np.ravel_multi_index(tuple(np.moveaxis(numbers, -1, 0)), tuple(counts))  # (N, 2^D)
        goal = _some(self.source if self.direction == "back" else self.moved, LED) - around
        if self.at_points:
            _lead_through(moves, corners, share, goal)
        missing = float((left[np.unique(corners)] > NOT_THERE * spacing).mean())
        plain = DisplacementGrid(self.direction, first, spacing, moves.reshape(*counts, -1), 0.0, 0.0, 0.0, missing)
        points, middles = (self.errors(places, plain(places)) for places in self.checked(spacing))
        measured = (float(np.quantile(points, QUANTILE)), float(points.max()), float(np.quantile(middles, QUANTILE)))
        return replace(plain, error=measured[0], largest_error=measured[1], between=measured[2])


def _corners(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners (M, 2^D, D) of the cells of places (M, D), as numbers of nodes, and the share (M, 2^D) of each."""
    offsets = np.array(list(product((0, 1), repeat=inside.shape[1])))
    cell = np.floor(inside).astype(np.int64)
    within = (inside - cell)[:, None]
    return cell[:, None] + offsets, np.where(offsets == 1, within, 1 - within).prod(-1)


def _lead_through(moves: np.ndarray, corners: np.ndarray, share: np.ndarray, goal: np.ndarray) -> None:
    """Change the displacements (K, D) of the corners (N, 2^D) around points as little as is needed for the points to
    move by ``goal`` (N, D), in least squares."""
    rest = goal - (share[..., None] * moves[corners]).sum(1)
    used, places = np.unique(corners, return_inverse=True)
    rows = np.repeat(np.arange(len(corners)), corners.shape[1])
    weights = csr_array((share.ravel(), (rows, places.ravel())), shape=(len(corners), len(used)))
    for axis in range(moves.shape[1]):
        moves[used, axis] += lsmr(weights, rest[:, axis], damp=DAMPED, maxiter=LEADING_STEPS)[0]


def _spacing(task: _Task, tolerance: float, least: float) -> float:
    """The coarsest spacing, nearly, that keeps the tolerance, and no finer than the least: the error falls with its
    square."""
    sides = _sides(task.around)
    least = max(least, finest(task.around, min(MOST_NODES, _most_nodes(len(sides)))))
    spacing = max(least, float(sides.max()) / COARSEST)
    for _ in range(ROUNDS):
        error = task.error_of(spacing)
        if error <= tolerance or spacing <= least:
            break
        spacing = max(least, spacing * min(0.9, max(0.25, math.sqrt(0.8 * tolerance / error))))
    return spacing


def _apart(points: np.ndarray) -> float:
    """The median distance of neighbours among the points, or among a part of them where they are many; 0 of one."""
    asked = _some(points, CHECKED)
    distances = KDTree(points).query(asked, min(2, len(points)))[0]
    return float(np.median(distances.reshape(len(asked), -1)[:, -1]))


def _some(points: np.ndarray, most: int) -> np.ndarray:
    """All points, or so many of them, evenly chosen by their rows."""
    return points[np.linspace(0, len(points) - 1, min(most, len(points))).round().astype(np.int64)]


def _sides(points: np.ndarray) -> np.ndarray:
    """(D,) of the box with its margins, none of them zero."""
    sides = np.ptp(points, axis=0)
    longest = float(sides.max()) or 1.0
    return sides + 2 * MARGIN * longest


def _first_node(points: np.ndarray, spacing: float) -> np.ndarray:
    """(D,) so that the box lies in the middle of the grid."""
    middle = (points.min(0) + points.max(0)) / 2
    return middle - spacing * (_counts(points, spacing) - 1) / 2


def _counts(points: np.ndarray, spacing: float) -> np.ndarray:
    """(D,) nodes along each axis, as floats since they may be too many for anything else."""
    return np.ceil(_sides(points) / spacing) + 1


def _most_nodes(d: int) -> float:
    return _free_memory() / (8 * d * COPIES)


def _free_memory() -> float:
    """Bytes that a process may still take."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return 1024.0 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _rounded_up(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / step) * step
