"""Named points, one file for each of two scans, matched by their names: CSV, 3D Slicer's .fcsv and .mrk.json, MeshLab's
picked points (.pp).

3D Slicer states a coordinate system: LPS or RAS, which differ in the signs of x and y. What a scan states counts; where
it states none, the points are taken as they are, unless they lie on the scan only with these signs changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from scipy.spatial import KDTree

from pwan.pointfiles import PointFile, read_points
from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.content import LARGEST
from pwan.pointfiles.numerals import number
from pwan.scans.landmark_files import NAMES

TOLD = 8  # names in a sentence
FITS = 0.25  # of the median distance to the scan: nearer than this with other signs, the signs are changed
FEWEST = 3  # points that can tell


@dataclass(frozen=True)
class NamedPoints:
    """Points of a file by their names: ``points`` (k, D), ``names`` as many."""

    names: tuple[str, ...]
    points: np.ndarray


def common_points(
    files: Sequence[str], scans: Sequence[PointFile], notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names that two files of named points share, and their places (L, 2, D): those of the source's file are in the
    source's scan, those of the reference's file in the reference's.

    Points without a partner are left out, with a note.

    Raises:
        OSError: a file does not exist or cannot be read.
        ValueError: the content of a file is invalid, other coordinates than the scans have, or no name in common.
    """
    both = [read_named(file, scan, notes) for file, scan in zip(files, scans, strict=True)]
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
    return tuple(common), np.stack([of.points[pairs[:, side]] for side, of in enumerate(both)], 1)


def read_named(path: str, scan: PointFile, notes: list[str]) -> NamedPoints:
    """The named points of a file, in the coordinates of their scan.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: no names, a name twice, or another number of coordinates than the scan has; names the file.
    """
    data = Path(path).read_bytes()
    found, stated = (_picked(path, data, notes), None) if b"<PickedPoints" in data else _of_points(path, notes)
    seen: set[str] = set()
    for name in found.names:
        if not name or _key(name) in seen:
            raise ValueError(
                f"{path}: expected a name of its own for each point, found "
                + (f"{name!r} twice. Rename one of them" if name else "a point without one. Give it a name")
            )
        seen.add(_key(name))
    d = scan.points.shape[1]
    if found.points.shape[1] != d:
        raise ValueError(
            f"{path}: expected points with {d} coordinates, as those of {scan.path} have, found "
            f"{found.points.shape[1]}. Drop or add a coordinate"
        )
    return NamedPoints(found.names, _in_system_of(scan, Path(path).name, stated, found.points, notes))


def _of_points(path: str, notes: list[str]) -> tuple[NamedPoints, str | None]:
    """Of a file of points whose fields hold the names; and the coordinate system that it states."""
    file = read_points(path, drop_invalid=True)
    notes += [f"{file.path.name}: {note}" for note in file.notes if note.startswith("dropped")]
    small = {name.lower(): name for name in file.fields}
    known = [small[name] for name in ("label", *NAMES) if name in small]
    texts = [name for name, values in file.fields.items() if values.dtype.kind in "US"]
    field = next((name for name in [*(one for one in known if one in texts), *texts, *known]), None)
    if field is None:
        raise ValueError(
            f"{path}: expected points with names, as rows such as nose,1.5,20.3,7.1, found none. Two files of "
            "landmarks are matched by their points' names; add a column called name"
        )
    values = file.fields[field]
    names = [str(one).strip() if values.dtype.kind in "US" else f"{one:g}" for one in values]
    return NamedPoints(tuple(names), file.points), anatomical(file)


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
    return NamedPoints(tuple(point.get("name", "").strip() for point in active), np.array(places, dtype=np.float64))


def _in_system_of(scan: PointFile, name: str, stated: str | None, points: np.ndarray, notes: list[str]) -> np.ndarray:
    """The points (k, D) of a file, which states a coordinate system or none, in that of its scan."""
    if stated is None or points.shape[1] != 3:
        return points
    of_scan, changed, said = anatomical(scan), points * [-1.0, -1.0, 1.0], f"{name}: coordinate system {stated.upper()}"
    if of_scan is not None:
        notes.append(
            f"{said}, that of {scan.path.name} {of_scan.upper()}"
            + ("" if of_scan == stated else ": the signs of x and y were changed")
        )
        return points if of_scan == stated else changed
    tree = KDTree(scan.points)
    given, other = (float(np.median(tree.query(one)[0])) for one in (points, changed))
    if len(points) >= FEWEST and other < FITS * given:
        notes.append(
            f"{said}; its points lie on {scan.path.name} only with the signs of x and y "
            f"changed (a median distance of {other:.4g} in place of {given:.4g}), so these were changed"
        )
        return changed
    notes.append(f"{said}, taken for that of {scan.path.name}, which states none")
    return points


def _key(name: str) -> str:
    return name.strip().casefold()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return ", ".join(repr(name) for name in names[:TOLD]) + more
