"""A file of one format laid out as another one, and what an OBJ or a PLY needs beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.convert import laid_out
from pwan.pointfiles.mesh.materials import beside
from tests.pointfiles import makers
from tests.pointfiles.written import XYZ, moved_by, source

COLOURED = (
    f"ply\nformat ascii 1.0\nelement vertex 4\n{XYZ}property float nx\nproperty float ny\nproperty float nz\n"
    "property uchar red\nproperty uchar green\nproperty uchar blue\nproperty int label\nelement face 2\n"
    "property list uchar int vertex_indices\nend_header\n0 0 0 1 0 0 255 0 51 7\n1 0 0 0 1 0 0 255 0 8\n"
    "1 1 0 0 0 1 0 0 255 9\n0 1 0 0 0 1 1 2 3 10\n3 0 1 2\n4 0 1 2 3\n"
)


@pytest.mark.parametrize("format", ["ply", "obj"])
@pytest.mark.parametrize("name", ["a.off", "a.stl", "a.csv", "a.npz", "a.mrk.json"])
def test_points_and_faces_of_any_format(tmp_path, name, format):
    like = source(tmp_path, next(data for file, data in makers.every().values() if file == name), name)
    shaped, _ = laid_out(replace(like, points=moved_by(like)), format)
    write_points(tmp_path / f"moved.{format}", shaped, shaped.points)
    again = read_points(tmp_path / f"moved.{format}")
    assert again.format == format
    np.testing.assert_allclose(again.points, moved_by(like), atol=1e-5)
    np.testing.assert_equal(again.faces, like.faces)


def test_normals_colours_and_labels(tmp_path):
    like = source(tmp_path, COLOURED, "a.ply")
    as_obj, notes = laid_out(like, "obj")
    assert notes == ["not in the OBJ: label"]
    write_points(tmp_path / "b.obj", as_obj, like.points)
    again = read_points(tmp_path / "b.obj")
    np.testing.assert_allclose(again.normals, like.normals)
    np.testing.assert_allclose(again.fields["blue"], [0.2, 0, 1, 3 / 255], atol=1e-6)
    np.testing.assert_array_equal(again.faces, like.faces)
    as_ply, notes = laid_out(again, "ply")
    write_points(tmp_path / "c.ply", as_ply, again.points, extra={"matched": np.ones(4, bool)})
    back = read_points(tmp_path / "c.ply")
    assert notes == [] and list(back.fields) == ["nx", "ny", "nz", "red", "green", "blue", "matched"]
    assert list(laid_out(like, "ply")[0].fields) == list(like.fields)


@pytest.mark.parametrize("format", ["ply", "obj"])
def test_the_coordinate_system_is_said_where_it_is_known(tmp_path, format):
    content = makers.markups().decode().replace('"LPS"', '"RAS"')
    shaped, _ = laid_out(source(tmp_path, content, "a.mrk.json"), format)
    write_points(tmp_path / f"b.{format}", shaped, shaped.points)
    assert anatomical(read_points(tmp_path / f"b.{format}")) == "ras"
    assert anatomical(laid_out(source(tmp_path, makers.off(), "a.off"), format)[0]) is None


def test_text_in_fields_stays_behind(tmp_path):
    like = source(tmp_path, makers.markups(), "a.mrk.json")
    assert laid_out(like, "ply")[1] == ["not in the PLY: label"]


def test_files_beside_a_mesh(tmp_path):
    (tmp_path / "skin").mkdir()
    for name in ("a b.png", "skin/c.jpg", "d.png"):
        (tmp_path / name).write_bytes(b"picture")
    (tmp_path / "two words.mtl").write_text("newmtl x\nmap_Kd -s 1 1 1 -clamp on a b.png\nKd 1 1 1\nbump skin\\c.jpg\n")
    (tmp_path / "e.mtl").write_text("newmtl y\nmap_Kd ../outside.png\nmap_d missing.png\n")
    (tmp_path.parent / "outside.png").write_bytes(b"picture")
    obj = source(tmp_path, "mtllib two words.mtl\nmtllib e.mtl none.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "a.obj")
    assert beside(obj) == [Path("two words.mtl"), Path("a b.png"), Path("skin/c.jpg"), Path("e.mtl")]
    ply = source(tmp_path, COLOURED.replace("1.0\n", "1.0\ncomment TextureFile d.png\n", 1), "a.ply")
    assert beside(ply) == [Path("d.png")]
    assert beside(source(tmp_path, makers.off(), "a.off")) == []


def test_texture_coordinates_of_vertices_go_along(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    texture = np.array([[0, 0], [1, 0], [1, 1], [0.25, 0.75]], np.float32)
    mesh = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]], process=False)
    mesh.visual = trimesh.visual.TextureVisuals(uv=texture)
    mesh.export(tmp_path / "a.glb")
    like = read_points(tmp_path / "a.glb")
    as_ply, notes = laid_out(like, "ply")
    write_points(tmp_path / "b.ply", as_ply, like.points)
    of_ply = read_points(tmp_path / "b.ply")
    assert notes == []
    np.testing.assert_allclose(np.column_stack([of_ply.fields["s"], of_ply.fields["t"]]), texture)
    for file in (like, of_ply):
        as_obj, notes = laid_out(file, "obj")
        write_points(tmp_path / "c.obj", as_obj, like.points, overwrite=True)
        of_obj = trimesh.load(tmp_path / "c.obj", process=False)
        assert notes == []
        np.testing.assert_allclose(of_obj.visual.uv, texture)
        np.testing.assert_array_equal(of_obj.faces, like.faces)
    _, notes = laid_out(read_points(tmp_path / "c.obj"), "ply")
    assert notes == ["not in the PLY: texture coordinates, which this file has at its faces' corners"]


BYTES = [[255, 0, 51], [0, 102, 204], [1, 2, 255]]
COLOURS = {  # of three points, in files of every scale: the content
    "a.off": "OFF\n3 0 0\n" + "".join(f"{i} 2 3 {r} {g} {b}\n" for i, (r, g, b) in enumerate(BYTES)),
    "b.off": "COFF\n3 0 0\n"
    + "".join(f"{i} 2 3 {r / 255} {g / 255} {b / 255} 1.0\n" for i, (r, g, b) in enumerate(BYTES)),
    "a.csv": "x,y,z,red,green,blue\n" + "".join(f"{i}.5,2,3,{r},{g},{b}\n" for i, (r, g, b) in enumerate(BYTES)),
    "b.csv": "x,y,z,red,green,blue\n"
    + "".join(f"{i}.5,2,3,{257 * r},{257 * g},{257 * b}\n" for i, (r, g, b) in enumerate(BYTES)),
    "a.obj": "".join(f"v {i} 2 3 {r / 255:.3f} {g / 255:.3f} {b / 255:.3f}\n" for i, (r, g, b) in enumerate(BYTES)),
}


@pytest.mark.parametrize("name", COLOURS)
def test_colours_are_bytes_in_a_ply_and_up_to_one_in_an_obj(tmp_path, name):
    like = source(tmp_path, COLOURS[name], name)
    for format in ("ply", "obj"):
        shaped, notes = laid_out(like, format)
        write_points(tmp_path / f"c.{format}", shaped, like.points)
        fields = read_points(tmp_path / f"c.{format}").fields
        held = np.column_stack([fields[one] for one in ("red", "green", "blue")])
        np.testing.assert_allclose(held * (1 if format == "ply" else 255), BYTES, atol=0 if format == "ply" else 0.13)
        assert (held.dtype == np.uint8) == (format == "ply")
        assert notes == (["not in the OBJ: alpha"] if (format, name) == ("obj", "b.off") else [])
        if (format, name) == ("ply", "b.off"):
            assert fields["alpha"].tolist() == [255, 255, 255]


def test_colours_of_no_known_scale(tmp_path):
    content = "x,y,z,red,green,blue\n1.5,2,3,127.5,0,0\n2.5,2,3,255,0,0\n"
    like = source(tmp_path, content, "a.csv")
    assert laid_out(like, "obj")[1] == ["not in the OBJ: blue, green, red"]
    assert laid_out(like, "ply")[0].fields["red"].tolist() == [127.5, 255]
    whole = replace(like, fields={name: np.array([255, 51]) for name in ("red", "green", "blue")})  # of eight bytes
    assert laid_out(whole, "obj")[0].fields["red"].tolist() == [1, 0.2]
