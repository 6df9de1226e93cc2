"""NPY, NPZ, MAT and headerless files."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pwan import read_points
from pwan.pointfiles import PointFile
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS


def read(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


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


@pytest.mark.parametrize(
    "content",
    [makers.mat()[:-8], makers.mat()[:100], b"\x89HDF\r\n\x1a\n" + b"1" * 600],
    ids=["cut short", "header alone", "HDF5"],  # a header holds the time of day, and both processes must agree
)
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


@pytest.mark.parametrize("name", ["height", "elevation", "Alt"])
def test_a_height_beside_x_and_y_is_z(tmp_path, name):
    records = read(tmp_path, makers.npy(np.rec.fromarrays(POINTS.T, names=f"x,y,{name}")), "a.npy")
    arrays = read(tmp_path, makers.npz(**dict(zip(("x", "y", name), POINTS.T, strict=True))), "a.npz")
    for result in (records, arrays):
        np.testing.assert_array_equal(result.points, POINTS)
        assert not result.fields
