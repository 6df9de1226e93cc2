"""OBJ (Wavefront).

Read here and not by trimesh: it merges or repeats vertices of an OBJ with texture coordinates, normals or several
materials; the tests hold this reader against it where it is right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import Asked, none_to_choose
from pwan.pointfiles.content import Content, Fault, checked_faces
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.moved import ROWS, Moved, decimals_at, extent_of, spelled, speller

_SPECIFIED = (  # Wavefront's specification, version 3
    "v vt vn vp f fo l p o g s mg usemtl mtllib usemap maplib cstype deg bmat step curv curv2 surf parm trim hole scrv "
    "sp end con bevel c_interp d_interp lod shadow_obj trace_obj ctech stech call csh bsp bzp cdc cdp res"
)
WORDS = frozenset(_SPECIFIED.split())
SAMPLE = 1000  # vertices whose decimals are counted
REAL = frozenset({3, 4, 6, 7})  # x y z, then w, or a colour, or both


def read(data: bytes, asked: Asked) -> Content:
    """Every ``v`` of an OBJ in the file's order, referenced or not, with its colour; the faces between them.

    Normals are carried where each vertex has one: as many ``vn`` as ``v``, and faces, if any, that pair equal numbers.
    """
    none_to_choose(asked, "obj")
    notes: list[str] = []
    text, _ = decoded(data, notes)
    vertices: list[tuple[int, str]] = []
    normals: list[tuple[int, str]] = []
    corners: list[int] = []
    counts: list[int] = []
    paired = True
    text = _joined(text)
    lines = numerals.significant(text)
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
        elif word not in WORDS:
            raise Fault(
                f"line {at}: expected a line of an OBJ file (v, vn, vt, f, ...), found {line[:60]!r}. "
                "Repair the line or export the file again."
            )
    width = len(vertices[0][1].split()) if vertices else 3
    if width not in REAL:
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
    decimals = max((numerals.decimals(word) for _, line in vertices[:SAMPLE] for word in line.split()[:3]), default=0)
    layout = {"lines": _others(text, "nx" in fields), "decimals": decimals}
    return Content(points, fields, checked_faces(counts, corners, len(points), notes), notes, layout)


def _joined(text: str) -> str:
    """Each line that ends in a backslash with the next one; a comment ends with its line."""
    if "\\\n" not in text:
        return text
    return re.sub(r"(?m)^(.*)\\\n", lambda line: line[0] if re.search(r"(?:^|\s)#", line[1]) else line[1] + " ", text)


def _others(text: str, with_normals: bool) -> tuple[str, ...]:
    """The file's lines, of vertices and of normals that are carried their first word alone; without other normals."""
    kept: list[str] = []
    for line in text.removesuffix("\n").split("\n"):
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word == "v" or (word == "vn" and with_normals):
            kept.append(word)
        elif word in ("f", "fo") and not with_normals:
            kept.append(re.sub(r"(?<=\S)//?[-+\d]+(?=\s|$)", _without_normal, line))
        elif word != "vn":
            kept.append(line.rstrip())
    return tuple(kept)


def _without_normal(match: re.Match[str]) -> str:
    """Of "1/2/3" and "1//3" the end "/3" or "//3" goes; "1/2" has none."""
    behind = match.group()
    before = match.string[: match.start()].split()[-1]
    return "" if behind.startswith("//") or "/" in before else behind


def _numbers(lines: Sequence[tuple[int, str]], width: int, what: str) -> NDArray[np.float64]:
    return numerals.table([line for _, line in lines], width, [at for at, _ in lines], what)


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's lines as they stand (comments, groups, materials, texture coordinates, faces), with new vertices and
    normals; of the coordinates as many decimals as it has, or as single precision at the cloud's extent needs.

    Where points were left out: vertices, normals and faces alone. Normals that are not one a vertex are not carried.
    """
    moved.leave_out()
    fields, layout = moved.fields, moved.like.layout
    digits = max(layout["decimals"], decimals_at(extent_of(moved.points)))
    spell = speller(digits)
    first = [spell(column) for column in moved.points.T]
    rest = [spelled(fields[name]) for name in ("w", "red", "green", "blue") if name in fields]
    rows = {"v": zip(*first, *rest, strict=True)}
    if "nx" in fields:
        rows["vn"] = zip(*(speller(max(digits, 6))(fields[name]) for name in ("nx", "ny", "nz")), strict=True)
    lines = layout["lines"]
    if len(moved.points) < moved.like.count:
        moved.notes.append("points were left out, and with them comments, groups, materials and texture coordinates")
        spell_face = "{0}//{0}" if "nx" in fields else "{0}"
        faces = moved.like.faces if moved.like.faces is not None else np.empty((0, 3), np.int64)
        lines = [word for word in rows for _ in moved.points]
        lines += ["f " + " ".join(spell_face.format(one + 1) for one in face if one >= 0) for face in faces.tolist()]
    for start in range(0, len(lines), ROWS):
        part = lines[start : start + ROWS]
        text = "".join((f"{line} {' '.join(next(rows[line]))}" if line in rows else line) + "\n" for line in part)
        stream.write(text.encode("utf-8"))
