"""From where a shape is looked at: chosen by its own axes, so that it stands and shows its broad side."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree

# Chosen by eye, on the packaged shapes.
APART = 1.1  # of the standard deviations along two principal axes: from here on they are told apart
NEAR = np.cos(np.deg2rad(30))  # of a principal axis and a coordinate axis: from here on the latter is meant
SYMMETRIC = 0.8  # asymmetry across the shortest axis over that across the second: below, the shortest is left to right
LOOKED_AT = 2000  # points
SIDE, ABOVE, AWAY = 0.35, 0.3, 1.15  # where the eye is, in plotly's unit: the side of the cube
FARTHER = 1.1  # times as far for what is tall: it fills the cube from below to above
X, Y, Z = np.eye(3)


def camera(points: np.ndarray) -> dict[str, Any]:
    """Plotly's camera for points (N, 3): the longest axis up on the screen, seen along the shortest one.

    What lies within 30 degrees of a coordinate axis is taken for that one, so that a shape stands upright. What is
    longest along the ground stays on its feet: x never points up, and neither does the longest axis of an animal, told
    from a standing body by the axis across which it is its own mirror image, the shortest in place of the second. The
    right of the screen is the + side of the coordinate axis nearest to it. Where the axes are not told apart, as of a
    sphere, y is up and z points to the eye.
    """
    some = points[:: -(-len(points) // LOOKED_AT)].astype(np.float64)
    some = some - some.mean(0)
    deviations, axes = np.linalg.svd(some, full_matrices=len(some) < 3)[1:]  # the longest first
    deviations = np.pad(deviations, (0, 3 - len(deviations)))
    long_told, short_told = (deviations[:2] > APART * deviations[1:]).tolist()
    up, front = Y, Z
    if long_told:
        up = _up(some, axes)
        front = axes[2] if short_told else min(Z, Y, key=lambda axis: abs(axis @ up))
    elif short_told:
        front = axes[2]
        up = min(Y, Z, key=lambda axis: abs(axis @ _snapped(front)))
    front = _square(_snapped(_square(front, up)), up)
    right = _plus(np.cross(up, front))
    eye = (SIDE * right + ABOVE * up + AWAY * np.cross(right, up)) * (FARTHER if long_told else 1.0)
    return {name: dict(zip("xyz", way.round(6).tolist(), strict=True)) for name, way in (("up", up), ("eye", eye))}


def view(points: np.ndarray) -> dict[str, float]:
    """The same look for matplotlib's ``view_init``, whose third axis points up: elev, azim and roll in degrees."""
    found = camera(points)
    up, eye = (np.array([found[name][axis] for axis in "xyz"]) for name in ("up", "eye"))
    away = eye / np.linalg.norm(eye)
    upright, shown = _square(Z, away), _square(up, away)
    return {
        "elev": float(np.degrees(np.arcsin(away[2]))),
        "azim": float(np.degrees(np.arctan2(away[1], away[0]))),
        "roll": float(np.degrees(np.arctan2(shown @ np.cross(upright, away), shown @ upright))),
    }


def _up(points: np.ndarray, axes: np.ndarray) -> np.ndarray:
    longest, second, shortest = axes
    up = _snapped(longest)
    if up is longest or (up @ X == 0 and _asymmetry(points, shortest) >= SYMMETRIC * _asymmetry(points, second)):
        return _plus(up)
    return max((axis for axis in (Y, Z) if axis @ up == 0), key=lambda axis: abs(axis @ second))


def _asymmetry(points: np.ndarray, axis: np.ndarray) -> float:
    """How far mirrored points lie from the points, over the standard deviation along the axis."""
    along = points @ axis
    if not along.any():
        return 0.0
    mirrored = points - 2 * along[:, None] * axis
    return float(KDTree(points).query(mirrored)[0].mean() / along.std())


def _snapped(axis: np.ndarray) -> np.ndarray:
    """The coordinate axis within 30 degrees, else the axis itself."""
    nearest = abs(axis).argmax()
    return np.eye(3)[nearest] if abs(axis[nearest]) > NEAR else axis


def _square(axis: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What of the axis is square to the other one, of length 1."""
    rest = axis - axis @ other * other
    return rest / np.linalg.norm(rest)


def _plus(axis: np.ndarray) -> np.ndarray:
    """The direction of the axis that runs to the + side of the coordinate axis nearest to it."""
    return axis * np.sign(axis[abs(axis).argmax()])
