"""The measuring scripts run at tiny sizes, so that they can be relied on where there is something to measure."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan import shapes
from pwan.choices import ACCURACY_SHAPES
from pwan.synthesis import SynthesisSettings

FOLDER = Path(__file__).parents[1] / "benchmarks"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(name)


def test_a_step_against_the_plain_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script("network_update", monkeypatch).main(["--sizes", "30"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:5] for row in rows] == [["96", "pwan", "2", "of", "5"], ["96", "paper", "1", "of", "30"]]
    assert all(float(number) > 0 for row in rows for number in (*row[5:-1], row[-1].rstrip("%")))


def test_a_gpu_s_table_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = script("gpu", monkeypatch)
    gpu.main(["--device", "cpu", "--trials", "2", "--points", "30", "--sizes", "60", "--steps", "1"])
    said = capsys.readouterr().out
    assert re.search(r"2 trials, launched, float32: .* 155 steps; median MSE 0\.\d+ unrefined, .*; 0 failed", said)
    assert said.splitlines()[-1].split()[0] == "60"


def test_memory_and_time_of_large_problems(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    large = script("large", monkeypatch)
    large.main(["steps", "--sizes", "100", "200", "--steps", "1"])
    said = capsys.readouterr().out.splitlines()
    assert said[-3].startswith("| 100 | ") and said[-2].startswith("| 200 | ") and said[-1].startswith("exponent")


def test_tuning_runs_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tuning = script("tuning", monkeypatch)
    entries = [
        "soft_assignment",
        "pwan steps=1 stages=0 warmup=0 refinement=none",
        "pwan stages=0 steps=1 warmup=0 refinement=none",
    ]
    arguments = [*entries, "--cells", "noise_0.2_bunny", "--seeds", "3", "--workers", "1", "--rows", str(tmp_path)]
    tuning.main(arguments)
    first = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["cell"], row["seed"], row["status"]) for row in rows] == [("noise_0.2_bunny", 3, "ok")] * 2
    cells = first.splitlines()[-1].split(" | ")
    assert cells[2] == cells[3].removesuffix(" |") and "failed" not in first  # one setting, written in two ways
    tuning.main(arguments)
    assert capsys.readouterr().out == first
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SystemExit):
        tuning.main([*entries, "--cells", "nosie_*"])
    assert "no cell is named nosie_*; the cells are noise_0.2_bunny" in capsys.readouterr().err


def test_starts_of_few_points_and_what_is_there_already(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    starts = script("starts", monkeypatch)
    arguments = ["tuning", "--cases", "few/pear_1_8_300", "open/sphere_300", "--rows", str(tmp_path)]
    starts.main(arguments)
    first = capsys.readouterr().out
    assert first.splitlines()[2].startswith("| few | 1 | 1 | 1 | ")
    assert first.splitlines()[3].startswith("| open | 1 | 1 | 1 |  | ")
    starts.main(arguments)
    assert capsys.readouterr().out == first
    assert len((tmp_path / "tuning" / "rows.jsonl").read_text().splitlines()) == 2
    assert all(case.make()[0].ndim == 2 for case in starts.cases("report") if case.name.startswith("sections"))


def test_what_attributes_are_worth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    attributes = script("attributes", monkeypatch)
    attributes.main(["report", "--quick", "--kinds", "row", "sheet", "--weights", "0", "3"])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "| case | weight 0 | weight 3 |"
    assert [line.split(" | ")[0] for line in said[2:]] == [
        *("| row 100", "| sheet 100", "| **row**, median", "| **sheet**, median")
    ]


def test_many_known_shapes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study = script("study", monkeypatch)
    monkeypatch.setitem(study.VARIANTS, "plain", {"method": "soft_assignment", "steps": 2, "rank": 20, "init": "none"})
    study.main(["heads", "plain", "--scans", "4", "--points", "40"])
    rows = [[cell.strip() for cell in row.split("|")] for row in capsys.readouterr().out.splitlines()]
    assert rows[2][1] == "template / every other shape" and rows[3][1] == "plain" and rows[4] == ["outlying: ; failed:"]
    assert float(rows[3][2].split("/")[0]) > 0 and 0 <= float(rows[3][5]) <= 90
    study.main(["heads", "--scans", "2", "--points", "40", "--files", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["scan_00.npy", "scan_01.npy", "template.off"]


def test_frames_between_two_poses_and_the_errors_in_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = script("frames", monkeypatch)
    vertices = np.random.default_rng(0).normal(size=(4, 3))
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
    turns = [Rotation.from_rotvec([0.0, 0.0, angle]) for angle in (0.0, 0.7, 1.4)]
    way = frames.between(vertices, turns[2].apply(vertices), faces, np.array([0.0, 0.5, 1.0]))
    centred = vertices - vertices.mean(0)
    np.testing.assert_allclose(way - way.mean(1, keepdims=True), [turn.apply(centred) for turn in turns], atol=1e-6)
    frames.main(["body_turn", "--frames", "2", "--points", "30", "--ways", "straight", "--spoilt"])
    row = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"\| straight \| \d+\.\d\?? \| \d+ \|", row)


def test_claims_that_no_experiment_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    claims = script("claims", monkeypatch)
    two = np.array([[3.0, 0.0], [0.0, 4.0]])
    slope = claims.differences(np.zeros((1, 2)), two, {"mass": 1.0}, 1e-6)  # the nearer point alone is carried
    np.testing.assert_allclose(slope, [[1.0, 0.0], [0.0, 0.0]], atol=1e-6)
    made = SynthesisSettings(points=40, outlier_ratio=0.5)
    source, reference = claims.partners(shapes.load("torus"), made, seed=0, trial=0)
    assert source.all() and reference[:40].all() and len(reference) == 60 and not reference[40:].any()
    source, reference = claims.partners(shapes.load("torus"), SynthesisSettings(points=400, keep=0.7), seed=0, trial=0)
    assert len(source) == len(reference) == 280 and 0.5 < source.mean() < 1 and 0.5 < reference.mean() < 1
    claims.main(["cells", str(FOLDER.parent / "experiments"), str(tmp_path)])
    said = capsys.readouterr().out
    assert said in (FOLDER.parent / "experiments" / "README.md").read_text()  # "The 39 cells in numbers"
    lines = [line.split(" | ") for line in said.splitlines()]
    assert [line[1][:8] for line in lines if line[0].startswith("| **")] == ["18 of 18", "21 of 21"]
    assert all(len(line) == 3 for line in lines[2:])


@pytest.mark.parametrize("name", [f"{kind}_{shape}" for kind in ("noise", "partial") for shape in ACCURACY_SHAPES])
def test_tables_of_the_accuracy_figures_are_those_of_the_summaries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    tables = script("readme_tables", monkeypatch)
    folder = FOLDER.parent / "experiments" / name
    text = (folder / "README.md").read_text()
    for results in sorted(folder.glob("results*.csv")):
        suffix = results.stem.removeprefix("results")
        tables.main([str(folder), f"--suffix={suffix}"])
        medians, _, won = capsys.readouterr().out.partition("\n")[2].partition("\n\n")
        assert medians.strip() in text
        assert suffix or (won and won in text)  # shares won beside the method as published are told in words


def test_numbers_of_the_tables_have_two_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = script("readme_tables", monkeypatch)
    numbers = [0.00004, 0.000512, 0.0010, 0.1, 0.36, 1.25, 12.0]
    assert [tables.number(x) for x in numbers] == ["0.000040", "0.00051", "0.0010", "0.10", "0.36", "1.2", "12"]


def test_claims_about_what_a_finished_trial_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    claims = script("claims", monkeypatch)
    kept = tmp_path / "cell" / "points" / "pwan-abc"
    kept.mkdir(parents=True)
    (tmp_path / "cell" / "config.yaml").write_text(
        "seed: 0\nshape: {name: torus, source: packaged}\nproblem: {points: 20, outlier_ratio: 0.5}\n"
    )
    norms = {"gradient_norm": np.ones(20), "reference_gradient_norm": np.repeat([1.0, 0.0], [20, 10])}
    potential = {"potential": np.full(20, -0.3), "reference_potential": np.zeros(30)}
    course = {"curve_mse": np.array([4.0, 1.0, 3.0, 2.0]), "history_loss": np.array([3.0, 1.0, 2.0])}
    np.savez(kept / "0.npz", history_gradient_norm=np.array([0.9, 1.1, 1.3]), **norms, **potential, **course)
    claims.main(["training", str(tmp_path)])
    said = dict(line.strip().rsplit(": ", 1) for line in capsys.readouterr().out.splitlines()[1:])
    assert said["share of the outliers with |grad f| below 0.1"].startswith("1 ")
    assert said["share of the others with |grad f| below 0.1"].startswith("0 ")
    assert said["mean f of the reference less that of the source"] == "0.3 (0.3 to 0.3)"
    assert said["largest MSE over the least before it"] == "3 (3 to 3)"
    assert said["share of the steps on which the discrepancy rises"].startswith("0.5 ")
