"""What the tests of all writers share: a source, its points moved, written and read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pwan import read_points, write_points
from pwan.pointfiles import PointFile

CANNOT = ("obj", "off", "stl", "npy", "raw", "markups")  # hold no new values of each point
NAMELESS = ("xyz", "pts", "swc", "utf-16", "gz")  # columns without names are added to
DISPLACED = ("displacement_x", "displacement_y", "displacement_z")
TURN = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
UTM = np.array([500_000.0, 4_600_000.0, 320.0])  # a place on a map, metres
XYZ = "property float x\nproperty float y\nproperty float z\n"


def source(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


def moved_by(like: PointFile, shift: float = 0.5) -> np.ndarray:
    dimension = like.points.shape[1]
    return like.points @ TURN[:dimension, :dimension].T + shift


def extras(like: PointFile, points: np.ndarray) -> dict[str, np.ndarray]:
    return {"matched": np.arange(len(points)) % 3 > 0, "displacement": points - like.points}


def written(like: PointFile, points: np.ndarray | None = None, **options):
    """The note of what was written with the extra values, and the file read again."""
    points = moved_by(like) if points is None else points
    path = like.path.with_name(f"moved_{like.path.name}")
    read = options.pop("read", {})
    note = write_points(path, like, points, **({"extra": extras(like, points)} | options))
    return note, read_points(path, **read)


def check_same(like: PointFile, again: PointFile, tolerance: float = 1e-6, points: np.ndarray | None = None) -> None:
    np.testing.assert_allclose(again.points, moved_by(like) if points is None else points, rtol=0, atol=tolerance)
    assert again.format == like.format
    assert list(again.fields)[: len(like.fields)] == list(like.fields)
    for name, values in like.fields.items():
        assert again.fields[name].dtype == values.dtype, name
        np.testing.assert_array_equal(again.fields[name], values)
    np.testing.assert_equal(again.faces, like.faces)


def check_extras(like: PointFile, again: PointFile, tolerance: float = 1e-6) -> None:
    wanted = extras(like, moved_by(like))
    if again.format == "text" and not again.layout["header"]:
        behind = list(again.fields.values())[-len(DISPLACED) - 1 :]
        matched, displaced = behind[0], np.column_stack(behind[1:])
    else:
        matched, names = again.fields["matched"].ravel(), DISPLACED[: like.points.shape[1]]
        whole = again.fields.get("displacement")
        displaced = np.column_stack([again.fields[name] for name in names]) if whole is None else whole
    np.testing.assert_array_equal(matched, wanted["matched"])
    np.testing.assert_allclose(displaced, wanted["displacement"], rtol=0, atol=tolerance)
