"""GLB read and written: nodes, normals, materials and pictures, several meshes, faults."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from pwan import read_points, write_points
from pwan.pointfiles.mesh import glb
from pwan.randomness import numpy_generator
from tests.pointfiles.test_read_points import damaged
from tests.pointfiles.written import moved_by

UV = np.random.default_rng(0).random((8, 2)).round(3)


def box(shift: float = 0.0, *, textured: bool = False) -> trimesh.Trimesh:
    cube = trimesh.creation.box()
    mesh = trimesh.Trimesh(cube.vertices + shift, cube.faces, process=False)
    if textured:
        material = trimesh.visual.material.PBRMaterial(
            name="green", baseColorTexture=Image.new("RGB", (4, 4), (0, 255, 0)), metallicFactor=0.25
        )
        mesh.visual = trimesh.visual.TextureVisuals(uv=UV, material=material)
    return mesh


def content(*meshes: trimesh.Trimesh, matrix: np.ndarray | None = None, normals: bool = True) -> bytes:
    scene = trimesh.Scene()
    for mesh in meshes:
        scene.add_geometry(mesh, transform=matrix)
    return trimesh.exchange.gltf.export_glb(scene, include_normals=normals)


def placed(folder: Path, data: bytes, name: str = "a.glb") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def moved(path: Path, **options) -> tuple[np.ndarray, trimesh.Scene]:
    """The file's points moved and written; where they belong, and the new file by trimesh."""
    like = read_points(path)
    write_points(path.with_name("moved.glb"), like, moved_by(like), **options)
    return moved_by(like), trimesh.load_scene(path.with_name("moved.glb"), process=False)


def test_vertices_stand_where_the_node_puts_them(tmp_path):
    matrix = np.diag([-2.0, 2.0, 2.0, 1.0])  # a mirror image too: its triangles turn round
    matrix[:3, 3] = [10, 20, 30]
    file = read_points(placed(tmp_path, content(box(), matrix=matrix)))
    assert file.format == "glb" and file.points.shape == (8, 3) and file.faces.shape == (12, 3)
    np.testing.assert_allclose(np.sort(file.points, 0)[[0, -1]], [[9, 19, 29], [11, 21, 31]])
    again = trimesh.Trimesh(file.points, file.faces, process=False)
    assert again.volume == pytest.approx(8)  # the outside is outside
    out = file.points - [10, 20, 30]
    np.testing.assert_allclose(file.normals, out / np.linalg.norm(out, axis=1, keepdims=True), atol=1e-6)


def test_normals_are_written_as_they_are_given_and_left_out_where_there_were_none(tmp_path):
    path = placed(tmp_path, content(box()))
    turned = np.tile([0.0, 0.6, 0.8], (8, 1))
    where, scene = moved(path, fields=dict(zip(("nx", "ny", "nz"), turned.T, strict=True)))
    (mesh,) = scene.geometry.values()
    np.testing.assert_allclose(mesh.vertices, where, atol=1e-6)
    np.testing.assert_allclose(read_points(tmp_path / "moved.glb").normals, turned, atol=1e-6)
    assert read_points(placed(tmp_path, content(box(), normals=False), "b.glb")).normals is None


def test_materials_pictures_and_texture_coordinates_stay(tmp_path):
    path = placed(tmp_path, content(box(textured=True)))
    where, scene = moved(path)
    (mesh,) = scene.geometry.values()
    np.testing.assert_allclose(mesh.vertices, where, atol=1e-6)
    np.testing.assert_allclose(mesh.visual.uv, UV, atol=1e-6)
    assert mesh.visual.material.name == "green" and mesh.visual.material.metallicFactor == 0.25
    assert mesh.visual.material.baseColorTexture.convert("RGB").getpixel((1, 1)) == (0, 255, 0)


def test_several_meshes_are_joined_with_a_note_and_written_apart(tmp_path):
    coloured = box(3.0)
    coloured.visual.vertex_colors = np.tile([200, 100, 50, 255], (8, 1))
    path = placed(tmp_path, content(box(textured=True), coloured))
    file = read_points(path)
    assert file.points.shape == (16, 3) and file.faces.max() == 15
    assert "2 meshes of the scene were joined" in " ".join(file.notes)
    where, scene = moved(path)
    assert len(scene.geometry) == 2
    np.testing.assert_allclose(read_points(tmp_path / "moved.glb").points, where, atol=1e-6)
    kinds = sorted(mesh.visual.kind for mesh in scene.geometry.values())
    assert kinds == ["texture", "vertex"]


