"""Whether named points of two files lie on the scans that they are meant for, and with which signs of x and y.

3D Slicer states a coordinate system: LPS or RAS, which differ in these signs. What a scan states counts; where it
states none, the points are taken as they are, unless they lie on the scan only with the signs changed. Two files that
state the same are treated alike: whoever saved them did it in one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

from pwan.pointfiles import PointFile
from pwan.pointfiles.anatomy import anatomical
from pwan.weights import median_spacing

FITS = 0.25  # of a median distance: one that is smaller than this is clearly nearer
FEWEST = 3  # points that can tell
OFF = 3.0  # spacings: points farther than this from a scan do not lie on it
ROUNDING = 1e-9  # of the scan's extent; a point is no nearer than that


@dataclass(frozen=True)
class NamedPoints:
    """Points of a file by their names.

    Attributes:
        path: of the file.
        names: (k) of them.
        points: (k, D) as the file has them.
        system: "lps" or "ras", which the file states; None where it does not, and for points of the plane.
    """

    path: str
    names: tuple[str, ...]
    points: np.ndarray
    system: str | None

    @property
    def file(self) -> str:
        """The file's name."""
        return Path(self.path).name

    @property
    def changed(self) -> np.ndarray:
        """(k, 3) the points in the other of the two systems."""
        return self.points * [-1.0, -1.0, 1.0]


def check_not_swapped(both: Sequence[NamedPoints], scans: Sequence[PointFile]) -> None:
    """Refuse two files of which each lies off its own scan and clearly nearer to the other one's, whatever the signs of
    x and y. Scans that lie on each other do not tell.

    Raises:
        ValueError: such files.
    """
    if min(len(of.points) for of in both) < FEWEST:
        return
    trees = [KDTree(scan.points) for scan in scans]
    near = [[min(_medians(of, tree)) for tree in trees] for of in both]
    if all(near[side][1 - side] < FITS * near[side][side] for side in (0, 1)) and all(
        near[side][side] > OFF * median_spacing(scan.points) for side, scan in enumerate(scans)
    ):
        first, second = both
        raise ValueError(
            f"the points of {second.file} lie on {scans[0].path.name} and those of {first.file} on "
            f"{scans[1].path.name}: are the two files swapped? The source's stands first"
        )


def in_systems_of(scans: Sequence[PointFile], files: Sequence[NamedPoints], notes: list[str]) -> list[np.ndarray]:
    """The points of each file (k, D) in the coordinate system of its scan; what was done is noted."""
    points = [of.points for of in files]
    open_sides = []
    for side, (of, scan) in enumerate(zip(files, scans, strict=True)):
        stated, of_scan = of.system, anatomical(scan)
        if stated is None:
            continue
        if of_scan is None:
            open_sides.append(side)
            continue
        notes.append(
            f"{of.file}: coordinate system {stated.upper()}, that of {scan.path.name} {of_scan.upper()}"
            + ("" if of_scan == stated else ": the signs of x and y were changed")
        )
        points[side] = of.points if of_scan == stated else of.changed
    alike = len({files[side].system for side in open_sides}) == 1
    for sides in [open_sides] if alike else [[side] for side in open_sides]:
        if _to_be_changed([files[side] for side in sides], [scans[side] for side in sides], notes):
            for side in sides:
                points[side] = files[side].changed
    return points


def _to_be_changed(files: Sequence[NamedPoints], scans: Sequence[PointFile], notes: list[str]) -> bool:
    """Whether the signs of x and y are to be changed in files that state one system, of scans that state none: by the
    product of the ratios of their distances, so that the clearer file decides."""
    medians = np.array([_medians(of, KDTree(scan.points)) for of, scan in zip(files, scans, strict=True)])  # (files, 2)
    extents = np.array([np.ptp(scan.points, axis=0).max() for scan in scans])
    tell = np.array([len(of.points) >= FEWEST for of in files])
    given, other = np.maximum(medians, ROUNDING * extents[:, None]).T
    ratios = other / given
    several, system = len(files) > 1, str(files[0].system).upper()
    names, scan_names = " and ".join(of.file for of in files), " and ".join(scan.path.name for scan in scans)
    away, near = (" and ".join(f"{one:.4g}" for one in column) for column in medians.T)
    distances = f"{'median distances' if several else 'a median distance'} of {near} in place of {away}"
    if np.prod(ratios[tell]) < FITS:  # 1 where none can tell
        notes.append(
            f"{names}: coordinate system {system}; {'their' if several else 'its'} points lie on {scan_names} only "
            f"with the signs of x and y changed ({distances}), so these were changed{' in both files' * several}"
        )
        return True
    taken = f"coordinate system {system}, taken for that of"
    if np.prod(ratios) > 1 / FITS:
        notes += [
            f"{of.file}: {taken} {scan.path.name}, which states none" for of, scan in zip(files, scans, strict=True)
        ]
        return False
    notes.append(
        f"warning: {names}: {taken} {scan_names}, which state{'s' * (not several)} none, but the points do not tell "
        f"whether this is right: with the signs of x and y changed they would lie at {distances}. "
        "SPACE=LPS or SPACE=RAS in a comment at the head of a scan's file decides; so do points in a .csv file, which "
        "are taken as they are"
    )
    return False


def _medians(of: NamedPoints, tree: KDTree) -> tuple[float, ...]:
    """The median distances from a scan's points: as given, and with the signs of x and y changed where the file states
    a system."""
    forms = (of.points,) if of.system is None else (of.points, of.changed)
    return tuple(float(np.median(tree.query(points)[0])) for points in forms)
