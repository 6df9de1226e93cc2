"""Bytes of a text file as text."""

from __future__ import annotations

import codecs

from pwan.pointfiles.content import Fault

BOMS = (  # UTF-32 before UTF-16: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SIGNS = str.maketrans(
    {"\u2212": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\ufeff": " ", "\x0b": " ", "\x0c": " "}
)


def decoded(data: bytes, notes: list[str]) -> tuple[str, str]:
    """The text, with line ends \\n and plain minus signs and spaces, and the encoding that it was in.

    By a byte order mark, else as UTF-16 where every other byte is 0, else as UTF-8, else as Windows' Western encoding:
    the letters of a comment may then come out wrong, numbers cannot.

    Raises:
        Fault: the bytes are no text.
    """
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return _as(data[len(mark) :], encoding), encoding
    if b"\0" in data:
        for encoding, zeros, others in (("utf-16-le", data[1::2], data[::2]), ("utf-16-be", data[::2], data[1::2])):
            if len(data) % 2 == 0 and zeros.count(0) > 0.9 * len(zeros) and others.count(0) == 0:
                notes.append(f"read as {encoding}, without a byte order mark")
                return _as(data, encoding), encoding
        raise Fault(
            "expected text or a known format (PLY, OBJ, STL, OFF, PCD, NPY, NPZ, LAS, LAZ, MAT), found other binary "
            "data. For a headerless file of numbers say their type and columns, as in raw='float32 x 4'."
        )
    try:
        return _as(data, "utf-8"), "utf-8"
    except Fault:
        notes.append("not UTF-8: read as Windows-1252")
        return _clean(data.decode("cp1252", errors="replace")), "cp1252"


def _as(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Fault(
            f"expected text in {encoding}, found bytes that are none at {error.start}. Save it as UTF-8."
        ) from error
    if "\0" in text:
        raise Fault(
            f"expected text in {encoding}, found zeros in it: a part was erased. Copy or export the file again."
        )
    return _clean(text)


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() and "\x0b" not in text and "\x0c" not in text else text.translate(SIGNS)
