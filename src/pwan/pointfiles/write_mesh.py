"""Writers of PLY, OBJ, OFF and STL."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.mesh import STL_TRIANGLE
from pwan.pointfiles.ply_header import ENCODINGS
from pwan.pointfiles.write_common import (
    Moved,
    coordinate_types,
    extent_of,
    extra_columns,
    face_rows,
    loses,
    rounding,
    spelled,
    text_rows,
    write_all,
)

PLY_TYPES = {
    **{"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint"},
    **{"f4": "float", "f8": "double", "i8": "int64", "u8": "uint64"},
}


def write_ply(stream: BinaryIO, moved: Moved) -> None:
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
        kind = PLY_TYPES[column.dtype.str[1:]]
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
        stream.write(_ply_faces(faces, order))


def _count_code(lists: NDArray) -> str:
    return "u1" if lists.shape[1] < 256 else "i4"


def _counting(lists: NDArray) -> str:
    return PLY_TYPES[_count_code(lists)]


def _ply_faces(faces: NDArray[np.int64], order: str) -> bytes:
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


def write_obj(stream: BinaryIO, moved: Moved) -> None:
    """Vertices with their weights and colours, one normal a vertex, faces. Textures and groups are not carried."""
    moved.leave_out()
    fields = moved.fields
    columns = [moved.points] + [fields[name] for name in ("w", "red", "green", "blue") if name in fields]
    write_all(stream, text_rows(columns, first="v "))
    turned = "nx" in fields
    if turned:
        write_all(stream, text_rows([fields[name] for name in ("nx", "ny", "nz")], first="vn "))
    if moved.like.faces is not None:
        spell = "{0}//{0}" if turned else "{0}"
        write_all(
            stream, face_rows(moved.like.faces, lambda face: "f " + " ".join(spell.format(one + 1) for one in face))
        )


def write_off(stream: BinaryIO, moved: Moved) -> None:
    """The source's prefix, vertices with their normals, colours and texture coordinates, faces."""
    moved.leave_out()
    faces = moved.like.faces if moved.like.faces is not None else np.empty((0, 3), np.int64)
    prefix = moved.like.layout["prefix"] or ""
    stream.write(f"{prefix}OFF\n{len(moved.points)} {len(faces)} 0\n".encode("ascii"))
    names = list(moved.fields)
    first = [name for name in ("nx", "ny", "nz") if name in names]
    last = [name for name in ("s", "t") if name in names]
    middle = [name for name in names if name not in first + last]
    colours = [moved.fields[name] for name in middle]
    if colours and _bytes(colours):  # whole colours are written whole: 1 is nearly black, 1.0 is full
        colours = [column.astype(np.int64) for column in colours]
    columns = [moved.points, *(moved.fields[name] for name in first), *colours]
    write_all(stream, text_rows([*columns, *(moved.fields[name] for name in last)]))
    write_all(stream, face_rows(faces, lambda face: " ".join(map(str, [len(face), *face]))))


def _bytes(columns: list[NDArray]) -> bool:
    return all((column % 1 == 0).all() for column in columns) and max(column.max() for column in columns) > 1


def write_stl(stream: BinaryIO, moved: Moved) -> None:
    """The triangles, each with its new normal; binary or ASCII as it was. Binary holds single precision alone.

    Raises:
        ValueError: no triangle is left (all of them had invalid corners).
    """
    moved.leave_out()
    faces = moved.like.faces
    if faces is None or len(faces) == 0:
        raise ValueError("expected triangles to write to an STL, found none: save the source as PLY first.")
    unused = len(moved.points) - len(np.unique(faces))
    if unused:
        moved.notes.append(f"{unused} points without a triangle were not written: an STL holds triangles alone")
    corners = moved.points[faces]  # (F, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])  # (F, 3)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)
    if moved.like.layout["binary"]:
        single = np.dtype(np.float32)
        if loses(moved.points, single, extent_of(moved.points)):
            moved.notes.append(
                f"a binary STL holds single precision alone, which moves the points by up to "
                f"{rounding(moved.points, single):.3g}"
            )
        rows = np.zeros(len(faces), STL_TRIANGLE)
        rows["normal"], rows["corners"] = normals, corners
        stream.write(b"binary STL".ljust(80) + len(faces).to_bytes(4, "little") + rows.tobytes())
        return
    stream.write(b"solid registered\n")
    for facet, normal in zip(corners, normals, strict=True):
        vertices = "".join(f"  vertex {' '.join(spelled(corner))}\n" for corner in facet)
        stream.write(
            f"facet normal {' '.join(spelled(normal))}\n outer loop\n{vertices} endloop\nendfacet\n".encode("ascii")
        )
    stream.write(b"endsolid registered\n")
