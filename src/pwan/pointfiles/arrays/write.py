"""Writers of NPY, NPZ, MAT and headerless binary files."""

from __future__ import annotations

import io
import zipfile
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pwan.pointfiles.arrays.numpy_files import axes_of_one
from pwan.pointfiles.moved import Moved, coordinate_types, extent_of, extra_columns, loses, rounding


def write_npy(stream: BinaryIO, moved: Moved) -> None:
    """An array of records with the extra values as new fields; a plain array as it was, without them."""
    if _is_records(moved):
        array = _records(moved, extra_columns(moved, np.dtype(np.float64)))
    else:
        moved.leave_out()
        array = _table(moved)
    npy.write_array(stream, array, allow_pickle=False)


def write_npz(stream: BinaryIO, moved: Moved) -> None:
    """Each array under its name, the extra values as arrays of their own."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:  # numpy.savez takes no array of the name "file"
        for name, array in _named(moved).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, np.asanyarray(array), allow_pickle=False)
    stream.write(held.getvalue())


def write_mat(stream: BinaryIO, moved: Moved) -> None:
    """Version 5 (MATLAB's -v7), packed; the extra values as variables of their own."""
    from scipy.io import savemat

    held = io.BytesIO()
    savemat(held, _named(moved), do_compression=True, oned_as="column")
    stream.write(held.getvalue())


def write_raw(stream: BinaryIO, moved: Moved) -> None:
    """The source's type and columns, whatever rounding costs: nothing in the file could say that they are others.

    Raises:
        ValueError: the type is whole and too small for the moved points.
    """
    moved.leave_out()
    dtype = np.dtype(moved.like.layout["dtype"])
    points = moved.points
    if dtype.kind != "f":
        points = np.rint(points)
        bounds = np.iinfo(dtype)
        if points.min() < bounds.min or points.max() > bounds.max:
            raise ValueError(
                f"expected moved points within {dtype.name} ({bounds.min} to {bounds.max}), the source's type, found "
                f"{points.min():.6g} to {points.max():.6g}. Save the source as NPY or PLY first."
            )
        moved.notes.append(f"coordinates were rounded to whole numbers, as the source's {dtype.name}")
    elif loses(points, dtype, extent_of(points)):
        moved.notes.append(
            f"coordinates were rounded to the source's {dtype.name}, by up to {rounding(points, dtype):.3g}"
        )
    with np.errstate(over="ignore"):  # of a small type, which the note tells
        columns = [column.astype(dtype) for column in (*points.T, *moved.fields.values())]
    stream.write(np.column_stack(columns).astype(dtype).tobytes())  # (N, columns); stacking turns the bytes' order


def _is_records(moved: Moved) -> bool:
    return isinstance(moved.like.layout["dtype"], list)


def _named(moved: Moved) -> dict[str, NDArray]:
    """The arrays by name; where x, y and z are arrays of their own, so are the columns of the extra values."""
    layout, fields = moved.like.layout, dict(moved.fields)
    if "key" not in layout:
        names = layout["coordinates"]
        types = coordinate_types(moved, [np.dtype(layout["types"][name]) for name in names])
        axes = {name: column.astype(type) for name, column, type in zip(names, moved.points.T, types, strict=True)}
        return axes | fields | moved.columns()
    if _is_records(moved):
        points = _records(moved, {})
        inside = points.dtype.names or ()
    else:
        points = _table(moved)
        inside = tuple(_columns(moved))
    return {layout["key"]: points} | {name: fields[name] for name in fields if name not in inside} | moved.extra


def _columns(moved: Moved) -> dict[str, NDArray]:
    """The fields that were columns behind the coordinates of a plain array."""
    return {name: values for name, values in moved.fields.items() if name.startswith("column_")}


def _table(moved: Moved) -> NDArray:
    """The points and the columns behind them as one array of the source's type and axes."""
    layout = moved.like.layout
    dtype, shape = np.dtype(layout["dtype"]), layout["shape"]
    (written,) = coordinate_types(moved, [dtype])
    table = np.empty((len(moved.points), moved.points.shape[1] + len(_columns(moved))), written)
    places = list(layout["places"])
    table[:, places] = moved.points
    table[:, [place for place in range(table.shape[1]) if place not in places]] = np.column_stack(
        [np.empty((len(table), 0)), *_columns(moved).values()]
    )
    if len(shape) == 1:
        return table[0]
    left, dropped = list(shape), axes_of_one(shape)
    for axis in dropped:
        left.pop(axis)
    if left[0] in (2, 3) and left[1] > 3:  # was turned
        table = np.ascontiguousarray(table.T)
    for axis in reversed(dropped):
        table = np.expand_dims(table, axis)
    return table


def _records(moved: Moved, extra: dict[str, NDArray]) -> NDArray:
    """The array of records with new coordinates and extra fields; of the source's shape where all points are left."""
    layout, count = moved.like.layout, len(moved.points)
    source = npy.descr_to_dtype(layout["dtype"])
    names, fields = layout["coordinates"], moved.fields
    types = coordinate_types(moved, [source[name].base for name in names])
    new = dict(zip(names, types, strict=True))
    kept: list[tuple] = []
    for name in source.names or ():
        if name in new:
            kept.append((name, new[name], source[name].shape))
        elif name in fields:
            base, held = source[name].base, fields[name].dtype
            kept.append((name, base if held.kind == base.kind else held, source[name].shape))  # new values may be real
        else:
            moved.notes.append(f"left out the field {name}, records within the records")
    rows = np.zeros(count, [*kept, *((name, column.dtype) for name, column in extra.items())])
    for name, *_ in kept:
        if name not in new:
            rows[name] = fields[name]
    for name, column in extra.items():
        rows[name] = column
    if len(names) == 1:
        rows[names[0]] = moved.points
    else:
        for name, column in zip(names, moved.points.T, strict=True):
            rows[name] = column
    return rows.reshape(layout["shape"]) if int(np.prod(layout["shape"])) == count else rows
