"""PCD (Point Cloud Library): ASCII, binary and compressed, by pypcd4 where bytes are to be unpacked.

The header is read here: pypcd4 wants upper-case types and every line of version 0.7, and does not compare counts.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from pwan.extras import needs
from pwan.pointfiles import numerals
from pwan.pointfiles.columns import Asked, Key, chosen, flat, listed, said, unnamed
from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.moved import Moved, coordinate_types, extra_columns, text_rows, write_all

WORDS = ("VERSION", "FIELDS", "SIZE", "TYPE", "COUNT", "WIDTH", "HEIGHT", "VIEWPOINT", "POINTS", "DATA")
LARGEST_RATIO = 100  # of bytes to packed bytes; three bytes of LZF stand for 264 at most
SINGLE = ("WIDTH", "HEIGHT", "POINTS", "DATA")  # words that one value follows
KINDS = {"f": "F", "i": "I", "u": "U"}  # numpy's letter: the header's
SIZES = {"F": (4, 8), "I": (1, 2, 4, 8), "U": (1, 2, 4, 8)}


def read(data: bytes, asked: Asked) -> Content:
    """The points and other fields of a PCD file; fields named "_" are padding.

    Raises:
        Fault: anything that is not as the header promises.
    """
    header, body, line, comments = _header(data)
    names = header["FIELDS"]
    sizes, counts = ([int(word) for word in header[which]] for which in ("SIZE", "COUNT"))
    types = [word.upper() for word in header["TYPE"]]
    if not len(names) == len(sizes) == len(counts) == len(types):
        raise Fault(
            f"expected as many SIZE, TYPE and COUNT as FIELDS ({len(names)}), "
            f"found {len(sizes)}, {len(types)}, {len(counts)}. Export the file again."
        )
    for name, size, kind, count in zip(names, sizes, types, counts, strict=True):
        if size not in SIZES.get(kind, ()) or not 1 <= count <= 100_000:
            raise Fault(
                f"expected TYPE F with SIZE 4 or 8, I or U with 1, 2, 4 or 8, and a COUNT from 1, found "
                f"TYPE {kind} SIZE {size} COUNT {count} for field {name}. Export the file again."
            )
    width, height = (int(header[which][0]) for which in ("WIDTH", "HEIGHT"))
    points = int(header["POINTS"][0]) if "POINTS" in header else width * height
    if points != width * height or min(width, height) < 0:
        raise Fault(f"expected POINTS = WIDTH × HEIGHT, found {points} = {width} × {height}. Export the file again.")
    kind = header["DATA"][0].lower()
    if kind == "ascii":
        columns = _ascii(body, points, counts, types, sizes, line)
    elif kind in ("binary", "binary_compressed"):
        columns = _binary(body, points, counts, types, sizes, kind)
    else:
        raise Fault(f"expected DATA ascii, binary or binary_compressed, found {kind[:40]!r}. Export the file again.")
    declared = {
        name: f"{type.lower()}{size}" for name, type, size in zip(names, types, sizes, strict=True) if name != "_"
    }
    layout = {
        "data": kind,
        "width": width,
        "height": height,
        "viewpoint": header["VIEWPOINT"],
        "types": declared,
        "comments": comments,
    }
    return _content(columns, names, asked.columns, layout)


def _content(columns: list[NDArray], names: list[str], choice: Key | None, layout: dict) -> Content:
    scalar = [name for name, column in zip(names, columns, strict=True) if column.ndim == 1 and name != "_"]
    if len(set(scalar)) < len(scalar):
        raise Fault(f"expected each field once, found {listed(names)}. Export the file again.")
    places = chosen(scalar, choice, "fields")
    if places is None:
        raise unnamed("fields", names)
    by_name = {name: column for name, column in zip(names, columns, strict=True) if name != "_"}
    axes = [scalar[place] for place in places]
    notes = [said(axes, "the fields")]
    if flat(scalar, [by_name[name].dtype.str for name in scalar], places, choice):
        notes.append("the points have two coordinates")
    if "_" in names:
        notes.append("left out padding (fields named _)")
    if layout["height"] > 1:
        notes.append(f"an organised cloud of {layout['width']} × {layout['height']} points, read row by row")
    layout["coordinates"] = tuple(axes)
    points = np.column_stack([by_name.pop(name).astype(np.float64) for name in axes])
    return Content(points, by_name, None, notes, layout)


def _header(data: bytes) -> tuple[dict[str, list[str]], bytes, int, tuple[str, ...]]:
    """The header's words, the body, the number of the body's first line, and comments but for the format's own."""
    comments: list[str] = []
    header: dict[str, list[str]] = {}
    offset, at = 0, 0
    while "DATA" not in header:
        end = data.find(b"\n", offset)
        at += 1
        if end < 0 or end - offset > 100_000:
            raise Fault(
                "expected a header of a PCD file that ends in a line 'DATA ...', found none. Export the file again."
            )
        words = data[offset:end].decode("latin-1").split()
        offset = end + 1
        if not words or words[0].startswith("#"):
            if words and words[:2] != ["#", ".PCD"]:
                comments.append(" ".join(words))
            continue
        word = {"COLUMNS": "FIELDS"}.get(words[0].upper(), words[0].upper())
        if word not in WORDS or word in header or len(words) < 2:
            raise Fault(
                f"line {at}: expected one of {', '.join(WORDS)} once and with a value, found {' '.join(words)[:60]!r}. "
                "Export the file again."
            )
        if word in SINGLE and len(words) > 2:
            raise Fault(
                f"line {at}: expected one value for {word}, found {' '.join(words[1:])[:60]!r}. Export the file again."
            )
        whole = word in ("SIZE", "COUNT", "WIDTH", "HEIGHT", "POINTS")
        header[word] = [str(numerals.whole(one, at, word)) for one in words[1:]] if whole else words[1:]
    missing = [word for word in ("FIELDS", "SIZE", "TYPE", "WIDTH") if word not in header]
    if missing:
        raise Fault(
            f"expected the line {missing[0]} in the header, found only {', '.join(header)}. Export the file again."
        )
    header.setdefault("COUNT", ["1"] * len(header["FIELDS"]))
    header.setdefault("HEIGHT", ["1"])
    header.setdefault("VIEWPOINT", ["0", "0", "0", "1", "0", "0", "0"])
    return header, data[offset:], at + 1, tuple(comments)


