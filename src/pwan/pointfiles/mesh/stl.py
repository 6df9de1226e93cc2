"""STL, ASCII and binary."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import Asked, none_to_choose
from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.moved import (
    Moved,
    extent_of,
    loses,
    of_faces,
    rounding,
    spelled,
)

TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
HEAD = 84  # bytes: a free text of 80 and the number of triangles


def read(data: bytes, asked: Asked) -> Content:
    """The distinct vertices of an STL in the order of their first appearance, and its triangles between them."""
    none_to_choose(asked, "stl")
    notes: list[str] = []
    binary = is_binary(data)
    layout: dict[str, Any] = {"binary": binary}
    if binary:
        promised = int.from_bytes(data[80:HEAD], "little")
        held = (len(data) - HEAD) / TRIANGLE.itemsize
        if len(data) < HEAD or held != promised:
            raise Fault(
                f"expected {promised} triangles of 50 bytes behind the header, as it promises, found {max(held, 0):g}. "
                "The file is cut off or its header is wrong: export it again."
            )
        triangles, name = np.frombuffer(data, TRIANGLE, promised, HEAD), data[:80]
        corners = triangles["corners"].reshape(-1, 3)
        if triangles["attribute"].any():
            layout["of_faces"] = {"attribute": triangles["attribute"].copy()}
            notes.append("the triangles have attributes (two bytes each, to some programs colours), which are carried")
    else:
        corners, name = _ascii(data, notes), data.lstrip().split(b"\n", 1)[0][len("solid") :].strip()
    if not len(corners):
        raise Fault("expected triangles, found none. Export the file again.")
    # as bytes, so that NaN equals itself; adding 0 makes -0 and 0 one
    whole = np.ascontiguousarray(corners + corners.dtype.type(0)).view(np.dtype((np.void, 3 * corners.dtype.itemsize)))
    _, first, inverse = np.unique(whole.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)  # (n,) distinct vertices by first appearance
    faces = np.argsort(order)[inverse.ravel()].reshape(-1, 3)
    notes.append(f"{len(faces)} triangles with {len(corners)} corners, {len(first)} distinct vertices")
    points = corners[first[order]].astype(np.float64)
    return Content(points, {}, faces.astype(np.int64), notes, layout | {"name": name})


def is_binary(data: bytes) -> bool:
    """By the size that the header promises, whatever the free text says; else by bytes that no text has."""
    if len(data) >= HEAD and len(data) == HEAD + 50 * int.from_bytes(data[80:HEAD], "little"):
        return True
    return not data[:1000].lstrip().lower().startswith(b"solid") or b"\0" in data


def _ascii(data: bytes, notes: list[str]) -> NDArray:
    """(3 F, 3) the corners of an ASCII STL, which may hold several solids."""
    text, _ = decoded(data, notes)
    corners: list[list[float]] = []
    solids = 0
    inside, state = 0, "solid"  # corners of the open facet; the word that may come next
    steps = {  # word: the state that it needs, the state behind it
        "solid": ("solid", "facet"),
        "facet": ("facet", "outer"),
        "outer": ("outer", "vertex"),
        "vertex": ("vertex", "vertex"),
        "endloop": ("vertex", "endfacet"),
        "endfacet": ("endfacet", "facet"),
        "endsolid": ("facet", "solid"),
    }
    for at, line in numerals.significant(text, comment=None):
        word, *values = line.split()
        word = word.lower()
        if word not in steps or steps[word][0] != state or (state == "vertex" and (word == "vertex") != (inside < 3)):
            wanted = "endloop" if inside == 3 and state == "vertex" else state
            raise Fault(
                f"line {at}: expected {'facet or endsolid' if state == 'facet' else wanted}, "
                f"found {line[:60]!r}. The file is damaged there: export it again."
            )
        state = steps[word][1]
        solids += word == "solid"
        if word == "outer":
            inside = 0
        elif word == "vertex":
            inside += 1
            corners.append(numerals.row(" ".join(values), 3, at, "a vertex"))
    if state != "solid":
        raise Fault("expected 'endsolid' at the end, found none. The file is cut off: export it again.")
    if solids > 1:
        notes.append(f"{solids} solids, which are written as one")
    return np.array(corners).reshape(-1, 3)


def write(stream: BinaryIO, moved: Moved) -> None:
    """The triangles, each with its new normal and, in binary, its attribute; binary or ASCII as it was.

    Binary holds single precision alone.

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
        rows = np.zeros(len(faces), TRIANGLE)
        rows["normal"], rows["corners"], rows["attribute"] = normals, corners, of_faces(moved.like).get("attribute", 0)
        stream.write(moved.like.layout["name"] + len(faces).to_bytes(4, "little") + rows.tobytes())
        return
    stream.write(b"solid " + moved.like.layout["name"] + b"\n")
    for facet, normal in zip(corners, normals, strict=True):
        vertices = "".join(f"  vertex {' '.join(spelled(corner))}\n" for corner in facet)
        stream.write(
            f"facet normal {' '.join(spelled(normal))}\n outer loop\n{vertices} endloop\nendfacet\n".encode("ascii")
        )
    stream.write(b"endsolid " + moved.like.layout["name"] + b"\n")
