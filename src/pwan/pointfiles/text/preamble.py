"""What stands before the rows of a text file: header, count line, comments, the chemists' two lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import coordinates, listed, of_several
from pwan.pointfiles.content import Fault
from pwan.pointfiles.text.separators import Separator, without_comment

SAMPLE = 200  # rows by which separator and header are judged
HEADS = 30  # lines of text that may stand before the first row
_COUNT = re.compile(r"\d{1,15}")
_COLUMNS = re.compile(r"columns\s*=\s*", re.IGNORECASE)  # of 3D Slicer's .fcsv, in front of the names
_PROPERTIES = re.compile(r"\s*\bProperties=([\w:]+)")  # of the extended XYZ
_ATOM = re.compile(
    r"\s*([A-Za-z][A-Za-z0-9_]*|\d{1,3})((?:\s+[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eEdD][+-]?\d+)?){3,})(\s.*)?"
)


@dataclass
class Start:
    """Where the rows begin.

    Attributes:
        offset, line: of the first row: its place in the text, its number from 1.
        sample: (line number, line) of the first rows.
        heads: (line number, line) of lines of text before them.
        comments: (line number, line without its sign) of comments before them.
        declared: the count line's number of points.
        chemistry: the file is an XYZ of atoms; symbols_first: with atomic numbers in its first column.
        names_at: the line of the header's names.
        counted_at: the count line.
        suffix: of the file's name.
    """

    offset: int = 0
    line: int = 1
    sample: list[tuple[int, str]] = field(default_factory=list)
    heads: list[tuple[int, str]] = field(default_factory=list)
    comments: list[tuple[int, str]] = field(default_factory=list)
    declared: int | None = None
    chemistry: bool = False
    symbols_first: bool = False
    names_at: int = 0
    counted_at: int = 0
    suffix: str = ""

    def lines(self, text: str) -> Iterator[tuple[int, str]]:
        """(line number, line) from the first row on."""
        return enumerate(text[self.offset :].split("\n"), start=self.line)


def landmarks(text: str) -> str:
    """Facial landmarks' PTS ("version: 1", "n_points: 68", rows in braces) as a count line and rows; else the text."""
    match = re.match(r"\s*+version:\s*+\S++\s*+n_points:\s*+(\d++)\s*+\{[ \t]*+\n?([^{}]*+)(\}\s*+)?\Z", text)
    if match is None:
        return text
    if match.group(3) is None:
        raise Fault(
            "expected a closing brace behind the points, found the end of the file: it is cut off. Copy it again."
        )
    return f"\n{match.group(1)}\n\n{match.group(2)}"


def found(text: str, suffix: str, notes: list[str]) -> Start:
    """Read up to the first row, and a sample of rows."""
    start = Start(suffix=suffix)
    _chemistry(text, suffix, start, notes)
    offset, at = start.offset, start.line
    while offset < len(text) and len(start.sample) < SAMPLE:
        end = text.find("\n", offset)
        end = len(text) if end < 0 else end
        line = text[offset:end].strip()
        bare = without_comment(line)
        if not bare:
            if line and not start.sample:
                start.comments.append((at, _COLUMNS.sub("", line.lstrip("#/%! "))))
        elif start.sample:
            start.sample.append((at, bare))
        elif _COUNT.fullmatch(bare) and start.declared is None:
            start.declared, start.counted_at = int(bare), at
            notes.append(f"line {at} counts the points")
        elif _is_text(bare) or _is_title(bare, text[end + 1 : end + 200], start, at):
            start.heads.append((at, bare))
            if len(start.heads) > HEADS:
                raise Fault(
                    f"line {at}: expected rows of numbers, found none in the first {HEADS} lines of text. "
                    "Put a comment sign (#) in front of lines of text, or name another file."
                )
        else:
            start.sample.append((at, bare))
            start.offset, start.line = offset, at
        offset, at = end + 1, at + 1
    if start.declared is not None and not start.sample:
        raise Fault(
            f"expected {start.declared} points, as the first line says, found rows of fewer than two numbers. "
            "Export the file again."
        )
    return start


def _is_text(line: str) -> bool:
    """Whether no word of a line begins as a number does, nor all of them say that one is missing: it may be a header,
    it is no row."""
    words = [word for word in re.split(r"[\s,;|]+", line.replace('"', " ").replace("'", " ")) if word]
    if len(words) > 1 and all(word.lower() in numerals.MISSING for word in words):
        return False
    return not any(numerals.number(word) is not None or re.match(r"[+-]?\.?\d", word) for word in words)


def _is_title(line: str, behind: str, start: Start, at: int) -> bool:
    """Whether a line right behind the count line is a title, such as "frame 1", before rows that begin with numbers."""
    first, following = line.split()[0], behind.split("\n", 1)[0].split()
    if start.declared is None or at != start.counted_at + 1 or not following:
        return False
    return (
        numerals.number(first) is None
        and re.match(r"[+-]?[.,]?\d", first) is None
        and (numerals.number(following[0]) is not None)
    )


