"""PCD, LAS and LAZ."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.pointfiles import PointFile
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS


def read(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


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


def test_pcd_whole_numbers_of_64_bits_in_ascii(tmp_path):
    head = (
        "FIELDS x y z t n\nSIZE 4 4 4 8 8\nTYPE F F F U I\nCOUNT 1 1 1 1 2\nWIDTH 2\nHEIGHT 1\nPOINTS 2\nDATA ascii\n"
    )
    rows = "1 2 3 1625000000123456789 7 -9007199254740993\n4 5 6 18446744073709551615 8 9\n"
    result = read(tmp_path, head + rows, "a.pcd")
    write_points(tmp_path / "b.pcd", result, result.points)
    for one in (result, read_points(tmp_path / "b.pcd")):
        assert one.fields["t"].tolist() == [1625000000123456789, 18446744073709551615]
        assert one.fields["n"].tolist() == [[7, -9007199254740993], [8, 9]]
        assert one.fields["t"].dtype == np.uint64 and one.fields["n"].dtype == np.int64


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


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_points_flagged_as_withheld_or_noise_are_left_out(tmp_path, compressed, version):
    import laspy

    cloud = laspy.read(io.BytesIO(makers.las(compressed, version)))
    cloud.withheld[2] = 1
    cloud.classification[[2, 4, 9]] = 7, 7, 18
    cloud.classification[5:8] = 2, 6, 0
    stream = io.BytesIO()
    cloud.write(stream, do_compress=compressed)
    name = "a.laz" if compressed else "a.las"
    result = read(tmp_path, stream.getvalue(), name)
    np.testing.assert_array_equal(result.rows, np.delete(np.arange(24), [2, 4, 9]))
    np.testing.assert_allclose(result.points, POINTS[result.rows], atol=1e-6)
    np.testing.assert_array_equal(result.fields["intensity"], result.rows)
    (note,) = result.notes
    assert "left out 3 of 24 points: 1 flagged as withheld and 2 classified as noise" in note and result.count == 24
    kept = read(tmp_path, stream.getvalue(), name, keep_flagged=True)
    assert len(kept.points) == 24 and not kept.notes
    write_points(tmp_path / f"b_{name}", result, result.points)
    assert len(read_points(tmp_path / f"b_{name}", keep_flagged=True).points) == 21


def test_a_cloud_of_noise_alone_is_refused(tmp_path):
    import laspy

    cloud = laspy.read(io.BytesIO(makers.las()))
    cloud.classification[:] = 7
    stream = io.BytesIO()
    cloud.write(stream)
    with pytest.raises(ValueError, match="found all 24 .*keep_flagged=True"):
        read(tmp_path, stream.getvalue(), "a.las")


@pytest.mark.parametrize("kind", ["keys", "words", "projected"])
@pytest.mark.parametrize("offset", [0.0, 200.0])
def test_a_cloud_in_degrees_is_refused(tmp_path, kind, offset):
    """But not where the coordinates can be none, whatever the header says."""
    import laspy

    cloud = laspy.read(io.BytesIO(makers.las(version="1.4", offset=offset)))
    keys = np.array([1, 1, 0, 1, 1024, 0, 1, 1 if kind == "projected" else 2], "<u2").tobytes()
    words = b'GEOGCS["WGS 84",DATUM["WGS_1984"]]'
    cloud.vlrs.append(laspy.VLR("LASF_Projection", *((2112, "", words) if kind == "words" else (34735, "", keys))))
    stream = io.BytesIO()
    cloud.write(stream)
    if kind == "projected" or offset:
        assert len(read(tmp_path, stream.getvalue(), "a.las").points) == 24
    else:
        with pytest.raises(ValueError, match="found degrees.*project"):
            read(tmp_path, stream.getvalue(), "a.las")
