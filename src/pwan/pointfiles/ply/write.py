"""The writer of PLY."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.moved import (
    Moved,
    coordinate_types,
    extra_columns,
    face_rows,
    text_rows,
    write_all,
)
from pwan.pointfiles.ply.header import ENCODINGS

NAMES = {
    **{"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint"},
    **{"f4": "float", "f8": "double", "i8": "int64", "u8": "uint64"},
}


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's encoding, comments and properties in their order, then the extra ones; lists; faces."""
    layout = moved.like.layout
    names, order = layout["coordinates"], ENCODINGS[layout["encoding"]]
    types = coordinate_types(moved, [np.dtype(layout["properties"][name]) for name in names])
    axes = {name: column.astype(type) for name, column, type in zip(names, moved.points.T, types, strict=True)}
    scalars = {name: axes[name] if name in axes else moved.fields[name] for name in layout["properties"]}
    lists = {name: values for name, values in moved.fields.items() if name not in scalars}
    vertices = scalars | lists | extra_columns(moved, types[0])
    head = ["ply", f"format {layout['encoding']} 1.0", *layout["comments"], f"element vertex {len(moved.points)}"]
    for name, column in vertices.items():
        kind = NAMES[column.dtype.str[1:]]
        head.append(f"property {kind if column.ndim == 1 else f'list {_counting(column)} {kind}'} {name}")
    faces = moved.like.faces
    if faces is not None:
        head += [f"element face {len(faces)}", f"property list {_counting(faces)} int vertex_indices"]
    stream.write("\n".join([*head, "end_header", ""]).encode("latin-1"))
    if order == "":
        columns = []
        for column in vertices.values():
            if column.ndim == 2:
                columns.append(np.full(len(column), column.shape[1]))
            columns.append(column)
        write_all(stream, text_rows(columns))
        if faces is not None:
            write_all(stream, face_rows(faces, lambda face: " ".join(map(str, [len(face), *face]))))
        return
    layouts: list[tuple] = []
    for place, column in enumerate(vertices.values()):
        if column.ndim == 2:
            layouts.append((f"{place}n", order + _count_code(column)))
        layouts.append((f"{place}", order + column.dtype.str[1:], column.shape[1:]))
    rows = np.zeros(len(moved.points), dtype=layouts)
    for place, column in enumerate(vertices.values()):
        rows[f"{place}"] = column
        if column.ndim == 2:
            rows[f"{place}n"] = column.shape[1]
    stream.write(rows.tobytes())
    if faces is not None:
        stream.write(_faces(faces, order))


def _count_code(lists: NDArray) -> str:
    return "u1" if lists.shape[1] < 256 else "i4"


def _counting(lists: NDArray) -> str:
    return NAMES[_count_code(lists)]


def _faces(faces: NDArray[np.int64], order: str) -> bytes:
    """Each face's number of corners, then its corners as int."""
    code = np.dtype(order + _count_code(faces))
    counts = (faces >= 0).sum(axis=1)  # (F,)
    ends = np.cumsum(code.itemsize + 4 * counts)  # (F,) bytes up to the end of each face
    starts = ends - 4 * counts  # (F,) of the first corner
    data = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    heads = counts.astype(code).view(np.uint8).reshape(-1, code.itemsize)
    data[(starts - code.itemsize)[:, None] + np.arange(code.itemsize)] = heads  # (F, bytes)
    place = starts[:, None] + 4 * np.arange(faces.shape[1])  # (F, K)
    corners = faces[faces >= 0].astype(order + "i4").view(np.uint8).reshape(-1, 4)
    data[place[faces >= 0][:, None] + np.arange(4)] = corners  # (corners, 4)
    return data.tobytes()
