"""How much each point of a set counts: the paper's masses a_i and b_j, in points.

A set that is dense in places pulls there. Its points count evenly over the shape if each weighs what it stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.arrays import real_array

NEIGHBOURS = 16  # of the local density: fewer give chance counts, more wash its edges out
SPACED = 2000  # points of a set whose spacing is measured
WIDEST = 4.0  # median distances to the last of them; a point farther out, as an outlier is, weighs no more than this


def even_weights(points: np.ndarray, faces: np.ndarray | None = None) -> np.ndarray:
    """Weights by which the points count as an even sample of their shape; float64 (N,), of mean 1.

    Of a mesh a vertex weighs a third of the areas of its faces; a vertex that no face with an area names weighs what
    the nearest other one does. Without faces, or where none has an area, a point weighs what its local density leaves
    it: the distance of its 16th neighbour, at most four times the median one, to the power of the set's own dimension
    (2 for a surface). Outliers far from the shape count much then: take them off first. Points at the same place share
    its weight.

    Args:
        points: (N, D) finite.
        faces: (F, 3) rows of the points, or None.

    Raises:
        ValueError: faces that are no triangles of these points.
    """
    points = np.asarray(points, dtype=np.float64)
    points = (points - points.mean(0)) / (float(np.ptp(points, axis=0).max()) or 1.0)  # no square leaves its range
    weights = np.zeros(len(points)) if faces is None else _vertex_areas(points, np.asarray(faces))
    if not weights.any():
        weights = _by_density(points)
    elif not weights.all():
        named = np.flatnonzero(weights)
        bare = np.flatnonzero(weights == 0)
        weights[bare] = weights[named[KDTree(points[named]).query(points[bare])[1]]]
    return weights / weights.mean()


def to_weights(name: str, given: Any, points: Tensor, faces: Tensor | None) -> Tensor | None:
    """The weights (B, N) float64 of points (B, N, D), whose faces are (B, F, 3), told or found.

    Raises:
        ValueError: neither "even" nor an array of one number for each point.
    """
    if given is None:
        return None
    if isinstance(given, str):
        if given != "even":
            raise ValueError(f'{name} must be an array with one weight for each point, or "even", got {given!r}')
        each = [None] * len(points) if faces is None else list(faces.numpy())
        return torch.from_numpy(np.stack([even_weights(*one) for one in zip(points.numpy(), each, strict=True)]))
    array = real_array(name, given)
    b, n, _ = points.shape
    if array.shape not in ((n,), (b, n)):
        raise ValueError(
            f"{name} must have shape ({n},){f' or ({b}, {n})' if b > 1 else ''}, one weight for each point; got "
            f"{array.shape}"
        )
    return torch.from_numpy(np.array(np.broadcast_to(array, (b, n)), dtype=np.float64))


def median_spacing(points: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The median distance of points (N, D) to the nearest other place that holds one; by weights (N,), where they have
    some. A mesh may repeat its vertices."""
    some = slice(None, None, max(1, len(points) // SPACED))
    lengths = KDTree(points).query(points[some], 2)[0][:, 1]
    if not lengths.all():
        lengths = KDTree(np.unique(points, axis=0)).query(points[some], 2)[0][:, 1]
    return weighted_median(lengths, None if weights is None else weights[some])


def weighted_median(values: np.ndarray, weights: np.ndarray | None) -> float:
    """The value that parts the weight in halves; of equal weights, or None, the median."""
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    low, high = (np.searchsorted(upto, upto[-1] / 2, side=side) for side in ("left", "right"))
    return float((values[order[low]] + values[order[min(high, len(order) - 1)]]) / 2)


def weighted_quantile(values: np.ndarray, weights: np.ndarray | None, share: float) -> float:
    """The value below which this share of the weight lies, with straight lines in between; of equal weights, or None,
    numpy's quantile."""
    if weights is None or len(values) < 2:
        return float(np.quantile(values, share))
    order = np.argsort(values, kind="stable")
    each, n = weights[order], len(values)
    below = np.arange(n) * each + (n - 1) * (np.cumsum(each) - each)
    return float(np.interp(share, below / below[-1], values[order])) if below[-1] > 0 else float(values[order[-1]])


def weights_of_rows(weights: Tensor, rows: Tensor) -> Tensor:
    """(B, k) the weights (B, n) of some rows (B, k), so scaled that these carry their share k / n of all the mass."""
    taken, k = weights.gather(1, rows), rows.shape[1]
    return carrying(taken, taken.sum(1), weights.sum(1) * k / weights.shape[1], k)


def carrying(weights: Tensor, there: Tensor, due: Tensor | float, count: int) -> Tensor:
    """Weights (B, k) of some of ``count`` points that carry ``there`` (B,), so scaled that these carry ``due``, (B,) or
    a number."""
    there, due = there[:, None], due[:, None] if isinstance(due, Tensor) else due
    # where chance took none of the points with mass, those taken stand for them
    return torch.where(there > 0, weights * (due / there), due / count)


def own_dimension(points: np.ndarray) -> int:
    """Of the shape that the points (N, D) lie on, 1 to D: by how fast balls around them fill with neighbours."""
    most = points.shape[1]
    if len(points) <= 2 * NEIGHBOURS:
        return min(2, most)
    near, far = (
        KDTree(points).query(points, [NEIGHBOURS // 2 + 1, 2 * NEIGHBOURS + 1])[0].T
    )  # each one's first is itself
    growth = np.log(np.maximum(far, 1e-300) / np.maximum(near, 1e-300))
    return int(np.clip(round(np.log(4.0) / max(float(np.median(growth)), 1e-9)), 1, most))


def _vertex_areas(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """(N,) a third of the area of each vertex's faces."""
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise ValueError(
            f"faces must be triangles, whole numbers of shape (F, 3); got {faces.dtype} of shape {faces.shape}"
        )
    wrong = faces[(faces < 0) | (faces >= len(points))]
    if len(wrong):
        raise ValueError(
            f"a face names point {int(wrong[0])} of {len(points)}, whose numbers are 0 to {len(points) - 1}; "
            "correct the faces"
        )
    corners = np.zeros((*faces.shape, 3))
    corners[..., : points.shape[1]] = points[faces]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    return np.bincount(faces.ravel(), np.repeat(areas / 3, 3), minlength=len(points))


def _by_density(points: np.ndarray) -> np.ndarray:
    """(N,) the room that each point has."""
    places, place, count = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    if len(places) == 1:
        return np.ones(len(points))
    distances = KDTree(places).query(places, [min(NEIGHBOURS, len(places) - 1) + 1])[0][:, 0]
    room = (np.minimum(distances, WIDEST * np.median(distances)) / np.median(distances)) ** own_dimension(places)
    place = place.reshape(-1)  # numpy 2.0 gave it another shape
    return room[place] / count[place]
