"""Two files read and made ready: points to register, and the vertices or the whole scan that is moved in the end."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from pwan import methods
from pwan.normalisation import EXTENT_RATIO
from pwan.pointfiles import PointFile, read_points
from pwan.randomness import numpy_generator
from pwan.scans.attributes import OfBoth, read_attributes
from pwan.scans.landmarks import Landmarks, find_landmarks
from pwan.scans.settings import LIMIT, ScanSettings
from pwan.shapes.surface import sample_surface
from pwan.weights import even_weights

LEAST_EXTENT_RATIO = 1e-12  # of two sets; below it the smaller one is a point in the frame of the larger one
LEAST_EXTENT = 1e-30  # of a set, in its units; squares of smaller ones leave float32, and only damaged files hold them


@dataclass(frozen=True)
class Pair:
    """Two point files, and what of them is registered.

    Attributes:
        source_file: as it was read.
        reference_file: as it was read.
        source: (r, D) the points that are registered: all of the file's, a random part, or points of its surface.
        source_rows: (r,) their numbers among the file's points, None for points of its surface.
        reference: (q, D) the points that are registered: all of the file's, or a random part.
        reference_rows: (q,) their numbers among the file's points.
        notes: what was decided on the way, in sentences that name the file.
        landmarks: all of their points are registered, where they are points; None without any.
        source_weights: (r,) of the registered points, of mean 1; None where each counts once.
        reference_weights: (q,), the same of the reference.
        attributes: of the registered points of both sets, by name; None where none are asked for.
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
    attributes: OfBoth | None = None

    @property
    def whole(self) -> bool:
        """Whether the registered source points are those of the file, in its order."""
        return self.source_rows is not None and len(self.source_rows) == len(self.source_file.points)

    @property
    def source_faces(self) -> np.ndarray | None:
        """(F, 3) triangles of the registered source points, where these are all of a mesh's vertices; else None."""
        return self.source_file.triangles if self.whole else None

    @property
    def reference_faces(self) -> np.ndarray | None:
        """(F, 3) the same of the reference."""
        whole = len(self.reference_rows) == len(self.reference_file.points)
        return self.reference_file.triangles if whole else None


def read_pair(settings: ScanSettings) -> Pair:
    """Read both files, and the landmarks where there are some.

    Raises:
        OSError: a file does not exist or cannot be read.
        ValueError: the content of a file is invalid, or the two cannot be registered onto each other; names the file.
    """
    return pair_of(settings, read_file(settings, "source"), read_file(settings, "reference"))


def check_pair(settings: ScanSettings, source: PointFile, reference: PointFile) -> None:
    """Refuse files that cannot be registered onto each other.

    Raises:
        ValueError: other dimensions, too few points, no extent, or extents that no common unit has.
    """
    (_, d), (_, other) = source.points.shape, reference.points.shape
    if d != other:
        raise ValueError(
            f"{source.path} has {d} coordinates a point and {reference.path} has {other}; expected as many in both. "
            "Drop or add a coordinate in one of them, or name the columns with source_columns= or reference_columns="
        )
    extents = [float(np.ptp(file.points, axis=0).max()) for file in (source, reference)]
    for file, extent in zip((source, reference), extents, strict=True):
        if len(file.points) < d + 1:
            raise ValueError(
                f"{file.path} holds {len(file.points)} points; expected at least {d + 1} in {d}-D. Check that the "
                "export wrote all of them"
            )
        if extent < LEAST_EXTENT:
            apart = f" within {extent:g}" if extent else ""
            raise ValueError(
                f"{file.path} holds the same point {len(file.points)} times{apart}; expected points that differ. Check "
                "that the export wrote them as they are"
            )
    if not (settings.scale or LEAST_EXTENT_RATIO < extents[0] / extents[1] < 1 / LEAST_EXTENT_RATIO):
        raise ValueError(
            f"{source.path} extends over {extents[0]:g} and {reference.path} over {extents[1]:g}; expected the same "
            "units in both. Convert one of them, or look for the scale with scale=true"
        )