def _ascii(
    body: bytes, points: int, counts: list[int], types: list[str], sizes: list[int], first: int
) -> list[NDArray]:
    lines = numerals.significant(body.decode("latin-1"))
    if len(lines) != points:
        raise _short(points, len(lines))
    texts = [line for _, line in lines]
    table = numerals.table(texts, sum(counts), [at + first - 1 for at, _ in lines], "a point")
    columns, start = [], 0
    for count, kind, size in zip(counts, types, sizes, strict=True):
        values = table[:, start : start + count]
        if kind != "F":
            parts = [numerals.exact(table[:, place], texts, place) for place in range(start, start + count)]
            bounds = np.iinfo(f"{kind.lower()}{size}")
            if all(((one % 1 == 0) & (one >= bounds.min) & (one < int(bounds.max) + 1)).all() for one in parts):
                values = np.stack([one.astype(bounds.dtype) for one in parts], axis=1)
        start += count
        columns.append(values[:, 0] if count == 1 else values)
    return columns


def _binary(
    body: bytes, points: int, counts: list[int], types: list[str], sizes: list[int], kind: str
) -> list[NDArray]:
    record = sum(count * size for count, size in zip(counts, sizes, strict=True))
    if kind == "binary":
        if len(body) < points * record:
            raise _short(points, len(body) // record)
        rest = body[points * record :]
        if rest.strip(b"\0\r\n"):
            raise Fault(
                f"expected the file to end behind {points} points of {record} bytes, as its header promises, found "
                f"{len(rest)} more bytes. Export it again."
            )
    else:
        packed, unpacked = np.frombuffer(body[:8].ljust(8, b"\0"), "<u4").tolist()
        if unpacked != points * record or packed > len(body) - 8 or unpacked > LARGEST_RATIO * packed:
            raise Fault(
                f"expected {points * record} bytes of {points} points packed in the {max(len(body) - 8, 0)} that "
                f"there are, found {unpacked} packed in {packed}. The file is cut off or damaged: export it again."
            )
    if points == 0:
        return [np.empty(0) for _ in counts]
    with needs("scans", "reading binary PCD"):  # here, because it loads pydantic: other formats need neither
        from pypcd4 import PointCloud

    names = [f"f{place}" for place in range(len(counts))]
    lines = {
        "VERSION": "0.7",
        "FIELDS": " ".join(names),
        "SIZE": " ".join(map(str, sizes)),
        "TYPE": " ".join(types),
        "COUNT": " ".join(map(str, counts)),
        "WIDTH": points,
        "HEIGHT": 1,
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": points,
        "DATA": kind,
    }
    text = "".join(f"{word} {words}\n" for word, words in lines.items())
    try:
        cloud = PointCloud.from_fileobj(cast(io.BufferedReader, io.BytesIO(text.encode() + body))).pc_data
    except Exception as error:  # whatever the package or its decompressor stumbles over
        raise Fault(
            f"expected {points} points ({kind}), found data that cannot be unpacked: {_line(error)}. "
            "Copy or export the file again."
        ) from error
    if len(cloud) != points:
        raise _short(points, len(cloud))
    columns = []
    for name, count in zip(names, counts, strict=True):
        parts = [cloud[name if count == 1 else f"{name}__{place:04d}"] for place in range(count)]
        if count == 1:
            columns.append(parts[0].copy())
        elif kind == "binary":
            columns.append(np.stack(parts, axis=1))
        else:  # packed, a field stands point by point, while pypcd4 takes one component after the other
            columns.append(np.concatenate(parts).reshape(points, count))
    return columns


def _short(points: int, held: int) -> Fault:
    return Fault(
        f"expected {points} points, as the header promises, found {held}. The file is cut off or its header is wrong: "
        "export it again."
    )


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__} {error}")[:120]


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's encoding, viewpoint, fields and types, then the extra fields; padding is not carried."""
    with needs("scans", "writing PCD"):
        from pypcd4 import Encoding, MetaData, PointCloud

    layout, count = moved.like.layout, len(moved.points)
    names, declared = layout["coordinates"], layout["types"]
    types = coordinate_types(moved, [np.dtype(declared[name]) for name in names])
    axes = {name: column.astype(type) for name, column, type in zip(names, moved.points.T, types, strict=True)}
    columns = {
        name: axes[name] if name in axes else _as_declared(moved.fields[name], np.dtype(declared[name]))
        for name in declared
    }
    columns |= extra_columns(moved, types[0])
    width, height = layout["width"], layout["height"]
    if width * height != count:
        width, height = count, 1
        if layout["height"] > 1:
            moved.notes.append("the organised cloud is written as one row, because points were dropped from it")
    kind = Encoding(layout["data"])
    header: dict[str, Any] = {
        "fields": tuple(columns),
        "size": tuple(column.dtype.itemsize for column in columns.values()),
        "type": tuple(KINDS[column.dtype.kind] for column in columns.values()),
        "count": tuple(1 if column.ndim == 1 else column.shape[1] for column in columns.values()),
        "viewpoint": _viewpoint(layout["viewpoint"]),
    }
    meta = MetaData(**header, points=count, width=width, height=height, data=kind)
    if kind is Encoding.ASCII:  # pypcd4 rounds to ten decimals
        stream.write(_with_comments(meta.compose_header().encode(), layout["comments"]))
        write_all(stream, text_rows(list(columns.values())))
        return
    rows = np.zeros(count, meta.build_dtype())
    for name, column in columns.items():
        if column.ndim == 1:
            rows[name] = column
            continue
        # packed, a field stands point by point, while pypcd4 packs one component after the other
        parts = column.reshape(column.shape[1], count) if kind is Encoding.BINARY_COMPRESSED else column.T
        for place, part in enumerate(parts):
            rows[f"{name}__{place:04d}"] = part
    held = io.BytesIO()
    PointCloud(meta, rows).save(held, kind)
    stream.write(_with_comments(held.getvalue(), layout["comments"]))


def _with_comments(content: bytes, comments: Sequence[str]) -> bytes:
    """A file with comments behind its first line, and its header's letters as the reader takes them."""
    head, data, rest = content.partition(b"\nDATA ")
    first, *others = head.decode("utf-8").split("\n")
    return "\n".join([first, *comments, *others]).encode("latin-1") + data + rest


def _viewpoint(words: list[str]) -> tuple[float, ...]:
    """The seven numbers of the header's line; those of no viewpoint where it holds something else."""
    values = [numerals.number(word) for word in words]
    found = tuple(value for value in values if value is not None)
    return found if len(found) == len(values) == 7 else (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def _as_declared(values: NDArray, declared: np.dtype) -> NDArray:
    """The values in the header's type, unless that is whole and cannot hold them."""
    if declared.kind == "f":
        return values.astype(declared)
    with np.errstate(all="ignore"):
        cast = values.astype(declared)
    return cast if np.array_equal(cast, values) else values
