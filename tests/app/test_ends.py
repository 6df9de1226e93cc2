"""How a command ends that is stopped from outside, and what is written where its words cannot go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pwan.app import main
from pwan.bench.rows import NAME, read_rows

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
RUN = [sys.executable, str(ROOT / "run.py")]
PWAN = [sys.executable, "-c", "from pwan.console import command; command()"]
CELL = ["name=test", "method=[pwan]", "trials=200", "problem.points=300", "logger=none", "output=out"]
SWEEP = ["-m", "name=test", "method=[cpd]", "trials=1", "workers=1", "problem.points=30", "logger=none", "output=out"]
QUICK = ["method=soft_assignment", "method.steps=2", "method.rank=10", "init=none", "mass=30"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **more}


def members(group: int) -> list[int]:
    """The processes of a group that still live."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended meanwhile
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found


def gone(group: int) -> bool:
    """Whether the last process of a group ends, which its resource tracker does a little later."""
    end = time.monotonic() + 20
    while members(group) and time.monotonic() < end:
        time.sleep(0.05)
    return not members(group)


def stopped(folder: Path, number: int, *arguments: str, command: list[str] = RUN, group: bool = False):
    """The run of a command that is sent a signal when it has its first row: exit code, stdout, stderr, and rows."""
    running = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not any(path.stat().st_size for path in folder.rglob(NAME)) and running.poll() is None:
            time.sleep(0.02)
        (os.killpg if group else os.kill)(running.pid, number)
        out, err = running.communicate(timeout=60)
        assert gone(running.pid), "a process stayed behind"
    finally:
        if members(running.pid):
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, out, err, read_rows(folder)


# ends


@pytest.mark.parametrize(
    ("number", "trainer", "workers", "group"),
    [
        (signal.SIGTERM, "lightning", 1, False),
        (signal.SIGINT, "lightning", 1, False),
        (signal.SIGTERM, "lightning", 2, False),
        (signal.SIGTERM, "lightning", 2, True),
        (signal.SIGINT, "lightning", 2, True),
        (signal.SIGTERM, "loop", 1, False),
        (signal.SIGHUP, "loop", 2, False),
        (signal.SIGTERM, "ddp", 1, False),
    ],
)
def test_a_stopped_run_says_so_keeps_its_rows_and_leaves_no_process(tmp_path, number, trainer, workers, group):
    devices = ["trainer.devices=2"] if trainer == "ddp" else []
    code, out, err, rows = stopped(
        tmp_path, number, *CELL, f"workers={workers}", f"trainer={trainer}", *devices, group=group
    )
    assert code == 128 + number, err
    assert f"Stopped. The rows so far are in {tmp_path / 'out'}" in out
    assert 0 < len(rows) < 200 and {row["status"] for row in rows} == {"ok"}
    assert (tmp_path / "out" / "summary.csv").exists()
    assert "Traceback" not in err


def test_a_stopped_sweep_of_the_installed_command_tells_what_is_left(tmp_path):
    arguments = ["run", "-m", *CELL, "workers=1", "trainer=lightning", "problem.outlier_ratio=0.2,0.4"]
    code, out, err, rows = stopped(tmp_path, signal.SIGTERM, *arguments, command=PWAN)
    assert code == 143, err
    assert "2 cells, 0 failed as a job; stopped; 1 not begun" in out
    assert len(rows) > 0 and "Traceback" not in err


def test_a_sweep_that_may_not_write_says_why_and_nothing_of_finished_cells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("out").write_text("a file")
    assert main([*SWEEP, "problem.outlier_ratio=0.2,0.4"], conf=CONF) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ") and str(tmp_path / "out") in told.err
    assert "nothing to do" not in told.out and "cells" not in told.out


def test_a_library_that_ends_the_process_is_a_failed_trial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pwan.methods.run", lambda *arguments, **more: sys.exit(0))
    assert main([*SWEEP[1:]], conf=CONF) == 1
    assert "SystemExit" in capsys.readouterr().out
