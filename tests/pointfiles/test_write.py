"""Writing: what comes out is laid out as what went in, reads back, and is what other libraries read."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from pwan import read_points, write_points
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS
from tests.pointfiles.written import (
    CANNOT,
    NAMELESS,
    TURN,
    UTM,
    XYZ,
    check_extras,
    check_same,
    moved_by,
    source,
    written,
)

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


COMMENTED = {  # what a file says of itself
    "a.off": (makers.off(), "# made here"),
    "a.pcd": (makers.pcd().replace(b"VERSION", b"# scanned by hand\nVERSION"), "# scanned by hand"),
    "b.pcd": (makers.pcd("binary_compressed").replace(b"VERSION", b"#by hand\nVERSION"), "#by hand"),
    "a.ply": (makers.ply("binary_big_endian"), "comment made here"),
    "a.stl": (makers.stl(), "solid by a careless exporter"),
    "b.stl": (makers.stl(binary=False), "solid a thing"),
    "a.obj": (makers.obj(), "mtllib none.mtl"),
    "a.fcsv": (makers.fcsv(), "# CoordinateSystem = LPS"),
}


@pytest.mark.parametrize("name", COMMENTED)
def test_what_a_file_says_of_itself_comes_through(tmp_path, name):
    content, words = COMMENTED[name]
    assert words in content.decode("latin-1")
    note, again = written(source(tmp_path, content, name))
    lines = re.split(r"[\n\0]|  ", note.path.read_bytes()[:400].decode("latin-1"))
    assert lines.count(words) == 1
    assert len(again.points) == len(POINTS)


# precision


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
    for name, content in (("l.off", makers.off()), ("m.xyz", makers.rows())):
        _, again = written(source(tmp_path, content, name), moved)
        np.testing.assert_array_equal(again.points, moved)
    _, again = written(source(tmp_path, makers.obj(), "k.obj"), moved)  # of six decimals, as its source
    np.testing.assert_allclose(again.points, moved, rtol=0, atol=5.001e-7)
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
