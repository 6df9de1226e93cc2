"""The built wheel in an environment of its own, outside the clone: first the core alone, then with extras.

Takes minutes and installs packages, so it runs only where it is asked for: ``pytest -n 0 -m wheel``, as .ci/run does.
The tests stand in the order in which the environment grows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import pwan
from tests.pointfiles import makers

pytestmark = pytest.mark.wheel
ROOT = Path(__file__).parents[1]
SOURCES = ("src", "conf", "docs/install.md", "pyproject.toml", "setup.py", "MANIFEST.in")
BESIDE = ("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")
QUICK = ["method=soft_assignment", "method.steps=2", "method.rank=10", "init=none", "mass=10"]
CELL = ["experiment=noise_bunny", "method=[pwan,cpd]", "trials=1", "workers=1", "problem.points=60", "logger=none"]
STEPS = [f"method.pwan.{setting}" for setting in ("steps=2", "warmup=1", "stages=0", "rank=20", "nearest_steps=5")]


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the folder in which its programs are called, and what they see of this machine."""

    place: Path
    folder: Path
    variables: dict[str, str]

    def call(self, program: str, *arguments: str) -> subprocess.CompletedProcess:
        command = [str(self.place / "bin" / program), *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False)

    def install(self, what: str) -> Environment:
        """Let pip install it, with what it asks for in the versions of the pinned list."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.place / "bin" / "python")]
        quiet = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "requirements.txt")]
        outside = {
            key: value for key, value in os.environ.items() if key != "PYTHONPATH"
        }  # pip would count what is there
        subprocess.run([*pip, "install", *quiet, what], check=True, env=outside)
        return self


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a person works: far from the clone, with two scans."""
    place = tmp_path_factory.mktemp("work")
    for name, content in {
        "a.ply": makers.ply(),
        "a.las": makers.las(),
        "a.pcd": makers.pcd("binary"),
        "b.csv": makers.rows(sign=",").encode(),
    }.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The archive of the sources, built from a copy of the clone, and the wheel, built from the archive."""
    copy, out = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("dist")
    for name in (*SOURCES, *BESIDE):
        (copy / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(copy)], check=True, capture_output=True)
    (archive,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="module")
def core(built: tuple[Path, Path], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Holds the wheel and what its core needs."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    private = ("PYTHONPATH", "PWAN_DATA", "WANDB_API_KEY", "DISPLAY")
    variables = {key: value for key, value in os.environ.items() if key not in private}
    variables |= {"HOME": str(tmp_path_factory.mktemp("home")), "OMP_NUM_THREADS": "1"}
    return Environment(place, folder, variables).install(str(built[1]))


@pytest.fixture(scope="module")
def with_scans(core: Environment, built: tuple[Path, Path]) -> Environment:
    return core.install(f"{built[1]}[scans]")


@pytest.fixture(scope="module")
def with_all(with_scans: Environment, built: tuple[Path, Path]) -> Environment:
    return with_scans.install(f"{built[1]}[all]")


# what is built


def test_wheel_and_archive_hold_the_configurations_the_shapes_and_their_terms(built):
    archive, wheel = built
    conf = {f"conf/{path.relative_to(ROOT / 'conf')}" for path in (ROOT / "conf").rglob("*.yaml")}
    package = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    files = (path for path in (ROOT / "src/pwan/shapes/data").rglob("*") if path.is_file())
    data = {str(path.relative_to(ROOT / "src")) for path in files}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"pwan/{name}" for name in conf} | package | data | {"pwan/py.typed"} <= held
    assert {name.partition("/")[0] for name in held} == {"pwan", f"pwan-{pwan.__version__}.dist-info"}
    with tarfile.open(archive) as opened:
        top = f"pwan-{pwan.__version__}"
        assert {f"{top}/{name}" for name in conf} | {f"{top}/{name}" for name in BESIDE} <= set(opened.getnames())


# the core alone


def test_the_core_alone_registers_measures_and_reads(core):
    program = (
        "import importlib.util as found\n"
        "from pwan import partial_wasserstein, read_points, register\n"
        "assert [name for name in ('hydra', 'pandas', 'matplotlib', 'laspy', 'tqdm') if found.find_spec(name)] == []\n"
        "source, reference = read_points('a.ply').points, read_points('b.csv').points\n"
        "result = register(source, reference, steps=3, warmup=1, stages=0)\n"
        "assert result.status == 'ok' and result.transformed.shape == source.shape\n"
        "assert partial_wasserstein(reference, source, mass=5).value >= 0\n"
        "assert partial_wasserstein(reference, source, mass=5, solver='neural', updates=20).value >= 0\n"
    )
    done = core.call("python", "-W", "error", "-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("program", "user", "extra"),
    [
        ("register(points, points, method='cpd')", "method cpd", "baselines"),
        ("register(points, points, method='pycpd')", "method pycpd", "baselines"),
        ("register(points, points, method='soft_assignment', steps=1, rank=5).plot()", "plot()", "scans"),
        ("read_points('a.las')", "reading LAS and LAZ", "scans"),
        ("read_points('a.pcd')", "reading binary PCD", "scans"),
        ("from pwan.scans import register_files", "register_files", "scans"),
    ],
)
def test_python_names_the_extra_that_is_missing(core, program, user, extra):
    done = core.call("python", "-c", f"from pwan import *\npoints = read_points('a.ply').points\n{program}")
    said = f"pwan.extras.MissingExtraError: {user} needs the extra '{extra}': pip install 'pwan[{extra}]'"
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(said), done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["run", "experiment=noise_bunny"], "bench"),
        (["run", "-m", "experiment=noise_bunny"], "bench"),
        (["report"], "bench"),
        (["register", "a.ply", "b.csv"], "scans"),
    ],
)
def test_the_command_names_the_extra_that_is_missing(core, folder, arguments, extra):
    done = core.call("pwan", *arguments)
    said = f"error: pwan {arguments[0]} needs the extra '{extra}': pip install 'pwan[{extra}]'"
    assert done.returncode == 2 and done.stderr.startswith(said), done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert sorted(path.name for path in folder.iterdir()) == ["a.las", "a.pcd", "a.ply", "b.csv"]


def test_the_command_tells_its_version_and_its_ways_without_any_extra(core):
    assert core.call("pwan", "--version").stdout == f"pwan {pwan.__version__}\n"
    told = core.call("pwan", "--help")
    assert told.returncode == 0 and all(f"pwan {way}" in told.stdout for way in ("run", "report", "register"))


# with extras


def test_two_files_are_registered_with_the_extra_of_scans(with_scans, folder):
    done = with_scans.call("pwan", "register", "a.las", "b.csv", "output=moved", *QUICK)
    assert done.returncode == 0, done.stderr
    assert (folder / "moved" / "a_registered.las").exists() and (folder / "moved" / "report.html").exists()


def test_the_extra_of_scans_does_not_bring_the_experiments(with_scans):
    done = with_scans.call("pwan", "run", *CELL)
    assert done.returncode == 2 and done.stderr.startswith("error: pwan run needs the extra 'bench'"), done.stderr


def test_an_experiment_and_its_report_with_everything(with_all, folder):
    done = with_all.call("pwan", "run", *CELL, *STEPS)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for path in folder.glob("outputs/**/rows.jsonl") for line in path.read_text().splitlines()]
    assert [(row["method"], row["status"]) for row in rows] == [("pwan", "ok"), ("cpd", "ok")]
    assert np.isfinite([row["mse"] for row in rows]).all()
    done = with_all.call("pwan", "report")
    assert done.returncode == 0 and (folder / "outputs" / "report.html").exists(), done.stderr


def test_a_sweep_with_everything(with_all, folder):
    done = with_all.call("pwan", "run", "-m", *CELL, *STEPS, "problem.outlier_ratio=0.2,0.4", "output=swept")
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "swept").rglob("rows.jsonl"))) == 2
