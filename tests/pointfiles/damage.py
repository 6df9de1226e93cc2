"""Faults put into good files of every format, and the number of points that is left, counted without our readers."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from tests.pointfiles.makers import POINTS
from tests.pointfiles.test_read_points import damaged

HUGE = (10**12, 2**63, 2**32 - 1, 2**31, 10**6)  # what a wrong count may promise
TEXT = ("ply ascii", "obj", "off", "stl ascii", "pcd ascii", "xyz", "csv", "pts", "swc", "fcsv", "markups")
WORDS = (
    "abc",
    "nan",
    "inf",
    "-nan(ind)",
    "1.#QNAN",
    "9" * 400,
    "1e999",
    "0x10",
    "1,5",
    "--1",
    "1_0",
    "١",
    '"',
    "{",
    "é",
)
Faults = dict[str, Callable[[bytes, np.random.Generator], bytes]]


def _lines(change: Callable[[list[bytes], int], None]) -> Callable[[bytes, np.random.Generator], bytes]:
    def changed(content: bytes, random: np.random.Generator) -> bytes:
        lines = content.split(b"\n")
        change(lines, int(random.integers(len(lines) - 1)))
        return b"\n".join(lines)

    return changed


def _token(change: Callable[[list[bytes], int, np.random.Generator], None]):
    """One word of a random line, whatever parts the line's words."""

    def changed(content: bytes, random: np.random.Generator) -> bytes:
        words = re.split(rb"([^\s,]+)", content)  # the words stand at the odd places
        change(words, 2 * int(random.integers(len(words) // 2)) + 1, random)
        return b"".join(words)

    return changed


def _other_word(words: list[bytes], at: int, random: np.random.Generator) -> None:
    words[at] = WORDS[int(random.integers(len(WORDS)))].encode()


def _no_word(words: list[bytes], at: int, random: np.random.Generator) -> None:
    del words[at : at + 2]


def _two_words(words: list[bytes], at: int, random: np.random.Generator) -> None:
    words.insert(at, words[at] + b" ")


def _cut(content: bytes, random: np.random.Generator) -> bytes:
    return content[: int(random.integers(len(content)))]


def _several(content: bytes, random: np.random.Generator) -> bytes:
    for _ in range(int(random.integers(2, 8))):
        content = damaged(content, random) or b"x"
    return content


def _part(random: np.random.Generator, size: int) -> slice:
    first = int(random.integers(size))
    return slice(first, first + int(random.integers(1, max(2, size // 3))))


def _erased(content: bytes, random: np.random.Generator) -> bytes:
    part, data = _part(random, len(content)), bytearray(content)
    data[part] = bytes(len(data[part]))
    return bytes(data)


def _doubled(content: bytes, random: np.random.Generator) -> bytes:
    part = _part(random, len(content))
    return content[: part.stop] + content[part] + content[part.stop :]


def _longer(content: bytes, random: np.random.Generator) -> bytes:
    return content + random.integers(0, 256, random.integers(1, 200), dtype=np.uint8).tobytes()


def _half_packed(content: bytes, random: np.random.Generator) -> bytes:
    return _cut(gzip.compress(content, mtime=0), random)


def _badly_packed(content: bytes, random: np.random.Generator) -> bytes:
    return gzip.compress(damaged(content, random), mtime=0)


ANY: Faults = {
    "cut off": _cut,
    "one place": damaged,
    "several places": _several,
    "a part erased": _erased,
    "a part doubled": _doubled,
    "more behind": _longer,
    "half a gzip": _half_packed,
    "damaged in a gzip": _badly_packed,
}
IN_TEXT: Faults = {
    "a line less": _lines(lambda lines, at: lines.pop(at) and None),
    "a line twice": _lines(lambda lines, at: lines.insert(at, lines[at])),
    "two lines in one": _lines(lambda lines, at: lines.__setitem__(slice(at, at + 2), [b" ".join(lines[at : at + 2])])),
    "another word": _token(_other_word),
    "a word less": _token(_no_word),
    "a word twice": _token(_two_words),
}
COUNTS: dict[str, bytes] = {  # the place of the number of points, 24 or 8 triangles, in front of it
    "ply ascii": rb"element vertex ",
    "ply little": rb"element vertex ",
    "ply big": rb"element vertex ",
    "ply points": rb"element vertex ",
    "off": rb"here\n",
    "pcd ascii": rb"WIDTH ",
    "pcd compressed": rb"WIDTH ",
    "pts": rb"\A",
}


def wrong_counts(kind: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The content with each of some other numbers of points in its header: (what, content); none may be read."""
    for number in (*HUGE, len(POINTS) + 1, len(POINTS) - 1, 1, 0, -1):
        if kind in COUNTS:
            yield f"{number} points", re.sub(b"(" + COUNTS[kind] + b")24", rb"\g<1>%d" % number, content)
            if kind.startswith("pcd"):
                yield f"{number} POINTS", content.replace(b"POINTS 24", b"POINTS %d" % number)
        elif kind in ("npy", "npz") and number > 0:
            shape = b"(%d, 3)" % number
            here = content if kind == "npy" else _stored(content)
            wrong = re.sub(rb"\(24, 3\), \}( *)", lambda m: (shape + b", }").ljust(len(m.group())), here)  # noqa: B023
            yield f"{number} points", wrong if kind == "npy" else _packed(wrong)
        elif kind == "stl" and 0 <= number < 2**32:
            yield f"{number} triangles", content[:80] + struct.pack("<I", number) + content[84:]
        elif kind in ("las", "laz") and 0 <= number < 2**32:
            yield f"{number} points", content[:107] + struct.pack("<I", number) + content[111:]
        elif kind in ("las 1.4", "laz 1.4") and 0 <= number < 2**64:
            yield f"{number} points", content[:247] + struct.pack("<Q", number) + content[255:]


def _stored(content: bytes) -> bytes:
    """The points of an NPZ as an NPY."""
    import zipfile

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read("points.npy")


def _packed(array: bytes) -> bytes:
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("points.npy", array)
    return stream.getvalue()


def count(kind: str, content: bytes) -> int:
    """The number of points in a file of this kind, by other packages or by counting lines.

    Raises:
        Exception: of any kind, where the file cannot be counted.
    """
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "ply": _count_ply,
            "obj": lambda data: len(re.findall(rb"(?m)^\s*v\s", data)),
            "off": lambda data: int(re.findall(rb"(?m)^\s*(\d+) \d+", data)[0]),
            "stl": _count_stl,
            "pcd": _count_pcd,
            "las": _count_las,
            "laz": _count_las,
            "npy": _count_npy,
            "npz": lambda data: _count_npy(_stored(data)),
            "mat": _count_mat,
            "fcsv": lambda data: len(re.findall(rb"(?m)^[^#\s].*", data)),
            "markups": _count_markups,
        }.get(kind.split()[0], _count_rows)(content)


def _count_ply(data: bytes) -> int:
    from plyfile import PlyData

    named = int(re.findall(rb"(?mi)^element\s+vertex\s+(\d+)", data)[0])
    try:
        held = PlyData.read(io.BytesIO(data))["vertex"].count
    except Exception:  # it is stricter in what it allows in a header
        return named
    assert held == named
    return named


def _count_pcd(data: bytes) -> int:
    numbers = dict(re.findall(rb"(?m)^\s*(WIDTH|HEIGHT)\s+(\d+)", data))
    return int(numbers[b"WIDTH"]) * int(numbers.get(b"HEIGHT", 1))


def _count_stl(data: bytes) -> int:
    if len(data) >= 84 and len(data) == 84 + 50 * struct.unpack("<I", data[80:84])[0]:
        triangles = [struct.unpack_from("<12f", data, 84 + 50 * at)[3:] for at in range((len(data) - 84) // 50)]
        return len({corners[at : at + 3] for corners in triangles for at in (0, 3, 6)})
    return len(
        {
            tuple(map(float, line.split()[1:]))
            for line in data.decode("utf-8", "replace").splitlines()
            if "vertex" in line.lower()
        }
    )


def _count_las(data: bytes) -> int:
    import laspy

    cloud = laspy.read(io.BytesIO(data))
    flagged = np.asarray(cloud.withheld).astype(bool) | np.isin(cloud.classification, (7, 18))
    return len(cloud.points) - int(flagged.sum())


def _count_markups(data: bytes) -> int:
    lists = json.loads(data)["markups"]
    return sum(len(one.get("controlPoints", [])) for one in lists)


def _count_npy(data: bytes) -> int:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return int(array.size) if array.dtype.names else max(array.shape)


def _count_mat(data: bytes) -> int:
    from scipy.io import loadmat

    (points,) = (value for name, value in loadmat(io.BytesIO(data)).items() if not name.startswith("__"))
    return max(points.shape)


def _count_rows(data: bytes) -> int:
    """Lines of numbers that are neither a count nor a comment; a line of words alone is a header."""
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
    lines = [line.strip() for line in re.split(r"\r\n|\n|\r", text)]
    rows = [line for line in lines if re.match(r"\W*\d", line) and line[0] not in "#%!/"]
    return len(rows) - (re.fullmatch(r"\d+", rows[0]) is not None)


def bomb(size: int) -> bytes:
    """A gzip of ``size`` zeros, which is a thousandth as large."""
    machine = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    return b"".join(machine.compress(block) for _ in range(size >> 20)) + machine.flush()
