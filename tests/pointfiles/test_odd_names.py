"""Names that a format allows and a library's own arguments, files or headers do not: read, written and read again."""

from __future__ import annotations

import numpy as np
import pytest

from pwan import read_points, write_points
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS

EXTRA = np.arange(len(POINTS)) % 2


def again(path, **options):
    """The file moved by one, written with a further value for each point, and read again."""
    like = read_points(path, **options)
    moved = path.with_name(f"moved_{path.name}")
    write_points(moved, like, like.points + 1.0, extra={"matched": EXTRA})
    result = read_points(moved, **options)
    np.testing.assert_allclose(result.points, POINTS + 1.0, atol=1e-5)
    return like, result


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "a b", "ü", "x/y"])
def test_arrays_of_an_npz(tmp_path, name):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(f"{name}.npy", makers.npy())
        archive.writestr("normals.npy", makers.npy(POINTS[::-1]))
    like, result = again(tmp_path / "a.npz", key=name)
    assert list(like.fields) == ["normals"] and list(result.fields) == ["normals", "matched"]
    np.testing.assert_array_equal(result.fields["normals"], POINTS[::-1])
    np.testing.assert_array_equal(result.fields["matched"], EXTRA)
    with np.load(tmp_path / "moved_a.npz") as arrays:
        assert list(arrays) == [name, "normals", "matched"]


@pytest.mark.parametrize("name", ["element", "list", "a-b", "é", "end_header2", "comment"])
@pytest.mark.parametrize("encoding", ["ascii", "binary_big_endian"])
def test_properties_of_a_ply(tmp_path, encoding, name):
    (tmp_path / "a.ply").write_bytes(makers.ply(encoding).replace(b"uchar red", b"uchar " + name.encode("latin-1")))
    _, result = again(tmp_path / "a.ply")
    assert list(result.fields) == [name, "matched"] and (result.fields[name] == 7).all()


@pytest.mark.parametrize("name", ["DATA", "points", "a-b", "f0", "__0000", "\xff\xa1"])
@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_fields_of_a_pcd(tmp_path, kind, name):
    (tmp_path / "a.pcd").write_bytes(makers.pcd(kind).replace(b"intensity", name.encode("latin-1")))
    _, result = again(tmp_path / "a.pcd")
    assert list(result.fields) == [name, "matched"]
    np.testing.assert_array_equal(result.fields[name], np.arange(24))


@pytest.mark.parametrize("name", ["a b", '"q"', "ü", "#c", "max", "-"])
def test_columns_of_a_csv(tmp_path, name):
    quoted = '"' + name.replace('"', '""') + '"'
    rows = "".join(f"{x:.4f},{y:.4f},{z:.4f},5\n" for x, y, z in POINTS)
    (tmp_path / "a.csv").write_text(f"x,y,z,{quoted}\n{rows}", encoding="utf-8")
    like, result = again(tmp_path / "a.csv")
    assert len(like.fields) == 1 and list(result.fields) == [*like.fields, "matched"]
    assert all((values == 5).all() for values in like.fields.values())
