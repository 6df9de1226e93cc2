"""Delimited text: XYZ, PTS, TXT, CSV, TSV and their like.

The separator, the decimal sign, header, count line, comments and the columns are found out from the file; what was
decided stands in the notes. Rows of unequal length and text where numbers belong are faults that name the line.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import chosen, coordinates, listed
from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.text import preamble
from pwan.pointfiles.text.separators import Separator, found_in, loadtxt_separator, without_comment

INDEX_FROM = 3  # rows from which a first column 0, 1, 2, ... in front of three others is taken for a row number


@dataclass
class Table:
    """Rows of a text file: a column is numbers (n,), or the texts of its cells where it is none."""

    columns: list[NDArray]
    names: list[str] | None
    notes: list[str] = field(default_factory=list)


def read(data: bytes, key: str | Sequence[str] | None, suffix: str = "") -> Content:
    """The points of a text file, and its other columns as fields.

    Args:
        suffix: of the file's name; "xyz" allows atomic numbers in the chemists' XYZ.

    Raises:
        Fault: no points, unequal rows, text where numbers belong, or a count line that does not fit.
    """
    notes: list[str] = []
    text, encoding = decoded(data, notes)
    text = preamble.landmarks(text)
    start = preamble.found(text, suffix, notes)
    numerals.check_last(text, [line for _, line in start.sample])
    if not start.sample:
        raise Fault(
            "expected rows of numbers, found "
            + ("a header alone." if start.heads else "none: the file holds no points.")
            + " Export it again."
        )
    separator = found_in([line for _, line in start.sample])
    table = _quick(text[start.offset :], start, separator)
    if table is None:
        lines = [(at, bare) for at, line in start.lines(text) if (bare := without_comment(line.strip(" \n")))]
        table = _quick("\n".join(line for _, line in lines), start, separator) or _careful(
            lines, start, separator, notes
        )
    notes.extend(table.notes)
    content = _content(table, start, separator, key)
    content.notes = notes + content.notes
    content.layout |= {
        "encoding": encoding,
        "separator": separator.sign,
        "decimal": "," if separator.decimal_comma else ".",
        "header": table.names is not None,
        "header_sign": _sign_at(text, start.names_at) if table.names is not None else "",
        "counted": start.declared is not None,
        "chemistry": start.chemistry,
    }
    return content


def _quick(body: str, start: preamble.Start, separator: Separator) -> Table | None:
    """All rows at once where every one is numbers alone, as in large scans; else None."""
    if '"' in body or start.chemistry or (sign := loadtxt_separator(separator)) is False:
        return None
    try:
        values = np.loadtxt(
            io.StringIO(body.replace(",", ".") if separator.decimal_comma else body),
            delimiter=sign or None,
            comments=None,
            ndmin=2,
        )
    except ValueError:
        return None
    first = values[0]
    if values.shape[1] < 2 or preamble.counts_rows(first, values.shape) or _numbered_header(first, values[1:]):
        return None
    preamble.check_count(start.declared, len(values))
    counted = [str(int(one)) for one in values[:, 0]] if _counts_up(values[:, 0]) else None
    names = preamble.names_of(start, separator, values.shape[1], counted)
    return Table(list(values.T), names)


def _careful(lines: list[tuple[int, str]], start: preamble.Start, separator: Separator, notes: list[str]) -> Table:
    """Row by row, with the line of every fault."""
    rows = [(at, separator.split(line)) for at, line in lines]
    if rows and all(cells and cells[-1] == "" for _, cells in rows):
        rows = [(at, cells[:-1]) for at, cells in rows]  # a separator behind the last column
    rows = _without_counts(rows, start, notes)
    if not rows:
        raise Fault("expected rows of numbers, found none: the file holds no points. Export it again.")
    lengths = Counter(len(cells) for _, cells in rows)
    length = lengths.most_common(1)[0][0]
    rows = [(at, cells if any(cells[length:]) else cells[:length]) for at, cells in rows]  # separators at the end
    for at, cells in rows:
        if len(cells) != length:
            raise Fault(
                f"line {at}: expected {length} columns as in the other rows, found {len(cells)}. "
                f"Repair the line, or put a comment sign (#) in front of it. (Separator: {separator.name}.)"
            )
    names = preamble.names_of(start, separator, length, [cells[0] for _, cells in rows])
    held = [p for p in range(length) if (names and names[p]) or any(cells[p] for _, cells in rows)]
    if len(held) < length:  # two separators where one was meant
        rows = [(at, [cells[place] for place in held]) for at, cells in rows]
        names = [names[place] for place in held] if names else None
    floats = [[_float(cells[place], separator) for _, cells in rows] for place in range(len(held))]
    if names is None and len(rows) > 1:
        head = np.array([_or_nan(column[0]) for column in floats])
        if _numbered_header(head, np.array([[_or_nan(value) for value in column[1:]] for column in floats]).T):
            notes.append(f"line {rows[0][0]} numbers the columns and is no point")
            rows, floats = rows[1:], [column[1:] for column in floats]
    return Table(*_columns(rows, floats, names, separator), notes=[])


def _columns(
    rows: list[tuple[int, list[str]]], floats: list[list[float | None]], names: list[str] | None, separator: Separator
) -> tuple[list[NDArray], list[str] | None]:
    """Each column as numbers or, where most of its cells are none, as text."""
    columns: list[NDArray] = []
    wanted = (coordinates(names) if names else None) or ()
    for place, column in enumerate(floats):
        bad = [index for index, value in enumerate(column) if value is None]
        must = place in wanted if wanted else sum(one.dtype.kind == "f" for one in columns) < 3
        if not bad:
            columns.append(np.array(column, dtype=np.float64))
        elif must and (wanted or 2 * len(bad) < len(rows) or any(_number_like(rows[index][1][place]) for index in bad)):
            at, cells = rows[bad[0]]
            hint = "numbers with both . and , cannot be read; " if re.search(r"\d[.,]\d*[.,]\d", cells[place]) else ""
            raise Fault(
                f"line {at}: expected a number in column {place + 1}, found {cells[place][:40]!r}: {hint}"
                f"repair the line, or put a comment sign (#) in front of it. (Separator: {separator.name}.)"
            )
        else:
            columns.append(np.array([cells[place] for _, cells in rows]))
    return columns, names


def _content(table: Table, start: preamble.Start, separator: Separator, key: str | Sequence[str] | None) -> Content:
    """Choose the coordinates: by key, by the header's names, else the first three columns of numbers."""
    columns, notes = table.columns, []
    numeric = [place for place, column in enumerate(columns) if column.dtype.kind == "f"]
    names = table.names or [f"column_{place + 1}" for place in range(len(columns))]
    places = chosen(names, key, "columns") if key is not None or table.names is not None else None
    if places is not None:
        for place in places:
            if place not in numeric:
                raise Fault(
                    f"expected numbers in column {names[place]!r}, found {str(columns[place][0])[:40]!r}. "
                    "Name the coordinates by key='a,b,c'."
                )
        notes.append(f"coordinates are the columns {listed([names[place] for place in places])}")
    else:
        if start.symbols_first:
            numeric = numeric[1:] if numeric and numeric[0] == 0 else numeric
        if table.names is not None and len(numeric) > 3:
            raise Fault(
                f"line {start.names_at}: expected columns named x, y and z, found {listed(names)}. "
                "Name the coordinates by key='a,b,c'."
            )
        if len(numeric) > 3 and table.names is None and _counts_up(columns[numeric[0]]):
            notes.append(f"column {numeric[0] + 1} numbers the rows and is no coordinate")
            numeric = numeric[1:]
        places = tuple(numeric[:3])
        if len(places) < 2:
            raise Fault(
                f"line {start.sample[0][0]}: expected two or three columns of numbers, found {len(places)} among "
                f"{len(columns)} (separator: {separator.name}). Export the file again."
            )
        if len(columns) > len(places):
            notes.append(f"coordinates are the columns number {listed([str(place + 1) for place in places])}")
    fields: dict[str, NDArray] = {}
    for place, column in enumerate(columns):
        if place not in places:
            fields[_unused(names[place] or f"column_{place + 1}", fields)] = column
    points = np.column_stack([columns[place] for place in places])
    layout = {
        "columns": tuple(names),
        "coordinates": tuple(names[place] for place in places),
        "places": tuple(places),
    }
    return Content(points, fields, None, notes, layout)


