"""Landmarks of two scans: their file, the points that they name, and what a registration says of them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pwan import read_points, shapes
from pwan.app import own_scans
from pwan.scans import pair
from pwan.scans.landmark_files import read_landmarks
from pwan.scans.landmarks import locate
from pwan.trust.verdict import LandmarkResidual, Measured, judge

QUICK = ["method=soft_assignment", "method.steps=15", "method.rank=20"]


@pytest.fixture
def scans(tmp_path: Path) -> tuple[Path, Path, np.ndarray]:
    """A torus, turned and shifted, in NPY; the same points in another order in CSV; and eight landmarks."""
    points = shapes.load("torus").points[:120]
    order = np.random.default_rng(0).permutation(120)
    turn = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    np.save(tmp_path / "a.npy", points @ turn.T + [5.0, -3, 2])
    pd.DataFrame(points[order], columns=["x", "y", "z"]).to_csv(tmp_path / "b.csv", index=False)
    rows = np.arange(3, 120, 15)
    return tmp_path / "a.npy", tmp_path / "b.csv", np.column_stack((rows, np.argsort(order)[rows]))


def register(*arguments: Any) -> int:
    return own_scans.main([str(argument) for argument in arguments])


def write(path: Path, pairs: np.ndarray, head: str = "") -> Path:
    path.write_text(head + "".join(",".join(f"{value:g}" for value in row) + "\n" for row in pairs))
    return path


READ = {
    "header": "source_index,reference_index\n0,45\n1,107\n",
    "no header": "0,45\n1,107\n",
    "other order": "Reference;Source\n45;0\n107;1\n",
    "semicolons": "0;45\n1;107\n",
    "tabs": "0\t45\n1\t107\n",
    "blanks": "0 45\n1 107\n",
    "comma and blank": "0, 45\n1, 107\n",
    "comments and blank lines": "# pairs\n\n0,45  # left eye\n\n1,107\n",
    "quotes": '"source","reference"\n"0","45"\n"1","107"\n',
    "whole numbers as a table writes them": "0.0,45.0\n1.0,107.0\n",
    "byte order mark and Windows' line ends": "\ufeffsource,reference\r\n0,45\r\n1,107\r\n",
    "names of one's own": "mine,yours\n0,45\n1,107\n",
    "matches of an earlier run": "source,reference,distance,weight\n0,45,0.2,1\n1,107,0.3,1\n",
    "weights": "0,45,1\n1,107,1\n",
}


@pytest.mark.parametrize("name", READ)
def test_pairs_are_read_as_people_write_them(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(READ[name].encode())
    found = read_landmarks(tmp_path / "p.csv")
    assert found.rows.tolist() == [[0, 45], [1, 107]] and found.weights.tolist() == [1.0, 1.0]
    assert found.lines[0] < found.lines[1]


def test_weights_are_read_also_with_decimal_commas_and_by_name(tmp_path: Path) -> None:
    for text in ("0;45;0,5\n1;107;2\n", "weight,source,reference\n0.5,0,45\n2,1,107\n", "0,45,0.5\n1,107,2\n"):
        (tmp_path / "p.csv").write_text(text)
        found = read_landmarks(tmp_path / "p.csv")
        assert found.rows.tolist() == [[0, 45], [1, 107]] and found.weights.tolist() == [0.5, 2.0]


WRONG = {
    "": "p.csv: the file is empty; expected lines such as 17,203",
    "# nothing\n": "p.csv: the file is empty",
    "source,reference\n": "p.csv: line 1 is a header, and no landmark stands below it",
    "0,45\nleft eye,107\n": "p.csv: line 2: expected the number of a point of the source, a whole number from 0",
    "0,45\n1,\n": "p.csv: line 2: expected the number of a point of the reference, a whole number from 0",
    "0,4x\n1,107\n": "p.csv: line 1: expected the number of a point of the reference, a whole number from 0",
    "0,45\n1.5,107\n": "p.csv: line 2: expected the number of a point of the source, a whole number from 0",
    "0,45\n-1,107\n": "p.csv: line 2: expected the number of a point of the source, a whole number from 0",
    "0,45\n1,nan\n": "p.csv: line 2: expected the number of a point of the reference, a whole number from 0",
    "0,45\n1,inf\n": "p.csv: line 2: expected the number of a point of the reference, a whole number from 0",
    "0,1e300\n": "p.csv: line 1: expected the number of a point of the reference, a whole number from 0, found '1e300'",
    "99999999999999999999,3\n": "p.csv: line 1: expected the number of a point of the source, a whole number from 0",
    "9007199254740992,3\n": "p.csv: line 1: expected the number of a point of the source, a whole number from 0",
    "9007199254740991,3\n": "p.csv: line 1: expected a point of a.npy, whose points are 0 to 119, found 90071992547409",
    "0,45\n2,7\n1\n": "p.csv: line 3: expected 2 columns as in line 1, found 1",
    "0,45\n1,107,1\n": "p.csv: line 2: expected 2 columns as in line 1, found 3",
    "0\n1\n": "p.csv: line 1: expected two or three columns, found 1",
    "0,45,1,7\n": "p.csv: line 1: expected two or three columns, found 4",
    "0,45,-1\n": "p.csv: line 1: expected a positive weight, found '-1'",
    "0,45,0\n": "p.csv: line 1: expected a positive weight, found '0'",
    "0,45,heavy\n": "p.csv: line 1: expected a positive weight, found 'heavy'",
    "0,45\n1,107\n0,45\n": "p.csv: line 3: source point 0 stands in line 1 already; expected each source",
    "0,45\n\n0,7\n": "p.csv: line 3: source point 0 stands in line 1 already",
    "source,weight\n0,1\n": "p.csv: line 1: expected a header with one column named source, one named reference",
    "source,source_x,reference\n0,1,2\n": "p.csv: line 1: expected a header with one column named source, one named",
    "0,45\n120,7\n": "p.csv: line 2: expected a point of a.npy, whose points are 0 to 119, found 120",
    "source,reference\n0,120\n": "p.csv: line 2: expected a point of b.csv, whose points are 0 to 119, found 120",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_faulty_file_of_pairs_is_one_sentence_with_the_line(scans, tmp_path, monkeypatch, capsys, text):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text(text)
    assert register("a.npy", "b.csv", "landmarks=p.csv", "output=out", *QUICK) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {WRONG[text]}") and said.count("\n") == 1 and not Path("out").exists()


def test_no_file_of_pairs_or_a_method_without_them_is_said(scans, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert register("a.npy", "b.csv", "landmarks=none.csv", *QUICK) == 2
    assert "error: none.csv: there is no such file" in capsys.readouterr().err
    Path("p.csv").write_bytes(b"\x00\x01\x02\xff" * 9)
    assert register("a.npy", "b.csv", "landmarks=p.csv", *QUICK) == 2
    assert capsys.readouterr().err.startswith("error: p.csv: ")
    assert register("a.npy", "b.csv", "landmarks=p.csv", "method=cpd") == 2
    assert "method cpd does not take landmarks; take one of pwan" in capsys.readouterr().err


def test_pairs_give_the_start_pull_and_are_told(scans, tmp_path, capsys):
    source, reference, pairs = scans
    known = write(tmp_path / "p.csv", np.column_stack((pairs, np.full(8, 2.0))), "source,reference,weight\n")
    assert register(source, reference, f"landmarks={known}", f"output={tmp_path / 'out'}", *QUICK) == 0
    said = capsys.readouterr().out
    assert "start: turned by 120 degrees by the 8 landmarks" in said
    assert "the 8 landmarks end at a median distance of" in said
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    before, after = read_points(source).points, read_points(tmp_path / "out" / "a_registered.npy").points
    there = read_points(reference).points
    listed = pd.DataFrame(found["landmarks"]["pairs"])
    assert listed[["source", "reference", "weight"]].to_numpy().tolist() == [[*row, 2.0] for row in pairs.tolist()]
    for name, points in (("before", before), ("after", after)):
        expected = np.linalg.norm(points[pairs[:, 0]] - there[pairs[:, 1]], axis=1)
        np.testing.assert_allclose(listed[name], expected, atol=1e-9)
    assert found["landmarks"]["median"] == pytest.approx(listed["after"].median()) and found["landmarks"]["count"] == 8
    assert listed["after"].max() < 0.05 < 1 < listed["before"].min()
    assert (
        found["settings"]["landmarks"] == str(known)
        and "landmarks, median distance" in (tmp_path / "out/report.html").read_text()
    )


def test_fewer_pairs_than_tell_a_start_leave_the_search_as_it_is(scans, tmp_path, capsys):
    source, reference, pairs = scans
    two = write(tmp_path / "p.csv", pairs[:2])
    assert register(source, reference, f"landmarks={two}", f"output={tmp_path / 'out'}", *QUICK) == 0
    said = capsys.readouterr().out
    assert "start: " in said and "by the 2 landmarks" not in said and "the 2 landmarks end" in said
    assert register(source, reference, f"landmarks={two}", f"output={tmp_path / 'no'}", "init=none", *QUICK) == 0
    assert "start: " not in capsys.readouterr().out


def test_pairs_are_numbers_of_the_files_also_where_points_are_dropped(scans, tmp_path, capsys):
    source, reference, pairs = scans
    points = np.insert(np.load(source), [0, 60], np.nan, axis=0)  # rows 0 and 61
    np.save(source, points)
    moved = pairs.copy()
    moved[:, 0] += 1 + (moved[:, 0] >= 60)
    known = write(tmp_path / "p.csv", np.vstack((moved, [[61, 7]])))
    more = [f"landmarks={known}", f"output={tmp_path / 'out'}", "drop_invalid=true"]
    assert register(source, reference, *more, *QUICK) == 0
    assert "p.csv: line 9: point 61 of a.npy was dropped; the landmark is left out" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "result.json").read_text())["landmarks"]
    assert [[row["source"], row["reference"]] for row in found["pairs"]] == moved.tolist() and found["median"] < 0.05
    write(known, np.array([[0, 7], [61, 8]]))
    assert register(source, reference, *more, "overwrite=true", *QUICK) == 2
    assert (
        "p.csv: expected landmarks of finite points, but each of them names a point that was dropped"
        in capsys.readouterr().err
    )


def test_points_of_pairs_are_registered_whatever_part_of_a_scan_is(scans, tmp_path, monkeypatch):
    monkeypatch.setattr(pair, "LIMIT", 50)
    source, reference, pairs = scans
    known = write(tmp_path / "p.csv", pairs)
    settings = own_scans.parse([str(source), str(reference), f"landmarks={known}"])
    with_landmarks, without = pair.read_pair(settings), pair.read_pair(replace(settings, landmarks=None))
    assert without.landmarks is None and len(without.source) == len(without.reference) == 50
    assert with_landmarks.landmarks is not None and 50 < len(with_landmarks.source) <= 58
    assert set(without.source_rows) <= set(with_landmarks.source_rows)
    here, there = with_landmarks.landmarks.registered.T
    np.testing.assert_array_equal(with_landmarks.source_rows[here], pairs[:, 0])
    np.testing.assert_array_equal(with_landmarks.reference_rows[there], pairs[:, 1])
    np.testing.assert_array_equal(with_landmarks.source[here], np.load(source)[pairs[:, 0]])
    np.testing.assert_array_equal(with_landmarks.reference[there], read_points(reference).points[pairs[:, 1]])
    for name, points in (("a.npy", with_landmarks.source), ("b.csv", with_landmarks.reference)):
        said = f"{name}: {len(points)} of 120 points are registered, chosen at random"
        assert f"{said} or of a landmark" in with_landmarks.notes and f"{name}: 50 of 120" in "".join(without.notes)
        assert said not in with_landmarks.notes
    assert register(source, reference, f"landmarks={known}", f"output={tmp_path / 'out'}", *QUICK) == 0
    assert json.loads((tmp_path / "out" / "result.json").read_text())["landmarks"]["median"] < 0.1


def test_vertices_of_pairs_are_registered_beside_points_of_the_surface(tmp_path):
    torus = shapes.load("torus")
    faces = "".join(f"3 {a} {b} {c}\n" for a, b, c in torus.faces)
    vertices = "".join(f"{x} {y} {z}\n" for x, y, z in torus.vertices + 0.1)
    (tmp_path / "a.off").write_text(f"OFF\n{len(torus.vertices)} {len(torus.faces)} 0\n{vertices}{faces}")
    np.save(tmp_path / "b.npy", torus.vertices)
    pairs = np.column_stack([np.arange(0, len(torus.vertices), len(torus.vertices) // 6)] * 2)
    known = write(tmp_path / "p.csv", pairs)
    settings = own_scans.parse([str(tmp_path / "a.off"), str(tmp_path / "b.npy"), f"landmarks={known}", "sample=100"])
    read = pair.read_pair(settings)
    assert read.landmarks is not None and read.source_rows is None and len(read.source) == 100 + len(pairs)
    np.testing.assert_array_equal(read.source[read.landmarks.registered[:, 0]], read.source_file.points[pairs[:, 0]])
    more = [f"landmarks={known}", "sample=100", f"output={tmp_path / 'out'}"]
    assert register(tmp_path / "a.off", tmp_path / "b.npy", *more, *QUICK) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())["landmarks"]
    assert found["median"] < 0.3 * found["median_before"] and found["count"] == len(pairs)


@pytest.mark.parametrize("side", ["source", "reference"])
def test_a_pair_of_a_dropped_last_point_is_left_out_and_beyond_it_refused(tmp_path, side):
    points = np.random.default_rng(0).normal(size=(10, 3))
    bad = points.copy()
    bad[8:] = np.nan
    np.save(tmp_path / "good.npy", points)
    np.save(tmp_path / "bad.npy", bad)
    files = [read_points(tmp_path / f"{name}.npy", drop_invalid=True) for name in ("bad", "good")]
    assert [file.count for file in files] == [10, 10] and len(files[0].points) == 8
    turn = slice(None, None, 1 if side == "source" else -1)
    listed = read_landmarks(write(tmp_path / "p.csv", np.array([[9, 3], [7, 1], [8, 2]])[:, turn]))
    notes: list[str] = []
    rows, _ = locate(listed, "p.csv", *files[turn], notes)
    assert rows[:, turn].tolist() == [[7, 1]]
    assert notes == [
        f"p.csv: line {line}: point {number} of bad.npy was dropped; the landmark is left out"
        for line, number in ((1, 9), (3, 8))
    ]
    beyond = read_landmarks(write(tmp_path / "p.csv", np.array([[7, 1], [10, 3]])[:, turn]))
    with pytest.raises(ValueError, match=r"p.csv: line 2: expected a point of .*bad.npy, whose points are 0 to 9, fou"):
        locate(beyond, "p.csv", *files[turn], notes)


def test_locate_keeps_weights_with_their_landmarks(scans, tmp_path):
    source, reference, _ = scans
    points = np.load(source)
    points[4] = np.nan
    np.save(source, points)
    listed = read_landmarks(write(tmp_path / "p.csv", np.array([[3, 0, 0.5], [4, 1, 3], [5, 2, 2]])))
    notes: list[str] = []
    rows, weights = locate(listed, "p.csv", read_points(source, drop_invalid=True), read_points(reference), notes)
    assert rows.tolist() == [[3, 0], [4, 2]] and weights.tolist() == [0.5, 2.0] and len(notes) == 1


def measured(median: float, largest: float) -> Measured:
    known = LandmarkResidual(5, median, largest, "source 3 and reference 9")
    good: dict[str, Any] = {
        "failed": "",
        "matched": 0.8,
        "of_smaller": 0.9,
        "residual": 0.01,
        "tail": 0.02,
        "spacing": 0.01,
    }
    return Measured(**good, folded=0.0, settled=True, at_bound=False, landmarks=known)


def test_pairs_that_end_far_apart_are_warned_of():
    near = judge(measured(0.005, 0.01))
    assert near.trusted and near.sentences[-1] == (
        "the 5 landmarks end at a median distance of 0.005, 0.5 times the spacing of the reference's points"
    )
    (all_far,) = judge(measured(0.05, 0.2)).warnings
    assert all_far.startswith("the landmarks end 5 spacings apart")
    (one_far,) = judge(measured(0.005, 0.2)).warnings
    assert one_far == "a landmark ends 20 spacings apart, source 3 and reference 9: is it right?"


def test_a_pair_by_mistake_is_named(scans, tmp_path, capsys):
    source, reference, pairs = scans
    wrong = pairs.copy()
    there = read_points(reference).points
    wrong[2, 1] = np.linalg.norm(there - there[pairs[2, 1]], axis=1).argmax()
    known = write(tmp_path / "p.csv", wrong)
    more = ["method=pwan", "method.steps=30", "method.stages=0", "mass=120"]
    assert register(source, reference, f"landmarks={known}", f"output={tmp_path / 'out'}", *more) == 0
    assert f"source {wrong[2, 0]} and reference {wrong[2, 1]}: is it right?" in capsys.readouterr().out


CASES = os.environ.get("PWAN_CASES")


@pytest.mark.skipif(not CASES, reason="PWAN_CASES names no folder with the cases")
def test_reported_pairs_come_together(tmp_path):
    assert CASES is not None
    source, reference, known = (
        Path(CASES) / f"G21_landmarks_{n}" for n in ("source.npy", "reference.npy", "pairs.csv")
    )
    truth, errors = np.load(Path(CASES) / "G21_landmarks_truth.npy"), []
    for name, more in (("with", [f"landmarks={known}"]), ("without", [])):
        assert register(source, reference, f"output={tmp_path / name}", "method=soft_assignment", *more) == 0
        moved = np.load(tmp_path / name / "G21_landmarks_source_registered.npy")
        errors.append(((moved - truth) ** 2).sum(1).mean())
    found = json.loads((tmp_path / "with" / "result.json").read_text())
    assert found["trusted"] and found["registered_points"] == [400, 400] and found["landmarks"]["count"] == 12
    assert found["landmarks"]["max"] < 0.1 * found["landmarks"]["median_before"]
    assert errors[0] < errors[1] and errors[0] < 2e-4, errors


def test_a_pair_that_does_not_fit_explains_a_slide():
    slid = replace(measured(0.001, 0.04), slide_ratio=0.3)
    (warning,) = judge(slid).warnings
    assert "a landmark ends" in warning
    (warning,) = judge(replace(slid, landmarks=None)).warnings
    assert "has slid along the reference" in warning
