"""The writer of delimited text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.columns import coordinates, listed
from pwan.pointfiles.encodings import BOMS
from pwan.pointfiles.moved import AXES, Moved, spelled, text_rows


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's separator, decimal sign, encoding, lines before the rows and columns in their order, extra ones
    behind.

    Two coordinates without a header get one where columns are added, which would else be taken for z. The chemists' XYZ
    names its columns in its second line. Comments between rows and the line ends of Windows are not carried.
    """
    layout = moved.like.layout
    encoding = layout["encoding"]
    mark = next((mark for mark, name in BOMS if name == encoding and name != "utf-8"), b"")
    stream.write(mark)
    names, columns = list(layout["columns"]), [np.empty(0)] * len(layout["columns"])
    for place, points in zip(layout["places"], moved.points.T, strict=True):
        columns[place] = points
    others = [place for place in range(len(names)) if place not in layout["places"]]
    missing = [""] * len(columns)
    for place, (name, values) in zip(others, moved.fields.items(), strict=True):
        columns[place], missing[place] = values, layout["missing"].get(name, "nan")
    extra = moved.columns()
    head = _head(moved, names, [*columns, *extra.values()], list(extra))
    if head:
        stream.write(("\n".join(head) + "\n").encode(encoding, errors="replace"))
    decimal = layout["decimal"]
    rows = [
        column if place in layout["places"] else _whole(column, missing[place], decimal)
        for place, column in enumerate(columns)
    ]
    spell = _speller(_quote(layout["separator"]), decimal)
    for piece in text_rows([*rows, *extra.values()], layout["separator"], spell):
        stream.write(piece if encoding == "utf-8" else piece.decode("utf-8").encode(encoding, errors="replace"))


def _head(moved: Moved, names: list[str], columns: list[NDArray], extra: list[str]) -> list[str]:
    """The lines before the rows: the source's, with the number of points and the names as they are now."""
    layout = moved.like.layout
    join, quote = layout["separator"], _quote(layout["separator"])
    head: list[str] = []
    for kind, line in layout["head"]:
        if kind == "count":
            head.append(str(len(moved.points)))
        elif kind == "chemistry":
            head.append(f"{line} {_properties([*names, *extra], columns, layout)}".lstrip())
        elif kind == "names":
            head.append(layout["header_sign"] + join.join(map(quote, [*names, *extra])))
        else:  # a line of words without names would be taken for those of as many columns
            head.append(f"# {line}" if kind == "text" and extra and not layout["header"] else line)
    if extra and not layout["chemistry"]:
        if layout["header"]:
            if coordinates(names) is None:
                key = ",".join(layout["coordinates"])
                moved.notes.append(
                    f"its names do not say which columns are the coordinates: read it with columns={key!r}"
                )
        elif moved.points.shape[1] == 2:
            for place, axis in zip(layout["places"], AXES, strict=False):
                names[place] = axis
            head.append("# " + join.join(map(quote, [*names, *extra])))
            moved.notes.append("a header was added, so that the new columns are not taken for z")
        else:
            moved.notes.append(
                f"columns from number {len(names) + 1} on, without a header as in the source: {listed(extra)}"
            )
    return head


def _quote(separator: str) -> Callable[[str], str]:
    return _quoted if separator == ", " else lambda cell: _quoted_csv(cell, separator)


def _speller(quote: Callable[[str], str], decimal: str) -> Callable[[NDArray], list[str]]:
    def spell(column: NDArray) -> list[str]:
        cells = spelled(column)
        if column.dtype.kind not in "fiub":
            return [quote(cell) for cell in cells]
        return cells if decimal == "." else [quote(cell.replace(".", decimal)) for cell in cells]

    return spell


def _whole(column: NDArray, missing: str = "nan", decimal: str = ".") -> NDArray:
    """Numbers that are all whole as such, labels and counts, which a reader of text cannot tell from real numbers; as
    text where some are missing."""
    if column.dtype.kind != "f":
        return column
    there = np.isfinite(column)
    whole = bool((column[there] % 1 == 0).all()) and np.abs(column[there]).max(initial=0) < 2**53
    if there.all():
        return column.astype(np.int64) if whole else column
    numbers = spelled(column[there].astype(np.int64) if whole else column[there])
    cells = np.array([*(cell.replace(".", decimal) for cell in numbers), missing], dtype=object)
    places = np.where(there, np.cumsum(there) - 1, -1)  # of the spelled numbers; the last for what is missing
    text = cells[places]
    text[np.isinf(column)] = spelled(column[np.isinf(column)])
    return text.astype(str)


def _quoted(cell: str) -> str:
    """A cell for rows in which every blank and comma separates, quoted or not."""
    return re.sub(r"[\s,]+", "_", cell) or "_"


def _quoted_csv(cell: str, separator: str) -> str:
    """A cell with quotes where its own signs ask for them."""
    blank = separator == " " and (not cell or re.search(r"\s", cell))
    return '"' + cell.replace('"', '""') + '"' if blank or separator in cell or '"' in cell else cell


def _properties(names: list[str], columns: list[NDArray], layout: dict) -> str:
    """The second line of the extended XYZ, which names the columns: name, type and number of each."""
    first, dimensions = min(layout["places"]), len(layout["places"])
    together = tuple(layout["places"]) == tuple(range(first, first + dimensions))
    parts: list[str] = []
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        if together and first <= place < first + dimensions:
            if place == first:
                parts.append(f"pos:R:{dimensions}")
            continue
        kind = "R" if place in layout["places"] else {"f": "R", "i": "I", "u": "I"}.get(_whole(column).dtype.kind, "S")
        if place == 0 and not layout["header"]:
            name = "species" if kind == "S" else "Z"
        parts.append(f"{name}:{kind}:1")
    return "Properties=" + ":".join(parts)
