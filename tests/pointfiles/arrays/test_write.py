"""NPY, NPZ, MAT and headerless files written."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS
from tests.pointfiles.written import (
    DISPLACED,
    TURN,
    check_extras,
    check_same,
    moved_by,
    source,
    written,
)


@pytest.mark.parametrize(
    "array",
    [
        POINTS.astype(">f4"),
        POINTS.T.copy(),
        np.asfortranarray(POINTS),
        POINTS[None],
        POINTS[0],
        POINTS[:, :2],
        np.column_stack([POINTS, np.arange(24.0), POINTS[:, :1]]),
        POINTS.astype(np.float16),
    ],
    ids=["big endian", "turned", "fortran", "leading axis", "one point", "plane", "more columns", "half"],
)
def test_plain_arrays_stay_as_they_are(tmp_path, array):
    like = source(tmp_path, makers.npy(array), "a.npy")
    note, again = written(like, like.points)
    held = np.load(note.path)
    assert held.shape == array.shape and held.dtype == array.dtype
    np.testing.assert_array_equal(held, array)
    assert note.left_out == ("matched", "displacement")
    check_same(like, again, points=like.points)
    named = source(tmp_path, makers.npz(cloud=array), "a.npz", key="cloud")
    note, again = written(named, named.points, read={"key": "cloud"})
    with np.load(note.path) as arrays:
        assert list(arrays) == ["cloud", "matched", "displacement"]
        np.testing.assert_array_equal(arrays["cloud"], array)
        np.testing.assert_array_equal(arrays["matched"], np.arange(len(named.points)) % 3 > 0)
        assert arrays["displacement"].shape == named.points.shape


def records(block: bool) -> np.ndarray:
    axes = [("xyz", "<f4", 3)] if block else [("y", "<f4"), ("x", "<f4"), ("z", ">f8")]
    array = np.zeros(24, [("label", "U5"), *axes, ("normal", "<f4", 3), ("hit", "?")])
    array["label"], array["normal"] = [f"n{i}" for i in range(24)], POINTS
    if block:
        array["xyz"] = POINTS
    else:
        array["x"], array["y"], array["z"] = POINTS.T
    array["hit"][::2] = True
    return array


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("shape", [(24,), (6, 4)])
def test_arrays_of_records_get_new_fields(tmp_path, block, shape):
    array = records(block).reshape(shape)
    like = source(tmp_path, makers.npy(array), "a.npy")
    assert like.normal_names == ("normal",)
    turned = like.normals @ TURN.T
    note, again = written(like, fields={"normal": turned})
    np.testing.assert_allclose(again.normals, turned, rtol=1e-6)
    check_extras(like, again)
    held = np.load(note.path)
    assert held.shape == shape and held.dtype.names == (*array.dtype.names, "matched", *DISPLACED)
    assert [held.dtype[name] for name in array.dtype.names] == [array.dtype[name] for name in array.dtype.names]
    np.testing.assert_array_equal(held["label"], array["label"])
    np.testing.assert_array_equal(held["hit"], array["hit"])
    named = source(tmp_path, makers.npz(cloud=array, intensity=np.arange(24)), "a.npz", key="cloud")
    note, again = written(named, read={"key": "cloud"})
    check_same(named, again)
    check_extras(named, again)


def test_arrays_by_axis(tmp_path):
    axes = dict(zip("xyz", POINTS.T.astype(np.float32), strict=True)) | {"label": np.arange(24)}
    for name, content in (("a.npz", makers.npz(**axes)), ("a.mat", makers.mat(**axes))):
        like = source(tmp_path, content, name)
        _, again = written(like)
        check_same(like, again)
        assert set(like.layout["types"].values()) == set(again.layout["types"].values()) == {"<f4"}
        assert {"matched", *DISPLACED} <= set(again.fields)


def test_mat_agrees_with_scipy(tmp_path):
    from scipy.io import loadmat

    like = source(tmp_path, makers.mat(cloud=POINTS, normals=POINTS), "a.mat", key="cloud")
    note, _ = written(like)
    theirs = loadmat(note.path)
    np.testing.assert_array_equal(theirs["cloud"], moved_by(like))
    np.testing.assert_array_equal(theirs["displacement"], moved_by(like) - like.points)
    assert theirs["matched"].shape == (24, 1)


@pytest.mark.parametrize(("type", "raw"), [("<f4", "float32 x 5"), (">f8", ">f8 x 5"), ("<f4", "float32 x 5, first 2")])
def test_headerless_files(tmp_path, type, raw):
    table = np.column_stack([POINTS, np.arange(24), -np.arange(24)]).astype(type)
    like = source(tmp_path, table.tobytes(), "a.bin", raw=raw)
    note, again = written(like, read={"raw": raw})
    check_same(like, again)
    assert note.path.stat().st_size == table.nbytes and note.left_out == ("matched", "displacement")
