"""NPY and NPZ, without ever unpickling, and headerless binary files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pwan.pointfiles import archive
from pwan.pointfiles.columns import (
    ROW_NUMBER,
    WIDEST,
    Asked,
    Key,
    chosen,
    coordinates,
    like_a_grid,
    listed,
    none_to_choose,
    numbers_rows,
    parts,
    said,
    unnamed,
)
from pwan.pointfiles.content import Content, Fault

POINT_NAMES = ("points", "xyz", "vertices", "verts", "coordinates", "coords", "positions", "pos", "pc", "cloud")
FIELD_NAMES = ("normals", "normal", "colors", "colours", "color", "colour", "rgb", "intensity", "labels", "label")
WRITTEN = ("matched", "displacement", "displacement_x", "displacement_y", "displacement_z")  # with registered points
LARGEST_HEADER = 100_000  # bytes of an array's description


def read_npy(data: bytes, asked: Asked) -> Content:
    """An NPY file; it has one array, and no key."""
    none_to_choose(Asked(key=asked.key), "npy, whose one array has no name")
    return content(_array(data), asked.columns)


def read_npz(data: bytes, asked: Asked) -> Content:
    """One array of an NPZ file: the key's, else the only one that can be points or the only one named as points are."""
    arrays: dict[str, NDArray] = {}
    refused: dict[str, str] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            archive.check(len(data), sum(member.file_size for member in file.infolist()))
            for member in file.namelist():
                name = member.removesuffix(".npy")
                try:
                    arrays[name] = _array(file.read(member))
                except Fault as fault:
                    refused[name] = str(fault)
    except Fault:
        raise
    except Exception as error:  # zipfile's own, zlib's, and NotImplementedError for methods that it has not
        said = str(error)[:120]
        raise Fault(f"expected an NPZ file, found an archive that cannot be read: {said}. Save it again.") from error
    return from_named(arrays, refused, asked, "NPZ")


def from_named(arrays: Mapping[str, NDArray], refused: Mapping[str, str], asked: Asked, format: str) -> Content:
    """The points among named arrays; others of as many rows with a name such as normals or colors become fields."""
    shown = [f"{name} {array.shape}" for name, array in arrays.items()] + [f"{name} (unreadable)" for name in refused]
    key = asked.key
    fitting = [name for name, array in arrays.items() if _may_be_points(array) and name not in WRITTEN]
    if key is None and not fitting and len(arrays) == 1:
        _no_volume(next(iter(arrays.values())))
        key = next(iter(arrays)) if asked.columns is not None else None
    if key is None and not fitting and (axes := _axes(arrays)):
        rest = {name: array.ravel() for name, array in arrays.items() if name not in axes and _is_column(array)}
        points = np.column_stack([arrays[name].ravel().astype(np.float64) for name in axes])
        fields = {name: column for name, column in rest.items() if len(column) == len(points)}
        layout = {"coordinates": tuple(axes), "types": {name: arrays[name].dtype.str for name in axes}}
        return Content(points, fields, None, [said(axes, "the arrays")], layout)
    if key is not None:
        name = key if isinstance(key, str) else ",".join(parts(key))
        if name in refused:
            raise Fault(f"array {name}: {refused[name]}")
        if name not in arrays:
            raise Fault(f"expected a key of the {format} file's arrays, found {name!r}. Name one of: {listed(shown)}.")
    else:
        named = [name for name in fitting if name.lower() in POINT_NAMES]
        choice = fitting if len(fitting) == 1 else named
        if len(choice) != 1:
            some = "one array of shape (N, 2) or (N, 3)" if not fitting else "the name of one array by key=NAME"
            why = f" ({next(iter(refused.values()))})" if refused and not fitting else ""
            raise Fault(f"expected {some}, found {listed(shown)}{why}. Name one, or save the points alone.")
        name = choice[0]
    result = content(arrays[name], asked.columns)
    result.notes.insert(0, f"points are the array {name}")
    result.layout["key"] = name
    for other, array in arrays.items():
        if other == name:
            continue
        carried = other.lower() in FIELD_NAMES + WRITTEN and array.dtype.kind in "fiub"
        if carried and array.shape[:1] == result.points.shape[:1]:
            result.fields[other] = array
        else:
            result.notes.append(f"left out the array {other} {array.shape}")
    return result


