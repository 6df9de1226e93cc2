"""Two files read and made ready: points to register, and the vertices or the whole scan that is moved in the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pwan import methods
from pwan.normalisation import EXTENT_RATIO
from pwan.pointfiles import PointFile, read_points
from pwan.randomness import numpy_generator
from pwan.scans.landmarks import Landmarks, located, read_landmarks
from pwan.scans.settings import LIMIT, ScanSettings
from pwan.shapes.surface import sample_surface
from pwan.weights import even_weights

APART = 1e-12  # ratio of two sets' extents at which the smaller one is a point in the frame of the larger one
SMALLEST = 1e-30  # extent of a set; squares of smaller ones leave float32, and only damaged files hold them


@dataclass(frozen=True)
class Pair:
    """Two point files, and what of them is registered.

    Attributes:
        source_file, reference_file: as they were read.
        source: (r, D) the points that are registered: all of the file's, a random part, or points of its surface.
        source_rows: (r,) their numbers among the file's points, None for points of its surface.
        reference: (q, D), reference_rows: (q,) the same of the reference.
        landmarks: pairs that are known to belong together, all of whose points are registered; None without any.
        source_weights, reference_weights: (r,) and (q,) of the registered points, of mean 1; None where each counts
            once.
        notes: what was decided on the way, in sentences that name the file.
    """

    source_file: PointFile
    reference_file: PointFile
    source: np.ndarray
    source_rows: np.ndarray | None
    reference: np.ndarray
    reference_rows: np.ndarray
    notes: tuple[str, ...]
    landmarks: Landmarks | None = None
    source_weights: np.ndarray | None = None
    reference_weights: np.ndarray | None = None

    @property
    def whole(self) -> bool:
        """Whether the registered source points are those of the file, in its order."""
        return self.source_rows is not None and len(self.source_rows) == len(self.source_file.points)


def read_pair(settings: ScanSettings) -> Pair:
    """Read both files, and the pairs between them where some are known.

    Raises:
        OSError: a file is not there or cannot be read.
        ValueError: a file's content is at fault, or both cannot be registered onto each other; names the file.
    """
    source, reference = (
        read_points(path, key=key, raw=raw, drop_invalid=settings.drop_invalid)
        for path, key, raw in (
            (settings.source, settings.source_key, settings.source_raw),
            (settings.reference, settings.reference_key, settings.reference_raw),
        )
    )
    (_, d), (_, other) = source.points.shape, reference.points.shape
    if d != other:
        raise ValueError(
            f"{source.path} has {d} coordinates a point and {reference.path} has {other}; expected as many in both. "
            "Drop or add a coordinate in one of them, or name the columns with source_key= or reference_key="
        )
    notes = [f"{file.path.name}: {note}" for file in (source, reference) for note in file.notes]
    extents = [float(np.ptp(file.points, axis=0).max()) for file in (source, reference)]
    for file, extent in zip((source, reference), extents, strict=True):
        if len(file.points) < d + 1:
            raise ValueError(
                f"{file.path} holds {len(file.points)} points; expected at least {d + 1} in {d}-D. Check that the "
                "export wrote all of them"
            )
        if extent < SMALLEST:
            apart = f" within {extent:g}" if extent else ""
            raise ValueError(
                f"{file.path} holds the same point {len(file.points)} times{apart}; expected points that differ. Check "
                "that the export wrote them as they are"
            )
    if not (settings.scale or APART < extents[0] / extents[1] < 1 / APART):
        raise ValueError(
            f"{source.path} extends over {extents[0]:g} and {reference.path} over {extents[1]:g}; expected the same "
            "units in both. Convert one of them, or look for the scale with scale=true"
        )
    known, weights = np.empty((0, 2), dtype=np.int64), np.empty(0)
    if settings.landmarks is not None:
        known, weights = located(read_landmarks(settings.landmarks), settings.landmarks, source, reference, notes)
    rows: np.ndarray | None
    if settings.sample is not None:
        if source.triangles is None or not len(source.triangles) or d != 3:
            raise ValueError(
                f"{source.path} has no faces to draw {settings.sample} points on; leave sample out, or export a mesh"
            )
        draw = numpy_generator(settings.seed, "scan", "surface")
        points, rows = sample_surface(source.points, source.triangles, settings.sample, draw), None
        notes.append(f"{source.path.name}: {settings.sample} points drawn on its faces are registered")
        here = len(points) + np.arange(len(known))  # the pairs' vertices follow the drawn points
        points = np.concatenate((points, source.points[known[:, 0]]))
    else:
        points, rows = _part(source, settings.seed, "source", notes, known[:, 0])
        here = np.searchsorted(rows, known[:, 0])
    staying, staying_rows = _part(reference, settings.seed, "reference", notes, known[:, 1])
    registered = np.column_stack((here, np.searchsorted(staying_rows, known[:, 1])))
    pairs = Landmarks(known, weights, registered) if len(known) else None
    y_weights = _weights(source, settings.source_weights, rows, settings.method, notes)
    x_weights = _weights(reference, settings.reference_weights, staying_rows, settings.method, notes)
    return Pair(source, reference, points, rows, staying, staying_rows, tuple(notes), pairs, y_weights, x_weights)


def _weights(file: PointFile, wanted: str, rows: np.ndarray | None, method: str, notes: list[str]) -> np.ndarray | None:
    """The weights of these rows of a file's points, of mean 1; None where each counts once, as points do that were
    drawn on its surface (``rows`` None)."""
    faces = file.triangles if file.triangles is not None and len(file.triangles) else None
    even = wanted == "even" or (wanted == "auto" and faces is not None and methods.takes_weights(method))
    if rows is None or not even:
        return None
    weights = even_weights(file.points, faces)[rows]
    by = "local density" if faces is None else "the areas of their faces"
    notes.append(
        f"{file.path.name}: the points count by {by}, from {weights.min():.2g} to {weights.max():.2g} times the mean"
    )
    return weights / weights.mean()


def _part(file: PointFile, seed: int, name: str, notes: list[str], needed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points to register and their numbers, in order: all, or a random part of a large scan and those ``needed``
    beside it."""
    if len(file.points) <= LIMIT:
        return file.points, np.arange(len(file.points))
    rows = np.sort(numpy_generator(seed, "scan", name).choice(len(file.points), LIMIT, replace=False))
    rows = np.union1d(rows, needed)
    beside = " or of a known pair" if len(needed) else ""
    notes.append(f"{file.path.name}: {len(rows)} of {len(file.points)} points are registered, chosen at random{beside}")
    return file.points[rows], rows


def doubtful_units(source: np.ndarray, reference: np.ndarray) -> str:
    """A sentence where the extents of two sets differ more than threefold, else nothing."""
    here, there = (float(np.sqrt(points.var(0).sum())) for points in (source, reference))  # RMS radii
    if 1 / EXTENT_RATIO <= here / there <= EXTENT_RATIO:
        return ""
    return (
        f"the extents differ more than threefold (RMS radius {here:.4g} against {there:.4g}): are both in the same "
        "units? scale=true looks for the scale"
    )


def stem(path: Path) -> str:
    """The file's name without its suffix, and without that below .gz."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.stem or inner.name


def suffixes(path: Path) -> str:
    """The suffix of the file, with .gz where it ends so."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix + (path.suffix if inner != path else "")
