"""Where and how people start runs: other folders, odd names, twice at once, without a login, without a display."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

from pwan import read_points, shapes
from pwan.app import main, own_scans
from pwan.bench.rows import read_rows
from pwan.bench.tracking import run_id
from tests import warm

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
RUN = [sys.executable, str(ROOT / "run.py")]
CELL = ["name=test", "method=[cpd]", "trials=1", "workers=1", "problem.points=30", "options.pictures=[]"]
QUICK = ["method=soft_assignment", "method.steps=2", "method.rank=10", "init=none", "mass=30"]
KEYS = ("WANDB_API_KEY", "WANDB_MODE", "NETRC", "DISPLAY", "WAYLAND_DISPLAY")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Of a person without a display and without W&B's key, whose home folder is given."""
    kept = {key: value for key, value in os.environ.items() if key not in KEYS}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **more}


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """The working folder, with data/a.npy and data/b.npy."""
    monkeypatch.chdir(tmp_path)
    points = shapes.load("torus").points[:60]
    Path("data").mkdir()
    np.save("data/a.npy", points)
    np.save("data/b.npy", points + 0.01)
    return tmp_path


# a relative path, from another folder than the clone


def test_paths_start_from_the_folder_of_the_command_and_are_told_whole(scans, tmp_path_factory):
    home = {"folder": scans, "environment": environment(tmp_path_factory.mktemp("home"))}
    arguments = ["task=register", "source=data/a.npy", "reference=data/b.npy", "output=results/one", *QUICK]
    done = warm.run(["run.py", *arguments], **home)
    assert done.returncode == 0, done.stderr
    assert len(read_points("results/one/a_registered.npy").points) == 60
    assert f"{scans / 'results' / 'one' / 'a_registered.npy'}\n" in done.stdout
    arguments = ["task=register", "source=data/c.npy", "reference=data/b.npy"]
    done = warm.run(["run.py", *arguments], **home)
    assert done.returncode == 2 and done.stderr.startswith("error: data/c.npy: there is no such file")
    assert sorted(path.name for path in scans.iterdir()) == ["data", "results"]


def test_results_of_an_experiment_stand_below_the_folder_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*CELL, "logger=none", "output=results/one"], conf=CONF) == 0
    assert f"results: {tmp_path / 'results' / 'one'}\n" in capsys.readouterr().out
    assert main(["-m", *CELL, "logger=none", "problem.outlier_ratio=0.2,0.4"], conf=CONF) == 0
    assert len(read_rows(tmp_path / "outputs" / "test")) == 2 and len(read_rows(tmp_path / "results")) == 1
    assert Path.cwd() == tmp_path and sorted(path.name for path in tmp_path.iterdir()) == ["outputs", "results"]


@pytest.mark.skipif("PWAN_DATA" not in os.environ, reason="PWAN_DATA does not name a folder with the paper's sets")
def test_the_paper_data_may_be_named_by_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").symlink_to(Path(os.environ["PWAN_DATA"]).resolve())
    monkeypatch.setenv("PWAN_DATA", "data")
    assert main([*CELL, "logger=none", "shape.source=paper", "output=out"], conf=CONF) == 0
    assert {row["shape_origin"] for row in read_rows(Path("out"))} == {"paper:folder"}


# names that the grammar of overrides or a shell refuses

NAMES = [
    "scan [2].npy",
    "a=b.npy",
    "mass=5",
    "a,b.npy",
    "{a}.npy",
    "${x}.npy",
    "it's.npy",
    '"q".npy',
    "ü (1).npy",
    "~.npy",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["words", "keys", "inputs"])
def test_a_file_of_any_name_is_registered(scans, name, way):
    points = np.load("data/a.npy")
    Path(name).write_bytes(Path("data/a.npy").read_bytes())
    words = {"words": [name, "data/b.npy"], "keys": [f"source={name}", "reference=data/b.npy"]}.get(way)
    if words is None:
        Path("in.yaml").write_text(yaml.safe_dump({"source": name, "reference": "data/b.npy"}), encoding="utf-8")
        words = ["inputs=in.yaml"]
    assert main(["task=register", *words, f"output=to {name}", *QUICK], conf=CONF) == 0
    written = Path(f"to {name}")
    assert json.loads((written / "result.json").read_text())["source"]["points"] == len(points)
    (moved,) = (path for path in written.iterdir() if "_registered" in path.name)
    assert len(read_points(moved).points) == len(points)


