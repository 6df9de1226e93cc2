"""OBJ, OFF and STL.

Read here and not by trimesh: it merges or repeats vertices of an OBJ with texture coordinates, normals or several
materials, drops the colours and normals of OFF, and takes a file whose faces are cut off; the tests hold these readers
against it where it is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import no_key
from pwan.pointfiles.content import Content, Fault, check_faces, face_array
from pwan.pointfiles.encodings import decoded

_SPECIFIED = (  # Wavefront's specification, version 3
    "v vt vn vp f fo l p o g s mg usemtl mtllib usemap maplib cstype deg bmat step curv curv2 surf parm trim hole scrv "
    "sp end con bevel c_interp d_interp lod shadow_obj trace_obj ctech stech call csh bsp bzp cdc cdp res"
)
OBJ_WORDS = frozenset(_SPECIFIED.split())
OBJ_REAL = frozenset({3, 4, 6, 7})  # x y z, then w, or a colour, or both
STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
STL_HEAD = 84  # bytes: a free text of 80 and the number of triangles


def read_obj(data: bytes, key: object) -> Content:
    """Every ``v`` of an OBJ in the file's order, referenced or not, with its colour; the faces between them.

    Normals are carried where each vertex has one: as many ``vn`` as ``v``, and faces, if any, that pair equal numbers.
    """
    no_key(key, "obj")
    notes: list[str] = []
    text, _ = decoded(data, notes)
    vertices: list[tuple[int, str]] = []
    normals: list[tuple[int, str]] = []
    corners: list[int] = []
    counts: list[int] = []
    paired = True
    lines = numerals.significant(re.sub(r"\\\n", " ", text))
    if lines and lines[-1][1].startswith("v "):
        numerals.check_last(text, [line for _, line in lines[:200] if line.startswith("v ")])
    for at, line in lines:
        word, _, rest = line.replace("\t", " ").partition(" ")
        if word == "v":
            vertices.append((at, rest))
        elif word == "vn":
            normals.append((at, rest))
        elif word in ("f", "fo"):
            values = rest.split()
            for value in values:
                parts = value.split("/")
                corner = numerals.whole(parts[0], at, "a face's vertex")
                paired = paired and len(parts) == 3 and parts[2] == parts[0]
                if corner == 0 or corner < -len(vertices) or len(parts) > 3:
                    raise Fault(
                        f"line {at}: expected a face between vertices numbered from 1, found {value[:40]!r}. "
                        "Repair the line or export the file again."
                    )
                corners.append(corner - 1 if corner > 0 else len(vertices) + corner)
            counts.append(len(values))
            if len(values) < 3:
                raise Fault(
                    f"line {at}: expected at least 3 corners of a face, found {len(values)}. "
                    "Repair the line or export the file again."
                )
        elif word not in OBJ_WORDS:
            raise Fault(
                f"line {at}: expected a line of an OBJ file (v, vn, vt, f, ...), found {line[:60]!r}. "
                "Repair the line or export the file again."
            )
    width = len(vertices[0][1].split()) if vertices else 3
    if width not in OBJ_REAL:
        raise Fault(
            f"line {vertices[0][0]}: expected a vertex of 3, 4, 6 or 7 numbers (x y z, w, colour), found {width}. "
            "Repair the line or export the file again."
        )
    points = _numbers(vertices, width, "a vertex")
    fields: dict[str, NDArray] = {}
    if normals and len(normals) == len(vertices) and (paired or not counts):
        fields |= dict(zip(("nx", "ny", "nz"), _numbers(normals, 3, "a normal").T, strict=True))
    elif normals:
        notes.append("left out normals, which are not one a vertex")
    if width in (4, 7):
        if (points[:, 3] != 1).any():
            fields["w"] = points[:, 3]
            notes.append("the vertices have weights w, which are carried and not applied")
        points = np.delete(points, 3, axis=1)
    if width in (6, 7):
        fields |= dict(zip(("red", "green", "blue"), points[:, 3:].T, strict=True))
        points = points[:, :3]
    return Content(points, fields, _faces(counts, corners, len(points), notes), notes)


def read_off(data: bytes, key: object) -> Content:
    """OFF in ASCII with any of its prefixes but 4 and n: ST (texture), C (colours), N (normals).

    Counts may stand in the keyword's line, colours behind a vertex are found without C, a missing keyword is allowed.
    """
    no_key(key, "off")
    notes: list[str] = []
    text, _ = decoded(data, notes)
    lines = numerals.significant(text)
    if not lines:
        raise Fault("expected an OFF file, found an empty one. Export it again.")
    at, first = lines[0]
    match = re.match(r"(?i)(ST)?(C)?(N)?(4)?(n)?OFF\b\s*(binary\b)?", first)
    if match is not None:
        if match.group(4) or match.group(5) or match.group(6):
            raise Fault(
                f"line {at}: expected OFF in ASCII and three dimensions, found {first[:40]!r}: export it as plain OFF."
            )
        rest = first[match.end() :].strip()
        lines = ([(at, rest)] if rest else []) + lines[1:]
        if not lines:
            raise Fault(
                "expected the counts of vertices, faces and edges behind OFF, found the end of the file. "
                "Export it again."
            )
    texture, colours, with_normals = (bool(match and match.group(group)) for group in (1, 2, 3))
    at, counted = lines[0]
    words = counted.split()
    if len(words) not in (2, 3):
        raise Fault(
            f"line {at}: expected the counts of vertices, faces and edges, found {counted[:40]!r}. "
            "Export the file again."
        )
    count, face_count = (numerals.whole(word, at, "a count") for word in words[:2])
    if len(lines) - 1 != count + face_count or min(count, face_count) < 0:
        raise Fault(
            f"expected {count} vertices and {face_count} faces, as line {at} says, found {len(lines) - 1} lines. "
            "The file is cut off or its counts are wrong: export it again."
        )
    body = lines[1 : count + 1]
    if not body:
        raise Fault("expected points, found none: the header promises 0 vertices. Export the file again.")
    width = len(body[0][1].split())
    table = numerals.table([line for _, line in body], max(width, 3), [place for place, _ in body], "a vertex")
    fields: dict[str, NDArray] = {}
    columns = list(table[:, 3:].T)
    if with_normals and len(columns) >= 3:
        fields |= dict(zip(("nx", "ny", "nz"), columns[:3], strict=True))
        columns = columns[3:]
    if texture and len(columns) >= 2:
        fields |= dict(zip(("s", "t"), columns[-2:], strict=True))
        columns = columns[:-2]
    if len(columns) in (3, 4):
        fields |= dict(zip(("red", "green", "blue", "alpha"), columns, strict=False))
        if not colours:
            notes.append("took the values behind x, y and z for colours")
    else:
        fields |= {f"column_{place + 4}": column for place, column in enumerate(columns)}
    corners: list[int] = []
    counts: list[int] = []
    for at, line in lines[count + 1 :]:
        tokens = line.split()
        length = numerals.whole(tokens[0], at, "a face's number of corners")
        if not 1 <= length < len(tokens):
            raise Fault(f"line {at}: expected {length} corners of a face, found {len(tokens) - 1}. Export it again.")
        corners += [numerals.whole(token, at, "a face's vertex") for token in tokens[1 : length + 1]]
        counts.append(length)
    layout = {"prefix": "".join(match.group(part) or "" for part in (1, 2, 3)).upper() if match else None}
    return Content(table[:, :3], fields, _faces(counts, corners, count, notes), notes, layout)


def read_stl(data: bytes, key: object) -> Content:
    """The distinct vertices of an STL in the order of their first appearance, and its triangles between them."""
    no_key(key, "stl")
    notes: list[str] = []
    binary = stl_is_binary(data)
    if binary:
        promised = int.from_bytes(data[80:STL_HEAD], "little")
        held = (len(data) - STL_HEAD) / STL_TRIANGLE.itemsize
        if len(data) < STL_HEAD or held != promised:
            raise Fault(
                f"expected {promised} triangles of 50 bytes behind the header, as it promises, found {max(held, 0):g}. "
                "The file is cut off or its header is wrong: export it again."
            )
        corners = np.frombuffer(data, STL_TRIANGLE, promised, STL_HEAD)["corners"].reshape(-1, 3)
    else:
        corners = _stl_ascii(data, notes)
    if not len(corners):
        raise Fault("expected triangles, found none. Export the file again.")
    # as bytes, so that NaN equals itself; adding 0 makes -0 and 0 one
    whole = np.ascontiguousarray(corners + corners.dtype.type(0)).view(np.dtype((np.void, 3 * corners.dtype.itemsize)))
    _, first, inverse = np.unique(whole.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)  # (n,) distinct vertices by first appearance
    faces = np.argsort(order)[inverse.ravel()].reshape(-1, 3)
    notes.append(f"{len(faces)} triangles with {len(corners)} corners, {len(first)} distinct vertices")
    points = corners[first[order]].astype(np.float64)
    return Content(points, {}, faces.astype(np.int64), notes, {"binary": binary})


def stl_is_binary(data: bytes) -> bool:
    """By the size that the header promises, whatever the free text says; else by bytes that no text has."""
    if len(data) >= STL_HEAD and len(data) == STL_HEAD + 50 * int.from_bytes(data[80:STL_HEAD], "little"):
        return True
    return not data[:1000].lstrip().lower().startswith(b"solid") or b"\0" in data


def _stl_ascii(data: bytes, notes: list[str]) -> NDArray:
    """(3 F, 3) the corners of an ASCII STL, which may hold several solids."""
    text, _ = decoded(data, notes)
    corners: list[list[float]] = []
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
        if word == "outer":
            inside = 0
        elif word == "vertex":
            inside += 1
            corners.append(numerals.row(" ".join(values), 3, at, "a vertex"))
    if state != "solid":
        raise Fault("expected 'endsolid' at the end, found none. The file is cut off: export it again.")
    return np.array(corners).reshape(-1, 3)


def _numbers(lines: Sequence[tuple[int, str]], width: int, what: str) -> NDArray[np.float64]:
    return numerals.table([line for _, line in lines], width, [at for at, _ in lines], what)


def _faces(counts: Sequence[int], corners: Sequence[int], points: int, notes: list[str]) -> NDArray[np.int64] | None:
    if not counts:
        return None
    flat = np.array(corners, dtype=np.int64)
    check_faces(flat, points)
    return face_array(np.array(counts, dtype=np.int64), flat, notes)
