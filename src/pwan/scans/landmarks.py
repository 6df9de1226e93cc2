"""Landmarks, known pairs of points: those of a user's files found in two scans, and where they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pwan.begin.start import Start
from pwan.pointfiles import PointFile
from pwan.problem import SpaceMap
from pwan.registration.pinning import check_apart
from pwan.registration.places import check_near
from pwan.scans.landmark_files import TWO_FILES, ListedLandmarks, read_landmarks
from pwan.scans.named_points import common_points
from pwan.scans.settings import ScanSettings
from pwan.trust.verdict import LandmarkResidual

OF_ONE_SCAN = (".fcsv", ".mrk.json", ".pp")


@dataclass(frozen=True)
class Landmarks:
    """Landmarks of two scans.

    Attributes:
        names: of each, in words.
        places: (L, 2, D) where each is in the source and in the reference, in the files' coordinates.
        weights: (L,) positive.
        points: (L, 2) numbers among the points read from both files; None for positions.
        registered: (L, 2) numbers among the points that are registered; None for positions.
    """

    names: tuple[str, ...]
    places: np.ndarray
    weights: np.ndarray
    points: np.ndarray | None = None
    registered: np.ndarray | None = None

    def for_register(self, start: Start | None) -> np.ndarray:
        """As :func:`pwan.register` takes them, of a source that the start has moved; without one, as a start does."""
        if self.registered is not None:
            return np.column_stack((self.registered, self.weights))
        return np.column_stack((self._started(start), self.places[:, 1], self.weights))

    @property
    def before(self) -> np.ndarray:
        """(L,) how far the places of each were from each other."""
        return np.linalg.norm(self.places[:, 0] - self.places[:, 1], axis=1)

    def ended(self, points: np.ndarray, transform: SpaceMap | None, start: Start | None) -> LandmarkResidual:
        """Where they ended, by all of the source's points (N, D), moved, and the transform of what the start moved."""
        if self.points is not None:
            moved = points[self.points[:, 0]]
        else:
            assert transform is not None  # else it was refused before the registration
            moved = transform(self._started(start))
        lengths = np.linalg.norm(moved - self.places[:, 1], axis=1)
        return LandmarkResidual(
            len(lengths),
            float(np.median(lengths)),
            float(lengths.max()),
            self.names[lengths.argmax()],
            tuple(zip(self.names, lengths.tolist(), strict=True)),
        )

    def _started(self, start: Start | None) -> np.ndarray:
        """(L, D) where the start puts their places in the source."""
        return self.places[:, 0] if start is None else start.apply(self.places[:, 0])


def find_landmarks(
    settings: ScanSettings, source: PointFile, reference: PointFile, notes: list[str]
) -> Landmarks | None:
    """The landmarks that the settings name, in two scans that were read; ``registered`` is not known yet.

    Raises:
        OSError: a file of landmarks does not exist or cannot be read.
        ValueError: it holds none, none of these scans, or such as cannot be pinned and shall be; names the file.
    """
    files = settings.landmark_files
    if not files:
        return None
    found = _found(files, source, reference, notes)
    if settings.pinned:
        places, sets = found.places.transpose(1, 0, 2), (source.points, reference.points)
        try:
            check_apart(_tensors(places), _tensors(sets), [repr(name) for name in found.names])
        except ValueError as error:
            raise ValueError(f"{' and '.join(map(str, files))}: {error}") from None
    return found


def _found(files: Sequence[str], source: PointFile, reference: PointFile, notes: list[str]) -> Landmarks:
    """The landmarks of one file of pairs, or of two of named points."""
    if len(files) == 2:
        names, places = common_points(files, (source, reference), notes)
        return _near(
            " and ".join(Path(file).name for file in files), names, places, np.ones(len(names)), source, reference
        )
    if files[0].lower().endswith(OF_ONE_SCAN):
        Path(files[0]).stat()
        raise ValueError(f"{files[0]}: expected pairs, found a format that holds the points of one scan. {TWO_FILES}")
    listed = read_landmarks(files[0], source.points.shape[1])
    if not isinstance(listed, ListedLandmarks):
        return _near(files[0], listed.names, listed.places, listed.weights, source, reference)
    points, weights = locate(listed, files[0], source, reference, notes)
    here, there = points.T
    names = tuple(
        f"source {y} and reference {x}" for y, x in zip(source.rows[here], reference.rows[there], strict=True)
    )
    return Landmarks(names, np.stack((source.points[here], reference.points[there]), 1), weights, points)


def _tensors(both: Sequence[np.ndarray] | np.ndarray) -> tuple[Tensor, Tensor]:
    first, second = (torch.tensor(one, dtype=torch.float64, device="cpu") for one in both)
    return first, second


def _near(
    what: str, names: tuple[str, ...], places: np.ndarray, weights: np.ndarray, source: PointFile, reference: PointFile
) -> Landmarks:
    """Landmarks at positions, which must lie on or near both scans."""
    for side, file in enumerate((source, reference)):
        check_near(what, file.points, places, side, names, file.path.name)
    return Landmarks(names, places, weights)


def locate(
    listed: ListedLandmarks, path: str | Path, source: PointFile, reference: PointFile, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The landmarks (L, 2) as numbers among the points read from both files, and their weights (L,).

    Landmarks whose points were dropped are left out too, with a note.

    Raises:
        ValueError: a number beyond the file's points, or no landmark is left.
    """
    points, kept = np.zeros_like(listed.rows), np.ones(len(listed.rows), dtype=bool)
    for side, file in enumerate((source, reference)):
        numbers, last = listed.rows[:, side], file.count - 1
        beyond = np.flatnonzero(numbers > last)
        if len(beyond):
            raise ValueError(
                f"{path}: line {listed.lines[beyond[0]]}: expected a point of {file.path}, whose points are 0 to "
                f"{last}, found {numbers[beyond[0]]}. Correct the line; points count from 0."
            )
        points[:, side] = np.searchsorted(file.rows, numbers).clip(max=len(file.rows) - 1)  # the last may be dropped
        was_read = file.rows[points[:, side]] == numbers
        for k in np.flatnonzero(~was_read & kept):
            notes.append(
                f"{Path(path).name}: line {listed.lines[k]}: point {numbers[k]} of {file.path.name} was dropped; "
                "the landmark is left out"
            )
        kept &= was_read
    if not kept.any():
        raise ValueError(
            f"{path}: expected landmarks of finite points, but each of them names a point that was dropped. Name other "
            "points."
        )
    return points[kept], listed.weights[kept]
