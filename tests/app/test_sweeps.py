from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from pwan import methods
from pwan.app import _alone, closing, main
from pwan.app.checked import Checked
from pwan.bench.cell import trial_seed
from pwan.bench.job import Outcome
from pwan.bench.last_run import end_run
from pwan.bench.rows import NAME, RowFile, read_rows
from tests import warm

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
FAKE = ROOT / "tests" / "bench" / "fake_methods"
CPD = ["logger=none", "workers=1", "problem.points=30", "problem.rank=20", "method=[cpd,soft_assignment]"]
SWEEP = ["-m", "name=test", *CPD, "trials=2", "problem.outlier_ratio=0.2,0.4"]
# dies while it writes its third row: half of the line is on the disk
DIES = """
import os, signal, sys
from pathlib import Path
from pwan.app import main
from pwan.bench.rows import RowFile
write, written = RowFile.append, []
def append(self, row):
    written.append(row)
    if len(written) == 3:
        self._file.write(b'{"experiment": "test", "sha')
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, row)
RowFile.append = append
main(sys.argv[2:], conf=Path(sys.argv[1]))
"""


def rows_of(folder):
    """All rows but for what depends on the clock."""
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in read_rows(folder)]
    return sorted(rows, key=lambda row: (row["settings"], row["trial"]))


def tables_of(folder):
    summary, paired = (pd.read_csv(folder / name) for name in ("summary.csv", "paired.csv"))
    return summary.drop(columns="seconds_median").to_dict("records"), paired.to_dict("records")


def same(one, other):
    assert rows_of(one) == rows_of(other)
    for ours, theirs in zip(tables_of(one), tables_of(other), strict=True):
        assert len(ours) == len(theirs) > 0
        assert {str(line) for line in ours} == {str(line) for line in theirs}
    cells = sorted(path.name for path in one.iterdir())
    assert cells == sorted(path.name for path in other.iterdir() if not path.name.startswith(".jobs-"))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    assert main([*SWEEP, f"output={folder}"], conf=CONF) == 0
    return folder


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def run_script(tmp_path_factory):
    """Runs a text as a script with arguments."""

    def run(text, *arguments):
        script = tmp_path_factory.mktemp("script") / "script.py"
        script.write_text(text)
        return warm.run([str(script), str(CONF), *arguments], environment=environment(), folder=ROOT)

    return run


def test_a_sweep_killed_in_the_middle_of_a_write_and_then_anywhere_ends_as_an_unbroken_one(
    unbroken, run_script, tmp_path, capsys
):
    arguments = [*SWEEP, f"output={tmp_path}"]
    died = run_script(DIES, *arguments)
    assert died.returncode == -signal.SIGKILL
    (cut,) = tmp_path.rglob(NAME)
    assert cut.read_bytes().endswith(b'"sha')
    before = rows_of(tmp_path)
    assert len(before) == 2

    with open(os.devnull, "w") as nowhere:
        streams = {"stdout": nowhere.fileno(), "stderr": nowhere.fileno()}
        running = warm.Running(["run.py", *arguments], environment=environment(), folder=ROOT, **streams)
    while len(list(tmp_path.rglob(NAME))) < 2 and running.poll() is None:  # it holds the second cell's lock then
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    killed = len(rows_of(tmp_path))
    assert 2 < killed < 8
    half = next(tmp_path.rglob("points/*")) / "7.123.tmp"
    half.write_bytes(b"PK")  # as if it had died while it wrote a file of points

    capsys.readouterr()
    assert main(arguments, conf=CONF) == 0
    same(unbroken, tmp_path)
    assert [row for row in rows_of(tmp_path) if row in before] == before
    assert not half.exists()
    told = capsys.readouterr().out
    assert "2 cells, 0 failed as a job" in told
    ran = [int(line.split()[2]) for line in told.split("why")[-1].splitlines() if line.startswith("outlier_ratio=")]
    assert sum(ran) == 8 - killed