@pytest.mark.parametrize("output", ["output=my results [2]", "output=a,b", "output=it's", "output={x"])
def test_an_override_that_is_refused_comes_with_an_example_of_quotes(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    assert main([*CELL, "logger=none", output], conf=CONF) == 2
    told = capsys.readouterr().err
    assert ("'name=\"a b\"'" if "," not in output else "quote the value: key=\\'value1,value2\\'") in told
    assert "quote" in told and "Traceback" not in told
    assert list(tmp_path.iterdir()) == []
    key, _, value = output.partition("=")
    quoted = value.replace("'", "\\'")
    assert main([*CELL, "logger=none", f"{key}='{quoted}'"], conf=CONF) == 0  # as the example says
    assert len(read_rows(tmp_path / value)) == 1


# the Python that it runs on


def test_the_range_of_pythons_is_stated_once_and_holds_this_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest, above = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert int(lowest) <= sys.version_info.minor < int(above)
    assert f"Python 3.{lowest} to 3.{int(above) - 1}" in (ROOT / "README.md").read_text(encoding="utf-8")


# a sweep that was stopped, and other cells beside it


def test_other_cells_in_a_sweep_leave_those_that_are_there_as_they_are(tmp_path, capsys):
    sweep = ["-m", *CELL, "logger=none", f"output={tmp_path}"]
    assert main([*sweep, "problem.outlier_ratio=0.3,0.6"], conf=CONF) == 0
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.rglob("rows.jsonl")}
    assert len(before) == 2
    capsys.readouterr()
    assert main([*sweep, "problem.outlier_ratio=0.9,0.6,0.1,0.3"], conf=CONF) == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    assert len(read_rows(tmp_path)) == 4
    assert "4 cells, 0 failed as a job" in capsys.readouterr().out


# two at once


def test_two_runs_of_one_cell_at_once_give_its_rows_once(tmp_path):
    command = ["run.py", *CELL, "trials=6", "logger=none", "output=out"]
    said = [tmp_path / f"said{number}" for number in range(2)]
    both = []
    for file in said:
        with file.open("w") as stream:
            streams = {"stdout": stream.fileno(), "stderr": stream.fileno()}
            both.append(warm.Running(command, folder=tmp_path, environment=environment(tmp_path), **streams))
    codes = sorted(one.wait() for one in both)
    told = [file.read_text() for file in said]
    assert codes in ([0, 0], [0, 2]), told
    if codes == [0, 2]:
        assert any("another run is writing" in words and "output=" in words for words in told)
    assert sorted(row["trial"] for row in read_rows(tmp_path / "out")) == list(range(6))


def test_results_that_another_registration_wrote_meanwhile_are_kept(scans, monkeypatch, capsys):
    """The same command twice at once: the second to end finds the folder taken, though it was free when it began."""
    from pwan.scans import registering

    write = registering.write_output
    arguments = ["data/a.npy", "data/b.npy", "output=out", *QUICK]

    def later(settings, outcome):
        monkeypatch.setattr(registering, "write_output", write)
        assert own_scans.main([*arguments, "seed=1"]) == 0
        return write(settings, outcome)

    monkeypatch.setattr(registering, "write_output", later)
    capsys.readouterr()
    assert own_scans.main(arguments) == 2
    assert "holds results already" in capsys.readouterr().err
    assert json.loads(Path("out/result.json").read_text())["settings"]["seed"] == 1
    assert sorted(path.name for path in Path("out").iterdir()) == [
        *("a_registered.npy", "matches.csv", "report.html", "result.json", "transform.pwan")
    ]


# W&B without a key, and two offline runs at once


def test_without_a_key_nobody_is_asked_and_the_rows_are_the_record(tmp_path):
    command = [*RUN, *CELL, "logger.mode=online", "output=out"]
    closed = environment(tmp_path, HTTPS_PROXY="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")  # no network
    done = subprocess.run(
        command, cwd=tmp_path, env=closed, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "login" not in done.stderr and "wandb.ai/authorize" not in done.stdout + done.stderr
    assert len(read_rows(tmp_path / "out")) == 1
    (run,) = (tmp_path / "out" / "wandb").glob("offline-run-*")
    assert next(run.glob("run-*.wandb")).stat().st_size > 0


def test_offline_runs_of_two_cells_at_once_stay_apart(tmp_path):
    commands = [[*RUN, *CELL, f"seed={seed}", f"output=out/{seed}"] for seed in (1, 2)]
    both = [subprocess.Popen(one, cwd=tmp_path, env=environment(tmp_path)) for one in commands]
    assert [one.wait() for one in both] == [0, 0]
    runs = sorted(tmp_path.glob("out/*/wandb/offline-run-*"))
    assert [run.parent.parent.name for run in runs] == ["1", "2"]
    ends = {run.name.rsplit("-", 1)[1] for run in runs}
    rows = read_rows(tmp_path / "out")
    assert ends == {run_id(row["experiment"], row["settings"]) for row in rows} and len(ends) == 2


# a machine without a display


def test_nothing_needs_a_display_or_a_viewer(scans):
    code = (
        "import sys\n"
        "from pwan.app.own_scans import main\n"
        f"code = main(['data/a.npy', 'data/b.npy', 'output=out', *{QUICK!r}])\n"
        "print('matplotlib' in sys.modules)\n"  # a second of each start
        "import pwan.report.trial_figure, pwan.bench.pictures\n"
        "import matplotlib\n"
        "print(code, matplotlib.get_backend().lower())\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'open3d', 'tkinter', 'PyQt5', 'vtk', 'gi'}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(scans), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["False", "0 agg", "[]"]
    html = (scans / "out" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"""<(script|link)[^>]+(src|href)=["']?https?:""", html) is None
