"""The command ``pwan``, which an installed package has in place of a clone's run.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pwan
from pwan import console, place, shapes
from pwan.bench.rows import read_rows

ROOT = Path(__file__).parents[1]
QUICK = ["method=soft_assignment", "method.steps=2", "method.rank=10", "init=none", "mass=30"]
CELL = ["name=test", "method=[soft_assignment]", "method.soft_assignment.steps=1", "trials=1", "workers=1"]
CELL += ["problem.points=30", "logger=none"]


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        console.command(arguments)
    return end.value.code


def test_the_entry_point_is_this_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"]["pwan"] == f"{console.__name__}:{console.command.__name__}"


def test_help_shows_each_command_and_where_to_read_on(capsys):
    assert code("--help") == 0
    told = capsys.readouterr().out
    assert all(f"pwan {name}" in told for name in console.COMMANDS)
    assert "help(pwan.register)" in told
    assert code() == 2
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("arguments", [["--version"], ["run", "--version"], ["register", "--version"]])
def test_the_version_is_that_of_the_package(capsys, arguments):
    assert code(*arguments) == 0
    assert capsys.readouterr().out == f"pwan {pwan.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rgister", "a.ply", "b.ply"], "unknown command 'rgister' (did you mean 'register'?)"),
        (["reprot"], "(did you mean 'report'?)"),
        (["experiment=noise_bunny"], "(did you mean 'pwan run experiment=noise_bunny'?)"),
        (["-m", "experiment=noise_bunny"], "(did you mean 'pwan run -m'?)"),
        (["something"], "there are register, report, run (see pwan --help)"),
    ],
)
def test_a_misspelt_command_names_the_nearest_one(capsys, arguments, words):
    assert code(*arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and words in told


def test_files_are_registered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = shapes.load("torus").points[:60]
    np.save("a.npy", points)
    np.save("b.npy", points + 0.01)
    assert code("register", "a.npy", "b.npy", "output=out", *QUICK) == 0
    assert (tmp_path / "out" / "a_registered.npy").exists()


def test_a_run_and_its_report_lie_below_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert code("run", *CELL) == 0
    assert len(read_rows(tmp_path / "outputs" / "test")) == 1
    assert code("run", *CELL, "-m", "problem.outlier_ratio=0.2,0.4", "name=sweep") == 0
    assert "2 cells, 0 failed as a job" in capsys.readouterr().out
    assert code("report") == 0
    assert (tmp_path / "outputs" / "report.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
    assert code("run", "problem.keep=0.3") == 2


def test_words_are_completed(monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "pwan run experiment=noise_b")
    assert code("-sc", "query=bash") == 0
    assert capsys.readouterr().out == "experiment=noise_bunny\n"
    monkeypatch.setenv("COMP_LINE", "pwan re")
    assert code("-sc", "query=bash") == 0
    assert capsys.readouterr().out == "register report run\n"


def test_in_a_clone_the_configuration_is_that_of_the_clone():
    assert place.conf_folder() == ROOT / "conf"
    assert place.command() == "python run.py"


def test_an_installed_package_finds_the_configuration_in_itself(tmp_path):
    """The package as a wheel lays it out, without a clone around it."""
    shutil.copytree(ROOT / "src" / "pwan", tmp_path / "site" / "pwan", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "conf", tmp_path / "site" / "pwan" / "conf")
    (tmp_path / "here").mkdir()

    def installed(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from pwan.console import command; command()", *arguments]
        environment = {"PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}
        return subprocess.run(
            command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=False
        )

    helped = installed("run", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "  pwan run -m experiment=noise_bunny " in helped.stdout and "run.py" not in helped.stdout
    done = installed("run", *CELL)
    assert done.returncode == 0, done.stderr
    assert len(read_rows(tmp_path / "here" / "outputs" / "test")) == 1
    assert "Try: pwan run experiment=noise_bunny" in installed("run").stderr