def pair_of(settings: ScanSettings, source: PointFile, reference: PointFile) -> Pair:
    """As :func:`read_pair`, of files that were read."""
    check_pair(settings, source, reference)
    both = {"source": source, "reference": reference}
    notes = [f"{file.path.name}: {_in_words_of(role, note)}" for role, file in both.items() for note in file.notes]
    landmarks = find_landmarks(settings, source, reference, notes)
    rows_in_files = np.empty((0, 2), dtype=np.int64)
    if landmarks is not None and landmarks.points is not None:
        rows_in_files = landmarks.points
    rows: np.ndarray | None
    if settings.sample is not None:
        if source.triangles is None or not len(source.triangles) or source.points.shape[1] != 3:
            raise ValueError(
                f"{source.path} has no faces to draw {settings.sample} points on; leave sample out, or export a mesh"
            )
        draw = numpy_generator(settings.seed, "scan", "surface")
        points, rows = sample_surface(source.points, source.triangles, settings.sample, draw), None
        notes.append(f"{source.path.name}: {settings.sample} points drawn on its faces are registered")
        y_rows = len(points) + np.arange(len(rows_in_files))  # the landmarks' vertices follow the drawn points
        points = np.concatenate((points, source.points[rows_in_files[:, 0]]))
    else:
        points, rows = _part(source, settings.seed, "source", notes, rows_in_files[:, 0])
        y_rows = np.searchsorted(rows, rows_in_files[:, 0])
    staying, staying_rows = _part(reference, settings.seed, "reference", notes, rows_in_files[:, 1])
    registered = np.column_stack((y_rows, np.searchsorted(staying_rows, rows_in_files[:, 1])))
    if landmarks is not None and len(rows_in_files):
        landmarks = replace(landmarks, registered=registered)
    y_weights = _weights(source, settings.source_weights, rows, settings.method, notes)
    x_weights = _weights(reference, settings.reference_weights, staying_rows, settings.method, notes)
    carried = read_attributes(settings, (source, reference), (rows, staying_rows), notes)
    return Pair(
        source, reference, points, rows, staying, staying_rows, tuple(notes), landmarks, y_weights, x_weights, carried
    )


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
    beside = " or of a landmark" if len(needed) else ""
    notes.append(f"{file.path.name}: {len(rows)} of {len(file.points)} points are registered, chosen at random{beside}")
    return file.points[rows], rows


def doubtful_units(source: np.ndarray, reference: np.ndarray) -> str:
    """A sentence where the extents of two sets differ more than threefold, else nothing."""
    y_radius, x_radius = (float(np.sqrt(points.var(0).sum())) for points in (source, reference))  # RMS
    if 1 / EXTENT_RATIO <= y_radius / x_radius <= EXTENT_RATIO:
        return ""
    return (
        f"the extents differ more than threefold (RMS radius {y_radius:.4g} against {x_radius:.4g}): are both in the "
        "same units? scale=true looks for the scale"
    )


def read_file(settings: ScanSettings, role: str) -> PointFile:
    """Read the file of this role, "source" or "reference".

    Raises:
        OSError: it does not exist or cannot be read.
        ValueError: its content is invalid.
    """
    try:
        return read_points(
            getattr(settings, role),
            key=getattr(settings, f"{role}_key"),
            columns=getattr(settings, f"{role}_columns") or settings.columns,
            raw=getattr(settings, f"{role}_raw"),
            drop_invalid=settings.drop_invalid,
            keep_flagged=settings.keep_flagged,
        )
    except ValueError as error:
        raise ValueError(_in_words_of(role, str(error))) from error


def _in_words_of(role: str, text: str) -> str:
    """A sentence about a file with the settings' names for what :func:`pwan.read_points` calls key, columns and raw."""
    return re.sub(r"(?<=[\s(])(key|columns|raw)(?==['NA-Za-z])", rf"{role}_\1", text)
