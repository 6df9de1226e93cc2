"""A mesh or a cloud of any format, laid out as a PLY or an OBJ, so that their writers write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.columns import listed
from pwan.pointfiles.content import PointFile
from pwan.pointfiles.ply.write import NAMES

COLOURS = ("red", "green", "blue")
TEXTURES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))  # names of a vertex's texture coordinates in a PLY
AXES = ("x", "y", "z")


def laid_out(file: PointFile, format: Literal["ply", "obj"]) -> tuple[PointFile, list[str]]:
    """The file's points, fields and faces as a binary PLY or an OBJ would hold them, and what was decided.

    A PLY takes all fields of numbers, an OBJ normals and colours alone, and both the texture coordinates of vertices.
    What else belongs to the file's own format (materials, texture coordinates at corners, comments) stays behind.
    """
    names, texture = _texture(file)
    fields = dict(zip(("nx", "ny", "nz"), () if file.normals is None else file.normals.T, strict=False))
    others = {name: values for name, values in file.fields.items() if name not in file.normal_names}
    if texture is not None:
        others |= dict(zip(names, texture.T, strict=True))
    kept = _for_ply(others) if format == "ply" else _for_obj(others)
    lost = sorted({name for name in others if "_".join(name.split()) not in kept and name not in names})
    whole = fields | kept
    system = anatomical(file)  # which 3D Slicer looks for in such words
    words = () if system is None else (f"SPACE={system.upper()}",)
    layout = _ply_layout(whole, words) if format == "ply" else _obj_layout(file, bool(fields), texture, words)
    count, rows = len(file.points), np.arange(len(file.points))
    notes = [f"not in the {format.upper()}: {listed(lost)}"] if lost else []
    if texture is None and _at_corners(file):
        notes.append(f"not in the {format.upper()}: texture coordinates, which this file has at its faces' corners")
    return replace(file, fields=whole, rows=rows, count=count, notes=(), format=format, layout=layout), notes


def _for_ply(fields: dict[str, NDArray]) -> dict[str, NDArray]:
    """Numbers of types that a PLY has, under names without blanks."""
    kept = {}
    for name, values in fields.items():
        values = values.astype(np.uint8) if values.dtype.kind == "b" else values
        if values.dtype.str[1:] in NAMES and values.ndim <= 2 and name.lower() not in AXES:
            kept["_".join(name.split())] = values
    return kept


def _for_obj(fields: dict[str, NDArray]) -> dict[str, NDArray]:
    """Colours from 0 to 1."""
    if any(name not in fields or fields[name].ndim != 1 for name in COLOURS):
        return {}
    most = 1.0
    if fields["red"].dtype.kind in "iu":
        most = float(np.iinfo(fields["red"].dtype).max)
    return {name: fields[name] / most for name in COLOURS}


def _ply_layout(fields: dict[str, NDArray], words: tuple[str, ...]) -> dict[str, object]:
    scalars = {name: values.dtype.str[1:] for name, values in fields.items() if values.ndim == 1}
    properties = dict.fromkeys(AXES, "f4") | scalars
    comments = tuple(f"comment {one}" for one in words)
    return {
        "encoding": "binary_little_endian",
        "properties": properties,
        "coordinates": AXES,
        "comments": comments,
    }


def _obj_layout(
    file: PointFile, with_normals: bool, texture: NDArray | None, words: tuple[str, ...]
) -> dict[str, object]:
    """The first words of vertices and normals, and texture coordinates and faces as they stand."""
    points, spell = len(file.points), "{0}/{0}" if texture is not None else "{0}"
    if with_normals:
        spell += "/{0}" if texture is not None else "//{0}"
    lines = [f"# {one}" for one in words] + ["v"] * points + ["vn"] * (points * with_normals)
    lines += [] if texture is None else [f"vt {first:.8g} {second:.8g}" for first, second in texture.tolist()]
    faces = () if file.faces is None else file.faces.tolist()
    lines += ["f " + " ".join(spell.format(corner + 1) for corner in face if corner >= 0) for face in faces]
    return {"lines": tuple(lines), "decimals": 0}


def _texture(file: PointFile) -> tuple[tuple[str, ...], NDArray | None]:
    """Two names, and the texture coordinates (N, 2) of the points that are read; no names and None without."""
    for names in TEXTURES:
        if all(name in file.fields for name in names):
            return names, np.column_stack([file.fields[name] for name in names])
    meshes = file.layout.get("meshes", ())
    each = [one for mesh in meshes if (one := getattr(mesh.visual, "uv", None)) is not None]
    if not each or len(each) < len(meshes):
        return (), None
    return TEXTURES[0], np.concatenate(each)[file.rows].astype(np.float32)


def _at_corners(file: PointFile) -> bool:
    """Whether the faces' corners have texture coordinates: of an OBJ, or of a PLY whose faces have a list of them."""
    lines = file.layout.get("lines", ())
    return any(line.startswith("vt ") for line in lines) or "texcoord" in file.layout.get("of_faces", {})
