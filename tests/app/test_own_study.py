"""Many scans from the command line: when it is a study, and what is said in the end."""

from __future__ import annotations

import numpy as np
import pytest

from pwan.app import own_scans
from pwan.many import StudySettings
from pwan.scans import ScanSettings
from tests.many.scanned import family


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    template, shapes = family(2)
    (tmp_path / "scans").mkdir()
    for name, points in (("t", template), ("scans/a", shapes[0]), ("scans/b", shapes[1])):
        np.save(f"{name}.npy", points)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["t.npy", "scans/a.npy", "scans/b.npy"],
        ["source=t.npy", "reference=[scans/a.npy, scans/b.npy]"],
        ["source=t.npy", 'reference=["scans/a.npy","scans/b.npy"]'],
    ],
)
def test_more_than_one_scan_is_a_study(folder, arguments):
    settings = own_scans.parse([*arguments, "output=o", "to=mean", "seed=3", "method.steps=7", "workers=1"])
    each = {"seed": 3, "method_settings": {"steps": 7}}
    assert settings == StudySettings(
        "t.npy", ("scans/a.npy", "scans/b.npy"), output="o", to="mean", workers=1, each=each
    )


def test_a_folder_or_a_setting_of_its_own_makes_a_study(folder):
    assert own_scans.parse(["t.npy", "scans"]) == StudySettings("t.npy", ("scans",))
    assert own_scans.parse(["t.npy", "scans/*.npy"]) == StudySettings("t.npy", ("scans/*.npy",))  # quoted
    (folder / "more.yaml").write_text("source: t.npy\nreference: [scans/a.npy, scans/b.npy]\nremove_size: true\n")
    of_file = own_scans.parse(["inputs=more.yaml", "moves=scans"])
    assert of_file == StudySettings("t.npy", ("scans/a.npy", "scans/b.npy"), moves="scans", remove_size=True)
    assert isinstance(own_scans.parse(["t.npy", "scans/a.npy"]), ScanSettings)
    with pytest.raises(ValueError, match="is one file too many: source and reference are named already"):
        own_scans.parse(["t.npy", "scans/a.npy", "scans/b.npy", "reference=scans"])
    with pytest.raises(ValueError, match=r"unknown key 'tw' \(did you mean 'to'\?\)"):
        own_scans.parse(["t.npy", "scans", "tw=mean"])


QUICK = ["method=soft_assignment", "method.steps=15", "method.rank=20", "init=none", "mass=60", "workers=1"]


def test_what_is_said(folder, capsys):
    assert own_scans.main(["t.npy", "scans", "output=o", *QUICK]) == 0
    said = capsys.readouterr()
    assert "of 2 registrations look good" in said.out and "1 mode explains 95%" in said.out
    assert str(folder / "o" / "study.html") in said.out and "2/2" in said.err
    assert own_scans.main(["t.npy", "scans/a.npy", "output=o", "to=mean", *QUICK]) == 2
    assert capsys.readouterr().err == "error: expected two scans or more, found scans/a.npy\n"


def test_two_files_are_not_registered_into_the_folder_of_many(folder, capsys):
    (folder / "o").mkdir()
    for name, what in (("study.json", "a study of many scans"), ("sequence.json", "a sequence of frames")):
        (folder / "o" / name).write_text("{}")
        assert own_scans.main(["t.npy", "scans/a.npy", "output=o", "overwrite=true", *QUICK[:-1]]) == 2
        said = f"o holds {what} ({name}), but two files are registered; name another with output="
        assert capsys.readouterr().err == f"error: {said}\n"
        (folder / "o" / name).unlink()
    assert not list((folder / "o").iterdir())


def test_results_that_stay_are_not_said_to_be_written(folder, capsys, monkeypatch):
    assert own_scans.main(["t.npy", "scans", "output=o", *QUICK]) == 0
    capsys.readouterr()

    def wrong(*arguments, **more):
        raise FloatingPointError("too far")

    monkeypatch.setattr("pwan.many.study.register_pair", wrong)
    assert own_scans.main(["t.npy", "scans", "output=o", "seed=1", *QUICK]) == 1
    said = capsys.readouterr().out
    assert "the results of the earlier run stay as they are in o" in said and "written:" not in said


def test_a_stop_is_said(folder, capsys, monkeypatch):
    def stopped(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("pwan.many.study.run_tasks", stopped)
    assert own_scans.main(["t.npy", "scans", "output=o", *QUICK]) == 130
    assert capsys.readouterr().err.endswith("Stopped. The same command goes on from here.\n")


def test_a_template_by_its_key_leaves_all_files_to_be_scans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = own_scans.parse(["a.ply", "b.ply", "c.ply", "source=t.ply"])
    assert settings.template == "t.ply" and tuple(settings.scans) == ("a.ply", "b.ply", "c.ply")


def test_a_list_longer_than_a_files_name_is_a_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"scan_of_subject_{k:03d}.ply" for k in range(30)]
    settings = own_scans.parse(["source=t.ply", f"reference=[{','.join(names)}]"])
    assert list(settings.scans) == names
