"""Points from files: PLY, OBJ, OFF, STL, GLB, PCD, text, NPY, NPZ, LAS, LAZ, MAT, 3D Slicer's markups and headerless
binary; gzip of any.

    read_points(path) ──> first bytes, suffix ──> one reader a format ──> rules for all ──> PointFile

The count that a file declares is compared with the count that it holds, nothing is unpickled, and whatever was decided
stands in the result's notes.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from pwan.pointfiles import detect, markups
from pwan.pointfiles.arrays import matlab, numpy_files
from pwan.pointfiles.clouds import las, pcd
from pwan.pointfiles.columns import Asked, Key
from pwan.pointfiles.content import Content, Fault, PointFile, finish
from pwan.pointfiles.mesh import glb, obj, off, stl
from pwan.pointfiles.ply import read as ply
from pwan.pointfiles.text import read as text
from pwan.pointfiles.write import Written, write_points

__all__ = ["PointFile", "Written", "read_points", "write_points"]

READERS: dict[str, Callable[[bytes, Asked], Content]] = {
    "ply": ply.read,
    "obj": obj.read,
    "off": off.read,
    "stl": stl.read,
    "glb": glb.read,
    "pcd": pcd.read,
    "npy": numpy_files.read_npy,
    "npz": numpy_files.read_npz,
    "las": las.read,
    "laz": las.read,
    "mat": matlab.read,
    "markups": markups.read,
    "text": text.read,
}
BY_COLUMNS = ("text", "ply", "pcd", "npy")  # where a key is the columns' names, since no array has one


def read_points(
    path: str | os.PathLike[str],
    *,
    key: Key | None = None,
    columns: Key | None = None,
    raw: str | tuple[str, int] | None = None,
    drop_invalid: bool = False,
    keep_flagged: bool = False,
) -> PointFile:
    """Read the points of a file, and all that the file says of each.

    The format follows from the first bytes where they are clear, else from the suffix. Points keep the file's order and
    number; only an STL, which repeats each vertex, gives its distinct ones.

    Args:
        path: the file; its name may be any.
        key: the array of an NPZ or MAT file with several.
        columns: of text, PLY, PCD and arrays, which columns are the coordinates: two or three names
            ("east,north,height", or a sequence of names) or numbers counted from 1 ("2,3,4"). Needed only where the
            file does not say it; a note tells what was read. (For files without arrays by name, ``key`` does the same.)
        raw: type and columns of a headerless binary file, as in "float32 x 4" or ("float32", 4): the first three are
            coordinates, or the first two with "float32 x 4, first two".
        drop_invalid: leave out points with NaN, infinite or huge (above 1e30) coordinates, instead of refusing the
            file; :attr:`PointFile.rows` then says which stayed.
        keep_flagged: take the points of a LAS or LAZ file that it flags as withheld or as noise (classes 7 and 18),
            which are left out else.

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
            asked = Asked(key, columns, keep_flagged, detect.suffix_of(place))
            format, content = _content(data, asked, raw, notes)
            content.notes = notes + content.notes
            return finish(content, place, format, drop_invalid)
    except Fault as fault:
        raise ValueError(f"{place}: {fault}") from fault


def _content(data: bytes, asked: Asked, raw: str | tuple[str, int] | None, notes: list[str]) -> tuple[str, Content]:
    if raw is not None:
        return "raw", numpy_files.raw(data, raw)
    data = data.removeprefix(codecs.BOM_UTF8)
    format = detect.kind(data, asked.suffix, notes)
    if asked.columns is None and format in BY_COLUMNS:
        asked = replace(asked, columns=asked.key, key=None)
    content = READERS[format](data, asked)
    if format in ("las", "laz"):
        format = "laz" if content.layout["compressed"] else "las"
    return format, content
