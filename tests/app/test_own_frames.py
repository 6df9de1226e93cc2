"""Which files are the frames of a sequence, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pwan.app.own_frames import frames_of, order_doubt
from pwan.app.own_scans import parse


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frames").mkdir()
    for name in ("f2.ply", "f10.ply", "f1.ply", ".hidden"):
        (tmp_path / "frames" / name).touch()
    return tmp_path / "frames"


@pytest.mark.parametrize(
    "named",
    [
        ["frames"],
        ["frames/*.ply"],
        ["frames/f1.ply", "frames/f10.ply", "frames/f2.ply"],  # as a shell gives a pattern
    ],
)
def test_they_go_by_the_numbers_in_their_names(folder, named):
    found, order = frames_of(named)
    assert found == ["frames/f1.ply", "frames/f2.ply", "frames/f10.ply"]
    assert order == "3 frames, by the numbers in their names: f1.ply, f2.ply, f10.ply"


def test_an_order_that_no_shell_gives_is_kept(folder):
    named = ["frames/f10.ply", "frames/f1.ply", "frames/f2.ply"]
    assert frames_of(named) == (named, "3 frames, as they were named: f10.ply, f1.ply, f2.ply")


def test_one_folder_after_another_goes_by_numbers(folder):
    found, order = frames_of(["frames/f1.ply", "frames/f10.ply", "frames/f2.ply", "extra/f14.ply"])
    assert order == "4 frames, by the numbers in their names: f1.ply, f2.ply, f10.ply, f14.ply"
    assert order_doubt(found) == ""
    assert frames_of(["frames/f1.ply"])[1].startswith("1 frame, ")


def test_an_order_against_the_numbers_is_warned_of(folder):
    assert order_doubt(["frames/f10.ply", "frames/f1.ply"]) == (
        "warning: the frames are not in the order of the numbers in their names: f10.ply stands before f1.ply; name "
        "them in order, or give a folder"
    )


def test_of_many_the_first_and_the_last_are_told(folder):
    named = [f"f{k:02d}.ply" for k in range(20)]
    assert frames_of(named)[1].endswith(": f00.ply, f01.ply, f02.ply, ..., f17.ply, f18.ply, f19.ply")


def test_what_names_no_frames(folder):
    (folder / "notes.txt").touch()
    with pytest.raises(
        ValueError, match=r"several kinds \(.ply, .txt\); name the frames by a pattern, as 'frames/\*.ply'"
    ):
        frames_of(["frames"])
    with pytest.raises(ValueError, match="no file fits 'frames/\\*.obj'"):
        frames_of(["frames/*.obj"])


def test_the_first_frame_is_led_or_a_template(folder):
    asked = parse(["reference=frames", "sequence=true", "seed=3"])
    assert asked.settings.source == asked.files[0] == "frames/f1.ply" and asked.settings.seed == 3
    assert parse(["frames", "--sequence", "source=rest.ply"]).settings.source == "rest.ply"
    Path("inputs.yaml").write_text("source: rest.ply\nreference: frames/*.ply\nmass: 40\n")
    asked = parse(["inputs=inputs.yaml", "--sequence"])
    assert asked.settings.source == "rest.ply" and asked.settings.mass == 40 and len(asked.files) == 3
    assert "3 frames, by the numbers" in asked.order
    Path("all.yaml").write_text("reference: [frames/f2.ply, frames/f1.ply]\nsequence: true\n")
    assert parse(["inputs=all.yaml"]).files == ["frames/f2.ply", "frames/f1.ply"]
    with pytest.raises(ValueError, match="settings of many scans, not of a sequence: to; leave them out"):
        parse(["frames", "--sequence", "to=mean"])


def test_sequence_is_true_or_false():
    assert parse(["a.ply", "b.ply", "sequence=false"]).source == "a.ply"
    with pytest.raises(ValueError, match="sequence must be true or false, got 'yes'"):
        parse(["a.ply", "b.ply", "sequence=yes"])
