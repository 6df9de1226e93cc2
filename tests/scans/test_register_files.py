"""Registering one file onto another, from the command line to what lies in the folder afterwards."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pwan import console, read_points, scans, shapes
from pwan.app import main as run_py
from pwan.app import own_scans
from pwan.begin.estimate import spacing_of
from pwan.begin.sliding import SlidingCheck, check_sliding
from pwan.begin.start import Start
from pwan.deformation.space import SpaceTransform
from pwan.scans import ScanSettings, output, pair, register_files, registering
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.trust import measuring
from pwan.trust.verdict import SLID

QUICK = ["method=soft_assignment", "method.steps=15", "method.rank=20", "init=none"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A source with normals in PLY and a reference in CSV: two crops of a torus."""
    problem = make_problem(
        shapes.load("torus"), SynthesisSettings(points=150, keep=0.8, deformation_lambda=50.0), seed=0, trials=[0]
    )
    source, reference = problem.source[0].numpy(), problem.reference[0].numpy()
    normals = np.random.default_rng(0).normal(size=source.shape)
    lines = [" ".join(f"{value:.8f}" for value in row) + " 7" for row in np.column_stack([source, normals])]
    names = "".join(f"property double {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz")) + "property uchar red\n"
    head = f"ply\nformat ascii 1.0\nelement vertex {len(source)}\n{names}end_header\n"
    (tmp_path / "a.ply").write_text(head + "\n".join(lines) + "\n")
    pd.DataFrame(reference, columns=["x", "y", "z"]).to_csv(tmp_path / "b.csv", index=False, sep=";")
    return tmp_path / "a.ply", tmp_path / "b.csv"


def register(*arguments: Any) -> int:
    return own_scans.main([str(argument) for argument in arguments])


def test_two_files_become_a_moved_file_and_what_explains_it(files, tmp_path, capsys):
    source, reference = files
    folder = tmp_path / "out"
    assert register(source, reference, f"output={folder}", *QUICK) == 0
    said = capsys.readouterr().out
    assert "points have partners" in said and "of the source's points are matched" in said and "report.html" in said
    assert sorted(path.name for path in folder.iterdir()) == [
        *("a_registered.ply", "matches.csv", "report.html", "result.json", "transform.pwan")
    ]
    before, after = read_points(source), read_points(folder / "a_registered.ply")
    np.testing.assert_array_equal(after.fields["red"], before.fields["red"])
    found = json.loads((folder / "result.json").read_text())
    moved = SpaceTransform.load(folder / "transform.pwan")(before.points)
    np.testing.assert_allclose(after.points, moved, atol=1e-6)
    displacement = np.column_stack([after.fields[f"displacement_{axis}"] for axis in "xyz"])
    np.testing.assert_allclose(after.points - before.points, displacement, atol=1e-6)
    matches = pd.read_csv(folder / "matches.csv")
    assert len(matches) == found["matched"]["points"] == int(after.fields["matched"].sum())
    there = read_points(reference).points[matches["reference"]]
    lengths = np.linalg.norm(after.points[matches["source"]] - there, axis=1)
    np.testing.assert_allclose(matches["distance"], lengths, atol=1e-6)
    assert found["residual"]["median"] == pytest.approx(np.median(lengths), abs=1e-6)
    assert 0 < found["mass"] <= 120 and "have partners" in found["limits"] and found["version"]
    page = (folder / "report.html").read_text()
    assert (
        "a.ply onto b.csv" in page and "registered, matched" in page and "truth" not in page.split("<body>")[1][:5000]
    )


def test_what_is_left_is_shown_with_the_one_command_that_may_do_better(tmp_path, capsys):
    wide, narrow = (
        np.stack(np.meshgrid(np.arange(n), np.arange(12.0), [0.0, 1.0]), -1).reshape(-1, 3) for n in (30, 20)
    )
    np.save(tmp_path / "a.npy", narrow)
    np.save(tmp_path / "b.npy", wide)
    folder = tmp_path / "out"
    more = ["mass=480", "init=none", "method=soft_assignment", "method.steps=5", "method.smoothness=1e4"]
    assert register(tmp_path / "a.npy", tmp_path / "b.npy", f"output={folder}", *more) == 0
    said, page = capsys.readouterr().out, (folder / "report.html").read_text()
    found = json.loads((folder / "result.json").read_text())
    left, again = found["far_from_the_other_set"], found["may_do_better"]
    assert left["spacings"] == 3 and left["source"]["share"] < 0.02 < left["reference"]["share"]
    assert left["reference"]["together"] > 0.9 and len(left["reference"]["centre"]) == 3
    begins = f"python run.py task=register source={tmp_path / 'a.npy'} reference="  # the way of a clone, as here
    assert again["command"].startswith(begins) and html.escape(again["command"], quote=False) in page
    assert f"{again['when']}:\n  {again['command']}" in said
    assert any("of the reference beyond 3 spacings" in sentence and sentence in page for sentence in found["verdict"])
    view = json.loads(page.split('id="s0-scene0">')[1].split("</script>")[0])["layout"]["updatemenus"][0]
    assert view["buttons"][view["active"]]["label"] == "soft_assignment: distance to the other set"


