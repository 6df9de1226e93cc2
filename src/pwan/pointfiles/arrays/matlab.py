"""MAT files of version 4 to 7.

Read here and not by scipy, which ends the process on some damaged files; the tests hold this reader against it. The
layout: MathWorks, "MAT-File Format" (2023).
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import archive
from pwan.pointfiles.arrays.numpy_files import from_named
from pwan.pointfiles.columns import Asked
from pwan.pointfiles.content import Content, Fault

HEAD = 128  # bytes of version 5 before its elements
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15  # types of an element
CLASSES = {  # of an array: as it stands in MATLAB
    **{1: "a cell array", 2: "a structure", 3: "an object", 4: "text", 5: "a sparse array", 16: "a function"},
    **{17: "an object", 6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"},
}
COMPLEX, LOGICAL = 0x0800, 0x0200  # flags beside the class
STORED_4 = ("f8", "f4", "i4", "i2", "u2", "u1")  # of version 4, by the tens of its first number


class Variable(NamedTuple):
    """A variable: its array, or a word for what it is instead."""

    name: str
    array: NDArray | None
    kind: str


def read(data: bytes, asked: Asked) -> Content:
    """One variable: the key's, else the only one that can be points or the only one named as points are.

    Raises:
        Fault: the file cannot be read (version 7.3 is HDF5), or the variable is not clear.
    """
    arrays: dict[str, NDArray] = {}
    refused: dict[str, str] = {}
    for variable in _version_4(data) if 0 in data[:4] else _version_5(data):
        if not variable.name and variable.array is not None and variable.array.dtype == np.uint8:
            continue  # what MATLAB keeps of its objects
        if re.fullmatch(r"[A-Za-z]\w*", variable.name, re.ASCII) is None:
            raise _damaged(
                f"a variable {variable.name[:40]!r}, where a name is a letter, then letters, digits and underscores"
            )
        if variable.array is None:
            refused[variable.name] = f"expected a numeric array, found {variable.kind}."
        else:
            arrays[variable.name] = variable.array
    return from_named(arrays, refused, asked, "MAT")


def _version_5(data: bytes) -> Iterator[Variable]:
    """The variables of version 5 to 7."""
    order = {b"IM": "<", b"MI": ">"}.get(data[126:HEAD])
    if order is None or struct.unpack_from(order + "H", data, 124)[0] >> 8 != 1:
        raise _damaged("no head of version 5")
    place, held = HEAD, 0
    while place < len(data):
        kind, body, place = _element(data, place, order, padded=False)
        if kind == COMPRESSED:
            try:
                whole = archive.inflated(body, 15, len(data), held)
            except zlib.error as error:
                raise _damaged(f"a variable that cannot be unpacked ({error})") from error
            if not whole.complete or whole.rest:
                raise _damaged("a packed variable of another length")
            held += len(whole.data)
            kind, body, end = _element(whole.data, 0, order, padded=False)
            if end != len(whole.data):
                raise _damaged("a packed variable of another length")
        if kind != MATRIX:
            raise _damaged(f"an element of type {kind} where a variable belongs")
        yield _variable(body, order)


def _element(data: bytes, place: int, order: str, padded: bool = True) -> tuple[int, bytes, int]:
    """The type and the bytes of the element at a place, and the place of the next one."""
    if place + 8 > len(data):
        raise _damaged("a part that is cut off")
    kind, size = struct.unpack_from(order + "II", data, place)
    if kind >> 16:  # up to four bytes stand in the tag itself
        kind, size = kind & 0xFFFF, kind >> 16
        if size > 4:
            raise _damaged(f"a small part of {size} bytes")
        return kind, data[place + 4 : place + 4 + size], place + 8
    start = place + 8
    if size > len(data) - start:
        raise _damaged(f"a part of {size} bytes where {len(data) - start} are left")
    end = start + size
    return kind, data[start:end], end + (-size % 8 if padded else 0)


def _variable(body: bytes, order: str) -> Variable:
    """The variable in the body of a matrix element."""
    kind, flags, place = _element(body, 0, order)
    if kind != 6 or len(flags) != 8:
        raise _damaged("a variable without its class")
    (word,) = struct.unpack_from(order + "I", flags)
    described = CLASSES.get(word & 0xFF)
    if described is None:
        raise _damaged(f"a variable of class {word & 0xFF}")
    if word & 0xFF == 17:  # has neither sizes nor a name of the usual kind
        return Variable("object", None, described)
    kind, sizes, place = _element(body, place, order)
    shape = np.frombuffer(sizes, order + "i4", len(sizes) // 4).tolist()
    named, name, place = _element(body, place, order)
    if kind != 5 or len(sizes) % 4 or not 2 <= len(shape) <= 32 or min(shape) < 0 or named != 1:
        raise _damaged("a variable without its size or name")
    text = name.decode("latin-1")
    if len(described) > 2:
        return Variable(text, None, described)
    if word & COMPLEX:
        return Variable(text, None, "complex numbers")
    if word & LOGICAL:
        return Variable(text, None, "logical values (of a mask or a volume use the surface: find(bwperim(v)), ind2sub)")
    if _bytes([max(1, size) for size in shape], "f8") > sys.maxsize:  # numpy leaves out axes of none
        raise _damaged(f"sizes {' × '.join(map(str, shape))} of the variable {text}")
    kind, values, place = _element(body, place, order)
    if kind not in STORED or len(body) > place or len(values) != _bytes(shape, STORED[kind]):
        raise _damaged(f"other than {' × '.join(map(str, shape))} numbers for the variable {text}")
    stored = np.frombuffer(values, order + STORED[kind])  # of the smallest type that holds them
    return Variable(text, stored.astype(described).reshape(shape, order="F"), "")


def _version_4(data: bytes) -> Iterator[Variable]:
    """The variables of version 4."""
    place = 0
    while place < len(data):
        if place + 20 > len(data):
            raise _damaged("a part that is cut off")
        order = next((sign for sign in "<>" if struct.unpack_from(sign + "i", data, place)[0] in range(5000)), "<")
        first, rows, columns, complex_part, length = struct.unpack_from(order + "5i", data, place)
        big, other, stored, kind = first // 1000, first // 100 % 10, first // 10 % 10, first % 10
        sized = rows >= 0 and columns >= 0 and complex_part in (0, 1) and 1 <= length <= len(data) - place - 20
        if big != (order == ">") or other or stored >= len(STORED_4) or kind > 2 or not sized:
            raise _damaged("no head of a variable of version 4")
        name, zero, rest = data[place + 20 : place + 20 + length].partition(b"\0")
        place += 20 + length
        size = _bytes((rows, columns), STORED_4[stored])
        if not zero or rest or size * (1 + complex_part) > len(data) - place:
            raise _damaged(f"fewer than {rows} × {columns} numbers for the variable {name.decode('latin-1')[:40]}")
        values = np.frombuffer(data, order + STORED_4[stored], rows * columns, place)
        place += size * (1 + complex_part)
        word = "complex numbers" if complex_part else ("", "text", "a sparse array")[kind]
        array = values.astype(STORED_4[stored]).reshape((rows, columns), order="F")
        yield Variable(name.decode("latin-1"), None if word else array, word)


def _bytes(shape: Sequence[int], stored: str) -> int:
    return int(np.prod(shape, dtype=object)) * np.dtype(stored).itemsize


def _damaged(found: str) -> Fault:
    return Fault(
        f"expected a MAT file of version 4 to 7, found {found}. The file is cut off or damaged: copy it again, or save "
        "it in MATLAB by save(name, 'points', '-v7')."
    )
