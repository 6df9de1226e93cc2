"""Landmarks as a text file lists them: numbers of points, or positions in both scans, one landmark a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pwan.pointfiles.content import LARGEST as HUGE
from pwan.pointfiles.content import Fault
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.numerals import number
from pwan.pointfiles.text.separators import Separator, found_in, without_comment

SIDES = ("source", "reference")
NAMES = ("name", "label", "landmark", "id")  # of a column with the landmarks' names
LARGEST = 2**53  # from here on a number read as a float may be another one
EXAMPLE = "expected lines such as 17,203 (a point of the source, the point of the reference where it belongs, from 0)"
TWO_FILES = "Named points of each scan stand in a file of their own: landmarks=of_source.csv,of_reference.csv"


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
class ListedPlaces:
    """Landmarks at positions, as a file lists them.

    Attributes:
        names: of each; "line 7" where the file has none.
        places: (L, 2, D) positions in the source and in the reference.
        weights: (L,) positive.
    """

    names: tuple[str, ...]
    places: np.ndarray
    weights: np.ndarray


def read_landmarks(path: str | Path, dimension: int = 3) -> ListedLandmarks | ListedPlaces:
    """Read landmarks, one a line: two columns are numbers of points, source and reference; 2 D columns are positions,
    the D coordinates in the source before those in the reference. A weight may follow in one more column, and text in
    front of positions is a name.

    A header may name these columns, in any order and among others: source, reference and weight; or D columns whose
    names hold the word source, D with the word reference (or 2 D of any names), name and weight.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: no landmarks, another number of columns, text where numbers belong, a number that no point, position
            or weight can have, or a source point or a name in two landmarks; names the file and the line.
    """
    try:
        return _read(Path(path).read_bytes(), dimension)
    except Fault as fault:
        raise ValueError(f"{path}: {fault}") from None


@dataclass(frozen=True)
class _Columns:
    """Places of a file's columns: source and reference, or the coordinates of both; weight and name where there."""

    numbers: tuple[int, ...]
    weight: int | None
    name: int | None


def _read(data: bytes, dimension: int) -> ListedLandmarks | ListedPlaces:
    text, _ = decoded(data, [])
    lines = [(at, bare) for at, line in enumerate(text.split("\n"), 1) if (bare := without_comment(line.strip()))]
    if not lines:
        raise Fault(f"the file is empty; {EXAMPLE}.")
    named = not any(_begins_as_number(word) for word in re.split(r"[\s,;|\"']+", lines[0][1]))
    separator = found_in([line for _, line in (lines[1:] if named else lines) or lines])
    rows = [(at, separator.split(line)) for at, line in lines]
    first_line, head = rows[0]
    if named:
        columns = _named(first_line, head, dimension)
        rows = rows[1:]
    else:
        columns = _counted(first_line, head, separator, dimension)
    if not rows:
        raise Fault(f"line {first_line} is a header, and no landmark stands below it; {EXAMPLE}.")
    for at, cells in rows:
        if len(cells) != len(head):
            raise Fault(
                f"line {at}: expected {len(head)} columns as in line {first_line}, found {len(cells)}. Repair it."
            )
    return (_numbers if len(columns.numbers) == 2 else _positions)(rows, columns, separator)


def _numbers(rows: list[tuple[int, list[str]]], columns: _Columns, separator: Separator) -> ListedLandmarks:
    pairs = [
        [_point(cells[place], at, side, separator) for place, side in zip(columns.numbers, SIDES, strict=True)]
        for at, cells in rows
    ]
    weights, lines = _weights(rows, columns, separator), [at for at, _ in rows]
    first_line_of: dict[int, int] = {}
    for (point, _), at in zip(pairs, lines, strict=True):
        if point in first_line_of:
            raise Fault(
                f"line {at}: source point {point} stands in line {first_line_of[point]} already; expected each source "
                "point in one landmark. Take one of the two lines out."
            )
        first_line_of[point] = at
    return ListedLandmarks(np.array(pairs, dtype=np.int64), weights, np.array(lines))


