"""Write moved points in the format, layout and types of the file that they came from.

write_points(path, like, points) ──> one writer a format ──> beside the path ──> moved to it when whole
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.files import in_one_move
from pwan.pointfiles import markups
from pwan.pointfiles.arrays import write as arrays
from pwan.pointfiles.clouds import las, pcd
from pwan.pointfiles.content import PointFile
from pwan.pointfiles.detect import UNPACKED
from pwan.pointfiles.mesh import glb, obj, off, stl
from pwan.pointfiles.moved import Moved, extent_of, real_type, split
from pwan.pointfiles.ply import write as ply
from pwan.pointfiles.text import write as text

WRITERS: dict[str, Callable[[BinaryIO, Moved], None]] = {
    "ply": ply.write,
    "obj": obj.write,
    "off": off.write,
    "stl": stl.write,
    "glb": glb.write,
    "pcd": pcd.write,
    "las": las.write,
    "laz": las.write,
    "npy": arrays.write_npy,
    "npz": arrays.write_npz,
    "mat": arrays.write_mat,
    "raw": arrays.write_raw,
    "markups": markups.write,
    "text": text.write,
}


@dataclass(frozen=True)
class Written:
    """What :func:`write_points` wrote.

    Attributes:
        path: the file.
        left_out: the names of the extra values that its format has no place for.
        notes: what was decided, in sentences: other number types, replaced fields, what was left out.
    """

    path: Path
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def write_points(
    path: str | os.PathLike[str],
    like: PointFile,
    points: NDArray,
    *,
    fields: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Written:
    """Write points as the file that they were read from was written, whatever the suffix of ``path``.

    Format, byte order, names, types and order of the fields, faces, separator, header, encoding, scales and gzip are
    the source's. Coordinates keep its type unless that is whole or would round them by more than eight of its steps at
    the cloud's own extent (single precision on a map's coordinates, say): they are then float64, where the file can
    say so; a GLB, a binary STL and a headerless file cannot, LAS keeps its scales, an OBJ as many decimals as it has or
    single precision at its extent needs. Comments and other lines before the rows of a text file stay, and of an OBJ
    all lines but the vertices. The file takes its name when it is whole.

    Extra values become properties (PLY), fields (PCD, arrays of records), columns (text), arrays (NPZ, MAT) or
    dimensions (LAS); of several columns as name_x, name_y, name_z, but whole in NPZ and MAT. A field of the source
    with such a name is replaced. OBJ, OFF, STL, GLB, .mrk.json, headerless files and plain NPY arrays have no place
    for them: a plain array stays plain, so that whatever reads the source reads the result.

    Args:
        path: the new file, in a folder that is there.
        like: the source, from :func:`pwan.read_points`.
        points: (N, D) its points in their order, moved, in the file's units.
        fields: new values for some of the source's fields, as turned normals by the names of
            :attr:`PointFile.normal_names`; each of the shape of the old one.
        extra: further values of each point, (N,) or (N, K) numbers or booleans (written as 0 and 1).
        overwrite: replace a file that is there.

    Returns:
        What was written, and what could not be.

    Raises:
        FileExistsError: the file is there, and ``overwrite`` was not set.
        OSError: the file cannot be written.
        ValueError: points, fields or extra values that do not fit the source, or that its format cannot hold.
    """
    place = Path(path)
    if os.path.lexists(place) and not overwrite:
        raise FileExistsError(f"{place}: expected a new file, found one of that name. Replace it with overwrite=True.")
    moved = _moved(like, points, fields or {}, extra or {})
    try:
        with in_one_move(place) as half, open(half, "wb") as file:
            if UNPACKED in like.notes:
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    WRITERS[like.format](packed, moved)  # type: ignore[arg-type]
            else:
                WRITERS[like.format](file, moved)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    return Written(place, tuple(moved.left_out), tuple(moved.notes))


def _moved(like: PointFile, points: NDArray, fields: Mapping[str, Any], extra: Mapping[str, Any]) -> Moved:
    """The arguments, checked, in the source's types."""
    moved = np.asarray(points, dtype=np.float64)
    if moved.shape != like.points.shape:
        raise ValueError(
            f"expected points of shape {like.points.shape}, one for each of {like.path}, found {moved.shape}."
        )
    if not np.isfinite(moved).all():
        raise ValueError("expected finite points, found NaN or infinite ones.")
    kept, notes, extent = dict(like.fields), [], extent_of(moved)
    for name, given in fields.items():
        values = np.asarray(given)
        if name not in kept or values.shape != kept[name].shape:
            there = ", ".join(f"{one} {old.shape}" for one, old in kept.items()) or "none"
            raise ValueError(
                f"expected new values for fields of {like.path}, which are {there}, found {name} {values.shape}. "
                "Pass other values as extra."
            )
        kept[name] = _in_type_of(values, kept[name], extent)
    new: dict[str, NDArray] = {}
    for name, given in extra.items():
        values = np.asarray(given)
        if values.dtype.kind not in "fiub" or values.ndim not in (1, 2) or len(values) != len(moved):
            raise ValueError(
                f"expected extra values of shape ({len(moved)},) or ({len(moved)}, K) in numbers, found {name} of "
                f"shape {values.shape} and type {values.dtype}."
            )
        values = values.astype(np.uint8) if values.dtype.kind == "b" else values
        parts = split(name, values)
        if any(one not in kept or kept[one].size != part.size for one, part in parts.items()):
            parts = {name: values}
        for one, part in parts.items():
            if one in kept and kept[one].size == part.size:
                kept[one] = _in_type_of(part, kept[one], extent).reshape(kept[one].shape)
                notes.append(f"{one} of the source was replaced")
            else:
                new[one] = part
    return Moved(like, moved, kept, new, notes)


def _in_type_of(values: NDArray, old: NDArray, extent: float) -> NDArray:
    """New values of a field in the type of the old ones, where that does not lose too much."""
    if values.dtype.kind == "f" and old.dtype.kind == "f":
        return values.astype(real_type(values, old.dtype, extent))
    with np.errstate(all="ignore"):
        cast = values.astype(old.dtype)
    return cast if np.array_equal(cast, values) else values
