"""Normals of points that have moved, from how their neighbours have; and files with such points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import KDTree

from pwan.pointfiles import PointFile

AROUND = 8  # neighbours that tell how a surface is turned at a point
FLAT = 1e-3  # height of the neighbours over their extent, below which they say nothing across the surface


def carried_normals(points: np.ndarray, normals: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The normals (N, D) of points (N, D), turned as the surface around each one has, their lengths kept.

    The neighbours tell by least squares where two directions along the surface go (one in the plane); what is
    perpendicular to both is the new normal. Which side is outside stays.

    Args:
        points: (N, D), D 2 or 3.
        normals: (N, D) of these; those of length 0 stay so.
        moved: (N, D) where the points are now.
    """
    d, lengths = points.shape[1], np.linalg.norm(normals, axis=1, keepdims=True)
    unit = normals / np.where(lengths > 0, lengths, 1.0)
    helper = np.eye(d)[np.abs(unit).argmin(1)]  # never along the normal
    first = _unit(helper - (helper * unit).sum(1, keepdims=True) * unit)
    along = np.stack([first] if d == 2 else [first, np.cross(unit, first)], 1)  # (N, D - 1, D)
    rows = KDTree(points).query(points, min(AROUND + 1, len(points)))[1][:, 1:]
    slopes = np.linalg.pinv(points[rows] - points[:, None], rcond=FLAT) @ (moved[rows] - moved[:, None])  # (N, D, D)
    goes = along @ slopes  # (N, D - 1, D)
    if d == 3:
        turned = np.cross(goes[:, 0], goes[:, 1])
    else:
        side = np.sign(unit[:, 0] * first[:, 1] - unit[:, 1] * first[:, 0])[:, None]
        turned = side * np.column_stack((goes[:, 0, 1], -goes[:, 0, 0]))
    carried: np.ndarray = _unit(turned) * lengths
    return carried


def turned_fields(file: PointFile, moved: np.ndarray) -> dict[str, np.ndarray]:
    """The normals of a file, turned as its points (N, D) have that are now elsewhere, by their fields' names."""
    return {} if file.normals is None else file.normal_fields(carried_normals(file.points, file.normals, moved))


def moved_file(file: PointFile, moved: np.ndarray) -> PointFile:
    """A file with its points (N, D) elsewhere, and its normals turned with them."""
    return replace(file, points=moved, fields={**file.fields, **turned_fields(file, moved)})


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: np.ndarray = vectors / np.where(lengths > 0, lengths, 1.0)
    return unit
