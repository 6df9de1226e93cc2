"""PCD, LAS and LAZ written."""

from __future__ import annotations

import io

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.randomness import numpy_generator
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS
from tests.pointfiles.written import (
    DISPLACED,
    UTM,
    check_extras,
    check_same,
    moved_by,
    source,
    written,
)

# PCD


def test_pcd_agrees_with_pypcd4(tmp_path):
    from pypcd4 import PointCloud

    for kind in ("ascii", "binary", "binary_compressed"):
        like = source(tmp_path, makers.pcd(kind, 6, 4), f"{kind}.pcd")
        note, again = written(like)
        theirs = PointCloud.from_path(note.path)
        meta = theirs.metadata
        assert meta.fields == ("x", "y", "z", "intensity", "matched", *DISPLACED) and meta.data.value == kind
        assert meta.size == (4, 4, 4, 2, 1, 4, 4, 4) and meta.type == tuple("FFFUUFFF")
        assert (meta.width, meta.height) == (6, 4) == (again.layout["width"], again.layout["height"])
        np.testing.assert_allclose(theirs.numpy(("x", "y", "z")), moved_by(like), atol=1e-6)


@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_pcd_fields_of_several_values_viewpoint_and_order(tmp_path, kind):
    """A packed field stands point by point (the Point Cloud Library's writer of packed files)."""
    import lzf

    count = 9
    rows = np.zeros(count, [("label", "<i4"), ("fpfh", "<f4", 4), ("z", "<f8"), ("y", "<f8"), ("x", "<f8")])
    random = numpy_generator(0, "pcd")
    rows["label"], rows["fpfh"] = np.arange(-4, 5), random.normal(size=(count, 4)).astype(np.float32)
    for axis in "xyz":
        rows[axis] = random.normal(size=count)
    head = (
        "VERSION .7\nFIELDS label fpfh z y x\nSIZE 4 4 8 8 8\nTYPE I F F F F\nCOUNT 1 4 1 1 1\nWIDTH 9\nHEIGHT 1\n"
        f"VIEWPOINT 1 2 3 1 0 0 0\nPOINTS 9\nDATA {kind}\n"
    ).encode()
    if kind == "ascii":
        body = "".join(" ".join(map(str, [r[0], *r[1], *r.tolist()[2:]])) + "\n" for r in rows).encode()
    elif kind == "binary":
        body = rows.tobytes()
    else:
        unpacked = b"".join(np.ascontiguousarray(rows[name]).tobytes() for name in rows.dtype.names)
        packed = lzf.compress(unpacked)
        if packed is None:  # cannot be packed: the format's literal run, 32 bytes at a time
            parts = [unpacked[i : i + 32] for i in range(0, len(unpacked), 32)]
            packed = b"".join(bytes([len(part) - 1]) + part for part in parts)
        body = len(packed).to_bytes(4, "little") + len(unpacked).to_bytes(4, "little") + packed
    like = source(tmp_path, head + body, "a.pcd")
    np.testing.assert_allclose(like.fields["fpfh"], rows["fpfh"], rtol=1e-6)
    np.testing.assert_array_equal(like.points, np.column_stack([rows[axis] for axis in "xyz"]))
    _, again = written(like)
    check_same(like, again, tolerance=0)
    check_extras(like, again, tolerance=0)
    assert [float(word) for word in again.layout["viewpoint"]] == [1, 2, 3, 1, 0, 0, 0]
    assert list(again.layout["types"])[:5] == ["label", "fpfh", "z", "y", "x"]


def test_a_viewpoint_that_is_none_is_not_carried(tmp_path):
    content = makers.pcd("binary").replace(b"VIEWPOINT 0 0 0 1 0 0 0", b"VIEWPOINT 5 5 up")
    _, again = written(source(tmp_path, content, "a.pcd"))
    assert [float(word) for word in again.layout["viewpoint"]] == [0, 0, 0, 1, 0, 0, 0]


