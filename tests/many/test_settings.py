from __future__ import annotations

from pathlib import Path

import pytest

from pwan.many.folder import check_study
from pwan.many.settings import StudySettings, study_keys


def files(folder: Path, *names: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("0 0 0\n")
    return [str(folder / name) for name in names]


def test_scans_are_known_by_their_files_names_without_suffixes(tmp_path):
    given = files(tmp_path, "a.ply", "b.xyz.gz", "c.d.txt", "e.mrk.json")
    found = StudySettings("t.ply", tuple(given)).names()
    assert dict(zip(["a", "b", "c.d", "e"], given, strict=True)) == found


def test_of_a_folder_the_files_of_points_are_taken(tmp_path):
    files(
        tmp_path / "scans",
        "b.ply",
        "a.stl",
        "texture.png",
        "notes.md",
        ".hidden.ply",
        "c.npy.gz",
        "p.mrk.json",
        "q.mrk.json.gz",
    )
    (tmp_path / "scans" / "deeper.ply").mkdir()
    single = files(tmp_path, "z.ply")
    found = StudySettings("t.ply", (str(tmp_path / "scans"), *single)).names()
    assert list(found) == ["a", "b", "c", "p", "q", "z"]


def test_two_of_one_name_none_and_one_are_refused(tmp_path):
    a, b = files(tmp_path, "a.ply", "a.obj")
    with pytest.raises(ValueError, match=r"a\.ply and .*a\.obj have the same name, a, by which"):
        StudySettings("t.ply", (a, b)).names()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty holds no file of points that can be read"):
        StudySettings("t.ply", (str(tmp_path / "empty"),)).names()
    with pytest.raises(ValueError, match=r"expected two scans or more, found .*a\.ply"):
        StudySettings("t.ply", (a,)).names()


def test_the_settings_of_one_registration_know_which_file_moves():
    each = {"source_columns": "1,2,3", "reference_key": "points", "seed": 3}
    onto = StudySettings("t.npz", ("a.npz", "b.npz"), each=each).of("a.npz", Path("out"), init="none")
    assert (onto.source, onto.reference, onto.output, onto.init, onto.seed) == ("t.npz", "a.npz", "out", "none", 3)
    assert (onto.source_columns, onto.reference_key, onto.overwrite) == ("1,2,3", "points", True)
    back = StudySettings("t.npz", ("a.npz", "b.npz"), moves="scans", each=each).of("a.npz", Path("out"))
    assert (back.source, back.reference) == ("a.npz", "t.npz")
    assert (back.reference_columns, back.source_key, back.source_columns) == ("1,2,3", "points", None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"each": {"landmarks": "a.csv"}}, "landmarks are of one scan and cannot serve many"),
        ({"each": {"output": "x"}}, "output of a registration are set by the study"),
        ({"each": {"mass": -1}}, "register: mass must be positive"),
        ({"workers": 0}, "workers must be a number from 1 on, or auto, got 0"),
    ],
)
def test_wrong_settings_are_refused(more, says):
    with pytest.raises(ValueError, match=says):
        StudySettings("t.ply", ("a.ply", "b.ply"), **more)


def test_what_only_a_study_has():
    assert study_keys() == ("to", "moves", "remove_size", "workers")


def test_a_folder_of_something_else_is_not_written_into(tmp_path):
    scans = files(tmp_path, "a.ply", "b.ply", "t.ply")
    settings = StudySettings(scans[2], tuple(scans[:2]), output=str(tmp_path / "out"))
    assert list(check_study(settings)) == ["a", "b"]
    files(tmp_path / "out", "scans.csv")
    with pytest.raises(ValueError, match=r"out holds scans\.csv, and not of a study; name another folder"):
        check_study(settings)
    files(tmp_path / "out", "study.json")
    check_study(settings)
    with pytest.raises(FileNotFoundError, match=r"gone\.ply"):
        check_study(StudySettings(scans[2], (scans[0], "gone.ply")))
    with pytest.raises(NotADirectoryError, match="is a file; expected a folder for the results"):
        check_study(StudySettings(scans[2], tuple(scans[:2]), output=scans[0]))