def test_points_that_are_left_out_take_their_triangles_along(tmp_path):
    file = read_points(placed(tmp_path, content(box(textured=True))))
    kept = np.arange(1, 8)
    faces = file.faces[(file.faces != 0).all(1)]
    like = type(file)(**{**vars(file), "points": file.points[1:], "rows": kept, "faces": faces - 1, "fields": {}})
    write_points(tmp_path / "moved.glb", like, like.points + 1)
    again = read_points(tmp_path / "moved.glb")
    assert again.points.shape == (7, 3) and len(again.faces) == len(faces)


def test_a_glb_of_another_format_has_its_materials(tmp_path):
    Image.new("RGB", (4, 4), (255, 0, 0)).save(tmp_path / "red.png")
    (tmp_path / "a.mtl").write_text("newmtl red\nmap_Kd red.png\n")
    lines = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl red\n"
    (tmp_path / "a.obj").write_text(lines + "f 1/1 2/2 3/3\nf 1/2 2/3 4/1\n")
    stream = io.BytesIO()
    assert glb.made_from(stream, read_points(tmp_path / "a.obj")) == []
    scene = trimesh.load_scene(io.BytesIO(stream.getvalue()), file_type="glb", process=False)
    (mesh,) = scene.geometry.values()
    assert len(mesh.faces) == 2 and mesh.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0)) == (255, 0, 0)
    (tmp_path / "b.off").write_text("OFF\n4 2 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n")
    plain = io.BytesIO()
    glb.made_from(plain, read_points(tmp_path / "b.off"))
    np.testing.assert_allclose(
        read_points(placed(tmp_path, plain.getvalue(), "c.glb")).points, read_points(tmp_path / "b.off").points
    )


def test_two_materials_stay_two_meshes(tmp_path):
    (tmp_path / "a.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
    lines = "mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nvt 1 0\nvt 0 1\n"
    faces = "usemtl red\nf 1/1 2/2 3/3\nusemtl blue\nf 1/1 3/2 4/3\n"
    (tmp_path / "a.obj").write_text(lines + faces)
    stream = io.BytesIO()
    glb.made_from(stream, read_points(tmp_path / "a.obj"))
    again = read_points(placed(tmp_path, stream.getvalue()))
    assert len(again.faces) == 2 and "2 meshes" in " ".join(again.notes)
    scene = trimesh.load_scene(tmp_path / "a.glb", process=False)
    colours = {tuple(mesh.visual.material.main_color[:3]) for mesh in scene.geometry.values()}
    assert colours == {(255, 0, 0), (0, 0, 255)}


def test_without_triangles_it_is_one_sentence(tmp_path):
    cloud = trimesh.exchange.gltf.export_glb(trimesh.Scene(trimesh.PointCloud(np.eye(3))))
    with pytest.raises(ValueError, match="expected triangles in a GLB, found none. Save the points as PLY"):
        read_points(placed(tmp_path, cloud))
    (tmp_path / "a.xyz").write_text("0 0 0\n1 0 0\n0 1 0\n")
    with pytest.raises(ValueError, match="expected triangles to write to a GLB, found none in .*a.xyz: take PLY"):
        glb.made_from(io.BytesIO(), read_points(tmp_path / "a.xyz"))


def test_compressed_ones_are_named(tmp_path):
    data = content(box())
    length = int.from_bytes(data[12:16], "little")
    document = json.loads(data[20 : 20 + length]) | {"extensionsRequired": ["KHR_draco_mesh_compression"]}
    text = json.dumps(document).encode()
    data = data[:12] + len(text).to_bytes(4, "little") + data[16:20] + text + data[20 + length :]
    data = data[:8] + len(data).to_bytes(4, "little") + data[12:]
    with pytest.raises(ValueError, match="without compression, found KHR_draco_mesh_compression"):
        read_points(placed(tmp_path, data))


def test_damaged_ones_are_a_sentence_or_points(tmp_path):
    good = content(box())
    for seed in range(60):
        path = placed(tmp_path, damaged(good, numpy_generator(seed, "damaged GLB")))
        said = ""
        try:
            assert read_points(path).points.shape[1] == 3
        except ValueError as error:
            said = str(error)
        assert not said or (said.startswith(f"{path}: ") and "\n" not in said)


def test_a_missing_package_names_its_extra(tmp_path, monkeypatch):
    path = placed(tmp_path, content(box()))
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"reading GLB needs the extra 'scans': pip install 'pwan\[scans\]'"):
        read_points(path)
