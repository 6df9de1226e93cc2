"""What the writers share: the moved points with all that belongs to them, number types, rows of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.columns import listed
from pwan.pointfiles.content import PointFile

ROWS = 50_000  # of text at a time, so that millions of points do not stand in memory as words
LOSS = 8  # steps of a type at the cloud's own extent that rounding to it may take; more where the origin is far away
AXES = "xyz"


@dataclass
class Moved:
    """Moved points on their way into a file.

    Attributes:
        like: the file that they came from.
        points: (N, D) float64.
        fields: the source's other values of each point, in the file's types; those that were replaced with new values.
        extra: new values of each point, (N,) or (N, K), by name; none of these is in ``fields``.
        notes, left_out: what was decided, and the names of extra values that the format has no place for.
    """

    like: PointFile
    points: NDArray[np.float64]
    fields: dict[str, NDArray]
    extra: dict[str, NDArray]
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def columns(self) -> dict[str, NDArray]:
        """The extra values as one column (N,) each, whole numbers first: behind x and y alone, a real number of their
        type would be taken for z."""
        columns = {part: column for name, values in self.extra.items() for part, column in split(name, values).items()}
        return dict(sorted(columns.items(), key=lambda item: item[1].dtype.kind == "f"))

    def leave_out(self) -> None:
        """Say that the format has no place for the extra values."""
        self.left_out.extend(self.extra)
        if self.extra:
            names = listed(list(self.extra))
            self.notes.append(f"not written: {names}: a file of this kind has no place for new values of each point")


def split(name: str, values: NDArray) -> dict[str, NDArray]:
    """(N,) values by name; (N, K) as K columns, by axis where there are two or three."""
    if values.ndim == 1:
        return {name: values}
    ends = AXES if values.shape[1] in (2, 3) else [str(place) for place in range(values.shape[1])]
    return {f"{name}_{end}": column for end, column in zip(ends, values.T, strict=False)}


def rounding(values: NDArray, dtype: np.dtype) -> float:
    """The largest change of a value when the real type ``dtype`` holds it; infinite beyond its range."""
    with np.errstate(all="ignore"):
        change = np.abs(values - values.astype(dtype))
    return float(np.where(np.isnan(values), 0, change).max(initial=0))


def loses(values: NDArray, dtype: np.dtype, extent: float) -> bool:
    """Whether rounding to a real type takes more than ``LOSS`` of its steps at an extent.

    Coordinates near the origin never do at their own; those on a map, millions of metres away, do in single precision.
    """
    return rounding(values, dtype) > LOSS * float(np.finfo(dtype).eps) * extent


def extent_of(points: NDArray) -> float:
    """The diagonal of the box around (N, D) points."""
    return float(np.linalg.norm(np.ptp(points, axis=0)))


def real_type(values: NDArray, dtype: np.dtype, extent: float) -> np.dtype:
    """A real type that holds real values: ``dtype`` unless it is whole or loses too much, else float64."""
    return dtype if dtype.kind == "f" and not loses(values, dtype, extent) else np.dtype(np.float64)


def coordinate_types(moved: Moved, declared: Sequence[np.dtype]) -> list[np.dtype]:
    """The types in which the coordinates are written: the source's, or float64 for all where one of these loses."""
    extent = extent_of(moved.points)
    for dtype in declared:
        if real_type(moved.points, dtype, extent) != dtype:
            if dtype.kind == "f":
                why = f"{dtype.name} would move them by up to {rounding(moved.points, dtype):.3g}"
            else:
                why = f"{dtype.name} holds whole numbers alone"
            moved.notes.append(f"coordinates are written in float64: {why}")
            return [np.dtype(np.float64)] * len(declared)
    return list(declared)


def extra_columns(moved: Moved, dtype: np.dtype) -> dict[str, NDArray]:
    """The extra values' columns, real ones in the coordinates' type where that does not lose too much."""
    extent = extent_of(moved.points)
    return {
        name: column.astype(real_type(column, dtype, extent)) if column.dtype.kind == "f" else column
        for name, column in moved.columns().items()
    }


def spelled(column: NDArray) -> list[str]:
    """Each value in the fewest digits that give it back."""
    if column.dtype == np.float64:
        return [repr(value) for value in column.tolist()]
    if column.dtype.kind == "b":
        column = column.astype(np.uint8)
    return column.astype(str).tolist()


def decimals_at(extent: float) -> int:
    """The decimals with which numbers are rounded by no more than ``LOSS`` steps of single precision at this extent."""
    allowed = LOSS * float(np.finfo(np.float32).eps) * extent
    return max(0, math.ceil(-math.log10(2 * allowed))) if allowed > 0 else 0


def speller(decimals: int) -> Callable[[NDArray], list[str]]:
    """A speller of values with so many decimals; in the fewest digits that give them back beyond 15 of them."""

    def spell(column: NDArray) -> list[str]:
        if decimals > 15:
            return spelled(column)
        return [f"{value:.{decimals}f}" for value in column.tolist()]

    return spell


def whole_colours(columns: Sequence[NDArray]) -> bool:
    """Whether real numbers are colours up to 255 or 65535, of which 1 is nearly black, and not up to 1.0."""
    return all((column % 1 == 0).all() for column in columns) and max(column.max() for column in columns) > 1


def text_rows(
    columns: Sequence[NDArray], join: str = " ", spell: Callable[[NDArray], list[str]] = spelled, first: str = ""
) -> Iterator[bytes]:
    """Lines of text, one a row, in pieces; a column (N, K) is K of them, ``first`` stands in front of each line."""
    flat = [part for column in columns for part in (column.T if column.ndim == 2 else [column])]
    for start in range(0, len(flat[0]), ROWS):
        cells = [spell(column[start : start + ROWS]) for column in flat]
        yield "".join(f"{first}{join.join(row)}\n" for row in zip(*cells, strict=True)).encode("utf-8")


def face_rows(faces: NDArray[np.int64], spell: Callable[[list[int]], str]) -> Iterator[bytes]:
    """Lines of text, one a face, spelled from its corners (-1 behind the last left out)."""
    for start in range(0, len(faces), ROWS):
        rows = faces[start : start + ROWS].tolist()
        yield "".join(spell([corner for corner in row if corner >= 0]) + "\n" for row in rows).encode("ascii")


def of_faces(like: PointFile) -> dict[str, Any]:
    """The values of each face by name, of the faces that stayed where points were left out."""
    held, rows = like.layout.get("of_faces", {}), like.layout.get("face_rows")
    if rows is None:
        return held
    return {name: one[rows] if isinstance(one, np.ndarray) else one.rows(rows) for name, one in held.items()}


def write_all(stream: BinaryIO, pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        stream.write(piece)
