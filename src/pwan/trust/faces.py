"""What a registration did to the faces of a mesh: how many are flipped, and how many now cross others.

N vertices, F triangles, in 3-D. numpy and scipy, float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from pwan.deformation.rigid import nearest_rotation

AROUND = 24  # vertices that tell how the neighbourhood of a face has turned
MOST_FACES = 300_000  # of more nothing is looked at: a minute would go
MOST_PAIRS = 60_000_000  # of faces near each other; of more no crossing is looked for
AT_ONCE = 20_000  # faces, or
PAIRS_AT_ONCE = 200_000
FLAT = 1e-12  # of an edge: the height over a triangle below which it lies in its plane, but for rounding
FACE_EDGES = ((0, 1), (1, 2), (2, 0))


@dataclass(frozen=True)
class FaceFaults:
    """Faults of a moved mesh.

    Attributes:
        faces: how many it has.
        flipped: how many of them face the other way than their neighbourhood has turned; None: not looked at.
        crossing: how many cut through another face that they did not cut before and share no corner with; None: not
            looked at.
    """

    faces: int
    flipped: int | None
    crossing: int | None

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        if self.flipped is None:
            return f"whether faces are flipped or cross others was not looked at: there are more than {MOST_FACES:,}"
        if self.crossing is None:
            crossed = "whether they cross was not looked at: too many lie near each other"
        elif self.flipped or self.crossing:
            crossed = f"{self.crossing:,} cross others that they did not cross before"
        else:
            return f"none of the {self.faces:,} faces is flipped or crosses another one that it did not cross before"
        return f"of the {self.faces:,} faces {self.flipped:,} are flipped and {crossed}"


def face_faults(before: NDArray, after: NDArray, triangles: NDArray) -> FaceFaults:
    """Count the faces (F, 3) of a mesh that are flipped or cross others, of vertices (N, 3) before and after."""
    if len(triangles) > MOST_FACES:
        return FaceFaults(len(triangles), None, None)
    pairs = _near_pairs(before, after, triangles)
    crossing = None
    if pairs is not None:
        new = pairs[_cross(after, triangles, pairs)]
        new = new[~_cross(before, triangles, new)]
        crossing = len(np.unique(new))
    return FaceFaults(len(triangles), int(_flipped(before, after, triangles).sum()), crossing)


def _flipped(before: NDArray, after: NDArray, triangles: NDArray) -> NDArray[np.bool_]:
    """(F,) whether the normal, turned as the neighbourhood has, points away from the new one."""
    used = np.unique(triangles)
    tree, out = KDTree(before[used]), np.zeros(len(triangles), dtype=bool)
    for start in range(0, len(triangles), AT_ONCE):
        faces = triangles[start : start + AT_ONCE]
        rows = used[tree.query(before[faces].mean(1), min(AROUND, len(used)))[1]].reshape(len(faces), -1)
        here, there = (points[rows] - points[rows].mean(1, keepdims=True) for points in (before, after))
        turned = (_normals(before, faces)[:, None] @ nearest_rotation(here.swapaxes(1, 2) @ there))[:, 0]
        out[start : start + AT_ONCE] = (turned * _normals(after, faces)).sum(1) < 0
    return out


def _normals(points: NDArray, faces: NDArray) -> NDArray:
    a, b, c = points[faces].swapaxes(0, 1)
    return np.cross(b - a, c - a)


def _near_pairs(before: NDArray, points: NDArray, triangles: NDArray) -> NDArray[np.int64] | None:
    """(P, 2) faces whose boxes overlap and that share no corner (by place: a seam repeats vertices); None where there
    are too many to look at.

    Faces are taken by their size, a class for each factor of two, so that a few large ones do not reach all others.
    """
    corners = points[triangles]  # (F, 3, 3)
    centres = corners.mean(1)
    radii = np.linalg.norm(corners - centres[:, None], axis=-1).max(1)
    low, high = corners.min(1), corners.max(1)
    places = np.unique(before, axis=0, return_inverse=True)[1].reshape(-1)[triangles]  # (F, 3)
    sizes = np.floor(np.log2(np.maximum(radii, 1e-300)))
    classes = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    found, seen = [np.empty((0, 2), dtype=np.int64)], 0
    for k, others in enumerate(classes):
        tree = KDTree(centres[others])
        smaller = classes[: k + 1]
        for rows in (one[at : at + AT_ONCE] for one in smaller for at in range(0, len(one), AT_ONCE)):
            reach, block = float(radii[rows].max() + radii[others].max()), KDTree(centres[rows])
            seen += int(block.count_neighbors(tree, reach))
            if seen > MOST_PAIRS:
                return None
            near = block.sparse_distance_matrix(tree, reach, output_type="ndarray")
            i, j = rows[near["i"]], others[near["j"]]
            touch = (near["v"] <= radii[i] + radii[j]) & ((i < j) | (sizes[i] < sizes[j]))  # each pair once
            i, j = i[touch], j[touch]
            apart = ((low[i] > high[j]) | (low[j] > high[i])).any(1)
            i, j = i[~apart], j[~apart]
            shared = (places[i][:, :, None] == places[j][:, None, :]).any((1, 2))
            found.append(np.column_stack((i, j))[~shared])
    return np.concatenate(found)


def _cross(points: NDArray, triangles: NDArray, pairs: NDArray) -> NDArray[np.bool_]:
    """(P,) whether an edge of one triangle of each pair goes through the inside of the other one."""
    out = np.zeros(len(pairs), dtype=bool)
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        a, b = points[triangles[pairs[start : start + PAIRS_AT_ONCE]]].swapaxes(0, 1)  # (P, 3, 3)
        cut = np.zeros(len(a), dtype=bool)
        for one, other in ((a, b), (b, a)):
            for first, second in FACE_EDGES:
                cut |= _pierced(one[:, first], one[:, second], other)
        out[start : start + PAIRS_AT_ONCE] = cut
    return out


def _pierced(p: NDArray, q: NDArray, triangle: NDArray) -> NDArray[np.bool_]:
    """(P,) whether the segment from p to q goes through the inside of the triangle, by the signs of five volumes."""
    a, b, c = triangle.swapaxes(0, 1)
    normal = np.cross(b - a, c - a)
    way = q - p
    heights = np.stack([((end - a) * normal).sum(1) for end in (p, q)])
    rounding = FLAT * np.linalg.norm(normal, axis=1) * np.linalg.norm(way, axis=1)
    sides = (heights.prod(0) < 0) & (np.abs(heights).min(0) > rounding)
    around = np.stack([(np.cross(u - p, v - p) * way).sum(1) for u, v in ((a, b), (b, c), (c, a))])
    return sides & ((around > 0).all(0) | (around < 0).all(0))