def test_a_finished_sweep_does_nothing_and_says_so_and_composes_each_cell_once(unbroken, capsys, monkeypatch):
    composed = []
    compose = ConfigLoaderImpl.load_sweep_config
    monkeypatch.setattr(
        ConfigLoaderImpl, "load_sweep_config", lambda *arguments: composed.append(1) or compose(*arguments)
    )
    files = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.suffix in (".jsonl", ".png", ".npz")}
    assert main([*SWEEP, f"output={unbroken}"], conf=CONF) == 0
    assert "nothing to do: all 2 cells were finished already" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(composed) == 2


def test_a_cell_that_another_process_works_on_is_left_to_it(tmp_path, capsys):
    arguments = ["-m", "name=test", *CPD, "trials=1", "problem.outlier_ratio=0.2,0.4", f"output={tmp_path}"]
    busy = tmp_path / "outlier_ratio=0.2_points=30_rank=20"
    with RowFile(busy) as rows:
        assert main(arguments, conf=CONF) == 2
        assert rows.path.read_bytes() == b""
    assert len(read_rows(tmp_path)) == 2
    told = capsys.readouterr().out
    assert "another run is writing" in told.split("why")[-1]
    assert "2 cells, 1 failed as a job" in told
    assert main(arguments, conf=CONF) == 0
    assert len(read_rows(tmp_path)) == 4


@pytest.fixture
def fake_conf(tmp_path, monkeypatch):
    """The configuration with the method ``shifting``, which fails where a trial's seed is odd."""
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(FAKE)])
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    (conf / "method" / "shifting.yaml").write_text("shifting:\n  contract_mse: 1\n  fragile: true\n")
    return conf


def test_the_exit_code_and_the_table_tell_of_a_cell_whose_trials_all_fail_also_when_asked_again(
    fake_conf, tmp_path, capsys
):
    sound = next(seed for seed in range(50) if trial_seed(seed, 0) % 2 == 0)
    bad = next(seed for seed in range(50) if trial_seed(seed, 0) % 2)
    arguments = ["-m", "name=test", "method=[shifting]", "logger=none", "workers=1", "trials=1", "problem.points=30"]
    arguments += [f"seed={bad},{sound}", f"output={tmp_path / 'out'}"]
    for ran in (1, 0):
        assert main(arguments, conf=fake_conf) == 1
        table = capsys.readouterr().out.split("why")[-1]
        (line,) = (line for line in table.splitlines() if "all trials failed" in line)
        assert line.split()[:4] == [f"points=30_seed={bad}", "shifting", str(ran), str(1 - ran)]
        assert "an odd seed" in line
        assert "2 cells, 1 failed as a job" in table


def test_a_job_whose_process_died_and_other_tasks_have_their_line():
    def note(code, **more):
        return {"folder": "out/keep=0.7", "task": "precision", "code": code, "error": "", **more}

    table = closing.describe([note(None), note(0), note(2, error="keep must be above 0.5\nmore"), note(1)], 4)
    assert "its process ended before the job did" in table
    assert "keep must be above 0.5" in table
    assert "exit code 1" in table
    assert "more" not in table
    assert "4 cells, 3 failed as a job" in table


def test_a_cell_that_took_trials_over_has_its_line(tmp_path):
    end_run(tmp_path, [Outcome("cpd", "a", ran=0, skipped=3, failed=0, taken=2)])
    table = closing.describe([{"folder": str(tmp_path), "task": "benchmark", "code": 0, "error": ""}], 1)
    heads, line, *_ = (text.split() for text in table.splitlines())
    assert dict(zip(heads, line, strict=False)) == {
        **{"cell": tmp_path.name, "method": "cpd", "ran": "0", "skipped": "3", "taken": "2", "failed": "0"}
    }
    assert "1 cell, 0 failed as a job" in table


