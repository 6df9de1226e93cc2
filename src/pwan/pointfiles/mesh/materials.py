"""The files that a mesh names and needs beside it: materials of an OBJ, and pictures of these and of a PLY."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pwan.pointfiles.content import PointFile

_PICTURE = re.compile(r"(?i)\s*(?:map_\w+|bump|disp|decal|refl|norm)\s+(.+?)\s*$")  # a line of an MTL file
_OPTION = re.compile(r"-\w+(?:\s+(?:on|off|[-+\d.eE]+|sphere|cube_\w+))*\s+")  # in front of the picture's name


def beside(file: PointFile) -> list[Path]:
    """Those of the named files that are there, as paths below the mesh's folder; others are left alone."""
    folder, found = file.path.parent, []
    for name in _named(file):
        path = Path(name.replace("\\", "/"))
        inside = not path.is_absolute() and ".." not in path.parts
        if inside and path not in found and (folder / path).is_file():
            found.append(path)
    return found


def _named(file: PointFile) -> Iterator[str]:
    folder = file.path.parent
    if file.format == "ply":
        for comment in file.layout["comments"]:
            words = comment.split(maxsplit=2)
            if len(words) == 3 and words[1].lower() == "texturefile":
                yield words[2]
    elif file.format == "obj":
        for line in file.layout["lines"]:
            if line.lstrip().startswith("mtllib"):
                whole = line.split(maxsplit=1)[1:]
                names = whole if whole and (folder / whole[0]).is_file() else line.split()[1:]
                for name in names:
                    yield name
                    yield from _pictures(folder / name, Path(name).parent)


def _pictures(materials: Path, within: Path) -> Iterator[str]:
    if not materials.is_file():
        return
    for line in materials.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _PICTURE.match(line):
            rest = match[1]
            while option := _OPTION.match(rest):
                rest = rest[option.end() :]
            yield (within / rest).as_posix()
