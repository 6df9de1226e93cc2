"""How a command ends that is stopped from outside, and what is written where its words cannot go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from pwan import shapes
from pwan.app import main
from pwan.bench.rows import NAME, read_rows
from tests import warm

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
PWAN = [sys.executable, "-c", "from pwan.console import command; command()"]
FEW = ["method.pwan.steps=20", "method.pwan.stages=0", "method.pwan.warmup=5"]
CELL = ["name=test", "method=[pwan]", *FEW, "trials=200", "problem.points=300", "logger=none", "output=out"]
SMALL = ["trials=1", "workers=1", "problem.points=30", "options.pictures=[]", "logger=none"]
SWEEP = ["-m", "name=test", "method=[cpd]", *SMALL, "output=out"]
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


def stopped(folder: Path, number: int, *arguments: str, fresh: bool = False, group: bool = False):
    """The run of a command that is sent a signal when it has its first row: exit code, stdout, stderr, and rows.

    ``fresh``: the installed command, in a process that has nothing loaded yet.
    """
    with open(folder / "stdout", "w+") as out, open(folder / "stderr", "w+") as err:
        if fresh:
            command = [*PWAN, *arguments]
            running = subprocess.Popen(
                command, cwd=folder, env=environment(), stdout=out, stderr=err, start_new_session=True
            )
        else:
            streams = {"stdout": out.fileno(), "stderr": err.fileno()}
            running = warm.Running(["run.py", *arguments], folder=folder, environment=environment(), **streams)
        try:
            while not any(path.stat().st_size for path in folder.rglob(NAME)) and running.poll() is None:
                time.sleep(0.02)
            (os.killpg if group else os.kill)(running.pid, number)
            code = running.wait(timeout=60)
            assert gone(running.pid), "a process stayed behind"
        finally:
            if members(running.pid):
                os.killpg(running.pid, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read(), read_rows(folder)


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """The working folder, with a.npy and b.npy."""
    monkeypatch.chdir(tmp_path)
    points = shapes.load("torus").points[:60]
    np.save("a.npy", points)
    np.save("b.npy", points + 0.01)
    return tmp_path


# ends


@pytest.mark.parametrize(
    ("number", "trainer", "workers", "group"),
    [
        (signal.SIGTERM, "lightning", 1, False),
        (signal.SIGINT, "lightning", 1, False),
        (signal.SIGTERM, "lightning", 2, True),
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
    code, out, err, rows = stopped(tmp_path, signal.SIGTERM, *arguments, fresh=True)
    assert code == 143, err
    assert "2 cells, 0 failed as a job; stopped; 1 not begun" in out
    assert len(rows) > 0 and "Traceback" not in err


def test_a_sweep_that_may_not_write_says_why_and_nothing_of_finished_cells(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("out").write_text("a file")
    assert main([*SWEEP, "problem.outlier_ratio=0.2,0.4"], conf=CONF) == 2
    told = capsys.readouterr()
    assert told.err == "error: out is a file; expected a folder there, or none yet\n"
    assert "nothing to do" not in told.out and "cells" not in told.out


def test_a_library_that_ends_the_process_is_a_failed_trial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pwan.methods.run", lambda *arguments, **more: sys.exit(0))
    assert main([*SWEEP[1:]], conf=CONF) == 1
    assert "SystemExit" in capsys.readouterr().out


# output

COMMANDS = {
    "register": (["task=register", "source=a.npy", "reference=b.npy", "output=out", *QUICK], "out/result.json"),
    "sweep": ([*SWEEP, "problem.outlier_ratio=0.2,0.4"], "out/summary.csv"),
    "cell": (SWEEP[1:], "out/summary.csv"),
    "help": (["--help"], "a.npy"),
    "configuration": (["experiment=noise_bunny", "--cfg", "job"], "a.npy"),
}


def read_one_letter_of(arguments: list[str], *, errors: bool) -> int:
    """The exit code of a command whose reader takes one letter and leaves."""
    ours, theirs = os.pipe()
    with tempfile.TemporaryFile() as err:
        running = warm.Running(
            arguments,
            folder=Path.cwd(),
            environment=environment(),
            stdout=theirs,
            stderr=theirs if errors else err.fileno(),
        )
        os.close(theirs)
        os.read(ours, 1)
        os.close(ours)
        code = running.wait()
        err.seek(0)
        assert_quiet(err.read().decode())
    return code


def assert_quiet(said: str) -> None:
    assert "Traceback" not in said and "Broken pipe" not in said


@pytest.mark.parametrize("what", COMMANDS)
def test_a_reader_that_leaves_changes_neither_the_work_nor_the_end(scans, what):
    arguments, written = COMMANDS[what]
    assert read_one_letter_of(["run.py", *arguments], errors=False) == 0
    assert (scans / written).exists()


@pytest.mark.parametrize("what", ["register", "sweep"])
def test_a_reader_of_both_streams_that_leaves_changes_nothing_either(scans, what):
    arguments, written = COMMANDS[what]
    assert read_one_letter_of(["run.py", *arguments], errors=True) == 0
    assert (scans / written).exists()


@pytest.mark.parametrize("what", ["register", "sweep"])
@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_closed_stream_changes_neither_the_work_nor_the_end(scans, what, stream):
    arguments, written = COMMANDS[what]
    line = f"{' '.join(map(repr, [sys.executable, str(ROOT / 'run.py'), *arguments]))} {stream}>&-"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, errors="replace", check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert_quiet(done.stderr)
    assert (scans / written).exists()


def test_a_full_disk_behind_the_words_is_said_and_changes_nothing_else(scans):
    arguments, written = COMMANDS["register"]
    with open("/dev/full", "w") as full:
        done = warm.run(["run.py", *arguments], folder=scans, environment=environment(), stdout=full.fileno())
    assert done.returncode == 0
    assert "warning: no more can be written to the output: No space left on device" in done.stderr
    assert (scans / written).exists()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1:strict", "ascii:surrogateescape"])
def test_words_that_an_encoding_lacks_are_escaped(scans, encoding):
    (scans / "a.npy").rename(scans / "ä→.npy")
    where = {"folder": scans, "environment": environment(PYTHONIOENCODING=encoding)}
    done = warm.run(["pwan", "register", "ä→.npy", "b.npy", "output=ö→", *QUICK], **where)
    assert done.returncode == 0, done.stderr
    assert "\\u2192.npy: 60 points" in done.stdout
    assert (scans / "ö→" / "result.json").exists()
    done = warm.run(["run.py", *SWEEP[1:], 'output="ö→"'], **where)
    assert done.returncode == 0 and len(read_rows(scans / "ö→")) == 1, done.stderr


@pytest.mark.parametrize(
    ("role", "suffix"),
    [("source", "npy"), ("source", "ply"), ("reference", "npy"), ("output", "ply"), ("landmarks", "npy")],
)
def test_names_in_bytes_of_another_encoding_are_taken_and_written(scans, role, suffix):
    names = {"source": f"a.{suffix}", "reference": "b.npy", "output": "out", "landmarks": "pairs.csv"}
    (scans / "pairs.csv").write_text("0,0\n7,7\n20,20\n")
    if suffix == "ply":
        rows = "".join(f"{x} {y} {z}\n" for x, y, z in np.load("a.npy"))
        axes = "property float x\nproperty float y\nproperty float z\n"
        (scans / "a.ply").write_text(f"ply\nformat ascii 1.0\nelement vertex 60\n{axes}end_header\n{rows}")
    odd = os.fsdecode(b"sch\xf6n") + Path(names[role]).suffix
    if role != "output":
        (scans / names[role]).rename(scans / odd)
    names[role] = odd
    words = [f"{key}={name}" for key, name in names.items()]
    done = warm.run(["pwan", "register", *words, *QUICK], folder=scans, environment=environment())
    assert done.returncode == 0, done.stderr
    out = scans / names["output"]
    assert len(list(out.iterdir())) == 5
    found = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert found["settings"][role] == odd
    assert len((out / "matches.csv").read_text(encoding="utf-8").splitlines()) > 10
    assert "</html>" in (out / "report.html").read_text(encoding="utf-8")


def test_a_full_disk_names_the_path(scans):
    """A limit on the size of files, which fails as a full disk does: without a name."""
    for words in (COMMANDS["register"][0], SWEEP[1:]):
        done = warm.run(["run.py", *words], folder=scans, environment=environment(), file_limit=1024)
        assert done.returncode == 2, done.stderr
        (said,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
        assert "out" in said and said.endswith("File too large") and "Errno" not in said
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name: "C:\\Users\\me"\n', "line 2: a backslash in double quotes"),
        ('name: "C:\\data"\n', "single quotes, as it is: 'C:\\data'"),
        ("trials: 1\n\tseed: 2\n", "line 3, column 1: not YAML"),
        ("name: a: b\n", "line 2, column 8: not YAML, mapping values are not allowed here; repair it"),
        ('name: "open\n', "not YAML, while scanning a quoted scalar"),
    ],
)
def test_a_fault_of_an_experiment_file_is_told_with_its_line(tmp_path, capsys, text, words):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{text}")
    assert main(["experiment=mine", "--config-dir", str(tmp_path)], conf=CONF) == 2
    told = capsys.readouterr().err
    assert words in told and "mine.yaml" in told and "Traceback" not in told
