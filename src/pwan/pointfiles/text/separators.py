"""What separates the values of a text file's rows, and which sign its decimals have."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import Literal

from pwan.pointfiles import numerals
from pwan.pointfiles.content import Fault

COMMENTS = ("#", "//", "%", "!")
_BEHIND = re.compile(r"\s(?:#|//|%|!).*")  # a comment behind values; 1.#QNAN is none
_BEHIND_CELLS = re.compile(r"(?<=[\d.,;|\t])\s+(?:#|//|%|!).*")  # the same, but not in a cell such as "Point #3"
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_INSIDE_NUMBER = re.compile(r"(?:^|[\d+-]),\d")  # a comma that no blank parts from what is before it: 1,5 and not 1 ,5
NAMES = {";": "semicolon", "\t": "tab", ",": "comma", "|": "bar", " ": "blanks", ", ": "commas and blanks"}


@dataclass(frozen=True)
class Separator:
    """A sign of ``NAMES`` (blanks are any number of spaces and tabs), and whether 1,5 is one and a half."""

    sign: str
    decimal_comma: bool = False

    @property
    def name(self) -> str:
        return NAMES[self.sign] + (" with decimal comma" if self.decimal_comma else "")

    def split(self, line: str) -> list[str]:
        """The cells of a line, without blanks and quotes around them."""
        if self.sign == ", ":
            return re.split(r"[\s,]+", line.strip().rstrip(","))
        if '"' in line:
            blank = self.sign == " "
            text = " ".join(line.split()) if blank else line
            try:
                cells = next(csv.reader([text], delimiter=self.sign, skipinitialspace=True), [])
            except csv.Error as error:  # a cell beyond the module's limit
                raise Fault(
                    f"expected cells of at most {csv.field_size_limit()} characters, found a longer one in the line "
                    f"that begins {line[:40]!r}: a closing quote is missing. Repair the line."
                ) from error
        else:
            cells = line.split() if self.sign == " " else line.split(self.sign)
        return [cell.strip().strip("'\"") for cell in cells]


def loadtxt_separator(separator: Separator) -> str | Literal[False]:
    """numpy.loadtxt's delimiter ("" for blanks), or False where it has none for this."""
    return {" ": "", ", ": False, "|": "|"}.get(separator.sign, separator.sign)  # type: ignore[return-value]


def without_comment(line: str) -> str:
    """A line without its comment; empty where it is one."""
    if line.startswith(COMMENTS):
        return ""
    if not any(sign in line for sign in COMMENTS):
        return line
    return (_BEHIND_CELLS if re.search(r"[,;|\t]", line) else _BEHIND).sub("", line)


def found_in(lines: list[str]) -> Separator:
    """The separator of some rows of a file."""
    for sign in (";", "|"):
        if sum(sign in line for line in lines) * 2 > len(lines):
            return _with_decimals(lines, sign)
    if all("\t" in line.strip() for line in lines):
        separator = _with_decimals(lines, "\t")
        rows = [separator.split(line.strip("\n ")) for line in lines]
        if len({len(cells) for cells in rows}) == 1 and not any(
            _numbers_inside(cell, "\t") for cells in rows for cell in cells
        ):
            return separator
    if not any("," in line for line in lines):
        return Separator(" ")
    blank = _with_decimals(lines, " ")
    inside = any(_INSIDE_NUMBER.search(line) for line in lines)
    if inside and blank.decimal_comma and all(len(blank.split(line)) > 1 for line in lines):
        return blank
    if sum("," in line for line in lines) * 2 <= len(lines):
        return Separator(" ")
    cells = [cell for line in lines for cell in Separator(",").split(line)]
    if cells and any('"' in line for line in lines) and _decimal_commas(cells):
        return Separator(",", decimal_comma=True)
    return Separator(", " if any(_numbers_inside(cell, ",") for cell in cells) else ",")


def _with_decimals(lines: list[str], sign: str) -> Separator:
    cells = [cell for line in lines for cell in Separator(sign).split(line)]
    return Separator(sign, _decimal_commas(cells))


def _decimal_commas(cells: list[str]) -> bool:
    """Whether some cells are numbers with a decimal comma, and none is one with a point or ends in a comma."""
    pointed = any("." in cell and numerals.number(cell) is not None and "#" not in cell for cell in cells)
    torn = any(cell.endswith(",") or cell == "," for cell in cells)
    return not pointed and not torn and any(_COMMA_NUMBER.fullmatch(cell) for cell in cells)


def _numbers_inside(cell: str, sign: str) -> bool:
    """Whether a cell holds several numbers, so that its separator is not the only one."""
    parts = cell.split()
    return len(parts) > 1 and all(
        numerals.number(part.replace(",", ".") if sign != "," else part) is not None for part in parts
    )