def _chemistry(text: str, suffix: str, start: Start, notes: list[str]) -> None:
    """Recognise the XYZ of atoms: a count, a comment of any kind, then a symbol or atomic number before x, y and z."""
    lines = text[:100_000].split("\n", 3)
    if len(lines) < 3 or not _COUNT.fullmatch(lines[0].strip()):
        return
    match = _ATOM.fullmatch(lines[2])
    if match is None:
        return
    if match.group(1).isdecimal():
        atoms = [_ATOM.fullmatch(line) for line in text.split("\n")[2:] if line.strip()]
        numbers = [atom.group(1) for atom in atoms if atom is not None]
        if (
            suffix != "xyz"
            or len(numbers) < len(atoms)
            or not all(one.isdecimal() and 1 <= int(one) <= 118 for one in numbers)
        ):
            return
        if lines[1].strip() and not _is_text(lines[1]):
            return
        start.symbols_first = True
    elif _ATOM.fullmatch(lines[1]):
        return
    start.chemistry, start.declared, start.counted_at = True, int(lines[0]), 1
    start.offset, start.line = len(lines[0]) + len(lines[1]) + 2, 3
    notes.append(f"an XYZ file of {start.declared} atoms: coordinates follow the symbol")
    if (kinds := _PROPERTIES.search(lines[1])) is not None:
        parts = kinds.group(1).split(":")
        names: list[str] = []
        for name, _, count in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
            many = int(count) if count.isdecimal() else 1
            names += (
                ["x", "y", "z"]
                if name == "pos" and many == 3
                else [f"{name}_{i}" if many > 1 else name for i in range(many)]
            )
        start.comments.append((2, " ".join(names)))


def names_of(start: Start, separator: Separator, columns: int, first_cells: list[str] | None) -> list[str] | None:
    """The columns' names from the header or, if it names coordinates, from the last comment; None without names.

    Raises:
        Fault: a header that names coordinates, but not as many columns as there are.
    """
    for at, line in reversed(start.heads):
        for names in _cells(line, separator):
            if len(names) == columns:
                others = (_split_all(other) for _, other in start.heads if other != line)
                if coordinates(names) is None and any(coordinates(other) for other in others):
                    continue  # a line of units below the names
                start.names_at = at
                return names
            if len(names) == columns - 1 and first_cells is not None and _are_row_names(first_cells):
                start.names_at = at
                return ["row", *names]
            if coordinates(names) is not None and 1 < len(names) < columns:
                start.names_at = at
                return names + [f"column_{place + 1}" for place in range(len(names), columns)]
        if coordinates(_split_all(line)) is not None and len(_split_all(line)) > columns:
            raise Fault(
                f"line {at}: expected as many names as columns ({columns}), found {listed(_split_all(line))}. "
                "Repair the header, or put a comment sign (#) in front of it."
            )
    for at, line in reversed(start.comments):
        for names in _cells(line, separator):
            if len(names) == columns and (coordinates(names) is not None or of_several(names)):
                start.names_at = at
                return names
    return None


def _cells(line: str, separator: Separator) -> list[list[str]]:
    """The line's names by the rows' separator and, where that does not part them, by any."""
    names = [name.strip() for name in separator.split(line)]
    while names and not names[-1]:
        names.pop()
    return [names, _split_all(line)]


def _split_all(line: str) -> list[str]:
    return [part.strip("'\"") for part in re.split(r"[\s,;|]+", line) if part.strip("'\"")]


def _are_row_names(cells: list[str]) -> bool:
    """Whether the first column holds names or numbers of rows, for which R writes no name in the header."""
    counted = [str(number) for number in range(1, len(cells) + 1)]
    return cells == counted or all(numerals.number(cell) is None for cell in cells)


def head(text: str, start: Start, named: bool) -> tuple[tuple[str, str], ...]:
    """The lines before the first row, each with its kind, for one who writes the like of them.

    The kinds: "count", "names" and "chemistry" (the second line of an XYZ of atoms, without its names), which the rows
    decide; "comment", and "text" without a comment's sign, which are written as they are. Blank lines are left out.
    """
    kept: list[tuple[str, str]] = []
    for at, line in enumerate(text.split("\n", start.line - 1)[: start.line - 1], start=1):
        if at == start.counted_at:
            kept.append(("count", ""))
        elif start.chemistry and at == 2:
            kept.append(("chemistry", _PROPERTIES.sub("", line).strip()))
        elif named and at == start.names_at:
            kept.append(("names", ""))
        elif line.strip():
            kept.append(("text" if without_comment(line.strip()) else "comment", line.rstrip()))
    return tuple(kept)


def sign_of_names(text: str, line: int) -> str:
    """What stands in front of the names in their line: a comment's sign, the blanks behind it; empty in a plain one."""
    match = re.match(r"\s*((?:#|//|%|!)+[ \t]*(?:columns\s*=\s*)?)", text.split("\n", line)[line - 1])
    return match.group(1) if match else ""


def counts_rows(first: NDArray, shape: tuple[int, int]) -> bool:
    """Whether a first row may be the numbers of rows and columns, or those of an OFF file without faces."""
    return tuple(first) in ((shape[0] - 1, shape[1]), (shape[0] - 1, 0, 0))


def check_count(declared: int | None, held: int) -> None:
    """Compare a count line with the rows."""
    if declared is not None and declared != held:
        raise Fault(
            f"expected {declared} points, as the count line says, found {held}. The file is cut off or its count is "
            "wrong: export it again, or take the count line out."
        )
