"""PLY written."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from pwan import read_points
from pwan.pointfiles.ply.header import TYPES
from tests.pointfiles import makers
from tests.pointfiles.makers import FACES
from tests.pointfiles.ply.test_read import random_ply
from tests.pointfiles.written import (
    DISPLACED,
    XYZ,
    check_extras,
    check_same,
    extras,
    moved_by,
    source,
    written,
)


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


CORNERS = (
    "element face 3\nproperty list uchar int vertex_indices\nproperty list uchar float texcoord\n"
    "property int texnumber\n"
)
PATCH = "0 0 0 0.5\n1 0 0 0.25\n1 1 0 0.125\n0 1 0 1\n"
TEXTURED = (  # as MeshLab writes it: texture coordinates at the corners, and which picture
    f"ply\nformat ascii 1.0\ncomment TextureFile skin.png\nelement vertex 4\n{XYZ}property float s\n{CORNERS}"
    f"end_header\n{PATCH}3 0 1 2 6 0 0 0.5 0 0.5 0.25 0\n4 0 1 2 3 8 0 0 1 0 1 1 0 1 1\n3 0 2 3 0 1\n"
)


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_texture_coordinates_of_corners_stay(tmp_path, encoding):
    like = source(tmp_path, TEXTURED, "a.ply")
    like.layout["encoding"] = encoding
    note, again = written(like)
    assert again.layout["comments"] == ("comment TextureFile skin.png",) and again.layout["encoding"] == encoding
    counts, values = again.layout["of_faces"]["texcoord"]
    assert counts.tolist() == [6, 8, 0] and values.dtype == np.float32
    assert values.tolist() == [0, 0, 0.5, 0, 0.5, 0.25, 0, 0, 1, 0, 1, 1, 0, 1]
    assert again.layout["of_faces"]["texnumber"].tolist() == [0, 1, 1]
    np.testing.assert_array_equal(again.fields["s"], [0.5, 0.25, 0.125, 1])
    np.testing.assert_array_equal(again.faces, like.faces)
    plyfile = pytest.importorskip("plyfile", reason="plyfile is not installed (requirements-dev.txt)")
    if encoding != "ascii":  # where an empty list makes plyfile warn
        theirs = plyfile.PlyData.read(str(note.path))["face"]["texcoord"]
        assert list(theirs[1]) == [0, 0, 1, 0, 1, 1, 0, 1]


def test_texture_coordinates_go_with_the_faces_that_go(tmp_path):
    like = source(tmp_path, TEXTURED.replace("0 1 0 1\n", "0 nan 0 1\n"), "a.ply", drop_invalid=True)
    _, again = written(like, like.points)
    assert again.faces.tolist() == [[0, 1, 2, -1]] or again.faces.tolist() == [[0, 1, 2]]
    assert again.layout["of_faces"]["texcoord"].counts.tolist() == [6]
    assert again.layout["of_faces"]["texnumber"].tolist() == [0]
