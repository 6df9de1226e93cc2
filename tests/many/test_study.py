"""A study of files: what lies in its folder, what is run again and what is not, and what a stop leaves."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pwan import read_points
from pwan.files import alone_in
from pwan.many import Study, StudySettings, registering, shape_model, study, study_files
from pwan.many.folder import DONE
from tests.many.scanned import QUICK, family, shuffled

TEMPLATE, SHAPES = family(3)
SCANS, _ = shuffled(SHAPES)
METHOD = {name: value for name, value in QUICK.items() if name != "method"}
EACH = {"init": "none", "mass": 60.0, "method": QUICK["method"], "method_settings": METHOD}


def silent(text: str) -> None:
    pass


def run(settings: StudySettings, **more: Any) -> Study:
    return study_files(settings, **{"tell": silent, **more})


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A template with a face and normals in PLY, and scans in two formats."""
    folder = tmp_path_factory.mktemp("study")
    normals = np.tile([0.0, 0.0, 1.0], (len(TEMPLATE), 1))
    rows = "".join(" ".join(f"{v:.9g}" for v in row) + "\n" for row in np.column_stack((TEMPLATE, normals)))
    names = "".join(f"property double {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    head = f"ply\nformat ascii 1.0\nelement vertex {len(TEMPLATE)}\n{names}"
    faces = "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
    (folder / "t.ply").write_text(f"{head}{faces}{rows}3 0 1 2\n")
    (folder / "scans").mkdir()
    np.save(folder / "scans" / "a.npy", SCANS[0])
    np.savetxt(folder / "scans" / "b.xyz", SCANS[1])
    np.save(folder / "scans" / "c.npy", SCANS[2])
    each = {**EACH, "source_weights": "none"}
    paths: dict[str, Any] = {"template": folder / "t.ply", "scans": [folder / "scans"], "output": folder / "out"}
    return run(StudySettings(**paths, workers=1, each=each))


@pytest.fixture
def again(first: Study, tmp_path: Path) -> StudySettings:
    """The settings of the finished study, in a copy of all its files."""
    shutil.copytree(first.folder.parent, tmp_path / "copy")
    old, new = str(first.folder.parent), str(tmp_path / "copy")
    settings = first.settings
    return replace(
        settings,
        template=settings.template.replace(old, new),
        scans=tuple(path.replace(old, new) for path in settings.scans),
        output=settings.output.replace(old, new),
    )


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the scans that are registered from here on."""
    names: list[str] = []
    right = study.register_pair

    def told(settings: Any, pair: Any, **more: Any) -> Any:
        names.append(Path(settings.output).name)
        return right(settings, pair, **more)

    monkeypatch.setattr(study, "register_pair", told)
    return names


def test_all_scans_stand_in_the_numbering_of_the_template(first):
    with np.load(first.folder / "corresponded.npz") as arrays:
        points, names = arrays["points"], arrays["names"].tolist()
    assert names == ["a", "b", "c"] and points.shape == SHAPES.shape
    assert np.linalg.norm(points - SHAPES, axis=2).mean() < 0.05
    for name, one in zip(names, points, strict=True):
        mesh = read_points(first.folder / "corresponded" / f"{name}.ply")
        np.testing.assert_allclose(mesh.points, one, atol=1e-6)
        assert mesh.faces is not None and mesh.normals is not None
        registered = read_points(first.folder / "registrations" / name / "t_registered.ply")
        np.testing.assert_allclose(registered.points, one, atol=1e-6)
        assert (first.folder / "registrations" / name / "report.html").exists()


def test_tables_model_and_meshes_say_the_same(first):
    model, rows = first.model, pd.read_csv(first.folder / "scans.csv")
    assert rows["name"].tolist() == ["a", "b", "c"] and set(rows["status"]) == {"ok"}
    told = [json.loads((first.folder / "registrations" / name / "result.json").read_text()) for name in "abc"]
    np.testing.assert_allclose(rows["confidence"], [one["confidence"] for one in told])
    np.testing.assert_allclose(rows["distance_median"], [one["residual"]["median"] for one in told])
    points = np.load(first.folder / "corresponded.npz")["points"]
    np.testing.assert_allclose(model.distances, shape_model(points).distances)
    modes, scores = (pd.read_csv(first.folder / f"{name}.csv") for name in ("modes", "scores"))
    np.testing.assert_allclose(modes["explained"], model.explained)
    np.testing.assert_allclose(scores[["mode_1", "mode_2"]], model.scores)
    with np.load(first.folder / "model.npz") as arrays:
        mean, built = arrays["mean"], arrays["mean"] + 2 * np.sqrt(arrays["variances"][0]) * arrays["modes"][0]
    np.testing.assert_allclose(read_points(first.folder / "shapes" / "mean.ply").points, mean, atol=1e-6)
    np.testing.assert_allclose(read_points(first.folder / "shapes" / "mode_1_plus_2.ply").points, built, atol=1e-6)
    np.testing.assert_allclose(mean.mean(0), TEMPLATE.mean(0), atol=1e-9)


def test_the_page_leads_to_each_registration(first):
    page = (first.folder / "study.html").read_text()
    for name in "abc":
        assert f'<a href="registrations/{name}/report.html">{name}</a>' in page
    assert "standard deviations: " in page and "Scores of the first two modes" in page and "t.ply" in page
    told = json.loads((first.folder / "study.json").read_text())
    assert told["finished"] and told["sentences"] == first.sentences() and told["registered"] == ["a", "b", "c"]
    assert not list(first.folder.rglob(".pwan-*"))


def test_the_same_again_registers_nothing(first, again, counted):
    told: list[str] = []
    found = run(again, tell=told.append)
    assert counted == [] and told == []
    np.testing.assert_array_equal(found.model.mean, first.model.mean)


def test_what_has_changed_is_registered_again(again, counted):
    folder = Path(again.scans[0])
    np.save(folder / "c.npy", SCANS[2] + 0.01)
    (folder / "b.xyz").rename(folder / "d.xyz")
    again, told = replace(again, overwrite=True), []
    found = run(again, tell=told.append)
    assert counted == ["c", "d"] and told == ["1 of 3 registrations are done already and kept"]
    out = Path(again.output)
    assert sorted(path.name for path in (out / "corresponded").iterdir()) == ["a.ply", "c.ply", "d.ply"]
    assert list(found.registered) == ["a", "c", "d"]
    counted.clear()
    run(replace(again, each={**again.each, "seed": 1}))
    assert counted == ["a", "c", "d"]
    counted.clear()
    run(replace(again, remove_size=True, each={**again.each, "seed": 1}))
    assert counted == []


def test_one_that_fails_is_named_and_tried_again(again, monkeypatch):
    right = study.register_pair
    broken = [True]

    def some(settings: Any, pair: Any, **more: Any) -> Any:
        if broken and settings.output.endswith("b"):
            raise FloatingPointError("first line\nmore")
        return right(settings, pair, **more)

    monkeypatch.setattr(study, "register_pair", some)
    (Path(again.output) / "registrations" / "b" / DONE).unlink()
    told: list[str] = []
    found = run(again, tell=told.append)
    assert found.failed == {"b": "FloatingPointError: first line"} and found.model.names == ("a", "c")
    assert told[-1] == "b failed: FloatingPointError: first line"
    assert "b failed: FloatingPointError: first line" in found.sentences()
    rows = pd.read_csv(found.folder / "scans.csv").set_index("name")
    assert rows.loc["b", "status"] == "failed" and rows.loc["b", "confidence"] == 0
    assert sorted(path.name for path in (found.folder / "corresponded").iterdir()) == ["a.ply", "c.ply"]
    broken.clear()
    assert not run(again).failed


def test_a_stop_leaves_what_is_finished_and_nothing_half_written(again, monkeypatch, counted):
    right, out = study.write_output, Path(again.output)
    shutil.rmtree(out)

    def stopped(settings: Any, outcome: Any) -> Any:
        notes = right(settings, outcome)
        if settings.output.endswith("b"):
            (Path(settings.output) / ".pwan-x.tmp").mkdir()
            raise KeyboardInterrupt
        return notes

    monkeypatch.setattr(study, "write_output", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(again)
    assert sorted(path.name for path in out.rglob("*")) == sorted(
        ["registrations", "a", "study.json", DONE, "matches.csv", "report.html", "result.json", "t_registered.ply"]
        + ["transform.pwan"]
    )
    monkeypatch.setattr(study, "write_output", right)
    counted.clear()
    assert list(run(again).registered) == ["a", "b", "c"] and counted == ["b", "c"]


def test_two_runs_into_one_folder_do_not_meet(again):
    with alone_in(Path(again.output)), pytest.raises(BlockingIOError, match="another run is writing in"):
        run(again)


def test_the_mean_takes_the_templates_place(again, monkeypatch):
    monkeypatch.setattr(registering, "STAYS", 1.0)
    told: list[str] = []
    found = run(replace(again, to="mean"), tell=told.append)
    assert found.rounds == 2 and told[-1].startswith("round 2: the mean has moved by ")
    result = json.loads((found.folder / "registrations_2" / "c" / "result.json").read_text())
    assert result["start"] is None
    assert "registrations_2/c/report.html" in (found.folder / "study.html").read_text()
    points = np.load(found.folder / "corresponded.npz")["points"]
    assert np.linalg.norm(points - SHAPES, axis=2).mean() < 0.05


def test_scans_move_onto_the_template(again):
    found = run(replace(again, moves="scans", output=f"{again.output}_2", each={**EACH, "reference_weights": "none"}))
    result = found.folder / "registrations" / "b" / "b_registered.xyz"
    moved, original = read_points(result).points, read_points(Path(again.scans[0]) / "b.xyz").points
    places = registering.nearest_places(TEMPLATE, moved, original)
    assert (np.linalg.norm(found.registered["b"].points - places, axis=1) < 1e-6).mean() > 0.9
    assert np.linalg.norm(found.registered["b"].points - SHAPES[1], axis=1).mean() < 0.1


def test_a_scan_that_cannot_be_registered_is_refused_before_anything_is_computed(again, counted):
    folder = Path(again.scans[0])
    np.save(folder / "flat.npy", SCANS[0][:, :2])
    with pytest.raises(ValueError, match=r"t\.ply has 3 coordinates a point and .*flat\.npy has 2"):
        run(again)
    (folder / "broken.ply").write_text("ply\nformat ascii 1.0\n")
    with pytest.raises(ValueError, match="2 of the 5 scans cannot be registered:\n.*broken.ply: expected"):
        run(again)
    assert counted == []


def test_what_cannot_be_registered_is_refused_before_anything_is_computed(again, counted):
    for each, says in (({"mass": 5000.0}, "is more than can be matched"), ({"export": "glb"}, "has no triangles")):
        settings = replace(again, template=str(Path(again.scans[0]) / "a.npy"), each={**EACH, **each}, overwrite=True)
        before = contents(again)
        with pytest.raises(ValueError, match=says):
            run(settings)
        assert contents(again) == before
    assert not counted


def contents(settings: StudySettings) -> dict[Path, bytes]:
    """All files of the study's folder."""
    return {path: path.read_bytes() for path in sorted(Path(settings.output).rglob("*")) if path.is_file()}


def test_a_study_of_other_files_is_not_written_over(again, counted):
    folder, before = Path(again.scans[0]), contents(again)
    a, b, c = (str(folder / name) for name in ("a.npy", "b.xyz", "c.npy"))
    for changed, says in (
        (
            {"scans": (b, c)},
            r"out holds results of other files already \(of a, which this run leaves out\); name another",
        ),
        ({"template": c}, r"\(of the template .*t\.ply\); name another folder with output=, or write over them with"),
    ):
        with pytest.raises(ValueError, match=says):
            run(replace(again, **changed))
    assert counted == [] and contents(again) == before
    moved = shutil.copy(again.template, folder.parent / "moved.ply")
    shutil.copy(a, folder / "d.npy")
    assert list(run(replace(again, template=str(moved))).registered) == ["a", "b", "c", "d"]
    assert counted == ["d"]  # the content of the template is what counts
    assert list(run(replace(again, scans=(b, c), overwrite=True)).registered) == ["b", "c"]
    assert counted == ["d"]


def test_where_all_fail_the_earlier_results_stay(again, monkeypatch):
    right = study.register_pair

    def diverged(settings: Any, pair: Any, **more: Any) -> Any:
        if settings.output.endswith("a"):
            raise FloatingPointError("too far")
        outcome = right(settings, pair, **more)
        return replace(outcome, measured=replace(outcome.measured, failed="diverged"))

    monkeypatch.setattr(study, "register_pair", diverged)
    before = contents(again)
    found = run(replace(again, each={**again.each, "seed": 1}))
    assert found.kept and found.failed == {"a": "FloatingPointError: too far", "b": "diverged", "c": "diverged"}
    assert found.sentences()[-1] == f"the results of the earlier run stay as they are in {found.folder}"
    assert contents(again) == before
    shutil.rmtree(again.output)
    assert not run(again).kept and pd.read_csv(found.folder / "scans.csv")["status"].eq("failed").all()


def test_a_file_in_the_folder_that_is_no_scan_may_be_taken_out(again):
    folder = Path(again.scans[0])
    (folder / "readme.txt").write_text("Scans of May\n")
    says = "If it is no scan, take it out of .*scans, or name the scans by a pattern in quotes$"
    with pytest.raises(ValueError, match=rf"readme\.txt: expected rows of numbers, found .*\. {says}"):
        run(again)
    named = tuple(str(folder / name) for name in ("a.npy", "b.xyz", "c.npy", "readme.txt"))
    with pytest.raises(ValueError, match=r"readme\.txt: expected .* again\.$"):
        run(replace(again, scans=named))
