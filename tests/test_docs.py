"""The commands and the code of the how-to pages are run, small, as they stand there."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from pwan import read_points, shapes
from pwan.app import main
from pwan.bench.rows import read_rows

ROOT = Path(__file__).parents[1]
CONF, DOCS = ROOT / "conf", ROOT / "docs"
PAGES = ("own_scans", "reproduce", "add_a_method")
SMALL = ["trials=1", "workers=1", "logger=none", "problem.points=60", "options.pictures=[trials]"]
PWAN = [f"method.pwan.{setting}" for setting in ("steps=2", "warmup=1", "stages=0", "rank=20", "nearest_steps=5")]
TO_BE_NAMED = "/path/to/folder"  # stands in the pages for what the reader has


def text(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def commands(page: str) -> list[list[str]]:
    """The words of the page's commands: of shell blocks, and of lines indented by four."""
    blocks = re.findall(r"```bash\n(.*?)```", text(page), re.DOTALL) + re.findall(r"(?m)^    (python .*)$", text(page))
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def code(page: str, language: str) -> list[tuple[str, str]]:
    """(file, content) of the page's blocks: the file stands in the first line, or in the heading above."""
    found = []
    for match in re.finditer(rf"```{language}\n(.*?)```", text(page), re.DOTALL):
        heading = re.findall(r"(?m)^## .*$", text(page)[: match.start()])
        places = match[1].split("\n", 1)[0], heading[-1] if heading else ""
        file = next((one[0] for place in places if (one := re.search(r"(?:src|conf)/[\w/]+\.\w+", place))), "")
        found.append((file, match[1]))
    return found


def run_py(words: list[str], *more: str) -> int:
    assert words[:2] == ["python", "run.py"]
    return main([*words[2:], *more], conf=CONF)


def test_every_page_has_commands_and_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    for page in PAGES:
        assert f"(docs/{page}.md)" in readme.split("## Where to read on")[1]
        assert commands(page)


LINKING = (ROOT / "README.md", ROOT / "experiments" / "README.md", *sorted(DOCS.glob("*.md")))


@pytest.mark.parametrize("page", [path.relative_to(ROOT) for path in LINKING])
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [target for target in targets if not (ROOT / page.parent / target).exists()] == []


def test_the_claims_name_every_experiment_once_in_their_index() -> None:
    index = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8").split("## The experiments")[1]
    named = re.findall(r"\]\((\w+)\)", index)
    assert sorted(named) == sorted(path.parent.name for path in ROOT.glob("experiments/*/README.md"))


