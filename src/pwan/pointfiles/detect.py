"""What kind of file this is: by its first bytes where they are clear, else by its suffix."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path

from pwan.pointfiles import archive, foreign
from pwan.pointfiles.content import Fault
from pwan.pointfiles.mesh.stl import HEAD as STL_HEAD

SUFFIXES = {
    **dict.fromkeys(("ply", "obj", "off", "stl", "glb", "pcd", "npy", "npz", "las", "laz", "mat"), ""),
    **dict.fromkeys(("coff", "noff", "cnoff", "stoff"), "off"),
    **dict.fromkeys(
        ("xyz", "txt", "csv", "tsv", "pts", "asc", "dat", "xyzn", "xyzrgb", "xyzi", "neu", "tab", "swc", "fcsv"), "text"
    ),
}
UNPACKED = "unpacked from gzip"  # the note by which a writer knows
_OBJ_LINE = re.compile(rb"[ \t]*(v|vn|vt|vp|f|l|p|mtllib|usemtl|o|g|s)[ \t]")


def unpacked(data: bytes, notes: list[str]) -> bytes:
    """The bytes, out of gzip where the first two say so; all its members, each with its checksum."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    notes.append(UNPACKED)
    parts: list[bytes] = []
    rest, held = data, 0
    while rest.startswith(b"\x1f\x8b"):
        try:
            member = archive.inflated(rest, 31, len(data), held)
        except zlib.error as error:
            raise Fault(f"expected a gzip file, found one that cannot be unpacked: {error}. Copy it again.") from error
        if not member.complete:
            raise Fault("expected a whole gzip file, found one that is cut off. Copy it again.")
        parts.append(member.data)
        rest, held = member.rest, held + len(member.data)
    if rest.strip(b"\0"):
        raise Fault(f"expected the gzip file to end, found {len(rest)} more bytes. Copy it again.")
    return b"".join(parts)


def suffix_of(path: Path) -> str:
    """The suffix without its point, in lower case, and without .gz."""
    suffixes = [part.lower() for part in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".gzip"):
        suffixes.pop()
    return suffixes[-1][1:] if suffixes else ""


def kind(data: bytes, suffix: str, notes: list[str]) -> str:
    """The name of the reader.

    Raises:
        Fault: nothing there, a known format without a reader, or bytes that are neither known nor text.
    """
    if not data.strip(b" \t\r\n\0\x1a"):
        raise Fault("expected points, found an empty file. Export or copy it again.")
    by_suffix = SUFFIXES.get(suffix) or (suffix if suffix in SUFFIXES else None)
    by_content = _by_content(data)
    if by_content is None:
        foreign.refuse(data, suffix, by_suffix is not None)
        if by_suffix is None and suffix:
            notes.append(f"read as text, because the suffix .{suffix} is not known")
        return by_suffix or "text"
    if by_suffix not in (None, by_content) and {by_suffix, by_content} != {"las", "laz"}:
        notes.append(f"read as {by_content} by its first bytes, in spite of the suffix .{suffix}")
    return by_content


def _by_content(data: bytes) -> str | None:
    """The format that the first bytes name beyond doubt."""
    head = data[: foreign.HEAD]
    if re.match(rb"ply[ \t]*[\r\n]", head):
        return "ply"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"glTF"):
        return "glb"
    if head.startswith(b"LASF"):
        return "las"
    if head.startswith(b"MATLAB 5.0 MAT-file"):
        return "mat"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(data)
    if re.search(rb"(?mi)^[ \t]*(FIELDS|COLUMNS)[ \t].*\r?$", head) and re.search(
        rb"(?mi)^[ \t]*DATA[ \t]+(ascii|binary\w*)[ \t]*\r?$", data[: 16 * foreign.HEAD]
    ):
        return "pcd"
    if head.lstrip().startswith(b"{") and b'"controlPoints"' in data and b'"markups"' in data:
        return "markups"
    if len(data) > STL_HEAD and len(data) == STL_HEAD + 50 * int.from_bytes(data[80:STL_HEAD], "little"):
        return "stl"
    if re.match(rb"(?i)\s*solid\b", head) and re.search(rb"(?i)\bfacet\s+normal\b|\bendsolid\b", head):
        return "stl"
    text = re.sub(rb"(?m)^[ \t]*#.*$", b"", head).lstrip(b"\xef\xbb\xbf \t\r\n")
    if re.match(rb"(ST)?C?N?4?n?OFF(\b|(?=\d))", text):
        return "off"
    lines = [line for line in text.splitlines() if line.strip()]
    known = sum(_OBJ_LINE.match(line) is not None for line in lines)  # nearly all, also where one is damaged
    if 10 * known > 9 * len(lines) and re.search(rb"(?m)^[ \t]*v[ \t]+[+-]?[\d.]", text):
        return "obj"
    return None


def _archive(data: bytes) -> str:
    """npz, unless the archive holds other files."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            names = held.namelist()
    except Exception as error:
        raise Fault(
            f"expected a ZIP archive that can be read (NPZ is one), found a damaged one: {str(error)[:120]}. "
            "Copy it again."
        ) from error
    if not names or not all(name.endswith(".npy") for name in names):
        for part, name, advice in foreign.INSIDE:
            if any(one.startswith(part) or one.endswith("/" + part) for one in names):
                raise foreign.named(name, advice)
        inside = (", ".join(names[:5]) or "nothing")[:200]
        raise Fault(f"expected an NPZ file, found a ZIP archive with {inside}: unpack it and name the file in it.")
    return "npz"
