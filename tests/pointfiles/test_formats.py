"""OBJ, OFF, STL, PCD, LAS, LAZ, NPY, NPZ, MAT and headerless files."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pwan.pointfiles import PointFile, read_points
from tests.pointfiles import makers
from tests.pointfiles.makers import FACES, POINTS


def read(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


@pytest.mark.parametrize("kind", makers.every())
def test_every_format(tmp_path, kind):
    name, content = makers.every()[kind]
    result = read(tmp_path, content, name)
    np.testing.assert_allclose(result.points, POINTS, rtol=0, atol=1e-6)
    assert result.points.dtype == np.float64 and result.points.flags.c_contiguous
    np.testing.assert_array_equal(result.rows, np.arange(len(POINTS)))
    if result.faces is not None:
        assert result.faces.tolist() == FACES


@pytest.mark.parametrize("kind", ["obj", "off", "stl", "stl ascii"])
def test_meshes_agree_with_trimesh(tmp_path, kind):
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed (requirements-dev.txt)")
    name, content = makers.every()[kind]
    theirs = trimesh.load(io.BytesIO(content), file_type=name[-3:], process=False, maintain_order=True)
    ours = read(tmp_path, content, name)
    np.testing.assert_allclose(ours.points[ours.faces], theirs.vertices[theirs.faces])


# OBJ

CORNERS = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\n"


def test_obj_keeps_every_vertex_whatever_the_faces_say(tmp_path):
    """Seams, several materials and negative numbers, on which trimesh merges, repeats or leaves out vertices."""
    rest = "vt 0 0\nvt 1 1\nusemtl a\nf 1/1 2/2 3/1\nusemtl b\no other\nf -5/1 -3/2 -2/1\nf 1 2 3 4\n"
    result = read(tmp_path, CORNERS + rest, "a.obj")
    assert result.points.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert result.faces.tolist() == [[0, 1, 2, -1], [0, 2, 3, -1], [0, 1, 2, 3]]


def test_obj_colours_weights_normals_and_long_lines(tmp_path):
    colours = read(tmp_path, "v 1 2 3 0.1 0.2 0.3\nv 4 5 6 0.4 0.5 0.6\n", "a.obj")
    assert colours.points.tolist() == [[1, 2, 3], [4, 5, 6]] and colours.fields["blue"].tolist() == [0.3, 0.6]
    weights = read(tmp_path, "v 1 2 3 1.0\nv 4 5 6 1\n", "a.obj")
    assert weights.points.tolist() == [[1, 2, 3], [4, 5, 6]] and not weights.fields
    normals = read(tmp_path, CORNERS + "vn 0 0 1\n" * 5 + "f 1//1 2//2 3//3\n", "a.obj")
    assert normals.normals.tolist() == [[0, 0, 1]] * 5
    crossed = read(tmp_path, CORNERS + "vn 0 0 1\n" * 5 + "f 1//2 2//1 3//3\n", "a.obj")
    assert crossed.normals is None and any("normals" in note for note in crossed.notes)
    assert read(tmp_path, CORNERS + "f 1 2 \\\n 3\n", "a.obj").faces.tolist() == [[0, 1, 2]]
    assert read(tmp_path, CORNERS, "a.txt").format == "obj"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (CORNERS + "v 1 2\n", "line 6: expected 3 values for a vertex, found 2"),
        ("v 1 2\n" + CORNERS, "line 1: expected a vertex of 3, 4, 6 or 7"),
        (CORNERS + "v 1 2 x\n", "line 6: expected a number"),
        (CORNERS + "f 1 2 6\n", "point number 5"),
        (CORNERS + "f 0 1 2\n", "line 6"),
        (CORNERS + "f 1 2 -6\n", "line 6"),
        (CORNERS + "f 1 2\n", "at least 3 corners"),
        (CORNERS + "q 1 2 3\n", "line 6: expected a line of an OBJ"),
        ("# nothing\n", "found none"),
        ("v nan 0 0\n" + CORNERS, "1 of 6 points"),
        ("v 0.123456 0.123456 0.123456\n" * 9 + "v 0.123456 0.123456 0.12", "cut off"),
    ],
)
def test_obj_refused(tmp_path, content, match):
    with pytest.raises(ValueError, match=f"a.obj: .*{match}"):
        read(tmp_path, content, "a.obj")


# OFF


@pytest.mark.parametrize(
    "head",
    [
        "OFF\n2 1 0\n",
        "OFF 2 1 0\n",
        "off\n2 1\n",
        "2 1 0\n",
        "# c\n\nOFF # c\n# c\n2 1 0 # c\n",
        "\ufeffOFF\r\n2 1 0\r\n",
    ],
)
def test_off_heads(tmp_path, head):
    result = read(tmp_path, head + "1 2 3\n\n4 5 6 # c\n3 0 1 0 255 0 0\n", "a.off")
    assert result.points.tolist() == [[1, 2, 3], [4, 5, 6]] and result.faces.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("head", "values", "fields"),
    [
        ("COFF", "10 20 30 255", ["red", "green", "blue", "alpha"]),
        ("OFF", "0.1 0.2 0.3", ["red", "green", "blue"]),
        ("NOFF", "0 0 1", ["nx", "ny", "nz"]),
        ("CNOFF", "0 0 1 10 20 30", ["nx", "ny", "nz", "red", "green", "blue"]),
        ("STOFF", "0.5 0.5", ["s", "t"]),
        ("OFF", "7", ["column_4"]),
    ],
)
def test_off_values_of_a_vertex(tmp_path, head, values, fields):
    result = read(tmp_path, f"{head}\n2 0 0\n1 2 3 {values}\n4 5 6 {values}\n", "a.off")
    assert result.points.tolist() == [[1, 2, 3], [4, 5, 6]] and list(result.fields) == fields and result.faces is None


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("OFF\n3 0 0\n1 2 3\n4 5 6\n", "expected 3 vertices.*found 2 lines"),
        ("OFF\n2 1 0\n1 2 3\n4 5 6\n", "1 faces"),
        ("OFF\n1 0 0\n1 2 3\n4 5 6\n", "found 2 lines"),
        ("OFF\n2 0 0\n1 2 3\n4 5\n", "line 4"),
        ("OFF\n2 1 0\n1 2 3\n4 5 6\n3 0 1\n", "line 5: expected 3 corners"),
        ("OFF\n2 1 0\n1 2 3\n4 5 6\n3 0 1 2\n", "point number 2"),
        ("OFF\n0 0 0\n", "found none"),
        ("OFF\n", "counts"),
        ("4OFF\n1 0 0\n1 2 3 4\n", "plain OFF"),
        ("OFF BINARY\n\0\0", "OFF in ASCII|other binary"),
    ],
)
def test_off_refused(tmp_path, content, match):
    with pytest.raises(ValueError, match=match):
        read(tmp_path, content, "a.off")


# STL


def test_stl_distinct_vertices(tmp_path):
    facet = "facet normal 0 0 1\nouter loop\nvertex {}\nvertex {}\nvertex {}\nendloop\nendfacet\n"
    square = facet.format("0 0 0", "1 0 0", "1 1 0") + facet.format("-0 0 0", "1 1 0", "0 1 0")
    for text in (f"solid\n{square}endsolid\n", f"SOLID a b\n{square.upper()}ENDSOLID a b\n" * 2):
        result = read(tmp_path, text, "a.stl")
        assert result.points.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        assert result.faces[:2].tolist() == [[0, 1, 2], [0, 2, 3]]
        assert any("4 distinct" in note for note in result.notes)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (makers.stl()[:-1], "expected 8 triangles.*found 7.98"),
        (makers.stl() + b"\0", "expected 8 triangles"),
        (makers.stl()[:50], "endsolid"),
        (makers.stl(binary=False)[:-18], "endsolid"),
        (makers.stl(binary=False).replace(b"vertex", b"vortex", 1), "line 4"),
        (makers.stl(binary=False).replace(b"  endloop", b"", 1), "line 8: expected endloop"),
        (b"solid nothing\nendsolid\n", "found none"),
    ],
)
def test_stl_refused(tmp_path, content, match):
    with pytest.raises(ValueError, match=match):
        read(tmp_path, content, "a.stl")


# PCD


def test_pcd_header_spellings(tmp_path):
    for content in (
        makers.pcd(type="f"),
        makers.pcd()
        .replace(b"HEIGHT 1\n", b"")
        .replace(b"VIEWPOINT 0 0 0 1 0 0 0\n", b"")
        .replace(b"POINTS 24\n", b""),
        makers.pcd().replace(b"VERSION 0.7", b"VERSION .5").replace(b"FIELDS", b"COLUMNS"),
        makers.pcd().replace(b"\n", b"\r\n"),
        makers.pcd().replace(b" ", b"\t"),
        makers.pcd().replace(b"# .PCD", b"\n# .PCD").replace(b"DATA", b"# c\ndata"),
        makers.pcd("binary", type="f") + b"\0" * 20,
        makers.pcd("binary_compressed").replace(b"VERSION 0.7\n", b""),
        makers.pcd("binary_compressed") + b"\0",
    ):
        result = read(tmp_path, content, "a.pcd")
        np.testing.assert_allclose(result.points, POINTS, atol=1e-6)
        assert result.fields["intensity"].dtype == np.uint16 and list(result.fields) == ["intensity"]
        np.testing.assert_array_equal(result.fields["intensity"], np.arange(24))


def test_pcd_organised_cloud_with_nan(tmp_path):
    points = POINTS.copy()
    points[[3, 7]] = np.nan
    for kind in ("ascii", "binary", "binary_compressed"):
        content = makers.pcd(kind, 6, 4, points)
        with pytest.raises(ValueError, match="2 of 24 points .number 4, 8"):
            read(tmp_path, content, "a.pcd")
        result = read(tmp_path, content, "a.pcd", drop_invalid=True)
        np.testing.assert_array_equal(result.rows, np.delete(np.arange(24), [3, 7]))
        np.testing.assert_array_equal(result.fields["intensity"], result.rows)


def test_pcd_double_and_lists(tmp_path):
    head = "FIELDS h x y z\nSIZE 4 8 8 8\nTYPE F F F F\nCOUNT 3 1 1 1\nWIDTH 2\nHEIGHT 1\nPOINTS 2\nDATA "
    points = np.array([[500000.123456789, 4600000.987654321, 1 / 3], [1, 2, 3]])
    dtype = np.dtype([("h", "<f4", 3), ("p", "<f8", 3)])
    table = np.zeros(2, dtype)
    table["h"], table["p"] = [[1, 2, 3], [4, 5, 6]], points
    text = "".join(
        f"{a} {b} {c} {x!r} {y!r} {z!r}\n" for (a, b, c), (x, y, z) in zip(table["h"], points.tolist(), strict=True)
    )
    for content in (head.encode() + b"binary\n" + table.tobytes(), (head + "ascii\n" + text).encode()):
        result = read(tmp_path, content, "a.pcd")
        np.testing.assert_array_equal(result.points, points)
        np.testing.assert_array_equal(result.fields["h"], table["h"])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (makers.pcd()[:-30], "expected 24 points.*found 22|line 35"),
        (makers.pcd("binary")[:-1], "expected 24 points.*found 23"),
        (makers.pcd("binary") + b"12", "2 more bytes"),
        (makers.pcd("binary_compressed")[:-9], "packed in"),
        (makers.pcd("binary_compressed")[:-300] + b"\xff" * 300, "cannot be unpacked"),
        (makers.pcd().replace(b"POINTS 24", b"POINTS 23"), "23 = 24 × 1"),
        (makers.pcd().replace(b"SIZE 4 4", b"SIZE 4 3"), "SIZE 3"),
        (makers.pcd().replace(b"TYPE F", b"TYPE Q"), "TYPE Q"),
        (makers.pcd().replace(b"COUNT 1 1", b"COUNT 1"), "as many"),
        (makers.pcd().replace(b"FIELDS x y z", b"FIELDS a b c"), "a, b, c"),
        (makers.pcd().replace(b"DATA ascii", b"DATA morse"), "morse|DATA"),
        (makers.pcd().replace(b"WIDTH", b"WEDTH"), "line 7"),
        (makers.pcd()[:100], "DATA"),
        (makers.pcd(width=0, points=POINTS[:0]), "found none"),
    ],
)
def test_pcd_refused(tmp_path, content, match):
    with pytest.raises(ValueError, match=match):
        read(tmp_path, content, "a.pcd")


# LAS


def test_las_map_offset_and_fields(tmp_path):
    for name, content in (("a.las", makers.las(offset=4.6e6)), ("a.LAZ", makers.las(compressed=True, offset=4.6e6))):
        result = read(tmp_path, content, name)
        np.testing.assert_allclose(result.points, POINTS + 4.6e6, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(result.fields["intensity"], np.arange(24))
        assert result.format == name[-3:].lower() and result.layout["offsets"] == [4.6e6] * 3


@pytest.mark.parametrize("version", ["1.2", "1.4"])
@pytest.mark.parametrize("compressed", [False, True])
def test_las_counts_are_compared(tmp_path, version, compressed):
    good = makers.las(compressed, version)
    wrong = bytearray(good)
    wrong[247 if version == "1.4" else 107] = 23
    for content in (bytes(wrong), good[:-1] if not compressed else good[:-40], good[:300], good[:100]):
        with pytest.raises(ValueError, match="expected .*found"):
            read(tmp_path, content, "a.las")
    with pytest.raises(ValueError, match="no key"):
        read(tmp_path, good, "a.las", key="x")


# NPY, NPZ, MAT


@pytest.mark.parametrize(
    "array",
    [
        POINTS.T,
        POINTS[None],
        POINTS[None, None],
        POINTS.T[None],
        np.asfortranarray(POINTS),
        POINTS.astype(">f8"),
        np.asfortranarray(POINTS.astype(">f8")),
        POINTS.astype("<f4"),
        np.column_stack([POINTS, POINTS]),
        np.rec.fromarrays(POINTS.T, names="x,y,z"),
        np.rec.fromarrays([np.arange(24), *POINTS.T[::-1]], names="i,Z,Y,X").reshape(4, 6),
        np.array([(row, 1) for row in POINTS], dtype=[("xyz", "f8", 3), ("i", "u2")]),
    ],
)
def test_npy_layouts(tmp_path, array):
    result = read(tmp_path, makers.npy(array), "a.npy")
    np.testing.assert_array_equal(result.points, POINTS)
    assert result.points.dtype == np.dtype("f8") and result.points.dtype.isnative
    assert array.shape == (24, 3) or array.dtype.names or result.notes


@pytest.mark.parametrize("dtype", ["i2", "u1", "i8", "f2", ">i4", "f4", "g"])
def test_npy_types(tmp_path, dtype):
    array = np.arange(30).reshape(10, 3).astype(dtype)
    np.testing.assert_array_equal(read(tmp_path, makers.npy(array), "a.npy").points, np.arange(30).reshape(10, 3))


def test_npy_small_sets(tmp_path):
    assert read(tmp_path, makers.npy(np.array([1.0, 2, 3])), "a.npy").points.tolist() == [[1, 2, 3]]
    assert read(tmp_path, makers.npy(POINTS[:3]), "a.npy").points.tolist() == POINTS[:3].tolist()
    assert read(tmp_path, makers.npy(POINTS[:3, :2]), "a.npy").points.tolist() == POINTS[:3, :2].tolist()
    assert read(tmp_path, makers.npy(POINTS[:, :2].T), "a.npy").points.shape == (24, 2)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (makers.npy(np.array([Trap(), None], dtype=object), pickled=True), "never unpickled.*numpy.asarray"),
        (pickle.dumps({"a": 1}), "NPY file"),
        (makers.npy(np.array(3.5)), "shape"),
        (makers.npy(np.arange(24.0)), r"\(24,\)"),
        (makers.npy(np.zeros((0, 3))), "expected points"),
        (makers.npy(np.zeros((24, 1))), r"\(24, 1\)"),
        (makers.npy(np.zeros((7, 1000))), r"\(7, 1000\)"),
        (makers.npy(np.zeros((2, 8, 3))), r"\(2, 8, 3\)"),
        (makers.npy(POINTS + 1j), "complex128"),
        (makers.npy(POINTS > 0), "bool"),
        (makers.npy(np.array([["a", "b"]] * 3)), "<U1"),
        (makers.npy(np.rec.fromarrays(POINTS.T, names="a,b,c")), "a, b, c"),
        (makers.npy()[:-1], "expected 576 bytes.*found 575"),
        (makers.npy() + makers.npy(), "found 1280"),
        (makers.npy()[:40], "header"),
        (makers.npy().replace(b"(24, 3)", b"(-4, 3)"), "shape"),
        (makers.npy().replace(b"(24, 3), }     ", b"(9999999, 99)}"), "found|header"),
        (makers.npy(np.where(POINTS > 1, np.nan, POINTS)), "drop_invalid"),
    ],
)
def test_npy_refused(tmp_path, content, match):
    with pytest.raises(ValueError, match=f"a.npy: .*{match}"):
        read(tmp_path, content, "a.npy")


def test_key_of_records(tmp_path):
    content = makers.npy(np.rec.fromarrays([np.arange(24), *POINTS.T], names="i,a,b,c"))
    np.testing.assert_array_equal(read(tmp_path, content, "a.npy", key="a,b,c").points, POINTS)
    with pytest.raises(ValueError, match="i, a, b, c"):
        read(tmp_path, content, "a.npy", key="d")
    content = makers.npy(np.rec.fromarrays([*POINTS.T, np.arange(24)], names="x,y,z,i"))
    np.testing.assert_array_equal(read(tmp_path, content, "a.npy", key="x").points, POINTS)


@pytest.mark.parametrize("maker", [makers.npz, makers.mat])
def test_named_arrays(tmp_path, maker):
    other = POINTS[::-1]
    name = "a.npz" if maker is makers.npz else "a.mat"
    content = maker(source=POINTS, reference=other)
    np.testing.assert_array_equal(read(tmp_path, content, name, key="reference").points, other)
    with pytest.raises(ValueError, match=r"source \(24, 3\), reference \(24, 3\)"):
        read(tmp_path, content, name)
    with pytest.raises(ValueError, match="'target'.*source"):
        read(tmp_path, content, name, key="target")
    result = read(tmp_path, maker(points=POINTS.T, normals=other, scale=np.array([[2.0]])), name)
    np.testing.assert_array_equal(result.points, POINTS)
    np.testing.assert_array_equal(result.normals, other)
    np.testing.assert_array_equal(read(tmp_path, maker(scale=np.eye(1), a=POINTS), name).points, POINTS)
    with pytest.raises(ValueError, match="one array of shape"):
        read(tmp_path, maker(scale=np.eye(1)), name)


@pytest.mark.parametrize("maker", [makers.npz, makers.mat])
def test_an_array_for_each_coordinate(tmp_path, maker):
    x, y, z = POINTS.T
    content = maker(Z=z, X=x, Y=y, red=np.arange(24), scale=np.eye(1))
    result = read(tmp_path, content, "a.npz" if maker is makers.npz else "a.mat")
    np.testing.assert_array_equal(result.points, POINTS)
    np.testing.assert_array_equal(result.fields["red"], np.arange(24))


def test_npz_with_pickled_and_other_content(tmp_path):
    objects = np.array([Trap(), None], dtype=object)
    result = read(tmp_path, makers.npz(a=POINTS, b=objects), "a.npz")
    np.testing.assert_array_equal(result.points, POINTS)
    with pytest.raises(ValueError, match="never unpickled"):
        read(tmp_path, makers.npz(b=objects), "a.npz", key="b")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.ply", makers.ply())
    with pytest.raises(ValueError, match="a.ply: unpack it"):
        read(tmp_path, stream.getvalue(), "a.npz")


@pytest.mark.parametrize("content", [makers.mat()[:-8], makers.mat()[:100], b"\x89HDF\r\n\x1a\n" + b"1" * 600])
def test_mat_refused(tmp_path, content):
    with pytest.raises(ValueError, match="MAT|-v7"):
        read(tmp_path, content, "a.mat")


# headerless files


@pytest.mark.parametrize(
    ("raw", "dtype", "columns"),
    [
        ("float32 x 4", "<f4", 4),
        ("float32 x 4, first three are coordinates", "<f4", 4),
        ("float64x3", "<f8", 3),
        (">f4 × 3", ">f4", 3),
        (("float32", 5), "<f4", 5),
        ("int16*3", "<i2", 3),
    ],
)
def test_raw(tmp_path, raw, dtype, columns):
    table = np.arange(8 * columns).reshape(8, columns).astype(dtype)
    result = read(tmp_path, table.tobytes(), "a.bin", raw=raw)
    np.testing.assert_array_equal(result.points, table[:, :3])
    assert len(result.fields) == columns - 3 and result.format == "raw"
    with pytest.raises(ValueError, match="multiple of"):
        read(tmp_path, table.tobytes()[:-1], "a.bin", raw=raw)


def test_raw_in_the_plane_and_refused(tmp_path):
    table = np.arange(12, dtype="<f4").reshape(4, 3)
    np.testing.assert_array_equal(
        read(tmp_path, table.tobytes(), "a.bin", raw="float32 x 2").points, table.reshape(6, 2)
    )
    np.testing.assert_array_equal(
        read(tmp_path, table.tobytes(), "a", raw="float32 x 3, first two").points, table[:, :2]
    )
    for raw in ("float32", "quad x 3", "float32 x 1", "object x 3", "U4 x 3", ""):
        with pytest.raises(ValueError, match="expected raw"):
            read(tmp_path, table.tobytes(), "a.bin", raw=raw)
    with pytest.raises(ValueError, match="raw='float32 x 4'"):
        read(tmp_path, np.linspace(0, 1, 60).astype("f4").tobytes(), "a.bin")
