"""A sequence of files: what lies in its folder, what is kept after a stop, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.transform import Rotation

from pwan import read_points
from pwan.app import own_scans
from pwan.files import alone_in
from pwan.many.frame_files import FrameFiles, register_frame_files
from pwan.scans import ScanSettings
from pwan.scans.registering import register_pair

QUICK: dict[str, Any] = {"steps": 2, "rank": 10}
NAMES = ["f_0.txt", "f_1.txt", "f_2.txt", "f_10.txt"]


def write_frames(folder: Path) -> list[Path]:
    """A set of 40 points that turns, its points in another order in each file."""
    draw = np.random.default_rng(0)
    shape = draw.normal(size=(40, 3)) * [1.0, 0.6, 0.3]
    folder.mkdir()
    for k, name in enumerate(NAMES):
        there = Rotation.from_rotvec([0.0, 0.0, 0.1 * k]).apply(shape)
        np.savetxt(folder / name, there[draw.permutation(40)] if k else there)
    return [folder / name for name in NAMES]


class Counted:
    """Registers frames and tells which; doubts some, and is stopped at one."""

    def __init__(self, doubted: str = "", stopped: str = "", wrong: str = "") -> None:
        self.doubted, self.stopped, self.wrong = doubted, stopped, wrong
        self.seen: list[str] = []
        self.guesses: dict[str, Any] = {}

    def __call__(self, settings: ScanSettings, pair: Any, **options: Any) -> Any:
        name = pair.reference_file.path.name
        self.seen.append(name)
        self.guesses.setdefault(name, options["guess"])
        if name == self.stopped:
            raise KeyboardInterrupt
        if name == self.wrong:
            raise ValueError("this frame is odd")
        outcome = register_pair(settings, pair, **options)
        doubts = ("It fits badly.",) if name == self.doubted else ()
        return replace(outcome, verdict=replace(outcome.verdict, trusted=not doubts, warnings=doubts))


def settings_of(files: list[Path], folder: Path, **changed: Any) -> ScanSettings:
    told = {"source": str(files[0]), "reference": "", "output": str(folder), "method": "soft_assignment"}
    return ScanSettings(**{**told, "method_settings": QUICK, **changed})


def silent(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_frames(tmp_path_factory.mktemp("sequence") / "frames")


@pytest.fixture(scope="module")
def stopped(frames: list[Path]) -> tuple[Path, Counted]:
    """The folder of a sequence whose second frame was doubted and that was stopped in its last one."""
    folder, counted = frames[0].parent.parent / "out", Counted(doubted="f_1.txt", stopped="f_10.txt")
    with pytest.raises(KeyboardInterrupt):
        register_frame_files(frames, settings_of(frames, folder), tell=silent, register=counted)
    return folder, counted


@pytest.fixture(scope="module")
def finished(frames: list[Path], stopped: tuple[Path, Counted]) -> tuple[FrameFiles, Counted, list[str]]:
    """The same sequence, gone on with."""
    counted, said = Counted(), []
    done = register_frame_files(frames, settings_of(frames, stopped[0]), tell=said.append, register=counted)
    return done, counted, said


def test_a_stop_leaves_whole_frames_and_nothing_else(stopped, finished):
    _, counted = stopped
    assert counted.seen == NAMES[1:]
    done, again, said = finished
    assert again.seen == ["f_10.txt"] and "2 of 4 frames are done already and kept" in said
    assert not [path for path in done.folder.rglob("*") if path.name.endswith(".tmp")]
    np.testing.assert_array_equal(again.guesses["f_10.txt"], counted.guesses["f_10.txt"])


def test_the_frame_after_a_doubted_one_begins_from_the_last_good_one(frames, stopped, finished):
    first = read_points(frames[0]).points
    for name in ("f_1.txt", "f_2.txt"):
        np.testing.assert_array_equal(stopped[1].guesses[name], first)
    done, _, said = finished
    assert [frame.began for frame in done.frames] == ["", "f_0.txt", "f_0.txt", "f_2.txt"]
    assert any(line.startswith("warning: f_1.txt is not to be trusted: It fits badly. The next") for line in said)


def test_what_lies_in_the_folder(frames, finished):
    done, folder = finished[0], finished[0].folder
    assert sorted(path.name for path in folder.iterdir()) == [
        *("0001_f_1", "0002_f_2", "0003_f_10", "frames.csv", "report.html", "sequence.json", "sequence.npz")
    ]
    assert sorted(path.name for path in (folder / "0002_f_2").iterdir()) == [
        *("f_0_registered.txt", "frame.npz", "matches.csv", "report.html", "result.json", "transform.pwan")
    ]
    with np.load(folder / "sequence.npz") as held:
        points, names = held["points"], held["names"].tolist()
    assert points.shape == (4, 40, 3) and names == NAMES
    np.testing.assert_array_equal(points, done.points)
    np.testing.assert_array_equal(points[0], read_points(frames[0]).points)
    moved = read_points(folder / "0003_f_10" / "f_0_registered.txt").points
    np.testing.assert_allclose(moved, points[3], atol=1e-6)
    np.testing.assert_allclose(done.frames[3].transform(points[0]), points[3], atol=1e-6)
    table = pd.read_csv(folder / "frames.csv", keep_default_na=False)
    assert table["frame"].tolist() == NAMES and table["trusted"].tolist() == [True, False, True, True]
    assert table["began"].tolist() == ["", "f_0.txt", "f_0.txt", "f_2.txt"]
    assert table["reason"].tolist() == ["", "It fits badly.", "", ""] and (table["seconds"][1:] > 0).all()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('"method":"restyle"') == 4 and "f_10.txt" in page
    assert "<td>3 of 4 frames are to be trusted.</td>" in page and "<td>Not to be trusted: f_1.txt</td>" in page
    assert "<td>f_0.txt</td>" in page and '<td><a href="0003_f_10/report.html">f_10.txt</a></td>' in page


def test_a_doubted_frame_is_registered_by_the_one_before_it_with_its_points_and_normals(tmp_path):
    draw = np.random.default_rng(0)
    shape = draw.normal(size=(40, 3)) * [1.0, 0.6, 0.3]
    files = []
    for k in range(3):
        turn = Rotation.from_rotvec([0.0, 0.0, 0.2 * k])
        files.append(tmp_path / f"f{k}.csv")
        table = pd.DataFrame(turn.apply(shape), columns=["x", "y", "z"])
        table[["nx", "ny", "nz"]] = turn.apply(np.eye(3)[np.zeros(40, dtype=int)])
        table.to_csv(files[-1], index=False)
    seen: list[Any] = []

    def register(settings: ScanSettings, pair: Any, **options: Any) -> Any:
        outcome = register_pair(settings, pair, **options)
        seen.append((settings, pair, options["guess"], outcome))
        doubts = ("It fits badly.",) if len(seen) == 2 else ()
        verdict = replace(outcome.verdict, trusted=not doubts, confidence=0.9 - 0.5 * len(doubts), warnings=doubts)
        return replace(outcome, verdict=verdict)

    done = register_frame_files(files, settings_of(files, tmp_path / "out"), tell=silent, register=register)
    assert len(seen) == 3 and done.frames[2].chained and done.frames[2].trusted and done.frames[2].began == "f1.csv"
    settings, pair, guess, outcome = seen[2]
    assert guess is None and settings.init == "none"
    np.testing.assert_array_equal(pair.source, done.points[1])
    np.testing.assert_array_equal(done.points[2], outcome.points)
    before = read_points(tmp_path / "out" / "0001_f1" / "f0_registered.csv").normals
    np.testing.assert_array_equal(pair.source_file.normals, before)
    np.testing.assert_allclose(done.frames[2].transform(done.points[0]), done.points[2], atol=1e-6)
    again = register_frame_files(files, settings_of(files, tmp_path / "out"), tell=silent, register=register)
    assert len(seen) == 3 and again.frames[2].chained
    np.testing.assert_allclose(again.frames[2].transform(done.points[0]), done.points[2], atol=1e-6)


def test_one_more_frame_is_added_to_those_that_are_done(frames, finished, tmp_path):
    more = tmp_path / "f_11.txt"
    more.write_bytes(frames[3].read_bytes())
    counted, folder = Counted(wrong="f_11.txt"), tmp_path / "out"
    shutil.copytree(finished[0].folder, folder)
    done = register_frame_files([*frames, more], settings_of(frames, folder), tell=silent, register=counted)
    assert counted.seen == ["f_11.txt"]  # odd: it ends nothing
    assert np.isnan(done.points[4]).all() and done.frames[4].reason == "this frame is odd"
    np.testing.assert_array_equal(done.points[:4], finished[0].points)


def test_results_of_other_settings_are_neither_kept_nor_written_over_unasked(frames, finished):
    folder = finished[0].folder
    with pytest.raises(ValueError, match=r"holds results of other files or settings already \(sequence.json, "):
        register_frame_files(frames, settings_of(frames, folder, seed=1), tell=silent, register=Counted())


def test_bad_frames_are_refused_before_anything_is_computed(frames, tmp_path):
    flat, empty = tmp_path / "flat.txt", tmp_path / "empty.txt"
    np.savetxt(flat, np.random.default_rng(0).normal(size=(40, 2)))
    empty.write_text("")
    for files, words in (
        ([*frames, flat], "flat.txt has 2"),
        ([*frames, empty], "empty.txt: "),
        (frames[:1], "expected two frames or more, or a frame and a template"),
        ([], "expected two frames or more"),
    ):
        counted, settings = Counted(), settings_of(frames, tmp_path / "out")
        with pytest.raises(ValueError, match=words):
            register_frame_files(files, settings, tell=silent, register=counted)
        assert not counted.seen and not (tmp_path / "out").exists()
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("0,0\n")
    with pytest.raises(ValueError, match="leave landmarks out"):
        register_frame_files(frames, settings_of(frames, tmp_path / "out", landmarks=str(pairs)), tell=silent)
    with pytest.raises(FileNotFoundError):
        register_frame_files([*frames, tmp_path / "none.txt"], settings_of(frames, tmp_path / "out"), tell=silent)


def test_the_command_names_the_order_and_refuses_in_a_sentence(frames, finished, tmp_path, capsys):
    told = [f"output={finished[0].folder}", "method=soft_assignment", "method.steps=2", "method.rank=10"]
    assert own_scans.main([str(frames[0].parent), "--sequence", *told]) == 0
    said = capsys.readouterr().out
    assert "4 frames, by the numbers in their names: f_0.txt, f_1.txt, f_2.txt, f_10.txt" in said
    assert "3 of 4 frames are to be trusted.\nNot to be trusted: f_1.txt" in said and "sequence.npz" in said
    (tmp_path / "nothing").mkdir()
    for arguments, words in (
        ([tmp_path / "nothing"], "nothing holds no file of points that can be read"),
        ([], "no frames were named"),
        ([frames[0]], "expected two frames or more"),
        ([*frames, "--sequenc"], "unknown option '--sequenc'"),
        ([frames[0], tmp_path / "none.txt"], "none.txt: there is no such file"),
        ([*frames, "reference=f"], "frames are named twice"),
        ([*frames, "outputt=a"], "unknown key 'outputt'"),
    ):
        assert own_scans.main([str(argument) for argument in (*arguments, "sequence=true")]) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_one_run_at_a_time_writes_in_a_sequence(frames, finished):
    folder, counted = finished[0].folder, Counted()
    with alone_in(folder), pytest.raises(BlockingIOError, match="another run is writing in"):
        register_frame_files(frames, settings_of(frames, folder), tell=silent, register=counted)
    assert not counted.seen


def test_files_of_others_stay_and_what_is_finished_is_forgotten_only_by_a_run_that_begins(frames, finished, tmp_path):
    mine = tmp_path / "free" / "mine" / "frame.npz"
    mine.parent.mkdir(parents=True)
    mine.write_text("not of a sequence")
    quick = Counted(stopped="f_1.txt")
    with pytest.raises(KeyboardInterrupt):
        register_frame_files(frames, settings_of(frames, tmp_path / "free"), tell=silent, register=quick)
    assert mine.exists()
    folder = tmp_path / "out"
    shutil.copytree(finished[0].folder, folder)
    other = settings_of(frames, folder, seed=1, overwrite=True)
    flat = tmp_path / "flat.txt"
    np.savetxt(flat, np.zeros((40, 2)))
    with pytest.raises(ValueError, match="flat.txt has 2"):
        register_frame_files([*frames, flat], other, tell=silent, register=Counted())
    with alone_in(folder), pytest.raises(BlockingIOError):
        register_frame_files(frames, other, tell=silent, register=Counted())
    marks = [folder / name / "frame.npz" for name in ("0001_f_1", "0002_f_2", "0003_f_10")]
    assert all(mark.exists() for mark in marks)
    with pytest.raises(KeyboardInterrupt):
        register_frame_files(frames, other, tell=silent, register=Counted(stopped="f_1.txt"))
    assert not any(mark.exists() for mark in marks)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half of it"])
def test_a_damaged_frame_is_registered_again(frames, finished, tmp_path, damage):
    folder, counted = tmp_path / "out", Counted(wrong="f_1.txt")
    shutil.copytree(finished[0].folder, folder)
    (folder / "0001_f_1" / "frame.npz").write_bytes(damage)
    done = register_frame_files(frames, settings_of(frames, folder), tell=silent, register=counted)
    assert counted.seen == ["f_1.txt"] and np.isnan(done.points[1]).all()
    page = (folder / "report.html").read_text(encoding="utf-8")  # the page of the run before lies there
    assert (folder / "0001_f_1" / "report.html").exists() and "0001_f_1/report.html" not in page


def test_a_method_that_failed_leaves_no_points(frames, tmp_path):
    def register(settings: ScanSettings, pair: Any, **options: Any) -> Any:
        outcome = register_pair(settings, pair, **options)
        return replace(outcome, measured=replace(outcome.measured, failed="it diverged"))

    done = register_frame_files(frames[:2], settings_of(frames, tmp_path / "out"), tell=silent, register=register)
    assert done.frames[1].failed and np.isnan(done.points[1]).all() and np.isfinite(done.points[0]).all()
