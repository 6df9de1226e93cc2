"""Numbers that float64 does not give back as they are spelled: whole ones beyond 2^53, and such as begin with zeros."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.numerals import WIDE
from pwan.pointfiles.text.separators import Separator

SAMPLE = 200  # rows by which a column of whole numbers is looked for
_DIGITS = re.compile(r"[+-]?\d+")
_PADDED = re.compile(r"[+-]?0\d+")


def may_differ(values: NDArray[np.float64], body: str, separator: Separator) -> bool:
    """Whether a table (n, columns) of numbers may hold some, by its text; quick where it does not."""
    if not (values.max() < WIDE and values.min() > -WIDE):  # also with NaN
        return True
    sample = values[:SAMPLE]
    if not ((sample % 1 == 0) | np.isnan(sample)).all(axis=0).any():
        return False
    before = {separator.sign, " ", "\t", "\n"}
    return re.match(r"\s*0\d", body) is not None or any(
        re.search(re.escape(sign) + r"0\d", body) for sign in before if sign in body
    )


def as_spelled(column: NDArray, cells: Callable[[], Sequence[str]]) -> NDArray:
    """A column as it is; whole numbers that float64 does not give back as int64, or as text where that does not either.

    Args:
        cells: the column's cells.
    """
    there = np.isfinite(column) if column.dtype.kind == "f" else np.zeros(len(column), dtype=bool)
    if not there.any() or (column[there] % 1 != 0).any():
        return column
    spelled = cells()
    numbers = [cell for cell, one in zip(spelled, there.tolist(), strict=True) if one]
    padded, wide = any(map(_PADDED.fullmatch, numbers)), np.abs(column[there]).max() >= WIDE
    if not (padded or wide) or not all(map(_DIGITS.fullmatch, numbers)):  # 1e20 is none that float64 rounds
        return column
    text = np.array(spelled)
    if padded or not there.all():
        return text
    try:
        return text.astype(np.int64)
    except OverflowError:
        return text
