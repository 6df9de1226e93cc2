"""Which columns of a text file are the coordinates, and what is said of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.columns import (
    ROW_NUMBER,
    Key,
    chosen,
    counts,
    like_a_grid,
    listed,
    numbers_rows,
    of_several,
    said,
    unnamed,
    whole,
)
from pwan.pointfiles.content import Fault
from pwan.pointfiles.text.preamble import Start

ROOTED = 0.9  # of the nodes have their parent in the file, or none, where a table is taken for a tree
SWC = ("id", "type", "x", "y", "z", "radius", "parent")


def named_by_layout(columns: list[NDArray], start: Start, notes: list[str]) -> list[str] | None:
    """The names of the columns of an SWC file (a tree of nodes, each with the number of its parent), else None."""
    if len(columns) < len(SWC) or any(column.dtype.kind != "f" for column in columns[: len(SWC)]):
        return None
    numbers, kinds, parents = columns[0], columns[1], columns[6]
    labels = all(whole(column) for column in (numbers, kinds, parents))
    rooted = np.mean((parents == -1) | np.isin(parents, numbers))  # a part of a tree has parents elsewhere
    tree = len(np.unique(numbers)) == len(numbers) and rooted > ROOTED
    if not (labels and (start.suffix == "swc" or (tree and len(columns) == len(SWC)))):
        return None
    notes.append(f"SWC: the columns are {listed(SWC)}")
    return [*SWC, *(f"column_{place + 1}" for place in range(len(SWC), len(columns)))]


def places_of(
    columns: list[NDArray], names: list[str] | None, start: Start, asked: Key | None, notes: list[str]
) -> tuple[int, ...]:
    """The places of the coordinates: as asked, else by the names, else the first three columns of numbers that do not
    number the rows.

    Args:
        names: of the columns, from the header or a known layout; None without.

    Raises:
        Fault: text where coordinates are, angles, too few columns, or more of them than can be told apart.
    """
    numeric = [place for place, column in enumerate(columns) if column.dtype.kind == "f"]
    words = names or [f"column_{place + 1}" for place in range(len(columns))]
    places = _by_name(columns, words, names is not None, asked)
    if places is None:
        if start.symbols_first and numeric[:1] == [0]:
            numeric = numeric[1:]
        places = _by_order(columns, names, numeric, start, notes)
    elif asked is None and 0 not in places and counts(columns[0]):
        notes.append(ROW_NUMBER.format(words[0]))
    spoken = [words[place] if names is not None else str(place + 1) for place in places]
    what = "the columns" if names is not None else "the columns number"
    notes.append(said(spoken, what, len(numeric) > len(places)))
    return places


def _by_name(columns: list[NDArray], names: list[str], named: bool, asked: Key | None) -> tuple[int, ...] | None:
    if asked is None and not named:
        return None
    places = chosen(names, asked, "columns")
    for place in places or ():
        if columns[place].dtype.kind != "f":
            raise Fault(
                f"expected numbers in column {names[place]!r}, found {str(columns[place][0])[:40]!r}. "
                "Name the coordinates by columns='A,B,C'."
            )
    return places


def _by_order(
    columns: list[NDArray], names: list[str] | None, numeric: list[int], start: Start, notes: list[str]
) -> tuple[int, ...]:
    """The first three columns of numbers, or two, without the number of the row."""
    if names is not None and of_several(names):  # before x1 is taken for the number of the row
        raise Fault(f"line {start.names_at}: {unnamed('columns named', names)}")
    if numbers_rows([columns[place] for place in numeric], len(numeric) < len(columns)):
        notes.append(ROW_NUMBER.format(numeric[0] + 1 if names is None else names[numeric[0]]))
        numeric = numeric[1:]
    if names is not None and len(numeric) > 3:
        raise Fault(f"line {start.names_at}: {unnamed('columns named', names)}")
    if names is None and like_a_grid([columns[place] for place in numeric]):
        raise Fault(
            f"line {start.sample[0][0]}: expected rows of points, found {len(numeric)} columns of numbers without "
            "names, as a grid or a matrix has them. If they are points, name the coordinates by columns='1,2,3'."
        )
    if len(numeric) < 2:
        raise Fault(
            f"line {start.sample[0][0]}: expected two or three columns of numbers, found {len(numeric)} among "
            f"{len(columns)}. Name the coordinates by columns='A,B,C', or export the file again."
        )
    return tuple(numeric[:3])