def test_an_organised_cloud_with_holes_becomes_a_row(tmp_path):
    points = POINTS.copy()
    points[5] = np.nan
    like = source(tmp_path, makers.pcd("binary", 6, 4, points), "a.pcd", drop_invalid=True)
    note, again = written(like)
    assert any("as one row" in one for one in note.notes)
    assert again.layout["width"] == len(again.points) == 23


# LAS


@pytest.mark.parametrize(("compressed", "version"), [(False, "1.2"), (True, "1.2"), (False, "1.4"), (True, "1.4")])
def test_las_agrees_with_laspy(tmp_path, compressed, version):
    import laspy

    cloud = laspy.read(io.BytesIO(makers.las(compressed, version, 1000.0)))
    cloud.add_extra_dims([laspy.ExtraBytesParams("deviation", "f4"), laspy.ExtraBytesParams("pair", "2u2")])
    cloud["deviation"], cloud["pair"] = np.linspace(0, 1, 24), np.arange(48).reshape(24, 2)
    cloud.classification[:] = np.arange(24) % 5
    cloud.gps_time[:] = 1e5 + np.arange(24)
    cloud.vlrs.append(laspy.VLR("LASF_Projection", 2112, "coordinate system", b'PROJCS["somewhere"]\0'))
    cloud.vlrs.append(laspy.VLR("copc", 1, "a tree that no longer fits", bytes(160)))
    cloud.header.global_encoding.wkt = version == "1.4"
    cloud.header.global_encoding.gps_time_type = laspy.header.GpsTimeType.STANDARD
    if version == "1.4":
        cloud.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("mine", 7, "behind the points", b"abc")])
    stream = io.BytesIO()
    cloud.write(stream, do_compress=compressed)
    like = source(tmp_path, stream.getvalue(), "a.laz" if compressed else "a.las")
    note, again = written(like)
    check_same(like, again, tolerance=5.1e-7)
    check_extras(like, again, tolerance=0)
    theirs = laspy.read(note.path)
    assert theirs.header.are_points_compressed == compressed and str(theirs.header.version) == version
    assert theirs.header.point_format.id == cloud.header.point_format.id
    assert theirs.header.scales.tolist() == [1e-6] * 3 and theirs.header.offsets.tolist() == [1000.0] * 3
    assert theirs.header.global_encoding.value == cloud.header.global_encoding.value
    assert [(one.user_id, one.record_id) for one in theirs.vlrs if one.user_id == "LASF_Projection"] == [
        ("LASF_Projection", 2112)
    ]
    assert not [one for one in theirs.vlrs if one.user_id == "copc"]
    assert [one.record_data_bytes() for one in theirs.evlrs or ()] == [b"abc"] * (version == "1.4")
    np.testing.assert_allclose(theirs.xyz, moved_by(like), rtol=0, atol=5.1e-7)
    assert list(theirs.point_format.extra_dimension_names) == ["deviation", "pair", "matched", *DISPLACED]
    np.testing.assert_array_equal(theirs["pair"], cloud["pair"])
    np.testing.assert_allclose(theirs.header.maxs, moved_by(like).max(axis=0), atol=1e-6)


def test_an_old_las_is_written_as_a_new_one(tmp_path):
    content = bytearray(makers.las())
    content[25] = 0  # version 1.0, which laspy reads and does not write
    note, again = written(like := source(tmp_path, bytes(content), "a.las"))
    check_same(like, again)
    assert note.notes == ("written as LAS 1.4: points of this kind are not written as 1.0",)


def test_las_points_beyond_its_range_get_a_new_grid(tmp_path):
    like = source(tmp_path, makers.las(), "a.las")  # scale 1e-6: up to 2147 from the offset 0
    note, again = written(like, POINTS + UTM)
    np.testing.assert_allclose(again.points, POINTS + UTM, rtol=0, atol=5.1e-7)
    assert any("new offsets" in one for one in note.notes) and again.layout["scales"] == [1e-6] * 3
    far = POINTS * 1e5
    note = write_points(tmp_path / "far.las", like, far)
    assert any("new scales" in one for one in note.notes)
    np.testing.assert_allclose(read_points(note.path).points, far, rtol=0, atol=5.1e-4)
