"""The header of a PLY file: elements, their properties and the encoding of what follows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import listed
from pwan.pointfiles.content import Fault

TYPES = {
    **{"char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2"},
    **{"uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "int64": "i8", "uint64": "u8"},
    **{"float": "f4", "float32": "f4", "double": "f8", "float64": "f8"},
}
ENCODINGS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class Lists(NamedTuple):
    """A list property: the length of each row's list (n,) and all lists after one another."""

    counts: NDArray[np.int64]
    values: NDArray

    def rows(self, kept: NDArray) -> Lists:
        """Of these rows (k,) alone, in their order."""
        ends = np.cumsum(self.counts)
        starts, counts = (ends - self.counts)[kept], self.counts[kept]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return Lists(counts, self.values[np.repeat(starts, counts) + within])


@dataclass(frozen=True)
class Property:
    name: str
    type: str  # numpy's, without byte order
    count_type: str | None = None  # of a list


@dataclass
class Element:
    name: str
    count: int
    properties: list[Property] = field(default_factory=list)

    @property
    def plain(self) -> bool:
        return all(one.count_type is None for one in self.properties)

    def short_of(self, held: int) -> Fault:
        return Fault(
            f"expected {self.count} rows of element {self.name}, as the header promises, found {held}. "
            "The file is cut off or its header is wrong: export it again."
        )


def split(data: bytes) -> tuple[list[tuple[int, str]], bytes, int]:
    """Header lines with their numbers, the body, and the number of the body's first line."""
    first = re.match(rb"ply[ \t]*(\r\n|\n|\r)", data)
    if first is None:
        raise Fault(
            "expected 'ply' in the first line, found another one. It is no PLY file, or damaged: export it again."
        )
    end = first.group(1)
    close = re.compile(re.escape(end) + rb"end_header[ \t]*(?:" + re.escape(end) + rb"|\Z)").search(data)
    if close is None:  # line ends of several kinds
        close = re.compile(rb"[\r\n]end_header[ \t]*(?:\r\n|\n|\Z)").search(data)
    if close is None:
        raise Fault("expected a line 'end_header', found none. The file is cut off or damaged: export it again.")
    lines = re.split(r"\r\n|\n|\r", data[: close.start()].decode("latin-1").rstrip("\r"))
    return list(enumerate(lines, start=1))[1:], data[close.end() :], len(lines) + 2


def parsed(lines: list[tuple[int, str]]) -> tuple[str, list[Element], list[str]]:
    """The byte order ("" for ASCII), the elements and the comments; a line that is none of these is a fault."""
    order: str | None = None
    elements: list[Element] = []
    comments: list[str] = []
    taken: set[tuple[str, ...]] = set()  # names of elements, and of properties with their element's
    for at, line in lines:
        words = line.split()
        if not words:
            continue
        if words[0] in ("comment", "obj_info"):
            comments.append(line.strip())
        elif words[0] == "format" and len(words) == 3 and words[1].lower() in ENCODINGS and order is None:
            order = ENCODINGS[words[1].lower()]
        elif words[0] == "element" and len(words) == 3:
            count = numerals.whole(words[2], at, f"the number of rows of element {words[1]}")
            if count < 0 or (words[1],) in taken:
                raise Fault(
                    f"line {at}: expected an element once and with 0 rows or more, found {line.strip()[:60]!r}. "
                    "Export the file again."
                )
            taken.add((words[1],))
            elements.append(Element(words[1], count))
        elif words[0] == "property" and len(words) in (3, 5) and elements:
            one = _property(words, at)
            if (elements[-1].name, one.name) in taken:
                raise Fault(
                    f"line {at}: expected each property of element {elements[-1].name} once, found {one.name} again. "
                    "Export the file again."
                )
            taken.add((elements[-1].name, one.name))
            elements[-1].properties.append(one)
        else:
            raise Fault(
                f"line {at}: expected a PLY header line (format ascii, binary_little_endian or binary_big_endian; "
                f"comment; element NAME COUNT; property TYPE NAME), found {line.strip()[:60]!r}. Export the file again."
            )
    if order is None:
        raise Fault("expected a line 'format ... 1.0' in the header, found none. Export the file again.")
    for element in elements:
        if element.count and not element.properties:
            raise Fault(
                f"expected properties of element {element.name}, found none for its {element.count} rows. "
                "Export the file again."
            )
    return order, elements, comments


def _property(words: list[str], at: int) -> Property:
    types = words[2:4] if len(words) == 5 else words[1:2]
    unknown = [name for name in types if name.lower() not in TYPES]
    if unknown or (len(words) == 5 and (words[1] != "list" or TYPES[words[2].lower()][0] == "f")):
        raise Fault(
            f"line {at}: expected 'property TYPE NAME' or 'property list TYPE TYPE NAME' with types of "
            f"{listed(list(TYPES))}, found {' '.join(words)[:60]!r}. Export the file again."
        )
    kinds = [TYPES[name.lower()] for name in types]
    return Property(words[-1], kinds[-1], kinds[0] if len(words) == 5 else None)