def test_a_rigid_turn_is_undone_and_normals_turn_with_it(tmp_path):
    points = shapes.load("torus").points[:200]
    turn, shift = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.array([5.0, -3, 2])
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    np.savez(tmp_path / "a.npz", points=(points - shift) @ turn.T, normals=normals @ turn.T)
    np.save(tmp_path / "b.npy", points)
    more = ["method.transform=rigid", "method.steps=60", "method.stages=0", "mass=200"]
    assert register(tmp_path / "a.npz", tmp_path / "b.npy", f"output={tmp_path / 'out'}", *more) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    moved = read_points(tmp_path / "out" / "a_registered.npz", key="points")
    assert np.abs(moved.points - points).max() < 0.2  # a torus turns in itself, so its points are compared loosely
    linear = np.array(found["transform"]["affine"])
    np.testing.assert_allclose(linear @ linear.T, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(moved.fields["normals"], (normals @ turn.T) @ linear, atol=1e-5)
    by_hand = ((points - shift) @ turn.T) @ linear + found["transform"]["translation"]
    np.testing.assert_allclose(moved.points, by_hand, atol=1e-4)


@pytest.mark.parametrize("kernel", ["gaussian", "geodesic"])
def test_the_transform_of_a_turned_and_scaled_source_is_the_whole_way(tmp_path, kernel):
    problem = make_problem(shapes.load("bunny"), SynthesisSettings(points=150), seed=0, trials=[0])
    turn = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    source = (problem.source[0].numpy() @ turn) * 3 + [5.0, -3, 2]
    np.save(tmp_path / "a.npy", source)
    np.save(tmp_path / "b.npy", problem.reference[0].numpy())
    more = ["mass=150", "scale=true", "method.steps=5", "method.stages=0", f"method.kernel={kernel}"]
    assert register(tmp_path / "a.npy", tmp_path / "b.npy", f"output={tmp_path / 'out'}", *more) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["start"]["changed"] and found["start"]["scale"] < 0.5
    whole, moved = SpaceTransform.load(tmp_path / "out" / "transform.pwan"), np.load(tmp_path / "out/a_registered.npy")
    np.testing.assert_allclose(whole(source), moved, atol=1e-4)
    np.testing.assert_allclose(whole.to_dict()["affine"], found["transform"]["affine"], atol=1e-5)
    np.testing.assert_allclose(whole.to_dict()["translation"], found["transform"]["translation"], atol=1e-4)


def test_settings_stand_as_they_were_used(files, tmp_path):
    options = ["mass=90", "init=none", "method.width=8", "method.features=8", "method.warmup=1"]
    assert register(*files, f"output={tmp_path / 'out'}", *options) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    used = found["method_settings"]
    assert [name for name, value in used.items() if value is None and name != "soft"] == []
    assert used["kind"] == "mass" and used["steps"] > 0 and used["rate"] > 0 and used["coherence"] > 0
    assert used["kernel"] == ("geodesic" if found["choice"].startswith("the geodesic kernel") else "gaussian")
    assert found["settings"]["method_settings"] == {"width": 8, "features": 8, "warmup": 1}  # as given


@pytest.mark.parametrize(
    ("method", "options"), [("pwan", ["steps=60"]), ("cpd", ["max_iterations=40", "tolerance=1e-12"])]
)
def test_what_has_converged_has_not_run_out_of_steps(files, tmp_path, monkeypatch, method, options):
    monkeypatch.setattr(measuring, "settled", lambda losses: True)
    more = [f"method={method}", *(f"method.{option}" for option in options), "init=none", "mass=90"]
    assert register(*files, f"output={tmp_path / 'out'}", *(more[:-1] if method == "cpd" else more)) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert "it has converged" in found["verdict"] and "took all" not in found["stop_reason"]
    assert "settled within its" in found["stop_reason"]


def test_matches_are_said_to_be_many_to_one(tmp_path):
    points = shapes.load("torus").points[:60]
    np.save(tmp_path / "a.npy", np.repeat(points, 2, axis=0) + np.tile([[0.0], [0.001]], (60, 1)))
    np.save(tmp_path / "b.npy", points)
    np.save(tmp_path / "same.npy", points + 0.001)
    quick = ["method=soft_assignment", "method.steps=2", "method.rank=10", "init=none"]
    for name, mass, many in (("a", 60, True), ("same", 60, False)):
        out = tmp_path / f"of_{name}"
        assert register(tmp_path / f"{name}.npy", tmp_path / "b.npy", f"output={out}", f"mass={mass}", *quick) == 0
        matches, told = pd.read_csv(out / "matches.csv"), json.loads((out / "result.json").read_text())["matches"]
        counts = matches["reference"].map(matches["reference"].value_counts())
        assert list(matches["shared"]) == list(counts)
        assert (told["rows"], told["reference_points"]) == (len(matches), matches["reference"].nunique())
        assert (counts.max() > 1) == many == told["note"].startswith("many to one")
        assert told["note"] in (out / "report.html").read_text()


def test_points_of_a_surface_are_registered_and_its_vertices_moved(tmp_path):
    torus = shapes.load("torus")
    (tmp_path / "a.off").write_text(
        f"OFF\n{len(torus.vertices)} {len(torus.faces)} 0\n"
        + "".join(f"{x} {y} {z}\n" for x, y, z in torus.vertices + 0.05)
        + "".join(f"3 {a} {b} {c}\n" for a, b, c in torus.faces)
    )
    np.save(tmp_path / "b.npy", torus.points[:300])
    assert register(tmp_path / "a.off", tmp_path / "b.npy", f"output={tmp_path / 'out'}", "sample=200", *QUICK) == 0
    moved = read_points(tmp_path / "out" / "a_registered.off")
    np.testing.assert_array_equal(moved.faces, torus.faces)
    assert np.linalg.norm(moved.points - torus.vertices, axis=1).mean() < 0.7 * np.linalg.norm([0.05] * 3)
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["registered_points"][0] == 200 and any("not written: matched" in note for note in found["notes"])


def uneven_disc(path: Path, shift: float = 0.0) -> np.ndarray:
    """An OFF file of a disc, far denser in its middle, and its vertices."""
    radii, angles = np.linspace(0.02, 1, 12) ** 3, np.arange(20) * np.pi / 10
    ring = np.stack((np.cos(angles), np.sin(angles)), -1)
    flat = (radii[:, None, None] * ring).reshape(-1, 2)
    points = np.column_stack((flat + shift, 0.2 * flat[:, 0] ** 2))
    place = np.arange(12 * 20).reshape(12, 20)
    inner, outer, turned = place[:-1], place[1:], np.roll(place, -1, axis=1)
    faces = np.concatenate(
        [
            np.stack(corners, -1).reshape(-1, 3)
            for corners in ((inner, outer, turned[1:]), (inner, turned[1:], turned[:-1]))
        ]
    )
    path.write_text(
        f"OFF\n{len(points)} {len(faces)} 0\n"
        + "".join(f"{x} {y} {z}\n" for x, y, z in points)
        + "".join(f"3 {a} {b} {c}\n" for a, b, c in faces)
    )
    return points


def test_vertices_of_a_mesh_count_by_their_areas_unless_told_otherwise(tmp_path, capsys):
    points = uneven_disc(tmp_path / "a.off", 0.02)
    generator = np.random.default_rng(0)
    radius, angle = np.sqrt(generator.random(240)), generator.random(240) * 2 * np.pi
    even = np.column_stack((radius * np.cos(angle), radius * np.sin(angle)))
    np.save(tmp_path / "b.npy", np.column_stack((even, 0.2 * even[:, 0] ** 2)))
    uneven_disc(tmp_path / "c.off")
    left, found = {}, {}
    for name, more in (("auto", []), ("none", ["source_weights=none"])):
        arguments = [tmp_path / "a.off", tmp_path / "b.npy", f"output={tmp_path / name}", "init=none", *more]
        assert register(*arguments, "method=soft_assignment", "method.rank=20") == 0
        moved = read_points(tmp_path / name / "a_registered.off").points
        left[name] = float(np.square(moved - points + [0.02, 0.02, 0]).sum(1).mean())
        found[name] = json.loads((tmp_path / name / "result.json").read_text())
    said = capsys.readouterr().out
    assert "a.off: the points count by the areas of their faces, from" in said
    assert found["auto"]["weights"] == {"source": "even", "reference": "none"}
    assert found["none"]["weights"] == {"source": "none", "reference": "none"}
    assert left["auto"] < 0.5 * left["none"]
    assert any("dense places draw" in word for word in found["none"]["warnings"])
    assert not any("dense places draw" in word for word in found["auto"]["warnings"])
    quick = [f"output={tmp_path / 'both'}", *QUICK, "reference_weights=even"]
    assert register(tmp_path / "c.off", tmp_path / "b.npy", *quick) == 0
    assert "b.npy: the points count by local density" in capsys.readouterr().out
    cpd = [f"output={tmp_path / 'cpd'}", "method=cpd", "init=none"]
    assert register(tmp_path / "c.off", tmp_path / "b.npy", *cpd) == 0  # it takes none, so by itself none are asked for
    assert json.loads((tmp_path / "cpd" / "result.json").read_text())["weights"]["source"] == "none"
    assert register(tmp_path / "c.off", tmp_path / "b.npy", *cpd, "source_weights=even", "overwrite=true") == 2
    assert "method cpd counts each point once and does not take weights" in capsys.readouterr().err


def test_of_a_large_scan_a_part_is_registered_and_all_is_moved(files, tmp_path, monkeypatch):
    monkeypatch.setattr(pair, "LIMIT", 80)
    assert register(*files, f"output={tmp_path / 'out'}", "mass=100", *QUICK) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["registered_points"] == [80, 80] and found["source"]["points"] == 120
    assert len(read_points(tmp_path / "out" / "a_registered.ply").points) == 120
    assert any("80 of 120 points are registered" in note for note in found["notes"])
    assert pd.read_csv(tmp_path / "out" / "matches.csv")["reference"].max() > 80  # numbers in the file, not in the part


def test_both_ways_in_give_the_same_files_and_results_are_not_written_over(files, tmp_path, capsys):
    named = [f"source={files[0]}", f"reference={files[1]}", *QUICK, "mass=90"]
    conf = Path(__file__).parents[2] / "conf"
    assert run_py(["task=register", *named, f"output={tmp_path / 'one'}"], conf=conf) == 0
    with pytest.raises(SystemExit) as ended:
        console.command(["register", *map(str, files), *QUICK, "mass=90", f"output={tmp_path / 'two'}"])
    assert ended.value.code == 0
    one, two = ((tmp_path / name / "a_registered.ply").read_bytes() for name in ("one", "two"))
    assert one == two
    capsys.readouterr()
    assert run_py(["task=register", *named, f"output={tmp_path / 'one'}"], conf=conf) == 2
    assert "holds results already" in capsys.readouterr().err
    assert run_py(["task=register", *named, f"output={tmp_path / 'one'}", "overwrite=true", "seed=1"], conf=conf) == 0


@pytest.mark.parametrize("numbers", [False, True])
def test_columns_are_named_for_each_file_or_for_both(files, tmp_path, capsys, numbers):
    """And what is read as x, y and z is said in any case, with the settings' names."""
    source, reference = (read_points(path).points for path in files)
    for name, points in (("c.csv", source), ("d.csv", reference)):
        table = pd.DataFrame(points, columns=["u", "v", "w"])
        table.insert(0, "t", 0.5)
        table.to_csv(tmp_path / name, index=False)
    pair = [tmp_path / "c.csv", tmp_path / "d.csv"]
    assert register(*pair, f"output={tmp_path / 'none'}", *QUICK) == 2
    said = capsys.readouterr().err
    assert "c.csv: line 1: expected columns named x, y and z, found t, u, v, w." in said
    assert "by source_columns='A,B,C'" in said
    choice = "2,3,4" if numbers else "u,v,w"
    assert register(*pair, f"columns={choice}", f"output={tmp_path / 'both'}", *QUICK) == 0
    said = capsys.readouterr().out
    assert "c.csv: x, y, z: the columns u, v, w (others by source_columns='A,B,C')" in said
    assert "d.csv: x, y, z: the columns u, v, w (others by reference_columns='A,B,C')" in said
    each = [f"source_columns={choice}", "columns=t", f"reference_columns={choice}"]  # of one file counts more
    assert register(*pair, *each, f"output={tmp_path / 'each'}", *QUICK) == 0
    (one, two) = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("both", "each"))
    assert one["transform"] == two["transform"] and one["settings"]["columns"] == choice


