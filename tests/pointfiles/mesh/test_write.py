"""OBJ, OFF and STL written."""

from __future__ import annotations

import numpy as np
import pytest

from pwan import write_points
from pwan.pointfiles.convert import laid_out
from tests.pointfiles import makers
from tests.pointfiles.written import (
    check_same,
    moved_by,
    source,
    written,
)

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


def test_obj_keeps_its_lines(tmp_path):
    content = (
        "# made by a scanner\nmtllib a.mtl\no thing\n\nv 0.100000 0.250000 0.500000 # corner\n"
        "v 1.500000 2.500000 3.250000\n"
        "v 1.000000 1.000000 1.125000\nvt 0.5 0.25\nvn 0 0 1\nusemtl red\ns off\ng left side\n"
        "f 1/1/1 2/1/1 3/1/1\nf -3//1 -2//1 -1//1\nf 1/1 2/1 3/1\nl 1 2\n# end\n"
    )
    like = source(tmp_path, content, "a.obj")
    note, again = written(like, like.points + 1)
    wanted = content.replace("vn 0 0 1\n", "").replace("/1/1", "/1").replace("//1", "").replace(" # corner", "")
    for old, new in (
        ("0.100000 0.250000 0.500000", "1.100000 1.250000 1.500000"),
        ("1.500000 2.500000 3.250000", "2.500000 3.500000 4.250000"),
        ("v 1.000000 1.000000 1.125000", "v 2.000000 2.000000 2.125000"),
    ):
        wanted = wanted.replace(old, new)
    assert note.path.read_text() == wanted
    np.testing.assert_array_equal(again.faces, like.faces)


def test_obj_carries_turned_normals_in_their_lines(tmp_path):
    content = "o a\n" + "".join(f"v {i} 0.5 {i * i}\nvn 0 0 1\n" for i in range(3)) + "g b\nf 1//1 2//2 3//3\n"
    like = source(tmp_path, content, "a.obj")
    fields = dict(zip(("nx", "ny", "nz"), np.array([[1.0, 0, 0]] * 3).T, strict=True))
    note, again = written(like, fields=fields)
    np.testing.assert_array_equal(again.normals, [[1, 0, 0]] * 3)
    words = [line.split()[0] for line in note.path.read_text().splitlines()]
    assert words == ["o", "v", "vn", "v", "vn", "v", "vn", "g", "f"]


def test_obj_without_some_points_has_vertices_and_faces_alone(tmp_path):
    content = "o a\nv nan 0 0\n" + CUBE + "g b\nf 2 3 4\nf 1 2 3\n"
    like = source(tmp_path, content, "a.obj", drop_invalid=True)
    note, again = written(like)
    assert any("points were left out, and with them comments" in one for one in note.notes)
    assert again.faces.tolist() == [[0, 1, 2]] and len(again.points) == 5


@pytest.mark.parametrize(
    ("size", "spelled", "decimals"),
    [
        (1.0, "{:.6f}", 6),  # as its source
        (1.0, "{:.1f}", 6),  # as the error needs
        (1.0, "{:.12f}", 12),
        (1000.0, "{:.2f}", 3),
        (1e-6, "{:.3e}", 12),
        (1e7, "{:.0f}", 0),
    ],
)
def test_obj_has_as_many_decimals_as_its_source_and_the_error_needs(tmp_path, size, spelled, decimals):
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) * size
    content = "".join("v " + " ".join(map(spelled.format, row)) + "\n" for row in points)
    like = source(tmp_path, content, "a.obj")
    moved = like.points + size / 3
    note, again = written(like, moved)
    words = note.path.read_text().split()[1].partition(".")
    assert len(words[2]) == decimals
    extent = np.sqrt(3) * size
    assert np.abs(again.points - moved).max() <= 8 * np.finfo(np.float32).eps * extent


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


COLOURED = (
    "OFF\n4 3 0\n0.0 0.0 0.0\n1.0 0.0 0.0\n1.0 1.0 0.0\n0.0 1.0 0.0\n3 0 1 2 255 0 0\n3 0 2 3\n3 1 2 3 0.5 0.25 1.0 1\n"
)


def test_colours_of_the_faces_of_an_off_stay(tmp_path):
    like = source(tmp_path, COLOURED, "a.off")
    note, again = written(like, like.points)
    assert note.path.read_text() == COLOURED
    assert again.layout["of_faces"]["colours"].tolist() == ["255 0 0", "", "0.5 0.25 1.0 1"]
    partly = source(tmp_path, COLOURED.replace("0.0 0.0 0.0\n1.0", "nan 0.0 0.0\n1.0"), "b.off", drop_invalid=True)
    note, _ = written(partly, partly.points)
    assert note.path.read_text().endswith("\n3 0 1 2 0.5 0.25 1.0 1\n") and "255" not in note.path.read_text()
    assert laid_out(like, "ply")[1] == ["not in the PLY: the faces' colours"]


def test_attributes_of_the_triangles_of_an_stl_stay(tmp_path):
    triangles = np.frombuffer(makers.stl(), "<u2", offset=84).reshape(8, 25).copy()
    triangles[:, 24] = [0, 31, 992, 31744, 65535, 1, 2, 3]
    like = source(tmp_path, makers.stl()[:84] + triangles.tobytes(), "a.stl")
    assert sum("have attributes" in note for note in like.notes) == 1
    note, again = written(like)
    held = np.frombuffer(note.path.read_bytes(), "<u2", offset=84).reshape(8, 25)[:, 24]
    assert held.tolist() == [0, 31, 992, 31744, 65535, 1, 2, 3]
    assert again.layout["of_faces"]["attribute"].tolist() == held.tolist()
    assert not any("attributes" in note for note in source(tmp_path, makers.stl(), "b.stl").notes)
