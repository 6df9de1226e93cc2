"""Named points, one file for each of two scans, matched by their names: CSV, 3D Slicer's .fcsv and .mrk.json, MeshLab's
picked points (.pp).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from pwan.pointfiles import PointFile, read_points
from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.content import LARGEST
from pwan.pointfiles.numerals import number
from pwan.scans.landmark_files import NAMES
from pwan.scans.systems import NamedPoints, check_not_swapped, in_systems_of

TOLD = 8  # names in a sentence


def common_points(
    files: Sequence[str], scans: Sequence[PointFile], notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names that two files of named points share, and their places (L, 2, D): those of the source's file are in the
    source's scan, those of the reference's file in the reference's.

    Points without a partner are left out, with a note.

    Raises:
        OSError: a file does not exist or cannot be read.
        ValueError: the content of a file is invalid, other coordinates than the scans have, the points of each lie on
            the other's scan, or no name in common.
    """
    both = [read_named(file, scan, notes) for file, scan in zip(files, scans, strict=True)]
    check_not_swapped(both, scans)
    points = in_systems_of(scans, both, notes)
    rows = [{_key(name): row for row, name in enumerate(of.names)} for of in both]
    common = [name for name in both[0].names if _key(name) in rows[1]]
    if not common:
        raise ValueError(
            f"{files[0]} and {files[1]}: expected names that both files have, found {_some(both[0].names)} in the "
            f"first and {_some(both[1].names)} in the second. Name the same places alike"
        )
    for side in (0, 1):
        alone = [name for name in both[side].names if _key(name) not in rows[1 - side]]
        if alone:
            notes.append(
                f"{Path(files[side]).name}: {_some(alone)} has no partner of its name in {Path(files[1 - side]).name} "
                "and is left out"
                if len(alone) == 1
                else f"{Path(files[side]).name}: {_some(alone)} have no partners of their names in "
                f"{Path(files[1 - side]).name} and are left out"
            )
    pairs = np.array([[of_side[_key(name)] for of_side in rows] for name in common])
    return tuple(common), np.stack([of_side[pairs[:, side]] for side, of_side in enumerate(points)], 1)


def read_named(path: str, scan: PointFile, notes: list[str]) -> NamedPoints:
    """The named points of a file, as it has them.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: no names, a name twice, or another number of coordinates than the scan has; names the file.
    """
    data = Path(path).read_bytes()
    found = _picked(path, data, notes) if b"<PickedPoints" in data else _of_points(path, notes)
    _check_names(path, found.names)
    d = scan.points.shape[1]
    if found.points.shape[1] != d:
        raise ValueError(
            f"{path}: expected points with {d} coordinates, as those of {scan.path} have, found "
            f"{found.points.shape[1]}. Drop or add a coordinate"
        )
    return found


def _check_names(path: str, names: Sequence[str]) -> None:
    """Refuse a name that is empty or a name twice.

    Raises:
        ValueError: such names, as they are spelt.
    """
    spelt: dict[str, str] = {}
    for name in names:
        if not name:
            raise ValueError(
                f"{path}: expected a name of its own for each point, found a point without one. Give it a name"
            )
        before = spelt.get(_key(name))
        if before is not None:
            found = f"{name!r} twice" if before == name else f"{before!r} and {name!r}, and letter case does not count"
            raise ValueError(f"{path}: expected a name of its own for each point, found {found}. Rename one of them")
        spelt[_key(name)] = name


def _of_points(path: str, notes: list[str]) -> NamedPoints:
    """Of a file of points whose fields hold the names."""
    file = read_points(path, drop_invalid=True)
    notes += [f"{file.path.name}: {note}" for note in file.notes if note.startswith("dropped")]
    small = {name.lower(): name for name in file.fields}
    known = [small[name] for name in ("label", *NAMES) if name in small]
    texts = [name for name, values in file.fields.items() if values.dtype.kind in "US" and not _counts(values)]
    field = next((name for name in [*(one for one in known if one in texts), *texts, *known]), None)
    if field is None:
        raise ValueError(
            f"{path}: expected points with names, as rows such as nose,1.5,20.3,7.1, found none. Two files of "
            "landmarks are matched by their points' names; add a column called name"
        )
    values = file.fields[field]
    names = [str(one).strip() if values.dtype.kind in "US" else _spelt(one) for one in values]
    return NamedPoints(path, tuple(names), file.points, anatomical(file) if file.points.shape[1] == 3 else None)


def _counts(values: np.ndarray) -> bool:
    """Whether a column of text holds numbers alone, which have zeros in front."""
    return all(number(str(one)) is not None for one in values)


def _spelt(one: Any) -> str:
    """A number that is a name; of a whole one every digit."""
    return f"{one:.0f}" if one % 1 == 0 else f"{one:g}"


def _picked(path: str, data: bytes, notes: list[str]) -> NamedPoints:
    """Of MeshLab: <point x= y= z= name= active=/>, those that are active."""
    try:
        points = list(ElementTree.fromstring(data).iter("point"))
    except ElementTree.ParseError as error:
        raise ValueError(
            f"{path}: expected XML, found a file that is cut off or damaged: {error}. Save it again"
        ) from None
    active = [point for point in points if point.get("active", "1") != "0"]
    if len(active) < len(points):
        notes.append(f"{Path(path).name}: {len(points) - len(active)} points that are not active are left out")
    if not active:
        raise ValueError(f"{path}: expected points, found none. Pick some in MeshLab and save the file again")
    places = [[number(point.get(axis, "")) for axis in "xyz"] for point in active]
    for point, place in zip(active, places, strict=True):
        if not all(value is not None and abs(value) <= LARGEST for value in place):
            raise ValueError(
                f"{path}: expected finite x, y and z of the point {point.get('name', '')!r}, found "
                f"{[point.get(axis) for axis in 'xyz']}. Pick it again"
            )
    names = tuple(point.get("name", "").strip() for point in active)
    return NamedPoints(path, names, np.array(places, dtype=np.float64), None)


def _key(name: str) -> str:
    """By which names are the same: in any letter case, and with accents in either of Unicode's spellings."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(repr(name) for name in names[:TOLD]) + more
