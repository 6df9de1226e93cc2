"""Writers of PCD, by pypcd4 where it is binary, and of LAS and LAZ, by laspy."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.extras import needs
from pwan.pointfiles import numerals
from pwan.pointfiles.write_common import Moved, coordinate_types, extra_columns, text_rows, write_all

PCD_KINDS = {"f": "F", "i": "I", "u": "U"}


def write_pcd(stream: BinaryIO, moved: Moved) -> None:
    """The source's encoding, viewpoint, fields and types, then the extra fields; padding is not carried."""
    with needs("scans", "writing PCD"):
        from pypcd4 import Encoding, MetaData, PointCloud

    layout, count = moved.like.layout, len(moved.points)
    names, declared = layout["coordinates"], layout["types"]
    types = coordinate_types(moved, [np.dtype(declared[name]) for name in names])
    axes = {name: column.astype(type) for name, column, type in zip(names, moved.points.T, types, strict=True)}
    columns = {
        name: axes[name] if name in axes else _as_declared(moved.fields[name], np.dtype(declared[name]))
        for name in declared
    }
    columns |= extra_columns(moved, types[0])
    width, height = layout["width"], layout["height"]
    if width * height != count:
        width, height = count, 1
        if layout["height"] > 1:
            moved.notes.append("the organised cloud is written as one row, because points were dropped from it")
    kind = Encoding(layout["data"])
    header: dict[str, Any] = {
        "fields": tuple(columns),
        "size": tuple(column.dtype.itemsize for column in columns.values()),
        "type": tuple(PCD_KINDS[column.dtype.kind] for column in columns.values()),
        "count": tuple(1 if column.ndim == 1 else column.shape[1] for column in columns.values()),
        "viewpoint": _viewpoint(layout["viewpoint"]),
    }
    meta = MetaData(**header, points=count, width=width, height=height, data=kind)
    if kind is Encoding.ASCII:  # pypcd4 rounds to ten decimals
        stream.write(meta.compose_header().encode())
        write_all(stream, text_rows(list(columns.values())))
        return
    rows = np.zeros(count, meta.build_dtype())
    for name, column in columns.items():
        if column.ndim == 1:
            rows[name] = column
            continue
        # packed, a field stands point by point, while pypcd4 packs one component after the other
        parts = column.reshape(column.shape[1], count) if kind is Encoding.BINARY_COMPRESSED else column.T
        for place, part in enumerate(parts):
            rows[f"{name}__{place:04d}"] = part
    held = io.BytesIO()
    PointCloud(meta, rows).save(held, kind)
    stream.write(held.getvalue())


def _viewpoint(words: list[str]) -> tuple[float, ...]:
    """The seven numbers of the header's line; those of no viewpoint where it holds something else."""
    values = [numerals.number(word) for word in words]
    found = tuple(value for value in values if value is not None)
    return found if len(found) == len(values) == 7 else (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def _as_declared(values: NDArray, declared: np.dtype) -> NDArray:
    """The values in the header's type, unless that is whole and cannot hold them."""
    if declared.kind == "f":
        return values.astype(declared)
    with np.errstate(all="ignore"):
        cast = values.astype(declared)
    return cast if np.array_equal(cast, values) else values


def write_las(stream: BinaryIO, moved: Moved) -> None:
    """The source's version, point format, scales, offsets, records (coordinate system) and dimensions; extra ones.

    Points are rounded to the source's scale. Only where they leave the range of its 32-bit numbers are the offsets, and
    if need be the scales, new ones.
    """
    with needs("scans", "writing LAS and LAZ"):
        import laspy

    layout = moved.like.layout
    try:
        header = laspy.LasHeader(version=layout["version"], point_format=layout["point_format"])
    except laspy.LaspyException:  # 1.0, or a point format that came later than the version
        header = laspy.LasHeader(version="1.4", point_format=layout["point_format"])
        moved.notes.append(f"written as LAS 1.4: points of this kind are not written as {layout['version']}")
    header.scales, header.offsets = _las_grid(moved, np.array(layout["scales"]), np.array(layout["offsets"]))
    header.global_encoding.value = layout["global_encoding"]
    for record in layout["records"]:
        header.vlrs.append(laspy.VLR(*record))
    standard = set(header.point_format.dimension_names)
    extra = {name: values for name, values in moved.fields.items() if name not in standard} | moved.columns()
    header.add_extra_dims(
        [
            laspy.ExtraBytesParams(name, f"{column.shape[1] if column.ndim == 2 else 1}{column.dtype.str[1:]}")
            for name, column in extra.items()
        ]
    )
    cloud = laspy.LasData(header, laspy.ScaleAwarePointRecord.zeros(len(moved.points), header=header))
    whole = np.rint((moved.points - header.offsets) / header.scales).astype(np.int32)
    cloud.X, cloud.Y, cloud.Z = whole.T
    for name, values in (moved.fields | extra).items():
        cloud[name] = values
    if layout["later_records"]:
        cloud.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR(*record) for record in layout["later_records"]])
    held = io.BytesIO()
    cloud.write(held, do_compress=layout["compressed"])
    stream.write(held.getvalue())


def _las_grid(moved: Moved, scales: NDArray, offsets: NDArray) -> tuple[NDArray, NDArray]:
    """(3,), (3,) the scales and offsets with which the points fit into 32 bits."""
    largest = 2**31 - 1
    if (np.abs(moved.points - offsets) <= largest * np.abs(scales)).all():
        return scales, offsets
    low, high = moved.points.min(axis=0), moved.points.max(axis=0)
    moved.notes.append("new offsets: the moved points lie beyond the range of the source's")
    offsets = np.rint((low + high) / 2)
    needed = np.maximum(high - offsets, offsets - low) / largest  # (3,)
    if (needed > np.abs(scales)).any():
        scales = np.where(needed > np.abs(scales), 10.0 ** np.ceil(np.log10(np.maximum(needed, 1e-300))), scales)
        moved.notes.append(f"new scales {', '.join(f'{scale:g}' for scale in scales)}: the moved points extend further")
    return scales, offsets
