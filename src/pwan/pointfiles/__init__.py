"""Points from files: PLY, OBJ, OFF, STL, PCD, text, NPY, NPZ, LAS, LAZ, MAT and headerless binary; gzip of any.

    read_points(path) ──> first bytes, suffix ──> one reader a format ──> rules for all ──> PointFile

The count that a file declares is compared with the count that it holds, nothing is unpickled, and whatever was decided
stands in the result's notes.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pwan.pointfiles import detect
from pwan.pointfiles.arrays import matlab, numpy_files
from pwan.pointfiles.clouds import las, pcd
from pwan.pointfiles.content import Content, Fault, PointFile, finish
from pwan.pointfiles.mesh import obj, off, stl
from pwan.pointfiles.ply import read as ply
from pwan.pointfiles.text import read as text
from pwan.pointfiles.write import Written, write_points

__all__ = ["PointFile", "Written", "read_points", "write_points"]

Key = str | Sequence[str]
READERS: dict[str, Callable[[bytes, Key | None], Content]] = {
    "ply": ply.read,
    "obj": obj.read,
    "off": off.read,
    "stl": stl.read,
    "pcd": pcd.read,
    "npy": numpy_files.read_npy,
    "npz": numpy_files.read_npz,
    "las": las.read,
    "laz": las.read,
    "mat": matlab.read,
}


def read_points(
    path: str | os.PathLike[str],
    *,
    key: Key | None = None,
    raw: str | tuple[str, int] | None = None,
    drop_invalid: bool = False,
) -> PointFile:
    """Read the points of a file, and all that the file says of each.

    The format follows from the first bytes where they are clear, else from the suffix. Points keep the file's order and
    number; only an STL, which repeats each vertex, gives its distinct ones.

    Args:
        path: the file; its name may be any.
        key: the array of an NPZ or MAT file with several. For text, PLY, PCD and arrays of records: the columns that
            are the coordinates, by two or three names ("east,north,height", or a sequence of names) or by their
            places counted from 1; needed only where their names do not say it.
        raw: type and columns of a headerless binary file, as in "float32 x 4" or ("float32", 4): the first three are
            coordinates, or the first two with "float32 x 4, first two".
        drop_invalid: leave out points with NaN, infinite or huge (above 1e30) coordinates, instead of refusing the
            file; :attr:`PointFile.rows` then says which stayed.

    Returns:
        The points, (N, 2) or (N, 3) float64, with N ≥ 1.

    Raises:
        OSError: the file is not there or cannot be read.
        ValueError: the content is at fault: what was expected, what came, where, and what to do.
    """
    place = Path(path)
    notes: list[str] = []
    data = place.read_bytes()
    try:
        if data.startswith(b"\x1f\x8b") or raw is None:
            data = detect.unpacked(data, notes)
        with np.errstate(all="ignore"):  # of NaN and overflow in casts, which finish looks for
            format, content = _content(data, detect.suffix_of(place), key, raw, notes)
            content.notes = notes + content.notes
            return finish(content, place, format, drop_invalid)
    except Fault as fault:
        raise ValueError(f"{place}: {fault}") from fault


def _content(
    data: bytes, suffix: str, key: Key | None, raw: str | tuple[str, int] | None, notes: list[str]
) -> tuple[str, Content]:
    if raw is not None:
        return "raw", numpy_files.raw(data, raw)
    data = data.removeprefix(codecs.BOM_UTF8)
    format = detect.kind(data, suffix, notes)
    if format == "text":
        return format, text.read(data, key, suffix)
    content = READERS[format](data, key)
    if format in ("las", "laz"):
        format = "laz" if content.layout["compressed"] else "las"
    return format, content
