"""A mesh or a cloud of any format, laid out as a PLY or an OBJ, so that their writers write it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.columns import listed
from pwan.pointfiles.content import PointFile
from pwan.pointfiles.moved import whole_colours
from pwan.pointfiles.ply.write import NAMES

COLOURS = ("red", "green", "blue")
TEXTURES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))  # names of a vertex's texture coordinates in a PLY
AT_CORNERS = ("texcoord", "texnumber")  # of the faces in a PLY
AXES = ("x", "y", "z")
FULL_RANGE = (np.dtype(np.uint8), np.dtype(np.uint16))  # types of colours whose largest number is full brightness


def laid_out(file: PointFile, format: Literal["ply", "obj"]) -> tuple[PointFile, list[str]]:
    """The file's points, fields and faces as a binary PLY or an OBJ would hold them, and what was decided.

    A PLY takes all fields of numbers, an OBJ normals and colours alone, and both the texture coordinates of vertices.
    Colours are whole numbers in a PLY and 0 to 1 in an OBJ, whatever they are in the file. What else belongs to the
    file's own format (materials, texture coordinates at corners, values of faces, comments) stays behind.
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
    if values := [name for name in file.layout.get("of_faces", {}) if name not in AT_CORNERS]:
        notes.append(f"not in the {format.upper()}: the faces' {listed(values)}")
    return replace(file, fields=whole, rows=rows, count=count, notes=(), format=format, layout=layout), notes


def _for_ply(fields: dict[str, NDArray]) -> dict[str, NDArray]:
    """Numbers of types that a PLY has, under names without blanks."""
    kept = {}
    for name, values in fields.items():
        values = values.astype(np.uint8) if values.dtype.kind == "b" else values
        if values.dtype.str[1:] in NAMES and values.ndim <= 2 and name.lower() not in AXES:
            kept["_".join(name.split())] = values
    return _as_bytes(kept) if _coloured(kept) else kept


def _for_obj(fields: dict[str, NDArray]) -> dict[str, NDArray]:
    """Colours from 0 to 1."""
    if not _coloured(fields):
        return {}
    full = _full([fields[name] for name in COLOURS])
    scaled = {name: fields[name] / full for name in COLOURS}
    return scaled if all(values.max() < 1.01 for values in scaled.values()) else {}  # of no known scale, or missing


def _coloured(fields: dict[str, NDArray]) -> bool:
    return all(name in fields and fields[name].ndim == 1 and fields[name].dtype.kind in "fiu" for name in COLOURS)


def _as_bytes(fields: dict[str, NDArray]) -> dict[str, NDArray]:
    """The fields with colours, and alpha beside them, as a PLY has them: bytes, or whole numbers of two."""
    colours: dict[str, NDArray] = {}
    for names in (COLOURS, ("alpha",)):
        columns = [fields[name] for name in names if name in fields]
        if columns and columns[0].dtype not in FULL_RANGE:
            scaled = [np.rint(values * (255 / _full(columns))) for values in columns]
            if all(((values >= 0) & (values <= 255)).all() for values in scaled):  # not where one is missing
                colours |= {name: values.astype(np.uint8) for name, values in zip(names, scaled, strict=True)}
    return fields | colours


def _full(colours: list[NDArray]) -> float:
    """The value of full brightness: 1, 255 or 65535."""
    dtype = colours[0].dtype
    if dtype in FULL_RANGE:
        return float(np.iinfo(dtype).max)
    if dtype.kind == "f" and not whole_colours(colours):
        return 1.0
    return 255.0 if max(values.max() for values in colours) <= 255 else 65535.0


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
