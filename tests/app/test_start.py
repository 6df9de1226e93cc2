"""How little is loaded before there is something to compute: nobody waits for torch to be told of a misspelt key."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pwan import methods
from pwan.app.catalogue import TASKS

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "pytorch_lightning", "lightning", "wandb", "matplotlib", "pandas", "plotly", "scipy", "ot", "PIL"}
# runs a command line as its own process would, and tells what it has loaded
TELL = f"""
import os, runpy, sys
os.chdir({str(ROOT)!r})
code = None
try:
    if sys.argv[1] == "pwan":
        from pwan.console import command
        command(sys.argv[2:])
    else:
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    code = end.code
print()
print((code, sorted({{name.partition(".")[0] for name in sys.modules}} & {HEAVY!r})))
"""
FINE = [
    ["run.py", "--help"],
    ["run.py", "--version"],
    ["run.py", "task=register", "--help"],
    ["run.py", "experiment=noise_bunny", "--cfg", "job"],
    ["pwan", "--help"],
    ["pwan", "--version"],
    ["pwan", "run", "--help"],
    ["pwan", "register", "--help"],
]
REFUSED = [
    ["run.py"],
    ["run.py", "--hlep"],
    ["run.py", "trails=3"],
    ["run.py", "task=benhmark"],
    ["run.py", "experiment=noise_buny"],
    ["run.py", "experiment=noise_bunny", "problem.outler_ratio=1"],
    ["run.py", "experiment=noise_bunny", "problem.keep=0.3"],
    ["run.py", "trainer.nam=loop"],
    ["run.py", "logger.mod=online"],
    ["run.py", "shape.name=buny"],
    ["run.py", "method=[pwam]"],
    ["run.py", "method.pwan.stepz=3"],
    ["run.py", "-m", "problem.outlier_ratio=0.2,0.4", "method.pwan.stepz=3", "output=outputs/refused"],
    ["run.py", "task=report", "options.band=both"],
    ["run.py", "task=report", "options.folder=nowhere"],
    ["run.py", "task=register"],
    ["run.py", "task=register", "source=nothing.ply", "reference=README.md"],
    ["run.py", "task=register", "inputs=nothing.yaml"],
    ["run.py", "task=register", "README.md", "README.md", "landmarks=nothing.csv"],
    ["run.py", "task=register", "README.md", "README.md", "sorce=x"],
    ["run.py", "task=register", "README.md", "README.md", "method=pwam"],
    ["run.py", "task=register", "README.md", "README.md", "method.stepz=3"],
    ["pwan"],
    ["pwan", "rnu"],
    ["pwan", "register", "nothing.ply", "README.md"],
    ["pwan", "run", "experiment=noise_buny"],
    ["pwan", "report", "options.bnad=std"],
]


def outcome(arguments: list[str]) -> tuple[int, list[str]]:
    """The exit code of a command line, and which of the slow packages it has loaded."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TELL, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("arguments", FINE, ids=" ".join)
def test_help_loads_nothing_slow(arguments):
    assert outcome(arguments) == (0, [])


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_a_refusal_loads_nothing_slow(arguments):
    assert outcome(arguments) == (2, [])


def test_no_settings_of_the_package_load_anything_slow():
    code = (
        "import sys, pwan\n"
        "from pwan import methods, scans, synthesis\n"
        "from pwan.app.catalogue import TASKS\n"
        "dir(pwan), scans.ScanSettings, synthesis.SynthesisSettings\n"
        "[one.settings_class(name)() for one in (methods, TASKS) for name in one.names()]\n"
        f"print(sorted({{name.partition('.')[0] for name in sys.modules}} & {HEAVY!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("named", [methods, TASKS], ids=["methods", "tasks"])
def test_a_file_and_its_settings_have_one_class(named):
    for name in named.names():
        assert named.settings_class(name) is named.find(name).Settings