def test_flagged_points_are_left_out_unless_kept(files, tmp_path, capsys):
    import laspy

    cloud = laspy.LasData(laspy.LasHeader(version="1.4", point_format=6))
    cloud.header.scales = np.full(3, 1e-6)
    cloud.x, cloud.y, cloud.z = read_points(files[0]).points.T
    cloud.classification[:5] = 7
    cloud.write(tmp_path / "c.las")
    count = len(cloud.points)
    for setting, left in (((), count - 5), (("keep_flagged=true",), count)):
        folder = tmp_path / f"of {left}"
        assert register(tmp_path / "c.las", files[1], f"output={folder}", *QUICK, *setting) == 0
        assert json.loads((folder / "result.json").read_text())["source"]["points"] == left
        assert ("classified as noise (7, 18); keep_flagged=true keeps them" in capsys.readouterr().out) == (
            left < count
        )


def test_inputs_come_from_a_file_and_names_may_hold_anything(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "scan [2], a=b ${x} (copy).ply"
    odd.write_bytes(files[0].read_bytes())
    (tmp_path / "in.yaml").write_text(
        f"source: '{odd.name}'\nreference: b.csv\noutput: from file\nmass: 90\ninit: none\n"
        "method: soft_assignment\nmethod_settings:\n  steps: 5\n  rank: 20\n"
    )
    assert register("inputs=in.yaml", "output=here") == 0  # the command line counts more
    assert (tmp_path / "here" / "scan [2], a=b ${x} (copy)_registered.ply").exists()
    assert json.loads((tmp_path / "here" / "result.json").read_text())["mass"] == 90
    assert register(odd.name, "b.csv", "output=again", *QUICK) == 0


@pytest.mark.parametrize("path", [r"C:\Users\me\a.ply", r"C:\temp\new.ply", r"D:\scans\b.ply"])
def test_a_backslash_in_double_quotes_is_named_with_its_line(tmp_path, capsys, path):
    (tmp_path / "in.yaml").write_text(f'# mine\nsource: "{path}"\nreference: b.csv\n')
    assert register(f"inputs={tmp_path / 'in.yaml'}") == 2
    said = capsys.readouterr().err
    assert "in.yaml: line 2: a backslash in double quotes" in said and f"single quotes, as it is: '{path}'" in said
    (tmp_path / "in.yaml").write_text(f"source: '{path}'\nreference: b.csv\n")
    assert register(f"inputs={tmp_path / 'in.yaml'}") == 2
    assert f"{path}: there is no such file" in capsys.readouterr().err


WRONG = [
    (["nothing.ply", "b.csv"], "nothing.ply: there is no such file"),
    (["a.ply"], "no reference was named"),
    ([], "no source and no reference was named"),
    (["a.ply", "b.csv", "c.csv"], "c.csv: there is no such file"),  # many scans
    (["a.ply", "b.csv", "mas=5"], "unknown key 'mas' (did you mean 'mass'?)"),
    (["a.ply", "b.csv", "steps=5"], "unknown key 'steps' (did you mean method.steps?)"),
    (["a.ply", "b.csv", "--seqence"], "see --help (did you mean '--sequence'?); a file"),
    (["a.ply", "b.csv", "mass=many"], "mass must be a number or null, got 'many'"),
    (
        ["a.ply", "b.csv", "mass=5", "distance=1"],
        "give mass (how many points are matched) or distance (how far), not both",
    ),
    (["a.ply", "b.csv", "mass=-5"], "mass must be positive"),
    (
        ["a.ply", "b.csv", "mass=5000"],
        "mass=5000 of the 120 points of a.ply is more than can be matched; expected at most",
    ),
    (["a.ply", "b.csv", "source=b.csv"], "'b.csv' is one file too many: source and reference are named already"),
    (["inputs=nested.yaml"], "nested.yaml: method_settings must hold 'name: value' lines, got [1]"),
    (["a.ply", "b.csv", "method=pwann"], "unknown method 'pwann' (did you mean 'pwan'?)"),
    (["a.ply", "b.csv", "method.stepz=5"], "method pwan has no setting 'stepz' (did you mean 'steps'?)"),
    (["a.ply", "b.csv", "sample=50"], "a.ply has no faces to draw 50 points on"),
    (["a.ply", "b.csv", "output=a.ply"], "a.ply is a file; expected a folder for the results"),
    (["a.ply", "flat.xyz"], "a.ply has 3 coordinates a point and flat.xyz has 2"),
    (["a.ply", "few.xyz"], "few.xyz holds 3 points; expected at least 4 in 3-D"),
    (["a.ply", "same.xyz"], "same.xyz holds the same point 5 times"),
    (["a.ply", "hole.xyz"], "hole.xyz: expected finite coordinates"),
    (["a.ply", "empty.xyz"], "empty.xyz: "),
    (["a.ply", "b.csv", "--flag"], "unknown option '--flag'; settings are written as key=value"),
    (["inputs=list.yaml"], "list.yaml must hold settings as 'key: value' lines"),
    (["inputs=bad.yaml"], "bad.yaml: line 2, column 1: not YAML"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_input_is_one_sentence_and_leaves_nothing(files, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("flat.xyz").write_text("0 0\n1 0\n0 1\n1 1\n")
    Path("few.xyz").write_text("0 0 0\n1 0 0\n0 1 0\n")
    Path("same.xyz").write_text("1 2 3\n" * 5)
    Path("hole.xyz").write_text("0 0 0\n1 0 0\nnan 1 0\n0 0 1\n1 1 1\n")
    Path("empty.xyz").write_text("")
    Path("nested.yaml").write_text("source: a.ply\nreference: b.csv\nmethod_settings: [1]\n")
    Path("list.yaml").write_text("- a\n- b\n")
    Path("bad.yaml").write_text("source: [\n")
    there = sorted(os.listdir())
    assert own_scans.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and words in said and "Traceback" not in said
    assert sorted(os.listdir()) == there


def test_points_that_are_not_finite_are_dropped_where_asked(files, tmp_path):
    source, reference = files
    rows = source.read_text().splitlines()
    at = rows.index("end_header") + 1
    rows[at] = "nan nan nan 0 0 1 7"
    source.write_text("\n".join(rows) + "\n")
    assert register(source, reference, f"output={tmp_path / 'out'}", "drop_invalid=true", *QUICK) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert any("dropped 1 of 120 points" in note for note in found["notes"])
    assert pd.read_csv(tmp_path / "out" / "matches.csv")["source"].min() > 0  # numbers of the file


def test_other_units_are_doubted_and_scaled_only_where_asked(files, tmp_path, capsys):
    source, reference = files
    thousandth = pd.read_csv(reference, sep=";") / 1000.0
    thousandth.to_csv(tmp_path / "mm.csv", index=False)
    assert register(source, tmp_path / "mm.csv", f"output={tmp_path / 'out'}", "mass=90", *QUICK) == 0
    said = capsys.readouterr().out
    assert "the extents differ more than threefold" in said and "not to be trusted" in said
    assert not json.loads((tmp_path / "out" / "result.json").read_text())["trusted"]


def test_a_mesh_that_repeats_its_vertices_is_registered_as_one_that_does_not(tmp_path):
    points = shapes.load("torus").points[:150]
    np.save(tmp_path / "a.npy", np.repeat(points + 0.02, 3, axis=0))
    np.save(tmp_path / "b.npy", np.repeat(points, 2, axis=0))
    assert register(tmp_path / "a.npy", tmp_path / "b.npy", f"output={tmp_path / 'out'}", *QUICK) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["mass"] == 300 and found["matched"]["points"] == 300  # all of the smaller set
    assert found["residual"]["spacing"] == pytest.approx(spacing_of(points))
    assert found["trusted"], found["warnings"]


@pytest.mark.parametrize("method", ["wgan", "pwan_distance"])
def test_types_that_take_no_mass_are_registered_too(files, tmp_path, method):
    more = [f"method={method}", "method.steps=4", "method.warmup=2", "method.stages=0", "method.rank=20", "init=none"]
    assert register(*files, f"output={tmp_path / 'out'}", *more) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["mass"] is None and (found["distance"] is None) == (method == "wgan")
    assert (found["threshold"] is None) == (method == "wgan")


@pytest.mark.parametrize("init", ["auto", "none"])
def test_what_has_slid_is_registered_again_from_elsewhere_unless_it_must_stay(
    files, tmp_path, monkeypatch, capsys, init
):
    elsewhere = Start(1.0, np.eye(3), np.array([0.01, 0.0, 0.0]), 0.1, 0.2, True, "shifted as the test says")
    given = Start(1.0, np.eye(3), np.array([0.0, 0.02, 0.0]), 0.1, 0.1, True, "as given")
    ratios = iter([0.3, 0.9])
    monkeypatch.setattr(registering, "find_start", lambda *_, **__: given)
    monkeypatch.setattr(registering, "check_sliding", lambda *_, **__: SlidingCheck(next(ratios), elsewhere))
    monkeypatch.setattr(measuring, "confidence", lambda signs: 0.99)  # so that nothing else is a reason for doubt
    assert register(*files, f"output={tmp_path / 'out'}", "mass=90", *QUICK[:-1], f"init={init}") == 0
    said, found = capsys.readouterr().out, json.loads((tmp_path / "out" / "result.json").read_text())
    assert ("once more, shifted as the test says" in said) == (init == "auto")
    assert ("3.3 times nearer" in " ".join(found["warnings"])) == (init == "none") == (not found["trusted"])
    if init == "auto":
        assert found["start"]["translation"] == pytest.approx([0.01, 0.02, 0.0])
        assert found["start"]["reason"] == "shifted as the test says"
    moved = SpaceTransform.load(tmp_path / "out" / "transform.pwan")
    source = read_points(files[0]).points  # the start is in the transform
    np.testing.assert_allclose(read_points(tmp_path / "out" / "a_registered.ply").points, moved(source), atol=1e-6)


@pytest.mark.parametrize("init", ["auto", "none"])
def test_a_few_points_of_a_large_scan_are_registered(tmp_path, init):
    """So few that a share of them as of the source's is none."""
    sphere = np.random.default_rng(0).normal(size=(8000, 3))
    np.save(tmp_path / "a.npy", sphere)
    np.save(tmp_path / "b.npy", sphere[:5] + 0.01)
    more = ["mass=5", f"output={tmp_path / 'out'}", *QUICK[:-1], f"init={init}"]
    assert register(tmp_path / "a.npy", tmp_path / "b.npy", *more) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    assert found["registered_points"] == [8000, 5] and found["mass"] == 5
    assert not any("slid" in warning for warning in found["warnings"])


@pytest.mark.parametrize(("transform", "checked"), [("rigid", False), ("affine", False), ("nonrigid", True)])
def test_what_is_only_too_stiff_has_not_slid(tmp_path, monkeypatch, capsys, transform, checked):
    """A quick registration bends the source and comes nearer than any rigid one."""
    points = shapes.load("bunny").points[:300].copy()
    along = points[:, 0]
    bent = points + 0.3 * np.stack((np.zeros_like(along), along**2, np.sin(2 * along)), 1)
    np.save(tmp_path / "a.npy", points)
    np.save(tmp_path / "b.npy", bent)
    ratios = []

    def check(*sets: Any, **more: Any) -> Any:
        made = check_sliding(*sets, **more)
        assert made is not None
        ratios.append(made.ratio)
        return made

    monkeypatch.setattr(registering, "check_sliding", check)
    stiff = [f"method.transform={transform}", "method.steps=30", "method.stages=0", "method.rank=20", "mass=300"]
    assert register(tmp_path / "a.npy", tmp_path / "b.npy", f"output={tmp_path / 'out'}", *stiff) == 0
    assert bool(ratios) == checked and "slid" not in capsys.readouterr().out
    if transform == "rigid":
        moved = np.array(np.load(tmp_path / "out" / "a_registered.npy"))
        made = check_sliding(points, bent, moved, mass=300)
        assert made is not None and made.ratio < 0.8 * SLID  # it would have been said


def test_a_diverged_run_says_so_and_leaves_the_source_where_it_was(files, tmp_path, capsys):
    more = ["method.network_rate=1e30", "method.steps=4", "method.stages=0", "method.refinement=none", "init=none"]
    assert register(*files, f"output={tmp_path / 'out'}", "mass=90", *more) == 1
    assert "the registration failed: diverged" in capsys.readouterr().out
    moved = read_points(tmp_path / "out" / "a_registered.ply").points
    np.testing.assert_allclose(moved, read_points(files[0]).points, atol=1e-9)


def test_what_an_earlier_run_left_is_replaced_or_removed(files, tmp_path, capsys):
    folder = tmp_path / "out"
    assert register(*files, f"output={folder}", "mass=90", *QUICK) == 0
    free = ["method.parametrisation=free", "method.refinement=none", "method.steps=2", "method.stages=0", "init=none"]
    capsys.readouterr()
    assert register(*files, f"output={folder}", "mass=90", "overwrite=true", *free) == 0
    assert not (folder / "transform.pwan").exists() and "transform.pwan" not in capsys.readouterr().out
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()
    before = (folder / "a_registered.ply").read_bytes()
    assert register(*files, f"output={folder}", "mass=90", "overwrite=true", *QUICK) == 2
    assert "result.json is a folder" in capsys.readouterr().err
    assert (folder / "a_registered.ply").read_bytes() == before


@pytest.mark.parametrize("where", ["write_points", "_page"])
def test_a_run_stopped_while_it_writes_leaves_nothing(files, tmp_path, monkeypatch, capsys, where):
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, where, stop)
    assert register(*files, f"output={tmp_path / 'out'}", *QUICK) == 130
    assert "Nothing was written" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_help_names_every_setting(capsys):
    assert own_scans.main(["--help"]) == 0
    said = capsys.readouterr().out
    for name in scans.ScanSettings.__dataclass_fields__:
        assert name == "method_settings" or name in said.lower()


CASES = os.environ.get("PWAN_CASES")
PAIRS = ["G01_utm", "G02_plain", "G05_identical", "G08_coplanar", "G09_2d", "G14_outliers"]


@pytest.mark.skipif(not CASES, reason="PWAN_CASES names no folder with the cases")
@pytest.mark.parametrize("name", PAIRS)
def test_reported_pairs_are_registered(name, tmp_path):
    assert CASES is not None
    source, reference, truth = (Path(CASES) / f"{name}_{what}.npy" for what in ("source", "reference", "truth"))
    assert register(source, reference, f"output={tmp_path}", "method=soft_assignment") == 0
    moved, before, true = (np.load(path) for path in (tmp_path / f"{name}_source_registered.npy", source, truth))
    assert moved.shape == before.shape and np.isfinite(moved).all()
    error, start = (((points - true) ** 2).sum(1).mean() for points in (moved, before))
    assert error <= 0.5 * start + 1e-4 * before.var(0).sum(), (error, start)
    if name == "G08_coplanar":
        assert np.abs(moved[:, 2]).max() < 1e-6


@pytest.mark.skipif(not CASES, reason="PWAN_CASES names no folder with the cases")
@pytest.mark.parametrize("name", ["G09_2d_vs_3d", "G10_one_point", "G10_three_points", "G18_nan"])
def test_reported_pairs_that_cannot_be_registered_are_refused(name, tmp_path, capsys):
    assert CASES is not None
    source, reference = (Path(CASES) / f"{name}_{what}.npy" for what in ("source", "reference"))
    assert register(source, reference, f"output={tmp_path / 'out'}") == 2
    assert name in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_python_words_are_not_shown_to_one_at_the_command_line(files, tmp_path, capsys):
    (tmp_path / "hole.xyz").write_text("0 0 0\n1 0 0\nnan 1 0\n0 0 1\n1 1 1\n")
    assert register(files[0], tmp_path / "hole.xyz", f"output={tmp_path / 'out'}") == 2
    said = capsys.readouterr().err
    assert "drop_invalid=true" in said and "True" not in said
    assert register(tmp_path, files[1], f"output={tmp_path / 'out'}") == 2
    assert "this is a folder; expected a file of points" in capsys.readouterr().err
    assert register("-a.ply", files[1]) == 2
    assert "source=-a.ply or ./-a.ply" in capsys.readouterr().err


def test_python_may_give_paths_lists_and_numbers_of_numpy(files, tmp_path):
    source, reference = files
    (tmp_path / "pairs.csv").write_text("0,0\n")
    settings = ScanSettings(
        source,
        reference,
        output=tmp_path / "out",
        landmarks=[tmp_path / "pairs.csv"],
        init="none",
        seed=np.int64(3),
        mass=np.float32(90),
        method="soft_assignment",
        method_settings={"steps": np.int64(5), "rank": 20},
    )
    assert settings.source == str(source) and settings.landmarks == (str(tmp_path / "pairs.csv"),)
    register_files(settings, tell=lambda text: None)
    told = json.loads((tmp_path / "out" / "result.json").read_text())
    assert told["settings"]["seed"] == 3 and told["mass_registered"] == 90


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"init": "Auto"}, "init must be one of 'auto', 'none', got 'Auto'"),
        ({"source_weights": "Even"}, "source_weights must be one of 'auto', 'even', 'none', got 'Even'"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"landmarks": [3]}, "landmarks must be a word or a list of a word or null, got .3."),
    ],
)
def test_words_that_mean_nothing_are_refused_from_python_too(given, says):
    with pytest.raises(ValueError, match=says):
        ScanSettings("a.ply", "b.ply", **given)
