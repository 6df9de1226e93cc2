"""Delimited text: XYZ, PTS, TXT, CSV, TSV and their like.

The separator, the decimal sign, header, count line, comments and the columns are found out from the file; what was
decided stands in the notes. Rows of unequal length and text where numbers belong are faults that name the line.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import COUNTED_FROM, Asked, Key, chosen, coordinates
from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.encodings import decoded
from pwan.pointfiles.text import preamble
from pwan.pointfiles.text.choose import named_by_layout, places_of
from pwan.pointfiles.text.exact import as_spelled, may_differ
from pwan.pointfiles.text.separators import Separator, found_in, loadtxt_separator, without_comment


@dataclass
class Table:
    """Rows of a text file.

    Attributes:
        columns: each as numbers (n,), or as the texts of its cells where it is none.
        names: of the columns, None without any.
        missing: what stands in cells without a number, by the place of the column.
        cells: those of the column at a place, as they are spelled; None where the numbers give them all back.
    """

    columns: list[NDArray]
    names: list[str] | None
    missing: dict[int, str] = field(default_factory=dict)
    cells: Callable[[int], Sequence[str]] | None = None


def read(data: bytes, asked: Asked) -> Content:
    """The points of a text file, and its other columns as fields; the suffix "xyz" allows atomic numbers in front.

    Raises:
        Fault: no points, unequal rows, text where numbers belong, or a count line that does not fit.
    """
    notes: list[str] = []
    text, encoding = decoded(data, notes)
    text = preamble.landmarks(text)
    start = preamble.found(text, asked.suffix, notes)
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
        stripped = [(at, line.strip(" \n")) for at, line in start.lines(text)]
        lines = [(at, bare) for at, line in stripped if (bare := without_comment(line))]
        if sum(len(line) for _, line in stripped) > sum(len(line) for _, line in lines):
            notes.append("left out the comments between and behind the rows")
        table = _quick("\n".join(line for _, line in lines), start, separator) or _careful(
            lines, start, separator, asked.columns, notes
        )
    content = _content(table, start, asked, notes)
    content.layout |= {
        "encoding": encoding,
        "separator": separator.sign,
        "decimal": "," if separator.decimal_comma else ".",
        "header": table.names is not None,
        "header_sign": preamble.sign_of_names(text, start.names_at) if table.names is not None else "",
        "head": preamble.head(text, start, table.names is not None),
        "counted": start.declared is not None,
        "chemistry": start.chemistry,
    }
    return content


def _quick(body: str, start: preamble.Start, separator: Separator) -> Table | None:
    """All rows at once where every one is numbers alone, as in large scans; else None."""
    if '"' in body or start.chemistry or (sign := loadtxt_separator(separator)) is False:
        return None
    load = partial(np.loadtxt, delimiter=sign or None, comments=None)
    try:
        values = load(io.StringIO(body.replace(",", ".") if separator.decimal_comma else body), ndmin=2)
    except ValueError:
        return None
    head = separator.split(start.sample[0][1])
    if values.shape[1] < 2 or preamble.counts_rows(values[0], values.shape) or _numbered_header(head, values[1:]):
        return None
    preamble.check_count(start.declared, len(values))
    counts = len(values) >= COUNTED_FROM and np.array_equal(values[:, 0], np.arange(1, len(values) + 1))
    counted = [str(int(one)) for one in values[:, 0]] if counts else None
    names = preamble.names_of(start, separator, values.shape[1], counted)

    def cells(place: int) -> list[str]:
        return [cell.strip() for cell in load(io.StringIO(body), usecols=place, dtype=str, ndmin=1).tolist()]

    return Table(list(values.T), names, cells=cells if may_differ(values, body, separator) else None)


def _careful(
    lines: list[tuple[int, str]], start: preamble.Start, separator: Separator, asked: Key | None, notes: list[str]
) -> Table:
    """Row by row, with the line of every fault."""
    rows = [(at, separator.split(line)) for at, line in lines]
    kept = separator.sign in ",;|"  # where two separators have an empty cell between them
    if rows and not kept and all(cells and cells[-1] == "" for _, cells in rows):
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
    first = [cells[0] for _, cells in rows]
    spare = 1 if kept and all(not cells[-1] for _, cells in rows) else 0  # a separator behind the last column
    names = preamble.names_of(start, separator, length, None if spare else first)
    if names is None and spare and (names := preamble.names_of(start, separator, length - 1, first)) is not None:
        names.append("")
    held = [p for p in range(length) if (names and names[p]) or any(cells[p] for _, cells in rows)]
    if len(held) < length and not kept:  # two separators where one was meant
        rows = [(at, [cells[place] for place in held]) for at, cells in rows]
        names = [names[place] for place in held] if names else None
    floats = [[_float(cells[place], separator) for _, cells in rows] for place in range(len(rows[0][1]))]
    if names is None and len(rows) > 1:
        others = np.array([[_or_nan(value) for value in column[1:]] for column in floats])
        if _numbered_header(rows[0][1], others):
            notes.append(f"line {rows[0][0]} numbers the columns and is no point")
            rows, floats = rows[1:], [column[1:] for column in floats]
    wanted = None
    if names:
        wanted = coordinates(names) if asked is None else chosen(names, asked, "columns")
    return _table(rows, floats, names, wanted or (), separator)


def _table(
    rows: list[tuple[int, list[str]]],
    floats: list[list[float | None]],
    names: list[str] | None,
    wanted: tuple[int, ...],
    separator: Separator,
) -> Table:
    """Each column as numbers or, where most of its cells are none or all are empty, as text; wanted ones as numbers."""
    columns: list[NDArray] = []
    missing: dict[int, str] = {}
    for place, column in enumerate(floats):
        bad = [index for index, value in enumerate(column) if value is None]
        must = place in wanted if wanted else sum(one.dtype.kind == "f" for one in columns) < 3
        empty = [cells[place] for _, cells in rows if cells[place].lower() in numerals.MISSING]
        if not bad and (place in wanted or any(cells[place] for _, cells in rows)):
            columns.append(np.array(column, dtype=np.float64))
            if empty:
                missing[place] = empty[0]
        elif (
            bad
            and must
            and (wanted or 2 * len(bad) < len(rows) or any(_number_like(rows[index][1][place]) for index in bad))
        ):
            at, cells = rows[bad[0]]
            hint = "numbers with both . and , cannot be read; " if re.search(r"\d[.,]\d*[.,]\d", cells[place]) else ""
            raise Fault(
                f"line {at}: expected a number in column {place + 1}, found {cells[place][:40]!r}: {hint}"
                f"repair the line, or put a comment sign (#) in front of it. (Separator: {separator.name}.)"
            )
        else:
            columns.append(np.array([cells[place] for _, cells in rows]))
    return Table(columns, names, missing, lambda place: [cells[place] for _, cells in rows])


def _content(table: Table, start: preamble.Start, asked: Asked, notes: list[str]) -> Content:
    columns = table.columns
    names = table.names or named_by_layout(columns, start, notes)
    places = places_of(columns, names, start, asked.columns, notes)
    words = [(names[place] if names else "") or f"column_{place + 1}" for place in range(len(columns))]
    fields: dict[str, NDArray] = {}
    missing: dict[str, str] = {}
    for place, column in enumerate(columns):
        if place not in places:
            name = _unused(words[place], fields)
            fields[name] = column if table.cells is None else as_spelled(column, partial(table.cells, place))
            if column.dtype.kind == "f" and fields[name].dtype.kind == "U":
                notes.append(f"column {name} is kept as text: numbers would lose zeros in front, or its last digits")
            if place in table.missing:
                missing[name] = table.missing[place]
    layout = {
        "columns": tuple(names or words),
        "coordinates": tuple(words[place] for place in places),
        "places": tuple(places),
        "missing": missing,
    }
    return Content(np.column_stack([columns[place] for place in places]), fields, None, notes, layout)


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
    for index, (at, cells) in enumerate(rows):
        if len(cells) == 1 and cells[0].isdecimal() and len(kept) - before == declared:
            if start.chemistry:
                raise _frames(rows[index:], at, declared)
            if int(cells[0]) == declared or _is_comment(rows[index + 1 : index + 2]):
                raise _frames(rows[index:], at, declared)
            declared, before = int(cells[0]), len(kept)
            notes.append(f"line {at} begins another block of {declared} points, taken with those before")
        else:
            kept.append((at, cells))
    preamble.check_count(declared, len(kept) - before)
    return kept


def _is_comment(rows: list[tuple[int, list[str]]]) -> bool:
    return bool(rows) and not any(numerals.number(cell) is not None for cell in rows[0][1])


def _frames(rows: list[tuple[int, list[str]]], at: int, declared: int) -> Fault:
    """The fault of several frames (of a movement) in one file, from the second one's count line on."""
    frames = 1 + sum(len(cells) == 1 and cells[0].isdecimal() for _, cells in rows)
    return Fault(
        f"line {at}: expected one frame of {declared} points, found another one: the file holds {frames} frames. Save "
        f"one of them alone, as head -n {at - 1} does with the first."
    )


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


def _numbered_header(cells: list[str], others: NDArray) -> bool:
    """Whether a first row spelled 0, 1, 2, ... (behind no number, of an index) is pandas' names of columns without
    names; it is a row where all others are whole numbers too, as positions of voxels are."""
    named = cells if numerals.number(cells[0]) is not None else cells[1:]
    if len(named) < 2 or named != [str(place) for place in range(len(named))]:
        return False
    return not np.isnan(others).all() and bool((others[np.isfinite(others)] % 1 != 0).any())


def _unused(name: str, fields: dict[str, NDArray]) -> str:
    while name in fields:
        name += "_"
    return name
