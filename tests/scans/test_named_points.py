"""Landmarks in files: positions in one, or named points in two, matched by their names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pwan import read_points, shapes
from pwan.app import own_scans
from pwan.deformation.space import SpaceTransform
from pwan.pointfiles import PointFile
from pwan.scans.landmark_files import ListedPlaces, read_landmarks
from pwan.scans.named_points import common_points, read_named
from pwan.scans.pair import read_pair
from pwan.scans.settings import ScanSettings
from pwan.scans.systems import in_systems_of

QUICK = ["method=soft_assignment", "method.steps=15", "method.rank=20"]
NAMES = ("nose", "left ear", "tail")
PLACES = np.array([[1.0, 2.5, 3.0], [-4.0, 5.0, 6.5], [7.0, 8.0, -9.0]])


def listed(points: np.ndarray, form: str, system: str = "LPS", names: Any = NAMES) -> str:
    """The text of a file of named points."""
    rows = [(name, *(f"{x:.12g}" for x in place)) for name, place in zip(names, points, strict=True)]
    if form == "csv":
        return "name,x,y,z\n" + "".join(",".join(row) + "\n" for row in rows)
    if form == "bare.csv":
        return "".join(",".join(row) + "\n" for row in rows)
    if form == "fcsv":
        head = f"# Markups fiducial file version = 4.11\n# CoordinateSystem = {system}\n"
        columns = "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
        body = "".join(f"{k},{x},{y},{z},0,0,0,1,1,1,0,{name},,\n" for k, (name, x, y, z) in enumerate(rows))
        return head + columns + body
    if form == "mrk.json":
        points_in_json = [{"label": name, "position": list(map(float, place))} for name, *place in rows]
        return json.dumps({"markups": [{"coordinateSystem": system, "controlPoints": points_in_json}]})
    picked = "".join(f'<point x="{x}" y="{y}" z="{z}" active="1" name="{name}"/>\n' for name, x, y, z in rows)
    return f"<!DOCTYPE PickedPoints>\n<PickedPoints>\n{picked}</PickedPoints>\n"


def scan(path: Path, points: np.ndarray, head: str = "") -> PointFile:
    path.write_text(head + "".join(" ".join(f"{x:.12g}" for x in row) + "\n" for row in points))
    return read_points(path)


@pytest.mark.parametrize("form", ["csv", "bare.csv", "fcsv", "mrk.json", "pp"])
def test_each_format_gives_its_points_by_name(form: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{form}").write_text(listed(PLACES, form))
    notes: list[str] = []
    file = scan(tmp_path / "s.xyz", PLACES)
    found = read_named(str(tmp_path / f"a.{form}"), file, notes)
    assert found.names == NAMES
    np.testing.assert_array_equal(in_systems_of([file], [found], notes), [PLACES])
    stated = form in ("fcsv", "mrk.json")
    assert notes == [f"a.{form}: coordinate system LPS, taken for that of s.xyz, which states none"] * stated


FLIP = np.array([-1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("stated", "of_scan", "flipped", "words"),
    [
        ("RAS", "# SPACE=LPS\n", True, "coordinate system RAS, that of s.xyz LPS: the signs of x and y were changed"),
        ("0", "# SPACE=LPS\n", True, "coordinate system RAS, that of s.xyz LPS: the signs of x and y were changed"),
        ("LPS", "# SPACE=LPS\n", False, "coordinate system LPS, that of s.xyz LPS"),
        ("1", "", False, "coordinate system LPS, taken for that of s.xyz, which states none"),
        ("RAS", "", True, "coordinate system RAS; its points lie on s.xyz only with the signs of x and y changed"),
    ],
)
def test_the_coordinate_system_that_a_file_states_is_told_and_heeded(
    stated: str, of_scan: str, flipped: bool, words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.fcsv").write_text(listed(PLACES * FLIP if flipped else PLACES, "fcsv", stated))
    notes: list[str] = []
    file = scan(tmp_path / "s.xyz", PLACES, of_scan)
    found = read_named(str(tmp_path / "a.fcsv"), file, notes)
    np.testing.assert_array_equal(in_systems_of([file], [found], notes), [PLACES])
    assert len(notes) == 1 and notes[0].startswith(f"a.fcsv: {words}")


SHAPE = np.random.default_rng(0).normal(size=(60, 3)) + [0.5, 0.2, 0.0]
NEAR_SYMMETRIC = np.concatenate((SHAPE, SHAPE * FLIP + 0.05))  # of which the points do not tell the signs


def of_two(folder: Path, points: Any, scans: Any, system: str = "RAS") -> tuple[np.ndarray, list[str]]:
    """The places of two files a.fcsv and b.fcsv in s0.xyz and s1.xyz, and the notes."""
    for name, own in zip("ab", points, strict=True):
        (folder / f"{name}.fcsv").write_text(listed(own, "fcsv", system, NAMES[: len(own)]))
    files = [scan(folder / f"s{k}.xyz", own) for k, own in enumerate(scans)]
    notes: list[str] = []
    _, places = common_points([str(folder / f"{name}.fcsv") for name in "ab"], files, notes)
    return places, notes


def test_two_files_that_state_the_same_are_treated_alike(tmp_path: Path) -> None:
    here, there = SHAPE[:3] + 0.01, NEAR_SYMMETRIC[:3] + 0.03
    places, notes = of_two(tmp_path, (here * FLIP, there * FLIP), (SHAPE, NEAR_SYMMETRIC))
    np.testing.assert_allclose(places, np.stack((here, there), 1))
    (note,) = notes
    assert note.startswith("a.fcsv and b.fcsv: coordinate system RAS; their points lie on s0.xyz and s1.xyz only with")
    assert note.endswith("so these were changed in both files")
    places, notes = of_two(tmp_path, (here, there), (SHAPE, NEAR_SYMMETRIC))
    np.testing.assert_allclose(places, np.stack((here, there), 1))
    assert [note.split(", which")[0] for note in notes] == [
        f"{name}.fcsv: coordinate system RAS, taken for that of s{k}.xyz" for k, name in enumerate("ab")
    ]


def test_signs_that_the_points_do_not_tell_are_warned_of(tmp_path: Path) -> None:
    there = NEAR_SYMMETRIC[:3] + 0.06
    places, (note,) = of_two(tmp_path, (there, there), (NEAR_SYMMETRIC, NEAR_SYMMETRIC + 0.001))
    np.testing.assert_allclose(places, np.stack((there, there), 1))
    assert note.startswith("warning: a.fcsv and b.fcsv: coordinate system RAS, taken for that of s0.xyz and s1.xyz")
    assert "SPACE=LPS or SPACE=RAS in a comment" in note
    _, (note,) = of_two(tmp_path, (SHAPE[:2] * FLIP, SHAPE[:2] * FLIP), (SHAPE, SHAPE))  # two are too few to tell
    assert note.startswith("warning: a.fcsv and b.fcsv: ")
    _, notes = of_two(tmp_path, (SHAPE[:2], SHAPE[:2]), (SHAPE, SHAPE))
    assert len(notes) == 2 and not any("warning" in note for note in notes)


def test_swapped_files_are_refused_and_scans_on_top_of_each_other_are_not(tmp_path: Path) -> None:
    far = SHAPE + [20.0, 0, 0]
    points = far[:3] + 0.01, SHAPE[:3] + 0.01
    words = "the points of b.fcsv lie on s0.xyz and those of a.fcsv on s1.xyz: are the two files swapped"
    with pytest.raises(ValueError, match=words):
        of_two(tmp_path, points, (SHAPE, far), "LPS")
    with pytest.raises(ValueError, match=words):  # whatever the signs
        of_two(tmp_path, [own * FLIP for own in points], (SHAPE, far))
    places, _ = of_two(tmp_path, (SHAPE[:3] + 0.01, SHAPE[:3]), (SHAPE, SHAPE + 0.01), "LPS")
    np.testing.assert_allclose(places[:, 1], SHAPE[:3])
    of_two(tmp_path, points[::-1], (SHAPE, far), "LPS")


def test_names_are_the_same_in_either_spelling_of_an_accent(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(listed(PLACES, "csv", names=("né", "P", "Q")), encoding="utf-8")
    (tmp_path / "b.csv").write_text(listed(PLACES, "csv", names=("ne\u0301", "p", "q")), encoding="utf-8")
    file = scan(tmp_path / "s.xyz", PLACES)
    assert common_points([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], (file, file), [])[0] == ("né", "P", "Q")


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("name,x,y,z", ("1000001", "1000002", "1000003")),
        ("name,x,y,z", ("0012", "0013", "12")),
        ("station,label,x,y,z", ("7", "8", "9.5")),
    ],
)
def test_numbers_are_names_with_every_digit(head: str, names: tuple[str, ...], tmp_path: Path) -> None:
    before = "00{k}," if head.startswith("station") else ""
    rows = (f"{before.format(k=k)}{name},{k}.5,2,{k * k}\n" for k, name in enumerate(names))
    (tmp_path / "a.csv").write_text(f"{head}\n{''.join(rows)}")
    assert read_named(str(tmp_path / "a.csv"), scan(tmp_path / "s.xyz", PLACES), []).names == names


def test_names_are_matched_in_any_order_and_those_alone_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(listed(PLACES, "csv"))
    (tmp_path / "b.pp").write_text(listed(PLACES[[1, 2, 0]], "pp", names=("Tail", "chin", "nose ")))
    file = scan(tmp_path / "s.xyz", PLACES)
    notes: list[str] = []
    names, places = common_points([str(tmp_path / name) for name in ("a.csv", "b.pp")], (file, file), notes)
    assert names == ("nose", "tail")
    np.testing.assert_array_equal(places, [[PLACES[0], PLACES[0]], [PLACES[2], PLACES[1]]])
    assert notes == [
        "a.csv: 'left ear' has no partner of its name in b.pp and is left out",
        "b.pp: 'chin' has no partner of its name in a.csv and is left out",
    ]


POINT = '<PickedPoints><point x="1" y="2" z="{}" name="a" active="{}"/></PickedPoints>'
WRONG = {
    "name,x,y,z\nnose,1,2,3\nnose,4,5,6\n": "expected a name of its own for each point, found 'nose' twice",
    "name,x,y,z\nL1,1,2,3\nl1,4,5,6\n": "found 'L1' and 'l1', and letter case does not count. Rename one",
    "name,x,y,z\nnose,1,2,3\n,4,5,6\n": "expected a name of its own for each point, found a point without one",
    "name,x,y,z\nchin,1,2,3\n": "expected names that both files have, found 'chin' in the first and 'nose', 'left ear'",
    "1.5,2,3\n4,5,6\n": "expected points with names, as rows such as nose,1.5,20.3,7.1, found none",
    "name,x,y\nnose,1,2\nchin,4,5\n": "expected points with 3 coordinates, as those of .* have, found 2",
    "<PickedPoints><point": "expected XML, found a file that is cut off or damaged",
    POINT.format("nan", 1): "expected finite x, y and z of the point 'a'",
    POINT.format("3", 0): "expected points, found none. Pick some in MeshLab",
}


@pytest.mark.parametrize("text", WRONG)
def test_faulty_files_of_named_points_are_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(listed(PLACES, "csv"))
    file = scan(tmp_path / "s.xyz", PLACES)
    with pytest.raises(ValueError, match=f"a.csv.*{WRONG[text]}"):
        common_points([str(tmp_path / name) for name in ("a.csv", "b.csv")], (file, file), [])


READ = {
    "no header": "0,1,2,3,4,5\n6,7,8,9,10,11\n",
    "names in front": "nose 0 1 2 3 4 5\nchin 6 7 8 9 10 11\n",
    "weights behind": "0;1;2;3;4;5;2\n6;7;8;9;10;11;2\n",
    "any header": "label,x1,y1,z1,x2,y2,z2\nnose,0,1,2,3,4,5\nchin,6,7,8,9,10,11\n",
    "a header that says the sides": "weight,reference_x,reference_y,reference_z,source_x,source_y,source_z,name\n"
    "2,3,4,5,0,1,2,nose\n2,9,10,11,6,7,8,chin\n",
}


@pytest.mark.parametrize("name", READ)
def test_positions_are_read_as_people_write_them(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(READ[name])
    found = read_landmarks(tmp_path / "p.csv")
    assert isinstance(found, ListedPlaces)
    np.testing.assert_array_equal(found.places, np.arange(12.0).reshape(2, 2, 3))
    assert found.weights.tolist() == [2.0 if "2,nose" in READ[name] or "behind" in name else 1.0] * 2
    assert found.names == (("nose", "chin") if "nose" in READ[name] else ("line 1", "line 2"))


def test_positions_in_the_plane_have_four_columns(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("0,1,2,3\n4,5,6,7\n")
    found = read_landmarks(tmp_path / "p.csv", 2)
    assert isinstance(found, ListedPlaces) and found.places.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


FAULTY = {
    "0,1,2,3,4\n": "line 1: expected two or three columns, found 5 .* Positions in 3-D stand in 6 columns",
    "name,x,y,z\nnose,1,2,3\n": "line 1: expected a header .* landmarks=of_source.csv,of_reference.csv",
    "0,1,2,3,4,nan\n": "line 1: expected a finite coordinate, found 'nan'",
    "nose,0,1,2,3,4,5\nnose,6,7,8,9,10,11\n": "line 2: 'nose' stands in line 1 already",
    "0,1,2,3,4,5,-1\n": "line 1: expected a positive weight, found '-1'",
}


@pytest.mark.parametrize("text", FAULTY)
def test_faulty_positions_are_one_sentence_with_the_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ValueError, match=f"p.csv: {FAULTY[text]}"):
        read_landmarks(tmp_path / "p.csv")


@pytest.fixture(scope="module")
def turned(tmp_path_factory: Any) -> tuple[Path, np.ndarray, np.ndarray]:
    """A folder with two halves of a torus' points, one of them turned and shifted; four places off them, there and
    here."""
    folder = tmp_path_factory.mktemp("turned")
    points = shapes.load("torus").points[:240]
    turn = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    places = points[:240:60] * 1.02
    scan(folder / "a.xyz", points[:120] @ turn.T + [5.0, -3, 2])
    scan(folder / "b.xyz", points[120:])
    return folder, places @ turn.T + [5.0, -3, 2], places


def run(folder: Path, landmarks: str, *more: str) -> int:
    return own_scans.main([str(folder / "a.xyz"), str(folder / "b.xyz"), f"landmarks={landmarks}", *more, *QUICK])


def test_named_points_give_the_start_pull_and_are_pinned(turned: Any, tmp_path: Path, capsys: Any) -> None:
    folder, here, there = turned
    names = ("p", "q", "r", "s")
    (tmp_path / "a.pp").write_text(listed(here, "pp", names=names))
    (tmp_path / "b.csv").write_text(listed(there, "csv", names=names))
    files = f"{tmp_path / 'a.pp'},{tmp_path / 'b.csv'}"
    assert run(folder, files, f"output={tmp_path / 'out'}", "pinned=true") == 0
    said = capsys.readouterr().out
    assert "by the 4 landmarks" in said and "pinning the 4 landmarks moved points by up to" in said
    assert "until then the landmarks were apart: " in said
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    pairs = pd.DataFrame(found["landmarks"]["pairs"])
    assert pairs["name"].tolist() == list(names) and pairs["after"].max() < 1e-9 and pairs["before"].min() > 1
    np.testing.assert_allclose(pairs["source"].tolist(), here)
    assert len(found["landmarks"]["pinned"]["before"]) == 4 and found["settings"]["landmarks"] == files
    moved = SpaceTransform.load(tmp_path / "out" / "transform.pwan")(here)
    np.testing.assert_allclose(moved, there, atol=1e-9)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Landmarks, distances in the reference" in page and all(f"<td>{name}</td>" in page for name in names)


def test_positions_in_one_file_pull_and_each_is_told_by_name(turned: Any, tmp_path: Path, capsys: Any) -> None:
    folder, here, there = turned
    rows = [
        f"{name},{','.join(f'{x:.9g}' for x in row)}\n"
        for name, row in zip("pqrs", np.hstack((here, there)), strict=True)
    ]
    (tmp_path / "p.csv").write_text("".join(rows))
    assert run(folder, str(tmp_path / "p.csv"), f"output={tmp_path / 'out'}") == 0
    said = capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "result.json").read_text())["landmarks"]
    farthest = max(found["pairs"], key=lambda pair: pair["after"])
    assert f"- landmarks: {farthest['name']} {farthest['after']:.4g}; " in said and found["pinned"] is None
    assert 0 < found["max"] < 0.1 * found["median_before"]


REFUSED = {
    "a.fcsv": "a.fcsv: expected pairs, found a format that holds the points of one scan",
    "a.fcsv,far.csv": "a.fcsv and far.csv: expected positions on or near b.xyz, whose extent is",
    "a.fcsv,none.csv": "none.csv: there is no such file",
    "a.fcsv,b.csv,c.csv": "register: landmarks must be one file of pairs, or two of named points, source and reference",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_be_landmarks_is_refused_before_anything_is_computed(
    given: str, turned: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    folder, here, there = turned
    monkeypatch.chdir(tmp_path)
    names = ("p", "q", "r", "s")
    Path("a.fcsv").write_text(listed(here, "fcsv", names=names))
    Path("far.csv").write_text(listed(there + 1000, "csv", names=names))
    assert run(folder, given, "output=out") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {REFUSED[given]}") and said.count("\n") == 1 and not Path("out").exists()


def test_what_cannot_be_pinned_is_refused_by_name_when_the_files_are_read(tmp_path: Path) -> None:
    scan(tmp_path / "a.xyz", SHAPE)
    (tmp_path / "p.csv").write_text("nose,1,1,1,0,0,0\nchin,0,0,0,0,0,0\ntip,1,1,1,0,1,0\n")
    settings = ScanSettings(str(tmp_path / "a.xyz"), str(tmp_path / "a.xyz"), landmarks=str(tmp_path / "p.csv"))
    assert read_pair(settings).landmarks is not None
    with pytest.raises(ValueError, match="p.csv: landmarks 'nose' and 'tip' begin at one place .* cannot both"):
        read_pair(replace(settings, pinned=True))


def test_pinned_without_landmarks_is_refused(turned: Any, capsys: Any) -> None:
    folder, *_ = turned
    many = [str(folder / name) for name in ("a.xyz", "b.xyz", "b.xyz")]
    assert own_scans.main([*many, "pinned=true"]) == 2
    assert "error: register: pinned brings landmarks together" in capsys.readouterr().err
    assert own_scans.main([str(folder / "a.xyz"), str(folder / "b.xyz"), "pinned=true"]) == 2
    assert "error: register: pinned brings landmarks together, and there are none" in capsys.readouterr().err