def test_cells_that_run_beside_each_other_start_no_processes_of_their_own():
    def workers(given, launcher):
        checked = Checked("benchmark", None, [], 1, given, False, None, None, None, {})  # type: ignore[arg-type]
        return _alone(checked, SimpleNamespace(launcher=SimpleNamespace(_target_=launcher))).workers  # type: ignore[arg-type]

    assert workers("auto", "hydra_plugins.some.Launcher") == 1
    assert workers(4, "hydra_plugins.some.Launcher") == 4
    assert workers("auto", closing._SERIAL) == "auto"


@pytest.mark.parametrize(
    ("plugin", "launcher"),
    [
        ("hydra_joblib_launcher", ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]),
        ("hydra_submitit_launcher", ["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5"]),
        ("hydra_ray_launcher", ["hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2"]),
    ],
)
def test_a_launcher_gives_the_rows_and_the_exit_code_of_a_serial_sweep(tmp_path, plugin, launcher):
    pytest.importorskip(f"hydra_plugins.{plugin}")
    count = 12 if plugin == "hydra_ray_launcher" else 3
    ratios = ",".join(f"{0.1 * i:.1f}" for i in range(1, count + 1))
    sweep = ["-m", "name=test", "logger=none", "method=[cpd,soft_assignment]", "trials=1", "problem.points=30"]
    sweep += ["problem.rank=20", f"problem.outlier_ratio={ratios}"]
    assert main([*sweep, f"output={tmp_path / 'serial'}"], conf=CONF) == 0

    def launched(*arguments):
        command = [sys.executable, str(ROOT / "run.py"), *arguments, "output=launched", *launcher]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = launched(*sweep)
    assert done.returncode == 0, done.stderr
    assert f"{count} cells, 0 failed as a job" in done.stdout
    shutil.rmtree(tmp_path / "launched" / ".submitit", ignore_errors=True)
    shutil.rmtree(tmp_path / "multirun", ignore_errors=True)
    same(tmp_path / "serial", tmp_path / "launched")
    assert {row["threads"] for row in read_rows(tmp_path / "launched")} == {1}
    wrong = launched("-m", "name=test", "logger=none", "method=[cpd]", "problem.keep=0.3,0.4")
    assert wrong.returncode == 2
    assert "keep must be above 0.5" in wrong.stdout
    assert "2 cells, 2 failed as a job" in wrong.stdout


# runs a sweep and is stopped by Ctrl-C when its third cell has a row
STOPS = """
import os, signal, sys
from pathlib import Path
from pwan.app import main
from pwan.bench.rows import RowFile
append = RowFile.append
def stop(self, row):
    append(self, row)
    if row["outlier_ratio"] == 0.3 and row["trial"] == 0:
        os.kill(os.getpid(), signal.SIGINT)
RowFile.append = stop
sys.exit(main(sys.argv[2:], conf=Path(sys.argv[1])))
"""


def test_a_sweep_stopped_by_ctrl_c_says_what_is_left_and_goes_on(run_script, tmp_path, capsys):
    arguments = ["-m", "name=test", "logger=none", "workers=1", "problem.points=30", "problem.rank=20", "trials=2"]
    arguments += ["method=[cpd]", "problem.outlier_ratio=0.1,0.2,0.3,0.4,0.5,0.6,0.7", f"output={tmp_path}"]
    done = run_script(STOPS, *arguments)
    assert done.returncode == 130
    table = done.stdout.split("why")[-1]
    assert "7 cells, 0 failed as a job; stopped; 4 not begun: the same command again does only what is missing" in table
    (line,) = (line for line in table.splitlines() if line.startswith("outlier_ratio=0.3"))
    assert line.endswith(" stopped")
    assert "Traceback" not in done.stderr
    before = rows_of(tmp_path)
    assert len(before) == 5
    assert main(arguments, conf=CONF) == 0
    assert "7 cells, 0 failed as a job; 2 lines left out" in capsys.readouterr().out
    after = rows_of(tmp_path)
    assert len(after) == 14 and [row for row in after if row in before] == before


def test_a_sweep_stopped_before_its_first_cell_has_begun_none():
    said = closing.describe([], 6, stopped=True)
    assert said.startswith("6 cells, 0 failed as a job; stopped; 6 not begun")
