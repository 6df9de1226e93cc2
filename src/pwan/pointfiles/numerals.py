"""Numbers as files spell them, and rows of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.content import Fault

_NAN = re.compile(r"[+-]?(?:nan\(?[\w.]*\)?|\d?\.?#(?:ind|qnan|snan|nan)\d*)", re.IGNORECASE)  # 1.#QNAN, -nan(ind)
_INFINITE = re.compile(r"[+-]?(?:\d?\.?#inf\d*)", re.IGNORECASE)  # 1.#INF
_FORTRAN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)[dD][+-]?\d+")  # 1.5D+02
_DECIMALS = re.compile(r"[.,](\d+)$")
WIDE = 2**53  # from here on float64 rounds whole numbers
MISSING = frozenset({"", "na", "n/a", "null", "none"})  # an empty cell, and what tables write for one


def number(token: str) -> float | None:
    """The token as a number, also NaN and infinity as Microsoft's libraries spell them; None if it is none."""
    try:
        value = float(token)
    except ValueError:
        if _NAN.fullmatch(token):
            return float("nan")
        if _INFINITE.fullmatch(token):
            return float("-inf") if token.startswith("-") else float("inf")
        if _FORTRAN.fullmatch(token):
            return float(token.lower().replace("d", "e"))
        return None
    return None if "_" in token else value  # Python takes 1_000, files do not


def decimals(token: str) -> int:
    """How many decimals a number is spelled with, 1.5e-3 being .0015; 0 for one that is none."""
    match = re.fullmatch(r"[+-]?\d*\.?(\d*)(?:[eE]([+-]?\d{1,3}))?", token)
    return max(len(match.group(1)) - int(match.group(2) or 0), 0) if match else 0


def table(lines: Sequence[str], columns: int, numbers: Sequence[int], what: str) -> NDArray[np.float64]:
    """(len(lines), columns) the numbers of lines that separate them by spaces or tabs.

    Args:
        numbers: the lines' numbers in the file, for the error.
        what: what a line describes, for the error.

    Raises:
        Fault: another number of values in a line, or a value that is no number.
    """
    if not lines:
        return np.empty((0, columns))
    try:
        values = np.loadtxt(lines, comments=None, ndmin=2)
    except ValueError:
        pass  # odd spellings or a faulty line: see which
    else:
        if values.shape == (len(lines), columns):
            return values
    return np.array([row(line, columns, at, what) for line, at in zip(lines, numbers, strict=True)])


def exact(values: NDArray, lines: Sequence[str], place: int) -> NDArray:
    """The numbers that stand at a place of each line, once more as whole ones where float64 rounded some."""
    if not (np.abs(values) >= WIDE).any():
        return values
    try:
        numbers = [int(line.split()[place]) for line in lines]
        return np.array(numbers, dtype=np.int64 if min(numbers) < 0 else np.uint64)
    except (ValueError, OverflowError):  # 1e20 and the like, or beyond 64 bits
        return values


def row(line: str, columns: int, at: int, what: str) -> list[float]:
    """The numbers of one line; raises as :func:`table` does."""
    tokens = line.split()
    if len(tokens) != columns:
        raise Fault(
            f"line {at}: expected {columns} values for {what}, found {len(tokens)}. "
            "The file is damaged or cut off there: repair the line or export the file again."
        )
    return [value(token, at, what) for token in tokens]


def value(token: str, at: int, what: str) -> float:
    """The number that a token of line ``at`` spells."""
    result = number(token)
    if result is None:
        raise Fault(f"line {at}: expected a number for {what}, found {token[:40]!r}. Repair the line or export again.")
    return result


def whole(token: str, at: int, what: str) -> int:
    """The whole number that a token of line ``at`` spells."""
    if not re.fullmatch(r"[+-]?\d{1,18}", token, re.ASCII):
        raise Fault(f"line {at}: expected a whole number for {what}, found {token[:40]!r}. Export the file again.")
    return int(token)


def significant(text: str, comment: str | None = "#") -> list[tuple[int, str]]:
    """(line number from 1, line) of the lines that are neither blank nor comments, without comments behind a space."""
    kept = []
    for at, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if comment and comment in line:
            if line.lstrip().startswith(comment):
                continue
            line = re.sub(rf"\s{re.escape(comment)}.*", "", line)
        line = line.strip()
        if line:
            kept.append((at, line))
    return kept


def check_last(text: str, sample: Sequence[str]) -> None:
    """Raise a fault where the last line is cut off in its last number.

    It is, where the text does not end in a newline and that number has fewer decimals than those that the sampled lines
    end in, which all have the same.
    """
    last = text[text.rfind("\n") + 1 :].rstrip(" \t")
    decimals = {len(match.group(1)) if (match := _DECIMALS.search(line)) else 0 for line in sample if line != last}
    if last and len(sample) > 3 and len(decimals) == 1 and (most := decimals.pop()) > 2:
        held = _DECIMALS.search(last)
        if re.search(r"[\d.+-]$", last) and (len(held.group(1)) if held else 0) < most:
            raise Fault(
                f"expected {most} decimals at the end as in the other lines, found {last[-40:]!r}: "
                "the file is cut off there. Copy or export it again."
            )
