"""What other programs read of a registration of two files: grids, and the moved mesh in other formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import SimpleITK as sitk
import trimesh
from PIL import Image

from pwan import read_points
from pwan.app import own_scans
from pwan.scans import ScanSettings, files
from pwan.scans.exporting import taken, write_exports
from pwan.scans.output import write_output
from pwan.scans.registering import register_files
from pwan.scans.settings import GRIDS

QUICK = {"method": "soft_assignment", "method_settings": {"steps": 15, "rank": 20, "pull": 0}, "init": "none"}
EXPORTS = "grid, forward.nii.gz,glb,ply,obj,ply"


def meshes(folder: Path) -> tuple[Path, Path]:
    """A textured OBJ of a sheet with its materials, and a bent one in PLY."""
    n = 9
    flat = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), -1).reshape(-1, 2) / n
    points = np.column_stack((flat, np.zeros(len(flat))))
    bent = points + np.column_stack((0.02 * np.sin(5 * flat), 0.15 * np.cos(3 * flat[:, 0]))) + [0.05, 0, 0]
    corner = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
    faces = np.concatenate(([corner, corner + 1, corner + n + 1], [corner, corner + n + 1, corner + n]), 1).T
    lines = ["mtllib a.mtl", "o sheet", *(f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in points)]
    lines += [f"vt {u:.3f} {v:.3f}" for u, v in flat] + ["usemtl red", "g left"]
    lines += ["f " + " ".join(f"{k + 1}/{k + 1}" for k in face) for face in faces]
    (folder / "a.obj").write_text("\n".join(lines) + "\n")
    (folder / "a.mtl").write_text("newmtl red\nmap_Kd red.png\n")
    Image.new("RGB", (4, 4), (255, 0, 0)).save(folder / "red.png")
    trimesh.Trimesh(bent, faces, process=False).export(folder / "b.ply")
    return folder / "a.obj", folder / "b.ply"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Any:
    """One registration with all exports, what was said, and its folder."""
    folder = tmp_path_factory.mktemp("exports")
    source, reference = meshes(folder)
    settings = ScanSettings(str(source), str(reference), str(folder / "out"), export=EXPORTS, **QUICK)
    said: list[str] = []
    return settings, register_files(settings, tell=said.append), said


def test_all_that_was_asked_for_is_there_and_named(run):
    settings, _, said = run
    there = sorted(path.name for path in Path(settings.output).iterdir())
    assert there == [
        *("a.mtl", "a_registered.glb", "a_registered.obj", "a_registered.ply", "back.h5", "forward.h5"),
        *("forward.nii.gz", "matches.csv", "red.png", "report.html", "result.json", "transform.pwan"),
    ]
    assert {"forward.h5", "back.h5", "forward.nii.gz", "glb", "ply"} < set(files(settings))
    assert "copied beside the moved mesh, which names them: a.mtl, red.png" in said
    assert any("the points were taken to be in LPS, as they stand" in one for one in said)


def test_the_grids_move_points_as_the_registration_did_and_say_how_nearly(run):
    settings, outcome, said = run
    told = json.loads((Path(settings.output) / "result.json").read_text())["exports"]
    before, after = outcome.pair.source_file.points, outcome.points
    for name, start, end in (("forward.h5", before, after), ("back.h5", after, before)):
        itk = sitk.ReadTransform(str(Path(settings.output) / name))
        found = np.array([itk.TransformPoint(point) for point in start.tolist()])
        assert told[name]["share_of_registration"] <= 0.01 and told[name]["without_inverse"] == 0
        assert np.quantile(np.linalg.norm(found - end, axis=1), 0.95) < 3 * told[name]["error"] + 2e-5  # it rounds
        assert np.prod(told[name]["nodes"]) < 1e5
    assert told["forward.h5"] == told["forward.nii.gz"]
    assert sum(one.startswith("grid ") for one in said) == 2


def test_the_meshes_are_the_moved_source(run):
    settings, outcome, _ = run
    folder = Path(settings.output)
    for name in ("a_registered.obj", "a_registered.ply", "a_registered.glb"):
        file = read_points(folder / name)
        np.testing.assert_allclose(file.points[file.triangles], outcome.points[outcome.pair.source_faces], atol=1e-5)
    (mesh,) = trimesh.load_scene(folder / "a_registered.glb", process=False).geometry.values()
    assert mesh.visual.material.baseColorTexture.convert("RGB").getpixel((0, 0)) == (255, 0, 0)
    assert read_points(folder / "a_registered.ply").fields["matched"].sum() == outcome.matched.sum()
    text = (folder / "a_registered.obj").read_text()
    assert all(word in text for word in ("mtllib a.mtl", "usemtl red", "g left", "vt 0.111 0.222"))


def test_flipped_and_crossing_faces_are_counted(run):
    settings, outcome, _ = run
    held = json.loads((Path(settings.output) / "result.json").read_text())
    assert held["faces"] == {"faces": 128, "flipped": 0, "crossing": 0} and outcome.faces.flipped == 0
    assert any("none of the 128 faces is flipped" in one for one in outcome.verdict.sentences)


def test_what_is_beside_an_earlier_result_stays(run):
    settings, _, _ = run
    folder, file = Path(settings.output), read_points(settings.source)
    paths = [Path("a.mtl"), Path("red.png")]
    assert taken(file, paths, folder, overwrite=False) == []
    assert taken(file, paths, folder, overwrite=True) == paths
    assert taken(file, paths, folder.parent, overwrite=True) == []  # the source's own


def test_exports_of_an_earlier_run_go_with_its_result(run, tmp_path):
    settings, outcome, _ = run
    again = replace(settings, output=str(tmp_path), export="back.h5", overwrite=True)
    for name in ("forward.h5", "back.h5", "a_registered.ply", "b_registered.ply", "notes.txt"):
        (tmp_path / name).write_text("earlier")
    write_output(again, outcome)
    there = {path.name for path in tmp_path.iterdir()}
    assert {"back.h5", "b_registered.ply", "notes.txt"} < there
    assert not {"forward.h5", "a_registered.ply"} & there


def said_of(capsys, *arguments: Any) -> str:
    assert own_scans.main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err.strip()


def test_bad_input_is_refused_before_anything_is_computed(tmp_path, capsys, monkeypatch):
    source, reference = meshes(tmp_path)
    pair = source, reference, f"output={tmp_path / 'out'}"
    assert "nothing is exported as 'gird' (did you mean 'grid'?); there are grid, glb, ply" in said_of(
        capsys, *pair, "export=gird"
    )
    said = said_of(capsys, *pair, "export=forward.h5", "export_spacing=1e-6")
    assert "a grid of export_spacing=1e-06 has" in said and "take export_spacing=" in said
    (tmp_path / "c.csv").write_text("".join(f"{x},{y},{x * y}\n" for x in range(4) for y in range(4)))
    assert "export=glb is for meshes, and" in said_of(capsys, tmp_path / "c.csv", *pair[1:], "export=glb")
    (tmp_path / "d.csv").write_text("".join(f"{x},{y}\n" for x in range(4) for y in range(4)))
    said = said_of(capsys, tmp_path / "d.csv", tmp_path / "d.csv", pair[2], "export=ply")
    assert "export=ply is for points in 3-D" in said and "\n" not in said
    said = said_of(capsys, *pair, "export=back.h5", "method.parametrisation=free", "method.refinement=nearest")
    assert "with parametrisation=free there is no map of space for a grid" in said
    assert "export_spacing must be positive" in said_of(capsys, *pair, "export_spacing=-1")
    monkeypatch.setattr("pwan.extras.find_spec", lambda package: None)
    assert "export=forward.h5 needs the extra 'export': pip install 'pwan[export]'" in said_of(
        capsys, *pair, "export=grid"
    )
    assert not (tmp_path / "out").exists()


def test_a_registration_in_the_plane_has_its_grid(tmp_path):
    points = np.random.default_rng(0).random((60, 2))
    np.savetxt(tmp_path / "a.csv", points, delimiter=",")
    np.savetxt(tmp_path / "b.csv", points + 0.02, delimiter=",")
    two = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    outcome = register_files(
        ScanSettings(*two, str(tmp_path / "out"), export="forward.nrrd", **QUICK), tell=lambda text: None
    )
    field = sitk.ReadImage(str(tmp_path / "out" / "forward.nrrd"), sitk.sitkVectorFloat64)
    itk = sitk.DisplacementFieldTransform(field)
    found = np.array([itk.TransformPoint(point) for point in points.tolist()])
    np.testing.assert_allclose(found, outcome.points, atol=1e-3)


def test_a_failed_registration_and_one_without_a_map_have_no_grid_and_say_so(run, tmp_path):
    settings, outcome, _ = run
    paths = {name: tmp_path / path.name for name, path in files(settings).items() if name in (*GRIDS, "points")}
    failed = replace(outcome, measured=replace(outcome.measured, failed="it has diverged"))
    mapless = replace(outcome, result=replace(outcome.result, transform=None))
    for one, why in (
        (failed, "the registration failed"),
        (mapless, "method soft_assignment moves only its own points"),
    ):
        assert write_exports(settings, one, {}, paths) == ({}, [f"no grid was written: {why}"])
    assert not any(tmp_path.iterdir())
