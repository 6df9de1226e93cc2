"""Landmarks, known pairs of points: read from a text file, and found among the points of two scans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pwan.pointfiles import PointFile
from pwan.pointfiles.content import Fault
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.numerals import number
from pwan.pointfiles.text.separators import Separator, found_in, without_comment

SIDES = ("source", "reference")
LARGEST = 2**53  # from here on a number read as a float may be another one
EXAMPLE = "expected lines such as 17,203 (a point of the source, the point of the reference where it belongs, from 0)"


@dataclass(frozen=True)
class ListedLandmarks:
    """Landmarks as a file lists them.

    Attributes:
        rows: (L, 2) numbers of points in the source's and the reference's file, from 0.
        weights: (L,) positive.
        lines: (L,) of the file, from 1.
    """

    rows: np.ndarray
    weights: np.ndarray
    lines: np.ndarray


@dataclass(frozen=True)
class Landmarks:
    """Landmarks among the points of two scans.

    Attributes:
        points: (L, 2) numbers among the points read from both files.
        weights: (L,) positive.
        registered: (L, 2) numbers among the points that are registered.
    """

    points: np.ndarray
    weights: np.ndarray
    registered: np.ndarray

    @property
    def for_register(self) -> np.ndarray:
        """(L, 3) as :func:`pwan.register` takes them."""
        return np.column_stack((self.registered, self.weights))

    def distances(self, source: np.ndarray, reference: np.ndarray) -> np.ndarray:
        """(L,) between the points of each landmark, for all points of the source (N, D), moved or not, and of the
        reference."""
        return np.linalg.norm(source[self.points[:, 0]] - reference[self.points[:, 1]], axis=1)


def read_landmarks(path: str | Path) -> ListedLandmarks:
    """Read landmarks, one a line: source, reference and, if there, weight.

    A header may name these columns, in any order and among others.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: no landmarks, text where numbers belong, a number that no point or weight can have, or a source
            point in two landmarks; names the file and the line.
    """
    try:
        return _read(Path(path).read_bytes())
    except Fault as fault:
        raise ValueError(f"{path}: {fault}") from None


def _read(data: bytes) -> ListedLandmarks:
    text, _ = decoded(data, [])
    lines = [(at, bare) for at, line in enumerate(text.split("\n"), 1) if (bare := without_comment(line.strip()))]
    if not lines:
        raise Fault(f"the file is empty; {EXAMPLE}.")
    named = not any(_begins_as_number(word) for word in re.split(r"[\s,;|\"']+", lines[0][1]))
    separator = found_in([line for _, line in (lines[1:] if named else lines) or lines])
    rows = [(at, separator.split(line)) for at, line in lines]
    first_line, head = rows[0]
    places: tuple[int, ...] = (0, 1, 2)[: len(head)]
    if named:
        places = _named(first_line, head)
        rows = rows[1:]
    elif len(head) not in (2, 3):
        raise Fault(
            f"line {first_line}: expected two or three columns, found {len(head)} (separator: {separator.name}); "
            f"{EXAMPLE}, a third column for a weight, or a header with the columns source, reference and weight."
        )
    if not rows:
        raise Fault(f"line {first_line} is a header, and no landmark stands below it; {EXAMPLE}.")
    pairs = []
    for at, cells in rows:
        if len(cells) != len(head):
            raise Fault(
                f"line {at}: expected {len(head)} columns as in line {first_line}, found {len(cells)}. Repair it."
            )
        pairs.append([_point(cells[place], at, side, separator) for place, side in zip(places, SIDES, strict=False)])
    weights = [_weight(cells[places[2]], at, separator) if len(places) == 3 else 1.0 for at, cells in rows]
    lines_of_rows = [at for at, _ in rows]
    first_line_of: dict[int, int] = {}
    for (point, _), at in zip(pairs, lines_of_rows, strict=True):
        if point in first_line_of:
            raise Fault(
                f"line {at}: source point {point} stands in line {first_line_of[point]} already; expected each source "
                "point in one landmark. Take one of the two lines out."
            )
        first_line_of[point] = at
    return ListedLandmarks(np.array(pairs, dtype=np.int64), np.array(weights), np.array(lines_of_rows))


def _number(cell: str, separator: Separator) -> float | None:
    return number(cell.replace(",", ".") if separator.decimal_comma else cell)


def _begins_as_number(cell: str) -> bool:
    return number(cell) is not None or re.match(r"[+-]?[.,]?\d", cell) is not None


def _named(at: int, names: Sequence[str]) -> tuple[int, ...]:
    """The places of source, reference and, if there, weight by a header's names; by their order where it names none."""
    small = [name.lower() for name in names]
    places = [[place for place, name in enumerate(small) if side in name] for side in (*SIDES, "weight")]
    if not places[0] and not places[1] and len(names) in (2, 3):
        return tuple(range(len(names)))
    if len(places[0]) != 1 or len(places[1]) != 1 or len(places[2]) > 1:
        raise Fault(
            f"line {at}: expected a header with one column named source, one named reference and at most one named "
            f"weight, found {', '.join(map(repr, names))}. Name the columns so, or take the header out."
        )
    return tuple(place for side in places for place in side)


def _point(cell: str, at: int, side: str, separator: Separator) -> int:
    value = _number(cell, separator)
    if value is None or value % 1 != 0 or not 0 <= value < LARGEST:  # NaN and infinity have no remainder 0
        raise Fault(
            f"line {at}: expected the number of a point of the {side}, a whole number from 0, found {cell[:40]!r}. "
            "Repair the line, or put a comment sign (#) in front of it."
        )
    return int(value)


def _weight(cell: str, at: int, separator: Separator) -> float:
    value = _number(cell, separator)
    if value is None or not 0 < value < np.inf:
        raise Fault(
            f"line {at}: expected a positive weight, found {cell[:40]!r}. Repair the line; a landmark that "
            "must not count is left out by a comment sign (#) in front of it."
        )
    return value


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
