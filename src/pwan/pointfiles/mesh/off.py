"""OFF.

Read here and not by trimesh: it drops the colours and normals of OFF, and takes a file whose faces are cut off; the
tests hold this reader against it where it is right.
"""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import Asked, none_to_choose
from pwan.pointfiles.content import Content, Fault, checked_faces
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.moved import (
    Moved,
    face_rows,
    of_faces,
    text_rows,
    whole_colours,
    write_all,
)


def read(data: bytes, asked: Asked) -> Content:
    """OFF in ASCII with any of its prefixes but 4 and n: ST (texture), C (colours), N (normals).

    Counts may stand in the keyword's line, colours behind a vertex are found without C, a missing keyword is allowed.
    """
    none_to_choose(asked, "off")
    notes: list[str] = []
    text, _ = decoded(data, notes)
    lines = numerals.significant(text)
    if not lines:
        raise Fault("expected an OFF file, found an empty one. Export it again.")
    at, first = lines[0]
    match = re.match(r"(?i)(ST)?(C)?(N)?(4)?(n)?OFF(?:\b|(?=\d))\s*(binary\b)?", first)
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
    counts, corners, behind = _faces(lines[count + 1 :])
    faces = checked_faces(counts, corners, count, notes)
    layout: dict[str, Any] = {
        "prefix": "".join(match.group(part) or "" for part in (1, 2, 3)).upper() if match else None
    }
    if comments := tuple(line.strip() for line in text.split("\n")[: lines[1][0] - 1] if line.lstrip().startswith("#")):
        layout["comments"] = comments
    if faces is not None and any(behind):
        if len(faces) == len(behind):
            layout["of_faces"] = {"colours": np.array(behind)}
        else:
            notes.append("left out the faces' colours")
    return Content(table[:, :3], fields, faces, notes, layout)


def _faces(lines: list[tuple[int, str]]) -> tuple[list[int], list[int], list[str]]:
    """Of the faces' lines the numbers of corners, all corners, and what stands behind each one's: its colour."""
    counts: list[int] = []
    corners: list[int] = []
    behind: list[str] = []
    for at, line in lines:
        tokens = line.split()
        length = numerals.whole(tokens[0], at, "a face's number of corners")
        if not 1 <= length < len(tokens):
            raise Fault(f"line {at}: expected {length} corners of a face, found {len(tokens) - 1}. Export it again.")
        corners += [numerals.whole(token, at, "a face's vertex") for token in tokens[1 : length + 1]]
        counts.append(length)
        behind.append(" ".join(tokens[length + 1 :]))
    return counts, corners, behind


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's prefix, vertices with their normals, colours and texture coordinates, faces with their colours."""
    moved.leave_out()
    faces = moved.like.faces if moved.like.faces is not None else np.empty((0, 3), np.int64)
    prefix = moved.like.layout["prefix"] or ""
    head = [f"{prefix}OFF", *moved.like.layout.get("comments", ()), f"{len(moved.points)} {len(faces)} 0", ""]
    stream.write("\n".join(head).encode("utf-8"))
    names = list(moved.fields)
    first = [name for name in ("nx", "ny", "nz") if name in names]
    last = [name for name in ("s", "t") if name in names]
    middle = [name for name in names if name not in first + last]
    colours = [moved.fields[name] for name in middle]
    if colours and whole_colours(colours):  # are written whole
        colours = [column.astype(np.int64) for column in colours]
    columns = [moved.points, *(moved.fields[name] for name in first), *colours]
    write_all(stream, text_rows([*columns, *(moved.fields[name] for name in last)]))
    behind = iter(of_faces(moved.like).get("colours", [""] * len(faces)))
    write_all(stream, face_rows(faces, lambda face: " ".join(map(str, [len(face), *face, next(behind)])).rstrip()))