# the site


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What makes the tables of settings; it needs no Sphinx."""
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    return importlib.import_module("settings_tables")


@dataclass(frozen=True)
class Base:
    """First line.

    Attributes:
        rate: how fast,
            in |steps| a second.
        kind, other: one of two.

    More.
    """

    rate: float | None = None
    kind: Literal["a", "b"] = "a"
    other: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Built(Base):
    """Second."""

    kind: Literal["a", "b"] = "b"
    new: int = 3


def test_a_table_of_settings_says_what_the_dataclass_says(tables: ModuleType) -> None:
    lines = "\n".join(tables.table(Base))
    cells = re.findall(r"(?m)^ {3}(?:\* | {2})- (.*(?:\n {7}\S.*)*)$", lines)
    assert cells[:4] == ["setting", "type", "default", "meaning"]
    assert cells[4:8] == ["``rate``", "number or none", "``None``", "how fast,\n       in \\|steps\\| a second."]
    assert cells[8:12] == ["``kind``", "``a`` or ``b``", "``a``", "one of two."]
    assert cells[12:] == ["``other``", "list of: whole number", "``[1, 2]``", "one of two."]
    assert tables.summary(Base) == "First line."


def test_settings_that_build_on_others_keep_their_meanings(tables: ModuleType) -> None:
    assert tables.changed(Built, Base) == ["kind", "new"]
    assert tables.meanings_of(Built) == tables.meanings_of(Base)


# own scans


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the page speaks of, in the working folder."""
    monkeypatch.chdir(tmp_path)
    points = shapes.load("torus").points[:80]
    rows = "".join(f"{x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in points)
    axes = "property float x\nproperty float y\nproperty float z\n"
    Path("a.ply").write_text(f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n{axes}end_header\n{rows}")
    pd.DataFrame(points[::-1] + 0.02, columns=["x", "y", "z"]).to_csv("b.csv", index=False)
    return tmp_path


def test_the_command_for_own_scans(scans: Path) -> None:
    (words,) = (one for one in commands("own_scans") if "task=register" in one)
    assert run_py(words) == 0
    there = sorted(path.name for path in (scans / "folder").iterdir())
    told = re.findall(r"(?m)^\| `([\w.]+)` \|", text("own_scans"))
    assert there == sorted(told) and len(told) == 5
    moved, reference = read_points("folder/a_registered.ply").points, read_points("b.csv").points
    assert np.linalg.norm(moved - reference[::-1], axis=1).mean() < 0.02


def test_the_python_for_own_scans(scans: Path, capsys: pytest.CaptureFixture) -> None:
    names: dict = {}
    for _, block in code("own_scans", "python"):
        exec(block, names)
    outcome = names["outcome"]
    assert outcome.points.shape == (80, 3) and outcome.matched.shape == (80,)
    assert (scans / "folder" / "result.json").exists()
    np.testing.assert_allclose(names["moved"], outcome.points, atol=1e-6)


def test_the_transform_of_a_turned_source_moves_it_as_the_page_says(scans: Path, capsys: pytest.CaptureFixture) -> None:
    points = shapes.load("bunny").points[:80]
    turned = points @ np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]) + 5.0
    rows = "".join(f"{x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in turned)
    head = Path("a.ply").read_text().split("end_header")[0]
    Path("a.ply").write_text(f"{head}end_header\n{rows}")
    pd.DataFrame(points, columns=["x", "y", "z"]).to_csv("b.csv", index=False)
    names: dict = {}
    for _, block in code("own_scans", "python"):
        exec(block, names)
    assert names["outcome"].start.changed
    np.testing.assert_allclose(names["moved"], names["outcome"].points, atol=1e-5)


# the experiments


PAPER = [one for one in commands("reproduce") if "experiment=paper" in one]  # hours: see tests/app/tasks/test_paper.py
RUNS = [one for one in commands("reproduce") if "run.py" in one and "task=report" not in one and one not in PAPER]
REPORTS = [one for one in commands("reproduce") if "task=report" in one]


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_commands_of_the_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0].startswith("PWAN_DATA="):
        assert words[0] == f"PWAN_DATA={TO_BE_NAMED}"
        if "PWAN_DATA" not in os.environ:
            pytest.skip("PWAN_DATA does not name a folder with the paper's point sets")
        words = words[1:]
    pictures = ["options.pictures=[]"] if "-m" in words else []  # those of one cell are enough
    assert run_py(words, *SMALL, *PWAN, *pictures) == 0
    rows = read_rows(tmp_path / "outputs")
    (listed,) = (word.removeprefix("method=[").rstrip("]").split(",") for word in words if word.startswith("method="))
    assert [row["method"] for row in rows] == listed * (len(rows) // len(listed))
    assert len(rows) == len(listed) * (6 if "-m" in words else 1) and {row["status"] for row in rows} == {"ok"}


def test_the_commands_of_the_whole_paper_compose(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAPER) == 4
    for words in PAPER:
        assert run_py([word for word in words if not word.startswith("PWAN_DATA=")], "--cfg", "job") == 0
        assert "task: paper" in capsys.readouterr().out


def test_the_report_of_a_sweep_and_what_is_kept_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = ["python", "run.py", "-m", "experiment=noise_bunny", "method=[cpd]", "problem.outlier_ratio=0.2,0.4"]
    assert run_py(sweep, *SMALL) == 0
    for words in REPORTS:
        assert run_py(words) == 0
        assert (tmp_path / "outputs" / "report.html").stat().st_size > 0
        assert {path.suffix for path in tmp_path.glob("outputs/report_figures/*")} == {".png", ".pdf", ".html"}
        kept = {path.name for path in tmp_path.glob("experiments/**/*.*")}
        expected = {
            "results.csv",
            "rows.jsonl.gz",
            "figure.png",
            "worst.png",
            "accuracy_noise_packaged.png",
        }  # one method: nothing to compare
        assert kept == (expected if "options.collect=experiments" in words else set())
    assert len(REPORTS) == 2


def test_a_stopped_sweep_goes_on_as_the_page_says(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    cell = ["python", "run.py", "experiment=noise_bunny", "method=[cpd]"]
    assert run_py(cell, *SMALL) == 0
    capsys.readouterr()
    assert run_py(cell, *SMALL, "trials=2", "method=[cpd,soft_assignment]") == 0  # more trials and methods are added
    told = capsys.readouterr().out
    assert "cpd: 1 trials run, 1 were there already" in told and "soft_assignment: 2 trials run" in told


# a method


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the page's commands need, with the page's files in it and nothing else changed."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("src", "conf", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("run.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    files = [*code("add_a_method", "python"), *code("add_a_method", "yaml")]
    assert len(files) == 4
    for file, content in files:
        assert file and not (folder / file).exists(), file
        (folder / file).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize("words", commands("add_a_method"), ids=" ".join)
def test_commands_with_the_new_method(clone: Path, words: list[str]) -> None:
    assert words[0] == "python"
    more = [*SMALL, "problem.points=100"] if words[1] == "run.py" else []
    environment = {**os.environ, "PYTHONPATH": str(clone / "src"), "OMP_NUM_THREADS": "1"}
    environment |= {"PYTEST_ADDOPTS": "-n 0"}  # for six tests no processes are started
    done = subprocess.run(
        [sys.executable, *words[1:], *more], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if words[1] == "run.py":
        (name,) = (word.partition("=")[2] for word in words if word.startswith(("experiment=", "name=")))
        rows = read_rows(clone / "outputs" / name)
        assert rows[0]["method"] == "icp" and rows[0]["status"] == "ok" and rows[0]["mse"] < rows[0]["mse_initial"]
        assert len({row["problem"] for row in rows}) == 1
    else:
        assert re.search(r"\b6 passed", done.stdout), done.stdout  # every test of the contract found it


def test_the_new_method_keeps_the_style_of_the_others(clone: Path) -> None:
    files = [str(clone / file) for file, _ in code("add_a_method", "python")]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *files], cwd=clone, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_ways_to_start_many_devices_compose(capsys: pytest.CaptureFixture[str]) -> None:
    found = [words[words.index("run.py") + 1 :] for words in commands("many_devices") if "run.py" in words]
    assert len(found) == 3
    for words in found:
        assert main([*words, "--cfg", "job"], conf=CONF) == 0
        composed = capsys.readouterr().out
        assert "name: lightning" in composed and "devices: 4" in composed
