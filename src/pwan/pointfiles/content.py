"""What a point file holds: what the readers hand over, what a caller gets, and the rules that hold for every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e30  # of a coordinate; the squares of larger ones leave float32, and only damaged files hold them
PADDED_AT_MOST = 1_000_000  # cells of a face array that may be padding, beyond 16 for each corner


class Fault(ValueError):
    """A fault of a file's content, in words that need only the path before them."""


@dataclass
class Content:
    """What a reader found.

    Attributes:
        points: (N, D) of any real type, as the file holds them.
        fields: the other values of each point by the file's names, each (N, ...).
        faces: (F, K) point numbers from 0, -1 behind the last corner of a face with fewer than K; None without faces.
        notes: what was decided on the way, in sentences.
        kept: (N,) bool, False for points that the file itself says are none; None where it says so of no point.
        layout: how the file was laid out, for one who writes the like of it.
    """

    points: NDArray
    fields: dict[str, NDArray] = field(default_factory=dict)
    faces: NDArray[np.int64] | None = None
    notes: list[str] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)
    kept: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class PointFile:
    """The points of a file, with all that the file says of each.

    Attributes:
        points: (N, D) float64, in the file's units and order; D is 2 or 3.
        fields: the other values of each point by the file's own names and in its own types, each (N, ...).
        faces: (F, K) int64 point numbers from 0, -1 behind the last corner of a face with fewer than K corners; None
            where the file has no faces.
        rows: (N,) int64, for each point its number in the file, from 0; with gaps where points were left out.
        count: how many points the file holds, those that were left out among them.
        notes: what was decided: which columns, how many points dropped, how many distinct vertices.
        path: the file.
        format: what it was read as: ply, obj, off, stl, glb, pcd, text, npy, npz, las, laz, mat, markups or raw.
        layout: how the file was laid out, for one who writes the like of it; its keys depend on the format, but for
            ``face_rows``, the numbers of the faces that stayed where points were left out.
    """

    points: NDArray[np.float64]
    fields: dict[str, NDArray]
    faces: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    count: int
    notes: tuple[str, ...]
    path: Path
    format: str
    layout: dict[str, Any]

    def __repr__(self) -> str:
        held = [f"{len(self.points)} points in {self.points.shape[1]}-D"]
        held += [] if self.faces is None else [f"{len(self.faces)} faces"]
        held += [f"fields {', '.join(self.fields)}"] if self.fields else []
        return "\n  ".join((f"PointFile: {self.path.name} ({self.format}), {'; '.join(held)}", *self.notes))

    @property
    def normal_names(self) -> tuple[str, ...]:
        """The names of the fields that are the normals' components (three, or two in the plane), or of the one field
        that holds all of them; empty without normals."""
        names = {name.lower(): name for name in self.fields}
        for spelling in (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"), ("normalx", "normaly", "normalz")):
            found = tuple(names[part] for part in spelling[: self.points.shape[1]] if part in names)
            if len(found) == self.points.shape[1]:
                return found
        for single in ("normals", "normal", "vertex_normals"):
            if single in names and self.fields[names[single]].shape == self.points.shape:
                return (names[single],)
        return ()

    @property
    def normals(self) -> NDArray[np.float64] | None:
        """(N, D) the normals, as the file holds them, or None."""
        names = self.normal_names
        if not names:
            return None
        return np.column_stack([self.fields[name] for name in names]).astype(np.float64)

    def normal_fields(self, normals: NDArray) -> dict[str, NDArray]:
        """Other normals (N, D) by the names of the fields that hold them, in their types."""
        names = self.normal_names
        columns = [normals] if len(names) == 1 else normals.T
        return {name: column.astype(self.fields[name].dtype) for name, column in zip(names, columns, strict=True)}

    @cached_property
    def triangles(self) -> NDArray[np.int64] | None:
        """(T, 3) the faces as triangles, a face with more corners as the fan of its first; None without faces."""
        if self.faces is None:
            return None
        counts = (self.faces >= 0).sum(axis=1)
        return fans(counts, self.faces[self.faces >= 0])


def fans(counts: NDArray, corners: NDArray) -> NDArray[np.int64]:
    """(T, 3) triangles of faces given as their numbers of corners (F,) and all corners after one another."""
    each = np.maximum(counts - 2, 0)  # (F,) triangles of a face
    first = np.repeat(np.cumsum(counts) - counts, each)  # (T,)
    inner = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)  # (T,) number within the face
    return corners[np.column_stack([first, first + inner + 1, first + inner + 2])].astype(np.int64)