def content(array: NDArray, choice: Key | None) -> Content:
    """The points of one array: records with fields x, y, z, or (N, D) numbers; (D, N) is turned, axes of 1 dropped.

    Without a choice of columns the first three are coordinates; the others are fields.
    """
    notes: list[str] = []
    layout = {"dtype": array.dtype.str if array.dtype.names is None else array.dtype.descr, "shape": array.shape}
    if array.dtype.names is not None:
        return _records(array.ravel(), choice, notes, layout)
    _no_volume(array)
    if array.dtype.kind not in "fiu":
        raise Fault(f"expected an array of real numbers, found type {array.dtype}. Save it as float64.")
    if array.ndim == 1 and len(array) in (2, 3):
        array = array[None]
        notes.append("one point, given as a row")
    for axis in axes_of_one(array.shape):
        array = array.squeeze(axis)
        notes.append("dropped an axis of length 1")
    if array.ndim != 2:
        raise Fault(f"expected an array of shape (N, 2) or (N, 3), found {layout['shape']}. Reshape it before saving.")
    if array.shape[0] in (2, 3) and array.shape[1] > 3:
        notes.append(f"turned an array of shape {array.shape} into {array.shape[1]} points")
        array = array.T
    width = array.shape[1]
    if width < 2 or (choice is None and like_a_grid(list(array.T[: WIDEST + 1]))):
        raise Fault(
            f"expected an array of shape (N, 2) or (N, 3), found {layout['shape']}. Turn or cut it before saving; if "
            "its rows are points all the same, name the coordinates by columns='1,2,3'."
        )
    numbers = [str(place + 1) for place in range(width)]
    if choice is None:
        counted = int(numbers_rows(list(array.T), with_text=False))
        notes += [ROW_NUMBER.format(1)] * counted
        places = tuple(range(counted, min(width, counted + 3)))
    else:
        places = chosen(numbers, choice, "columns") or ()
    points = array[:, places].astype(np.float64)
    if (
        array.dtype.kind in "iu"
        and array.dtype.itemsize == 8
        and (points.astype(array.dtype) != array[:, places]).any()
    ):
        notes.append("whole numbers above 2^53 were rounded")
    notes.append(said([numbers[place] for place in places], "the columns number", width > len(places)))
    fields = {f"column_{place + 1}": _native(array[:, place]) for place in range(width) if place not in places}
    layout["places"] = places
    return Content(points, fields, None, notes, layout)


def raw(data: bytes, description: str | Sequence) -> Content:
    """A headerless binary file: type and columns as "float32 x 4", ">f8 x 3" or ("float32", 4).

    The first three columns are coordinates (of two columns both), or with ", first two" the first two.
    """
    if not isinstance(description, str):
        description = " x ".join(str(part) for part in description)
    match = re.match(r"\s*([<>|=]?[A-Za-z]+\d*)\s*(?:[x×*, ])\s*(\d{1,4})\b(.*)", description)
    if match is None:
        raise Fault(f"expected raw as type and columns, such as 'float32 x 4', found {description!r}.")
    try:
        dtype = np.dtype(match.group(1))
    except TypeError:
        dtype = np.dtype(object)
    columns = int(match.group(2))
    wanted = 2 if columns == 2 or re.search(r"first (two|2)\b", match.group(3)) else 3
    if dtype.kind not in "fiu" or columns < wanted:
        raise Fault(f"expected raw as a type such as float32 or >f8 and at least 2 columns, found {description!r}.")
    record = dtype.itemsize * columns
    if len(data) == 0 or len(data) % record:
        raise Fault(
            f"expected a multiple of {record} bytes for rows of {columns} {dtype.name}, found {len(data)} bytes. "
            "Name another type or number of columns, or copy the file again."
        )
    table = np.frombuffer(data, dtype).reshape(-1, columns)
    fields = {f"column_{place + 1}": _native(table[:, place]) for place in range(wanted, columns)}
    notes = [f"read as rows of {columns} {dtype.name}, of which the first {wanted} are coordinates"]
    layout = {"dtype": dtype.str, "columns": columns}
    return Content(table[:, :wanted].astype(np.float64), fields, None, notes, layout)


