"""The writer of PLY."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.moved import (
    ROWS,
    Moved,
    coordinate_types,
    extra_columns,
    of_faces,
    spelled,
    text_rows,
    write_all,
)
from pwan.pointfiles.ply.header import ENCODINGS, Lists

NAMES = {
    **{"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint"},
    **{"f4": "float", "f8": "double", "i8": "int64", "u8": "uint64"},
}


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's encoding, comments and properties in their order, then the extra ones; lists; faces with what
    belongs to each, as texture coordinates at their corners."""
    layout = moved.like.layout
    names, order = layout["coordinates"], ENCODINGS[layout["encoding"]]
    types = coordinate_types(moved, [np.dtype(layout["properties"][name]) for name in names])
    axes = {name: column.astype(type) for name, column, type in zip(names, moved.points.T, types, strict=True)}
    scalars = {name: axes[name] if name in axes else moved.fields[name] for name in layout["properties"]}
    lists = {name: values for name, values in moved.fields.items() if name not in scalars}
    vertices = scalars | lists | extra_columns(moved, types[0])
    head = ["ply", f"format {layout['encoding']} 1.0", *layout["comments"], f"element vertex {len(moved.points)}"]
    for name, column in vertices.items():
        counting = "" if column.ndim == 1 else f"list {NAMES[_count_code(column.shape[1])]} "
        head.append(f"property {counting}{NAMES[column.dtype.str[1:]]} {name}")
    faces = _faces(moved)
    if faces:
        head.append(f"element face {_length(faces['vertex_indices'])}")
        head += [f"property {_kind(column)} {name}" for name, column in faces.items()]
    stream.write("\n".join([*head, "end_header", ""]).encode("latin-1"))
    if order == "":
        columns = []
        for column in vertices.values():
            if column.ndim == 2:
                columns.append(np.full(len(column), column.shape[1]))
            columns.append(column)
        write_all(stream, text_rows(columns))
        write_all(stream, _text(list(faces.values())))
        return
    layouts: list[tuple] = []
    for place, column in enumerate(vertices.values()):
        if column.ndim == 2:
            layouts.append((f"{place}n", order + _count_code(column.shape[1])))
        layouts.append((f"{place}", order + column.dtype.str[1:], column.shape[1:]))
    rows = np.zeros(len(moved.points), dtype=layouts)
    for place, column in enumerate(vertices.values()):
        rows[f"{place}"] = column
        if column.ndim == 2:
            rows[f"{place}n"] = column.shape[1]
    stream.write(rows.tobytes())
    stream.write(_bytes(list(faces.values()), order))


def _count_code(longest: int) -> str:
    return "u1" if longest < 256 else "i4"


def _faces(moved: Moved) -> dict[str, NDArray | Lists]:
    """The faces' corners and the other properties, by name; empty without faces."""
    faces = moved.like.faces
    if faces is None:
        return {}
    corners = Lists((faces >= 0).sum(axis=1), faces[faces >= 0].astype(np.int32))
    return {"vertex_indices": corners, **of_faces(moved.like)}


def _length(column: NDArray | Lists) -> int:
    return len(column.counts if isinstance(column, Lists) else column)


def _kind(column: NDArray | Lists) -> str:
    """The type of a property as the header says it."""
    if not isinstance(column, Lists):
        return NAMES[column.dtype.str[1:]]
    return f"list {NAMES[_count_code(column.counts.max(initial=0))]} {NAMES[column.values.dtype.str[1:]]}"


def _text(columns: list[NDArray | Lists]) -> Iterator[bytes]:
    """Lines of text, one a row, each list behind its length."""
    for start in range(0, _length(columns[0]) if columns else 0, ROWS):
        part = np.arange(start, min(start + ROWS, _length(columns[0])))
        cells = [_cells(one.rows(part)) if isinstance(one, Lists) else spelled(one[part]) for one in columns]
        yield "".join(" ".join(row) + "\n" for row in zip(*cells, strict=True)).encode("latin-1")


def _cells(lists: Lists) -> list[str]:
    words, ends = spelled(lists.values), np.cumsum(lists.counts).tolist()
    return [" ".join([str(n), *words[end - n : end]]) for n, end in zip(lists.counts.tolist(), ends, strict=True)]


def _bytes(columns: list[NDArray | Lists], order: str) -> bytes:
    """All rows after one another, each list behind its length."""
    pieces: list[tuple[NDArray, NDArray]] = []  # the bytes in each row (n,), and all bytes
    for column in columns:
        parts: list[Any] = [(np.ones(_length(column), np.int64), column)]
        if isinstance(column, Lists):
            code = _count_code(column.counts.max(initial=0))
            parts = [(parts[0][0], column.counts.astype(code)), (column.counts, column.values)]
        for counts, values in parts:
            data = np.ascontiguousarray(values, dtype=order + values.dtype.str[1:])
            pieces.append((counts * data.itemsize, data.view(np.uint8)))
    if not pieces:
        return b""
    ends = np.cumsum(sum(lengths for lengths, _ in pieces))
    at = np.concatenate(([0], ends[:-1])) if len(ends) else ends  # where each row's next piece begins
    out = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for lengths, data in pieces:
        out[np.repeat(at - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(data))] = data
        at = at + lengths
    return out.tobytes()
