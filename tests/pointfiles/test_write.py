"""Writing: what comes out is laid out as what went in, reads back, and is what other libraries read."""

from __future__ import annotations

import gzip
import io
import warnings
from pathlib import Path

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.pointfiles import PointFile
from pwan.pointfiles.ply_header import TYPES
from pwan.randomness import numpy_generator
from tests.pointfiles import makers
from tests.pointfiles.makers import FACES, POINTS
from tests.pointfiles.test_ply import random_ply
from tests.pointfiles.test_text import GOOD

CANNOT = ("obj", "off", "stl", "npy", "raw")  # hold no new values of each point
NAMELESS = ("xyz", "pts", "utf-16", "gz")  # columns without names are added to
DISPLACED = ("displacement_x", "displacement_y", "displacement_z")
TURN = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
XYZ = "property float x\nproperty float y\nproperty float z\n"


def source(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


def moved_by(like: PointFile, shift: float = 0.5) -> np.ndarray:
    dimension = like.points.shape[1]
    return like.points @ TURN[:dimension, :dimension].T + shift


def extras(like: PointFile, points: np.ndarray) -> dict[str, np.ndarray]:
    return {"matched": np.arange(len(points)) % 3 > 0, "displacement": points - like.points}


def written(like: PointFile, points: np.ndarray | None = None, **options):
    """The note of what was written with the extra values, and the file read again."""
    points = moved_by(like) if points is None else points
    path = like.path.with_name(f"moved_{like.path.name}")
    read = options.pop("read", {})
    note = write_points(path, like, points, **({"extra": extras(like, points)} | options))
    return note, read_points(path, **read)


def check_same(like: PointFile, again: PointFile, tolerance: float = 1e-6, points: np.ndarray | None = None) -> None:
    np.testing.assert_allclose(again.points, moved_by(like) if points is None else points, rtol=0, atol=tolerance)
    assert again.format == like.format
    assert list(again.fields)[: len(like.fields)] == list(like.fields)
    for name, values in like.fields.items():
        assert again.fields[name].dtype == values.dtype, name
        np.testing.assert_array_equal(again.fields[name], values)
    np.testing.assert_equal(again.faces, like.faces)


def check_extras(like: PointFile, again: PointFile, tolerance: float = 1e-6) -> None:
    wanted = extras(like, moved_by(like))
    if again.format == "text" and not again.layout["header"]:
        behind = list(again.fields.values())[-len(DISPLACED) - 1 :]
        matched, displaced = behind[0], np.column_stack(behind[1:])
    else:
        matched, names = again.fields["matched"].ravel(), DISPLACED[: like.points.shape[1]]
        whole = again.fields.get("displacement")
        displaced = np.column_stack([again.fields[name] for name in names]) if whole is None else whole
    np.testing.assert_array_equal(matched, wanted["matched"])
    np.testing.assert_allclose(displaced, wanted["displacement"], rtol=0, atol=tolerance)


# every format


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", makers.every())
def test_every_format(tmp_path, kind, packed):
    name, content = makers.every()[kind]
    like = source(tmp_path, gzip.compress(content) if packed and kind != "gz" else content, name)
    note, again = written(like)
    check_same(like, again)
    changed = {"records", "shape", "properties", "types", "columns"}  # of which the extra values are a part now
    for part in like.layout.keys() - changed:
        old, new = like.layout[part], again.layout[part]
        assert (list(map(float, new)) == list(map(float, old))) if part == "viewpoint" else new == old, part
    held = note.path.read_bytes()
    assert held.startswith(b"\x1f\x8b") == (packed or kind == "gz")
    assert [one for one in tmp_path.iterdir() if one not in (note.path, like.path)] == []
    if like.format in CANNOT:
        assert note.left_out == ("matched", "displacement")
        assert sum("not written: matched, displacement:" in one for one in note.notes) == 1
    else:
        assert note.left_out == () and len(note.notes) == (again.format == "text" and not again.layout["header"])
        check_extras(like, again)


@pytest.mark.parametrize("kind", [kind for kind in makers.every() if kind not in NAMELESS])
def test_a_registered_file_registered_again(tmp_path, kind):
    """The extra values of the first time give way, in place and type; nothing is there twice."""
    _, first = written(source(tmp_path, makers.every()[kind][1], makers.every()[kind][0]))
    note, again = written(first)
    np.testing.assert_allclose(again.points, moved_by(first), atol=2e-6)
    assert list(again.fields) == list(first.fields)
    if first.format not in CANNOT:
        check_extras(first, again)
        assert any("matched of the source was replaced" in one for one in note.notes)


def test_without_extra_values_only_the_coordinates_change(tmp_path):
    for kind, (name, content) in makers.every().items():
        like = source(tmp_path, content, name)
        note = write_points(tmp_path / f"{kind}.out", like, like.points)
        again = read_points(note.path)
        check_same(like, again, points=like.points)
        assert note.left_out == () and list(again.fields) == list(like.fields)
        if kind in ("ply little", "ply big", "ply points", "npy"):
            assert note.path.read_bytes() == content


# PLY


@pytest.mark.parametrize("seed", range(30))
def test_random_ply(tmp_path, seed):
    content, _ = random_ply(seed)
    like = source(tmp_path, content, "a.ply")
    note, again = written(like)
    check_same(like, again, tolerance=1e-4)
    check_extras(like, again, tolerance=1e-4)
    for part in ("encoding", "coordinates", "comments"):
        assert again.layout[part] == like.layout[part]
    kept = dict(list(again.layout["properties"].items())[: len(like.layout["properties"])])
    assert list(kept) == list(like.layout["properties"])
    if not note.notes:
        assert kept == like.layout["properties"]


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_agrees_with_plyfile(tmp_path, encoding):
    plyfile = pytest.importorskip("plyfile", reason="plyfile is not installed (requirements-dev.txt)")
    like = source(tmp_path, makers.ply(encoding), "a.ply")
    note, _ = written(like)
    theirs = plyfile.PlyData.read(str(note.path))
    assert theirs.comments == ["made here"] and theirs.text == (encoding == "ascii")
    vertices = theirs["vertex"].data
    assert vertices.dtype.names == ("x", "y", "z", "red", "matched", *DISPLACED)
    assert [vertices.dtype[name].str[1:] for name in vertices.dtype.names] == ["f4"] * 3 + ["u1"] * 2 + ["f4"] * 3
    np.testing.assert_allclose(np.column_stack([vertices[axis] for axis in "xyz"]), moved_by(like), atol=1e-6)
    assert np.stack(theirs["face"]["vertex_indices"]).tolist() == FACES


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_mixed_faces_lists_and_large_polygons(tmp_path, encoding):
    plyfile = pytest.importorskip("plyfile", reason="plyfile is not installed (requirements-dev.txt)")
    rows = "".join(f"{i} {i % 7} {i % 5} 2 {i} 3\n" for i in range(300))
    faces = "3 0 1 2\n4 3 4 5 6\n300 " + " ".join(map(str, range(300))) + "\n"
    content = (
        f"ply\nformat ascii 1.0\nelement vertex 300\n{XYZ}property list uchar short pair\n"
        f"element face 3\nproperty list int int vertex_index\nend_header\n{rows}{faces}"
    )
    plain = source(tmp_path, content, "plain.ply")
    assert plain.fields["pair"].dtype == np.int16
    data = plyfile.PlyData.read(io.BytesIO(content.encode()))
    data.text = encoding == "ascii"
    data.byte_order = ">" if "big" in encoding else "<"
    data.write(str(tmp_path / "a.ply"))
    like = read_points(tmp_path / "a.ply")
    note, again = written(like)
    check_same(like, again, tolerance=1e-4)
    theirs = plyfile.PlyData.read(str(note.path))["face"]["vertex_indices"]
    assert [face.tolist() for face in theirs] == [[0, 1, 2], [3, 4, 5, 6], list(range(300))]


def test_ply_in_two_dimensions(tmp_path):
    for encoding, kind in (("ascii", "float"), ("ascii", "double"), ("binary_little_endian", "double")):
        content = f"ply\nformat {encoding} 1.0\nelement vertex 4\nproperty {kind} x\nproperty {kind} y\nend_header\n"
        values = np.arange(8.0).reshape(4, 2)
        body = b"0 1\n2 3\n4 5\n6 7\n" if encoding == "ascii" else values.tobytes()
        like = source(tmp_path, content.encode() + body, f"{encoding}{kind}.ply")
        swapped = dict(reversed(extras(like, moved_by(like)).items()))  # displacement right behind y would be z
        _, again = written(like, extra=swapped)
        check_same(like, again)
        check_extras(like, again)


# precision

UTM = np.array([500_000.0, 4_600_000.0, 320.0])


def test_points_on_a_map_keep_their_precision(tmp_path):
    """Files in single precision whose moved points lie far from the origin become double, and say so."""
    records = np.zeros(24, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<u2")])
    files = {
        "a.ply": makers.ply("binary_little_endian"),
        "b.ply": makers.ply(),
        "c.pcd": makers.pcd("binary"),
        "d.pcd": makers.pcd("binary_compressed"),
        "e.pcd": makers.pcd(),
        "f.npy": makers.npy(POINTS.astype(np.float32)),
        "g.npy": makers.npy(records),
        "h.npz": makers.npz(points=POINTS.astype(np.float32)),
        "i.npz": makers.npz(**dict(zip("xyz", POINTS.T.astype(np.float32), strict=True))),
        "j.mat": makers.mat(points=POINTS.astype(np.float32)),
    }
    moved = POINTS + UTM + 1 / 3
    assert np.abs(moved.astype(np.float32) - moved).max() > 0.01
    for name, content in files.items():
        like = source(tmp_path, content, name)
        note, again = written(like, moved)
        np.testing.assert_array_equal(again.points, moved, err_msg=name)
        assert any("float64: float32 would move them by up to 0." in one for one in note.notes), name
        note = write_points(tmp_path / f"near_{name}", like, POINTS + 1 / 3)
        near = read_points(note.path).points.astype(np.float32)
        assert note.notes == () and (near == (POINTS + 1 / 3).astype(np.float32)).all(), name
    for name, content in (("k.obj", makers.obj()), ("l.off", makers.off()), ("m.xyz", makers.rows())):
        _, again = written(source(tmp_path, content, name), moved)
        np.testing.assert_array_equal(again.points, moved)
    like = source(tmp_path, makers.stl(binary=False), "n.stl")
    np.testing.assert_array_equal(written(like, moved)[1].points, moved)


def test_formats_that_must_round_say_so(tmp_path):
    stl = source(tmp_path, makers.stl(), "a.stl")
    note, again = written(stl, POINTS * 100 + UTM)
    assert any("single precision alone, which moves the points by up to 0.2" in one for one in note.notes)
    np.testing.assert_allclose(again.points, POINTS * 100 + UTM, rtol=0, atol=0.25)
    raw = source(tmp_path, POINTS.astype("<f4").tobytes(), "a.bin", raw="float32 x 3")
    note, again = written(raw, POINTS + UTM, read={"raw": "float32 x 3"})
    assert any("rounded to the source's float32, by up to 0." in one for one in note.notes)
    whole = source(tmp_path, np.arange(12, dtype=">i2").tobytes(), "b.bin", raw=">i2 x 3")
    note, again = written(whole, whole.points + 0.4, read={"raw": ">i2 x 3"})
    assert any("whole numbers, as the source's int16" in one for one in note.notes)
    assert again.points.tolist() == whole.points.tolist()
    with pytest.raises(ValueError, match="c.bin: expected moved points within int16 .-32768 to 32767."):
        write_points(tmp_path / "c.bin", whole, whole.points + 40_000)
    assert not (tmp_path / "c.bin").exists()


def test_whole_coordinates_become_real(tmp_path):
    voxels = np.arange(12, dtype=np.int16).reshape(4, 3)
    like = source(tmp_path, makers.npy(voxels), "a.npy")
    note, again = written(like)
    assert "coordinates are written in float64: int16 holds whole numbers alone" in note.notes
    np.testing.assert_array_equal(again.points, moved_by(like))
    head = f"ply\nformat ascii 1.0\nelement vertex 4\n{XYZ.replace('float', 'short')}end_header\n"
    like = source(tmp_path, head + "0 1 2\n3 4 5\n6 7 8\n9 9 9\n", "a.ply")
    note, again = written(like)
    np.testing.assert_array_equal(again.points, moved_by(like))
    assert again.layout["properties"]["x"] == "f8"


# OBJ, OFF, STL

CUBE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\n"


def test_obj_colours_weights_normals_and_faces(tmp_path):
    lines = "".join(f"{line} 0.{i} 0.5 1.0\n" for i, line in enumerate(CUBE.splitlines()))
    content = lines + "vn 0 0 1\n" * 5 + "f 1//1 2//2 3//3\nf 1//1 3//3 4//4 5//5\n"
    like = source(tmp_path, content, "a.obj")
    assert like.faces.tolist() == [[0, 1, 2, -1], [0, 2, 3, 4]]
    assert list(like.fields) == ["nx", "ny", "nz", "red", "green", "blue"]
    _, again = written(like)
    check_same(like, again)
    weights = source(tmp_path, "v 1 2 3 0.5 0.1 0.2 0.3\nv 4 5 6 1 0.4 0.5 0.6\n", "b.obj")
    assert list(weights.fields) == ["w", "red", "green", "blue"]
    check_same(weights, written(weights)[1])


@pytest.mark.parametrize(
    ("prefix", "row"),
    [
        ("OFF", "{p}"),
        ("COFF", "{p} 255 {i} 0 255"),
        ("COFF", "{p} 1.0 0.0 0.0 1.0"),
        ("OFF", "{p} 9 {i} 200"),
        ("NOFF", "{p} 0 0 1"),
        ("STCNOFF", "{p} 0 1 0 0.5 0.25 1.0 0.1 0.2"),
    ],
)
@pytest.mark.parametrize("one_line", [False, True])
def test_off_with_what_stands_behind_a_vertex(tmp_path, prefix, row, one_line):
    lines = [row.format(p=line, i=i) for i, line in enumerate(makers.rows().splitlines())]
    content = "\n".join([prefix + (" " if one_line else "\n") + "24 8 0", *lines]) + "\n"
    like = source(tmp_path, content + makers.prefixed("3", makers.face_rows()), "a.off")
    note, again = written(like)
    check_same(like, again)
    text = note.path.read_text()
    assert text.startswith(f"{prefix}\n24 8 0\n") and like.layout == again.layout == {"prefix": prefix[:-3]}
    if row.endswith(("255", "200", "1.0", "0.2")):
        ending = row.split()[-1]
        assert text.splitlines()[2].split()[-1] == ending  # 255 and not 255.0: whole colours are another scale


@pytest.mark.parametrize("kind", ["obj", "off", "stl", "stl ascii"])
def test_meshes_agree_with_trimesh(tmp_path, kind):
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed (requirements-dev.txt)")
    name, content = makers.every()[kind]
    like = source(tmp_path, content, name)
    note, _ = written(like)
    theirs = trimesh.load(note.path, file_type=name[-3:], process=False, maintain_order=True)
    np.testing.assert_allclose(theirs.vertices[theirs.faces], moved_by(like)[like.faces], rtol=0, atol=1e-6)
    if kind == "stl":
        facets = np.frombuffer(note.path.read_bytes(), makers_stl(), offset=84)["normal"]
        np.testing.assert_allclose(facets, trimesh.Trimesh(theirs.vertices, theirs.faces).face_normals, atol=1e-4)


def makers_stl() -> np.dtype:
    return np.dtype([("normal", "<f4", 3), ("rest", "V38")])


def test_stl_without_triangles_is_refused(tmp_path):
    lines = makers.stl(binary=False).decode().splitlines()
    lines[3] = "   vertex nan 0 0"
    one = "\n".join([*lines[:8], "endsolid a thing", ""])
    like = source(tmp_path, one, "a.stl", drop_invalid=True)
    with pytest.raises(ValueError, match="a_.stl: expected triangles to write to an STL, found none"):
        write_points(tmp_path / "a_.stl", like, like.points)
    rest = source(tmp_path, "\n".join(lines) + "\n", "b.stl", drop_invalid=True)
    note, again = written(rest)
    assert any("2 points without a triangle" in one for one in note.notes) and len(again.points) == 21


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


# arrays


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


# text


@pytest.mark.parametrize("kind", GOOD)
def test_every_spelling_of_text(tmp_path, kind):
    content = GOOD[kind]
    like = source(tmp_path, content, "points.xyz" if "chemi" in kind or "atom" in kind else "points.txt")
    _, again = written(like, read={"key": "lon,lat,alt"} if "other names" in kind else {})
    check_same_text(like, again)
    check_extras(like, again, tolerance=0)
    plain, plainly = written(like, extra={}, overwrite=True)
    check_same_text(like, plainly)
    assert len(plainly.fields) == len(like.fields) and plain.notes == ()


def check_same_text(like: PointFile, again: PointFile) -> None:
    np.testing.assert_array_equal(again.points, moved_by(like))
    for old, new in zip(like.fields.values(), again.fields.values(), strict=False):
        np.testing.assert_array_equal(new, old)
    for part in ("encoding", "decimal", "counted", "chemistry"):
        if part == "encoding" and not like.layout["header"] and like.layout[part] == "cp1252":
            continue  # the letters stood in a comment
        assert again.layout[part] == like.layout[part], part
    if not like.layout["chemistry"]:  # whose second line may name the columns now
        assert again.layout["header"] == like.layout["header"]
        assert list(again.fields)[: len(like.fields)] == list(like.fields)
        assert again.layout["header_sign"] == like.layout["header_sign"]
    if like.layout["separator"] != ", ":
        assert again.layout["separator"] == like.layout["separator"]


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [
        (
            "id;x;y;z;name\n1;0,5;1,25;2,5;leaf\n2;1,5;2;3,5;a leaf\n",
            "id;x;y;z;name;matched;",
            "2;2,0;2,5;4,0;a leaf;1;",
        ),
        ('name,x,y,z\n"a, b",1.5,2.5,3.5\nc,4.5,5.5,6.5\n', "name,x,y,z,matched,", "c,5.0,6.0,7.0,1,"),
        ("# x y z class\n1.5 2.5 3.5 7\n4.5 5.5 6.5 8\n", "# x y z class matched ", "5.0 6.0 7.0 8 1 "),
        ("//X Y Z\n1.5 2.5 3.5\n4.5 5.5 6.5\n", "//X Y Z matched ", "5.0 6.0 7.0 1 "),
        ("2\n1.5 2.5 3.5\n4.5 5.5 6.5\n", "2\n2.0 3.0 4.0 1 ", "5.0 6.0 7.0 1 "),
        ("1.5 2.5\n4.5 5.5\n7.5 0.5\n", "# x y matched displacement_x displacement_y\n", "8.0 1.0 1 "),
    ],
)
def test_text_as_it_stands(tmp_path, content, first, last):
    like = source(tmp_path, content, "a.txt")
    moved = like.points + 0.5
    extra = {"matched": np.ones(len(moved)).astype(bool), "displacement": moved - like.points}
    note, again = written(like, moved, extra=extra)
    text = note.path.read_text()
    assert text.startswith(first) and text.splitlines()[-1].startswith(last), text
    np.testing.assert_array_equal(again.points, moved)


def test_atoms_are_named_in_the_second_line(tmp_path):
    rows = ["C 0.5 0.25 1.5 7", "H 1.5 0.25 1.5 8", "O 0.5 1.25 1.5 9"]
    like = source(tmp_path, "\n".join(["3", "a molecule of 3 atoms", *rows, ""]), "a.xyz")
    note, again = written(like)
    lines = note.path.read_text().splitlines()
    axes = ":".join(f"{name}:R:1" for name in DISPLACED)
    assert lines[:2] == ["3", f"Properties=species:S:1:pos:R:3:column_5:I:1:matched:I:1:{axes}"]
    assert lines[2].startswith("C 0.")
    np.testing.assert_array_equal(again.points, moved_by(like))
    assert again.fields["species"].tolist() == ["C", "H", "O"]
    check_extras(like, again, tolerance=0)


def test_many_rows_and_long_numbers(tmp_path):
    points = numpy_generator(3, "rows").normal(size=(60_000, 3)) * 1e6 + UTM  # more than are written at a time
    np.savetxt(tmp_path / "a.csv", points, delimiter=",", fmt="%.17g")
    like = read_points(tmp_path / "a.csv")
    note = write_points(tmp_path / "b.csv", like, points * 1.1)
    np.testing.assert_array_equal(np.loadtxt(note.path, delimiter=","), points * 1.1)


# fields, refusals


def test_turned_normals_keep_their_type(tmp_path):
    head = "property float nx\nproperty float ny\nproperty float nz\n"
    body = "".join(f"{i} 0.5 1 0 0 1\n" for i in range(5))
    content = f"ply\nformat ascii 1.0\nelement vertex 5\n{XYZ}{head}end_header\n{body}"
    like = source(tmp_path, content, "a.ply")
    turned = like.normals @ TURN[[2, 0, 1]].T
    _, again = written(like, fields=dict(zip(like.normal_names, turned.T, strict=True)))
    np.testing.assert_allclose(again.normals, turned, rtol=1e-7)
    assert again.fields["nx"].dtype == np.float32 and list(again.fields)[:3] == ["nx", "ny", "nz"]


def test_nothing_is_written_over_unless_asked(tmp_path):
    like = source(tmp_path, makers.ply(), "a.ply")
    other = tmp_path / "other.ply"
    other.write_text("mine")
    with pytest.raises(FileExistsError, match="other.ply: expected a new file.*overwrite=True"):
        write_points(other, like, like.points)
    assert other.read_text() == "mine"
    (tmp_path / "dangling.ply").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="dangling"):
        write_points(tmp_path / "dangling.ply", like, like.points)
    write_points(other, like, like.points, overwrite=True)
    assert read_points(other).points.shape == (24, 3)
    with pytest.raises(FileNotFoundError):
        write_points(tmp_path / "none" / "a.ply", like, like.points)


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    like = source(tmp_path, makers.rows(), "a.xyz")
    old = tmp_path / "b.xyz"
    old.write_text("old")

    def interrupted(stream, moved):
        stream.write(b"1 2 3\n")
        raise KeyboardInterrupt

    monkeypatch.setitem(write_points.__globals__["WRITERS"], "text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_points(old, like, like.points, overwrite=True)
    assert old.read_text() == "old" and sorted(one.name for one in tmp_path.iterdir()) == ["a.xyz", "b.xyz"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"points": POINTS[:5]}, r"expected points of shape \(24, 3\).*found \(5, 3\)"),
        ({"points": POINTS[:, :2]}, r"found \(24, 2\)"),
        ({"points": np.full((24, 3), np.nan)}, "expected finite points"),
        ({"fields": {"nx": POINTS[:, 0]}}, r"are red \(24,\), found nx \(24,\)"),
        ({"fields": {"red": POINTS}}, r"found red \(24, 3\)"),
        ({"extra": {"matched": np.zeros(5)}}, r"found matched of shape \(5,\)"),
        ({"extra": {"matched": np.array(["a"] * 24)}}, "in numbers"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arguments, match):
    like = source(tmp_path, makers.ply(), "a.ply")
    with pytest.raises(ValueError, match=match):
        write_points(tmp_path / "b.ply", like, **({"points": POINTS} | arguments))
    assert not (tmp_path / "b.ply").exists()


def test_every_ply_type_has_a_name_that_is_read(tmp_path):
    kinds = sorted(set(TYPES.values()))
    names = {code: name for name, code in reversed(TYPES.items())}
    head = "".join(f"property {names[code]} {code}\n" for code in kinds)
    content = (
        f"ply\nformat ascii 1.0\nelement vertex 2\n{XYZ}{head}end_header\n" + ("0 0.5 1" + " 3" * len(kinds) + "\n") * 2
    )
    like = source(tmp_path, content, "a.ply")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, again = written(like)
    check_same(like, again)
    assert [again.fields[code].dtype.str[1:] for code in kinds] == kinds