def _array(data: bytes) -> NDArray:
    """The one array of an NPY file's bytes."""
    stream = io.BytesIO(data)
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0}.get(version, npy.read_array_header_2_0)
        shape, fortran, dtype = read(stream, max_header_size=LARGEST_HEADER)
    except Exception as error:  # numpy evaluates the header's text, which fails in many ways
        raise Fault(
            f"expected an NPY file, found a header that cannot be read: {str(error)[:120]}. Save it again."
        ) from error
    if dtype.hasobject:
        raise Fault(
            "expected an array of numbers, found pickled objects, which are never unpickled (that could run "
            "code of the file). Save the numbers alone: numpy.save(path, numpy.asarray(points, dtype=float))."
        )
    held, promised = len(data) - stream.tell(), dtype.itemsize * int(np.prod(shape, dtype=object))
    if min(shape, default=1) < 0 or held != promised:
        raise Fault(
            f"expected {promised} bytes for an array of shape {shape} and type {dtype}, found {held}. "
            "The file is cut off or its header is wrong: save it again."
        )
    if promised == 0:
        raise Fault(f"expected points, found an array of shape {shape}. Save it again.")
    flat = np.frombuffer(data, dtype, offset=stream.tell())
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except (ValueError, TypeError) as error:  # more axes than numpy has, True for 1
        raise Fault(f"expected an array of shape (N, 2) or (N, 3), found {str(shape)[:60]}. Save it again.") from error


def _no_volume(array: NDArray) -> None:
    """Raise a fault for a mask, a volume or an image, whose numbers are no coordinates."""
    shape = tuple(size for size in array.shape if size > 1)
    mask = array.dtype.kind == "b" and len(shape) > 1 and (len(shape) > 2 or min(shape) > 3)
    if mask or (len(shape) == 3 and min(shape) > 4):
        what = ("a mask: use its outline", "a volume: use its surface")[len(shape) > 2]
        volume = "volume" if array.dtype.kind == "b" else "(volume > threshold)"
        raise Fault(
            f"expected points, found an array of shape {array.shape} and type {array.dtype}, {what}, "
            f"np.argwhere({volume} & ~scipy.ndimage.binary_erosion({volume}))."
        )
    if len(shape) == 3 and shape[2] in (2, 3, 4):
        raise Fault(
            f"expected an array of shape (N, 2) or (N, 3), found {array.shape}: an image has no points; of an "
            f"organised cloud save array.reshape(-1, {shape[2]})."
        )


def _records(array: NDArray, choice: Key | None, notes: list[str], layout: dict) -> Content:
    names = list(array.dtype.names or ())
    scalar = [name for name in names if array[name].ndim == 1 and array.dtype[name].kind in "fiu"]
    blocks = [name for name in names if array[name].ndim == 2 and array[name].shape[1] in (2, 3)]
    block = [name for name in blocks if (name == choice if choice is not None else name.lower() in POINT_NAMES)]
    if choice is None and len(blocks) == 1 and chosen(scalar, None, "fields") is None:
        block = blocks
    if len(block) == 1 and array.dtype[block[0]].base.kind in "fiu":
        used, points = block, array[block[0]].astype(np.float64)
    else:
        places = chosen(scalar, choice, "fields")
        if places is None:
            raise unnamed("fields", names)
        used = [scalar[place] for place in places]
        points = np.column_stack([array[name].astype(np.float64) for name in used])
    notes.append(said(used, "the fields") if len(used) > 1 else f"coordinates are the field {used[0]}")
    fields = {name: _native(array[name]) for name in names if name not in used and array[name].dtype.names is None}
    return Content(points, fields, None, notes, layout | {"coordinates": tuple(used)})


def _may_be_points(array: NDArray) -> bool:
    if array.dtype.names is not None:
        return coordinates(array.dtype.names) is not None
    shape = list(array.shape)
    for axis in axes_of_one(shape):
        shape.pop(axis)
    return array.dtype.kind in "fiu" and len(shape) == 2 and (shape[1] in (2, 3) or shape[0] in (2, 3))


def axes_of_one(shape: Sequence[int]) -> list[int]:
    """The axes of length 1 that are dropped, one after the other, until two are left; never the last axis."""
    left, dropped = list(shape), []
    while len(left) > 2 and 1 in left[:-1]:
        dropped.append(left.index(1))
        left.pop(dropped[-1])
    return dropped


def _axes(arrays: Mapping[str, NDArray]) -> list[str]:
    """The names of arrays x, y and perhaps z, one column each and of equal length; empty without them."""
    columns = [name for name, array in arrays.items() if _is_column(array)]
    axes = [columns[place] for place in coordinates(columns) or ()]
    return axes if len({arrays[name].size for name in axes}) == 1 else []


def _is_column(array: NDArray) -> bool:
    return array.dtype.kind in "fiu" and array.ndim > 0 and array.size == max(array.shape)


def _native(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