def face_array(counts: NDArray, corners: NDArray, notes: list[str]) -> NDArray[np.int64]:
    """(F, K) faces padded by -1, from their numbers of corners (F,) and all corners after one another.

    Where few faces are far longer than the others, which would make the array huge, all are cut into triangles.
    """
    longest = int(counts.max(initial=0))
    if len(counts) * longest > 16 * len(corners) + PADDED_AT_MOST:
        notes.append(f"faces have up to {longest} corners and were cut into triangles")
        return fans(counts, corners)
    faces = np.full((len(counts), longest), -1, dtype=np.int64)
    faces[np.arange(longest) < counts[:, None]] = corners
    return faces


def check_faces(corners: NDArray, points: int) -> None:
    """Raise a fault where a face names a point that is not there."""
    wrong = corners[(corners < 0) | (corners >= points)]
    if len(wrong):
        raise Fault(
            f"expected faces between the file's {points} points (numbers 0 to {points - 1}), found a face at point "
            f"number {int(wrong[0])}. The file is damaged or cut off: export it again."
        )


def checked_faces(
    counts: Sequence[int] | NDArray, corners: Sequence[int] | NDArray, points: int, notes: list[str]
) -> NDArray[np.int64] | None:
    """(F, K) as :func:`face_array` of checked corners; None without faces."""
    if len(counts) == 0:
        return None
    flat = np.asarray(corners, dtype=np.int64)
    check_faces(flat, points)
    return face_array(np.asarray(counts, dtype=np.int64), flat, notes)


def finish(content: Content, path: Path, format: str, drop_invalid: bool) -> PointFile:
    """The rules for every format: (N, 2) or (N, 3) finite float64, at least one point.

    Raises:
        Fault: no points, another number of coordinates, or NaN, infinite or huge ones without ``drop_invalid``.
    """
    notes = list(content.notes)
    points = content.points
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise Fault(
            f"expected points with 2 or 3 coordinates, found an array of shape {points.shape}. Export the file again."
        )
    if len(points) == 0:
        raise Fault("expected points, found none. Check that the export wrote any.")
    points = np.array(points, dtype=np.float64, order="C")
    fields, faces = dict(content.fields), content.faces
    if faces is not None:
        check_faces(faces[faces >= 0], len(points))
    kept = np.ones(len(points), dtype=bool) if content.kept is None else content.kept  # (N,)
    invalid = kept & ~(np.abs(points) <= LARGEST).all(axis=1)  # (N,), True for NaN
    if invalid.any():
        dropped = int(invalid.sum())
        first = ", ".join(str(row + 1) for row in np.flatnonzero(invalid)[:5]) + (", ..." if dropped > 5 else "")
        if not drop_invalid:
            raise Fault(
                f"expected finite coordinates up to {LARGEST:g}, found NaN, infinite or larger ones in {dropped} of "
                f"{len(points)} points (number {first}, counted from 1). Repair them, or leave them out with "
                "drop_invalid=True."
            )
        if not (kept & ~invalid).any():
            raise Fault(f"expected finite coordinates, found none in all {len(points)} points. Export the file again.")
        notes.append(
            f"dropped {dropped} of {len(points)} points with NaN, infinite or huge coordinates (number {first}, "
            "counted from 1)"
        )
    count, valid = len(points), kept & ~invalid
    rows = np.flatnonzero(valid).astype(np.int64)
    if len(rows) < count:
        points, fields = points[rows], {name: values[rows] for name, values in fields.items()}
        if faces is not None:
            content.layout["face_rows"] = np.flatnonzero((valid[faces] | (faces < 0)).all(axis=1))
            faces = _faces_left(faces, valid, content.layout["face_rows"], notes)
    return PointFile(points, fields, faces, rows, count, tuple(notes), path, format, content.layout)


def _faces_left(faces: NDArray[np.int64], valid: NDArray, kept: NDArray, notes: list[str]) -> NDArray[np.int64]:
    """The faces between the points that stay, renumbered."""
    left = faces[kept]
    if len(left) < len(faces):
        notes.append(f"dropped {len(faces) - len(left)} of {len(faces)} faces with them")
    renumbered = np.where(valid, np.cumsum(valid) - 1, -1)
    return np.where(left >= 0, renumbered[left], -1)
