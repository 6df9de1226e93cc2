"""PLY: every encoding, odd headers, and plyfile as a second opinion where it is installed (GPL: for tests alone)."""

from __future__ import annotations

import gzip
import io
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from pwan.pointfiles import PointFile, read_points, write_points
from pwan.pointfiles.ply.header import TYPES
from pwan.randomness import numpy_generator

POINTS = numpy_generator(0, "ply").normal(size=(7, 3)).astype(np.float32)
XYZ = "property float x\nproperty float y\nproperty float z\n"


def head(encoding: str, body: str, end: str = "\n") -> bytes:
    return f"ply\nformat {encoding} 1.0\n{body}end_header\n".replace("\n", end).encode()


def ascii_rows(points: np.ndarray) -> str:
    return "".join(" ".join(map(str, row)) + "\n" for row in points)


def read(folder: Path, content: bytes, name: str = "a.ply", **options) -> PointFile:
    (folder / name).write_bytes(content)
    return read_points(folder / name, **options)


def random_ply(seed: int) -> tuple[bytes, str]:
    """A file with random elements, properties and lists before, in and behind the vertices."""
    random = numpy_generator(seed, "random ply")
    encoding = ["ascii", "binary_little_endian", "binary_big_endian"][seed % 3]
    order = ">" if "big" in encoding else "<"
    names = list(TYPES)[:12] + ["float", "double", "float32", "float64"]
    header, body = "", b""

    def scalar(kind: str) -> bytes:
        code = TYPES[kind]
        value = random.normal() if code[0] == "f" else int(random.integers(0, 100))
        packed = np.array(value, order + code)
        return (str(packed.item()) + " ").encode() if encoding == "ascii" else packed.tobytes()

    for element in ["camera", "vertex", "face"]:
        count = int(random.integers(1, 6))
        header += f"element {element} {count}\n"
        properties: list[tuple[str, str | None]] = []
        if element == "vertex":
            where = sorted(random.choice(6, 3, replace=False))
            kinds = [str(random.choice(names)) for _ in range(6)]
            labels = [f"p{i}" for i in range(6)]
            for place, axis in zip(where, random.permutation(list("xyz")), strict=True):
                kinds[place], labels[place] = str(random.choice(["float", "double", "float32"])), str(axis)
            properties = [(kind, None) for kind in kinds]
            header += "".join(f"property {kind} {label}\n" for kind, label in zip(kinds, labels, strict=True))
        elif element == "face":
            properties = [("int", "uchar"), ("uchar", None)]
            header += "property list uchar int vertex_indices\nproperty uchar flag\n"
        else:
            properties = [("float", "ushort"), ("double", None), ("short", "int")]
            header += "property list ushort float a\nproperty double b\nproperty list int short c\n"
        vertices = count if element == "vertex" else 0
        for _ in range(count):
            for kind, count_kind in properties:
                length = 1
                if count_kind is not None:
                    length = int(random.integers(0, 9)) if element == "camera" else 3
                    packed = np.array(length, order + TYPES[count_kind])
                    body += f"{length} ".encode() if encoding == "ascii" else packed.tobytes()
                for _ in range(length):
                    body += (
                        (b"0 " if encoding == "ascii" else np.array(0, order + TYPES[kind]).tobytes())
                        if (element == "face")
                        else scalar(kind)
                    )
            body += b"\n" if encoding == "ascii" else b""
        assert vertices >= 0
    return head(encoding, header) + body, encoding


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_plyfile(tmp_path, seed):
    plyfile = pytest.importorskip("plyfile", reason="plyfile is not installed (requirements-dev.txt)")
    content, encoding = random_ply(seed)
    ours = read(tmp_path, content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of empty lists in plyfile's reader
        theirs = plyfile.PlyData.read(io.BytesIO(content))["vertex"].data
    np.testing.assert_array_equal(
        ours.points.astype(np.float32), np.column_stack([theirs[axis] for axis in "xyz"]).astype(np.float32)
    )
    assert set(ours.fields) == set(theirs.dtype.names) - set("xyz")
    for name, values in ours.fields.items():
        np.testing.assert_array_equal(values, theirs[name])
        assert values.dtype == theirs[name].dtype.newbyteorder("=")
    assert ours.faces is not None and ours.faces.shape[1] == 3 and ours.layout["encoding"] == encoding


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_binary(tmp_path, order, end):
    kind = "binary_little_endian" if order == "<" else "binary_big_endian"
    points = POINTS.copy()
    points[0, 0] = np.frombuffer(b"\n\r\n\r", order + "f4")[0]  # a body that begins like a line's end
    body = points.astype(order + "f4").tobytes()
    result = read(tmp_path, head(kind, f"comment a\nobj_info b\nelement vertex 7\n{XYZ}", end) + body)
    np.testing.assert_array_equal(result.points, points.astype(np.float64))
    assert result.layout["comments"] == ("comment a", "obj_info b")
    body += b"\n"
    assert len(read(tmp_path, head(kind, f"element vertex 7\n{XYZ}") + body).points) == 7


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.ply", "a.PLY", "a.xyz", "a", "a b=[1],{2}#ü.ply"])
def test_ascii(tmp_path, end, name):
    content = head("ascii", f"element vertex 7\n{XYZ}", end) + ascii_rows(POINTS).replace("\n", end).encode()
    for packed in (content, gzip.compress(content), gzip.compress(content[:100]) + gzip.compress(content[100:])):
        np.testing.assert_allclose(read(tmp_path, packed, name).points, POINTS, rtol=1e-7)


def test_mixed_line_ends_and_a_byte_order_mark(tmp_path):
    content = head("binary_little_endian", f"element vertex 7\n{XYZ}").replace(b"ply\n", b"ply\r\n")
    np.testing.assert_array_equal(read(tmp_path, content + POINTS.tobytes()).points, POINTS)
    content = b"\xef\xbb\xbf" + head("ascii", f"element vertex 7\n{XYZ}") + ascii_rows(POINTS).encode()
    np.testing.assert_allclose(read(tmp_path, content).points, POINTS, rtol=1e-7)


def test_doubles_stay_doubles(tmp_path):
    points = np.array([[500000.123456789, 4600000.987654321, 1 / 3]])
    body = head("binary_big_endian", "element vertex 1\n" + XYZ.replace("float", "double"))
    np.testing.assert_array_equal(read(tmp_path, body + points.astype(">f8").tobytes()).points, points)
    for kind in ("float", "double"):  # text holds more digits than the declared type
        content = head("ascii", "element vertex 1\n" + XYZ.replace("float", kind))
        np.testing.assert_array_equal(read(tmp_path, content + ascii_rows(points.tolist()).encode()).points, points)


def test_faces_of_any_length(tmp_path):
    faces = [[0, 1, 2], [1, 2, 3, 4], [4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]
    header = f"element vertex 7\n{XYZ}element face 4\nproperty uchar flag\nproperty list uint8 int32 vertex_index\n"
    binary = POINTS.tobytes() + b"".join(struct.pack(f"<BB{len(f)}i", 9, len(f), *f) for f in faces)
    text = ascii_rows(POINTS) + "".join(f"9 {len(f)} {' '.join(map(str, f))}\n" for f in faces)
    for content in (head("binary_little_endian", header) + binary, head("ascii", header) + text.encode()):
        result = read(tmp_path, content)
        assert [[corner for corner in face if corner >= 0] for face in result.faces.tolist()] == faces
        assert len(result.triangles) == sum(len(face) - 2 for face in faces)
        assert result.triangles[1:3].tolist() == [[1, 2, 3], [1, 3, 4]]


def test_a_dropped_point_takes_its_faces(tmp_path):
    points = POINTS.copy()
    points[2] = np.nan
    header = f"element vertex 7\n{XYZ}element face 2\nproperty list uchar int vertex_indices\n"
    content = head("ascii", header) + (ascii_rows(points) + "3 0 1 2\n3 3 4 6\n").encode()
    with pytest.raises(ValueError, match="drop_invalid"):
        read(tmp_path, content)
    result = read(tmp_path, content, drop_invalid=True)
    assert result.faces.tolist() == [[2, 3, 5]] and result.rows.tolist() == [0, 1, 3, 4, 5, 6]


def test_normals_colours_and_values_that_do_not_fit(tmp_path):
    names = ["float nx", "float ny", "float nz", "uchar red", "uchar green"]
    header = f"element vertex 2\n{XYZ}" + "".join(f"property {name}\n" for name in names)
    result = read(tmp_path, head("ascii", header) + b"1 2 3 0 0 1 255 0.5\n4 5 6 0 1 0 7 1\n")
    assert result.normals.tolist() == [[0, 0, 1], [0, 1, 0]] and result.normal_names == ("nx", "ny", "nz")
    assert result.fields["red"].dtype == np.uint8 and result.fields["green"].tolist() == [0.5, 1]
    assert any("green" in note for note in result.notes)


def test_whole_numbers_of_64_bits(tmp_path):
    """In ASCII too, where float64 would round them and turn the largest one's sign."""
    header = f"element vertex 2\n{XYZ}property uint64 t\nproperty int64 u\nproperty int v\n"
    rows = "1 2 3 1625000000123456789 9223372036854775807 9007199254740993\n"
    rows += "4 5 6 18446744073709551615 -9223372036854775808 7\n"
    result = read(tmp_path, head("ascii", header) + rows.encode())
    assert result.fields["t"].tolist() == [1625000000123456789, 18446744073709551615]
    assert result.fields["u"].tolist() == [9223372036854775807, -9223372036854775808]
    assert result.fields["v"].tolist() == [9007199254740993, 7]
    assert [result.fields[name].dtype.str[1:] for name in "tuv"] == ["u8", "i8", "u8"]
    assert [note for note in result.notes if "property" in note] == [
        "the values of property v do not fit its type and are kept as they stand"
    ]
    write_points(tmp_path / "b.ply", result, result.points)
    assert read_points(tmp_path / "b.ply").fields["u"].tolist() == [9223372036854775807, -9223372036854775808]
    lists = f"element vertex 1\n{XYZ}property list uchar int64 n\n"
    rounded = read(tmp_path, head("ascii", lists) + b"1 2 3 1 9007199254740993\n")
    assert "whole numbers above 2^53 of property n were rounded" in rounded.notes


def test_a_list_of_each_vertex(tmp_path):
    header = f"element vertex 2\nproperty list uchar short n\n{XYZ}"
    result = read(tmp_path, head("ascii", header) + b"2 8 9 1 2 3\n2 6 7 4 5 6\n")
    assert result.fields["n"].tolist() == [[8, 9], [6, 7]] and result.points.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert read(tmp_path, head("ascii", header) + b"2 8 9 1 2 3\n0 4 5 6\n").fields == {}


def test_coordinates_by_key_and_in_the_plane(tmp_path):
    content = head("ascii", "element vertex 1\nproperty float a\nproperty float b\nproperty float c\n") + b"1 2 3\n"
    assert read(tmp_path, content, key="c,a").points.tolist() == [[3, 1]]
    with pytest.raises(ValueError, match="a, b, c"):
        read(tmp_path, content)
    flat = head("ascii", "element vertex 1\nproperty float y\nproperty float x\n") + b"1 2\n"
    assert read(tmp_path, flat).points.tolist() == [[2, 1]]


VERTEX = f"element vertex 7\n{XYZ}"
BAD = {
    "less binary": (head("binary_little_endian", VERTEX) + POINTS.tobytes()[:-1], "expected 7 rows.*found 6"),
    "more text": (head("ascii", VERTEX) + ascii_rows(POINTS).encode() + b"1 2 3\n", "expected 7 lines.*found 8"),
    "less text": (head("ascii", VERTEX) + ascii_rows(POINTS[:6]).encode(), "expected 7 lines.*found 6"),
    "short row": (head("ascii", VERTEX) + ascii_rows(POINTS[:6]).encode() + b"1 2\n", "line 14: expected 3 values"),
    "no number": (head("ascii", VERTEX) + ascii_rows(POINTS[:6]).encode() + b"1 2 x\n", "line 14: expected a number"),
    "face outside": (
        head("ascii", f"{VERTEX}element face 1\nproperty list uchar int vertex_index\n")
        + ascii_rows(POINTS).encode() + b"3 0 1 7\n",
        "point number 7",
    ),
    "face before the first": (
        head("binary_little_endian", f"{VERTEX}element face 1\nproperty list uchar int vertex_index\n")
        + POINTS.tobytes() + struct.pack("<B3i", 3, 0, -1, 2),
        "point number -1",
    ),
    "long list": (
        head("binary_little_endian", f"element a 1\nproperty list uint int n\n{VERTEX}") + b"\xff" * 90,
        "expected 1 rows of element a",
    ),
    "negative list": (
        head("binary_little_endian", f"element a 1\nproperty list char int n\n{VERTEX}") + b"\xff" + POINTS.tobytes(),
        "lengths of lists",
    ),
    "huge count": (head("binary_little_endian", f"element vertex {10**17}\n{XYZ}") + POINTS.tobytes(), "found 7"),
    "type": (head("ascii", VERTEX.replace("float x", "quad x")), "line 4: .*uint16"),
    "list by fractions": (head("ascii", "element a 1\nproperty list float int n\n"), "line 4"),
    "encoding": (head("binary_middle_endian", VERTEX), "line 2"),
    "twice": (head("ascii", VERTEX + "property float x\n"), "x again"),
    "no vertices": (head("ascii", "element star 1\nproperty float x\n") + b"1\n", "star"),
    "no z": (head("ascii", VERTEX.replace("float x", "float v")) + ascii_rows(POINTS).encode(), "v, y, z"),
    "no end": (head("ascii", VERTEX).replace(b"end_header", b""), "end_header"),
    "no format": (b"ply\n" + VERTEX.encode() + b"end_header\n", "format"),
    "no properties": (head("ascii", "element vertex 7\n"), "properties of element vertex"),
    "no points": (head("ascii", VERTEX.replace("7", "0")), "found none"),
    "negative count": (head("ascii", VERTEX.replace("7", "-7")), "line 3"),
    "no PLY": (b"plx\nformat ascii 1.0\n", "'ply' in the first line"),
    "cut gzip": (gzip.compress(head("ascii", VERTEX) + ascii_rows(POINTS).encode())[:-9], "cut off"),
    "damaged gzip": (gzip.compress(head("ascii", VERTEX))[:-8] + b"12345678", "cannot be unpacked"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_refuses_with_a_sentence(tmp_path, kind):
    content, match = BAD[kind]
    with pytest.raises(ValueError, match=f"a.ply: .*{match}"):
        read(tmp_path, content)


@pytest.mark.parametrize("encoding", ["binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("faces", [b"", b"\x03" + bytes(12)])
@pytest.mark.parametrize("rest", [b"12345", POINTS.tobytes(), b"\0" * 4096 + b"a", b"# made by x\n"])
def test_bytes_behind_the_last_row_are_left_out_with_a_warning(tmp_path, encoding, faces, rest):
    """Other programs read such files."""
    body = POINTS.astype(">f4" if "big" in encoding else "<f4").tobytes()
    more = "element face 1\nproperty list uchar int vertex_indices\n" if faces else ""
    for packed in (False, True):
        content = head(encoding, VERTEX + more) + body + faces + rest
        result = read(tmp_path, gzip.compress(content) if packed else content)
        np.testing.assert_array_equal(result.points, POINTS)
        assert (result.faces is not None) == bool(faces)
        warned = [note for note in result.notes if note.startswith("warning: ")]
        assert len(warned) == 1 and f"{len(rest)} more bytes stand behind the 7 vertex" in warned[0]
    assert not any("warning" in note for note in read(tmp_path, head(encoding, VERTEX) + body + b"\r\n").notes)