def _without_counts(
    rows: list[tuple[int, list[str]]], start: preamble.Start, notes: list[str]
) -> list[tuple[int, list[str]]]:
    """The rows without count lines, which are compared with the rows that follow them (several scans in one file)."""
    count = str(len(rows) - 1)
    if len(rows) > 1 and rows[0][1] in ([count, str(len(rows[1][1]))], [count, "0", "0"]):
        notes.append(f"line {rows[0][0]} counts rows and is no point")
        rows = rows[1:]
    if start.declared is None:
        return rows
    kept: list[tuple[int, list[str]]] = []
    declared, before = start.declared, 0
    for at, cells in rows:
        if len(cells) == 1 and cells[0].isdecimal() and len(kept) - before == declared and not start.chemistry:
            declared, before = int(cells[0]), len(kept)
            notes.append(f"line {at} begins another block of {declared} points")
        else:
            kept.append((at, cells))
    if start.chemistry and len(kept) > declared and len(kept[declared][1]) == 1:
        raise Fault(
            f"line {kept[declared][0]}: expected one frame of {declared} atoms, found another one: cut the file there."
        )
    preamble.check_count(declared, len(kept) - before)
    return kept


def _float(cell: str, separator: Separator) -> float | None:
    if cell.lower() in numerals.MISSING:
        return float("nan")
    if separator.decimal_comma:
        return None if "." in cell and "," in cell else numerals.number(cell.replace(",", "."))
    return numerals.number(cell)


def _number_like(cell: str) -> bool:
    return re.match(r"[+-]?[.,]?\d", cell) is not None


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _numbered_header(first: NDArray, others: NDArray) -> bool:
    """Whether a first row 0, 1, 2, ... (an empty first cell aside) is pandas' names of columns without names."""
    if len(others) == 0 or np.isnan(others).all() or (others[np.isfinite(others)] % 1 == 0).all():
        return False
    named = first[1:] if np.isnan(first[0]) else first
    return len(named) > 1 and np.array_equal(named, np.arange(len(named)))


def _counts_up(column: NDArray) -> bool:
    return (
        len(column) >= INDEX_FROM and np.array_equal(column - column[0], np.arange(len(column))) and column[0] in (0, 1)
    )


def _sign_at(text: str, line: int) -> str:
    """The comment's sign in front of a line, with the blanks behind it; empty where it is no comment."""
    match = re.match(r"\s*((?:#|//|%|!)+[ \t]*)", text.split("\n", line)[line - 1]) if line else None
    return match.group(1) if match else ""


def _unused(name: str, fields: dict[str, NDArray]) -> str:
    while name in fields:
        name += "_"
    return name