def _positions(rows: list[tuple[int, list[str]]], columns: _Columns, separator: Separator) -> ListedPlaces:
    places = [[_coordinate(cells[place], at, separator) for place in columns.numbers] for at, cells in rows]
    names = [f"line {at}" if columns.name is None else cells[columns.name] for at, cells in rows]
    first_line_of: dict[str, int] = {}
    for name, (at, _) in zip(names, rows, strict=True):
        if name in first_line_of:
            raise Fault(
                f"line {at}: {name[:40]!r} stands in line {first_line_of[name]} already; expected a name of its own "
                "for each landmark. Rename one of them."
            )
        first_line_of[name] = at
    return ListedPlaces(tuple(names), np.array(places).reshape(len(rows), 2, -1), _weights(rows, columns, separator))


def _weights(rows: list[tuple[int, list[str]]], columns: _Columns, separator: Separator) -> np.ndarray:
    place = columns.weight
    return np.array([1.0 if place is None else _weight(cells[place], at, separator) for at, cells in rows])


def _counted(at: int, head: Sequence[str], separator: Separator, d: int) -> _Columns:
    """The columns of a file without a header, by their number."""
    count = len(head)
    if count in (2, 3):
        return _Columns((0, 1), 2 if count == 3 else None, None)
    named = int(_number(head[0], separator) is None)  # a text in front is a name
    if count - named in (2 * d, 2 * d + 1):
        return _Columns(
            tuple(range(named, named + 2 * d)), count - 1 if count - named > 2 * d else None, 0 if named else None
        )
    raise Fault(
        f"line {at}: expected two or three columns, found {count} (separator: {separator.name}); {EXAMPLE}, a third "
        f"column for a weight, or a header with the columns source, reference and weight. Positions in {d}-D stand in "
        f"{2 * d} columns, the {d} coordinates in the source before those in the reference, with a name in front and a "
        f"weight behind if you like. {TWO_FILES}"
    )


def _number(cell: str, separator: Separator) -> float | None:
    return number(cell.replace(",", ".") if separator.decimal_comma else cell)


def _begins_as_number(cell: str) -> bool:
    return number(cell) is not None or re.match(r"[+-]?[.,]?\d", cell) is not None


def _named(at: int, names: Sequence[str], d: int) -> _Columns:
    """The columns by a header's names; by their order where it names neither source nor reference."""
    small = [name.lower() for name in names]
    sides = [[place for place, name in enumerate(small) if side in name] for side in SIDES]
    weights = [place for place, name in enumerate(small) if "weight" in name]
    weight = weights[0] if weights else None
    label = next((place for place, name in enumerate(small) if name in NAMES), None)
    bare = [place for place in range(len(small)) if place not in (weight, label)]
    positions = [*sides[0], *sides[1]] if any(sides) else bare
    if len(positions) == 2 * d and len(weights) < 2 and len(sides[0]) == len(sides[1]):
        return _Columns(tuple(positions), weight, label)
    if not any(sides) and len(names) in (2, 3):
        return _Columns((0, 1), 2 if len(names) == 3 else None, None)
    if len(sides[0]) != 1 or len(sides[1]) != 1 or len(weights) > 1:
        raise Fault(
            f"line {at}: expected a header with one column named source, one named reference and at most one named "
            f"weight, found {', '.join(map(repr, names))}. Name the columns so, or take the header out. Positions in "
            f"{d}-D have {d} columns with source in their names and {d} with reference. {TWO_FILES}"
        )
    return _Columns((sides[0][0], sides[1][0]), weight, None)


def _point(cell: str, at: int, side: str, separator: Separator) -> int:
    value = _number(cell, separator)
    if value is None or value % 1 != 0 or not 0 <= value < LARGEST:  # NaN and infinity have no remainder 0
        raise Fault(
            f"line {at}: expected the number of a point of the {side}, a whole number from 0, found {cell[:40]!r}. "
            "Repair the line, or put a comment sign (#) in front of it."
        )
    return int(value)


def _coordinate(cell: str, at: int, separator: Separator) -> float:
    value = _number(cell, separator)
    if value is None or not abs(value) <= HUGE:  # NaN too
        raise Fault(
            f"line {at}: expected a finite coordinate, found {cell[:40]!r}. Repair the line, or put a comment sign (#) "
            "in front of it."
        )
    return value


def _weight(cell: str, at: int, separator: Separator) -> float:
    value = _number(cell, separator)
    if value is None or not 0 < value < np.inf:
        raise Fault(
            f"line {at}: expected a positive weight, found {cell[:40]!r}. Repair the line; a landmark that "
            "must not count is left out by a comment sign (#) in front of it."
        )
    return value
