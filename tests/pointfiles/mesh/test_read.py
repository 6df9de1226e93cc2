"""OBJ, OFF and STL."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from pwan import read_points
from pwan.pointfiles import PointFile
from tests.pointfiles import makers


def read(folder: Path, content: bytes | str, name: str, **options) -> PointFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_points(path, **options)


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


@pytest.mark.parametrize("comment", ["# from C:\\data\\\n{}", "  # C:\\\n{}", "g a # from C:\\data\\\n{}"])
def test_obj_comments_that_end_in_a_backslash_end_there(tmp_path, comment):
    content = comment.format(CORNERS.replace("v 1 0 0\n", "v 1 \\\n 0 \\\n 0 # C:\\\n"))
    assert read(tmp_path, content, "a.obj").points.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]


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
        "OFF2 1 0\n",
        "off2 1\n",
        "# c\nOFF2 1 0 # c\n",
        "OFF\t2 1 0\n",
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
