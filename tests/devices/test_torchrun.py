"""The command line started by torchrun: points of a registration on its processes, and trials beside each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pwan.app import main
from pwan.bench.rows import Row, read_rows
from pwan.lightning.processes import assemble

ROOT = Path(__file__).parents[2]
CELL = [
    *("name=crew", "shape=torus", "problem.points=40", "problem.rank=20", "method=[pwan,cpd]", "trials=2"),
    *("method.pwan.stages=0", "method.pwan.warmup=1", "logger=none", "options.pictures=[]"),
]


def command(*arguments: str, processes: int = 2, sweep: bool = False, path: str = "") -> subprocess.Popen[str]:
    """The command line, under torchrun for more than one process."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    return subprocess.Popen(
        [sys.executable, *(launcher if processes > 1 else []), "run.py", *(["-m"] if sweep else []), *CELL, *arguments],
        cwd=ROOT,
        env={**environment, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": path} if path else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def last_words(process: subprocess.Popen[str], timeout: float = 180) -> str:
    """What it says until it ends; what does not end in time is ended with all that it started."""
    try:
        return process.communicate(timeout=timeout)[0]
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)


def finished(process: subprocess.Popen[str]) -> str:
    said = last_words(process)
    assert process.returncode == 0, said
    return said


def numbers(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted(
        (row["method"], row["seed"], row["trial"], row["settings"], row["mse"], row["status"]) for row in rows
    )


def here(*arguments: str, sweep: bool = False) -> None:
    """The same command line in this process."""
    assert main([*(["-m"] if sweep else []), *CELL, *arguments], conf=ROOT / "conf") == 0


def test_a_sweep_has_the_same_rows_on_processes_of_torchrun_as_on_our_own(tmp_path: Path) -> None:
    cells = ["trials=1", "seed=0,1", "method.pwan.steps=3", "trainer=ddp", "trainer.devices=2"]
    said = finished(command(*cells, f"output={tmp_path / 'theirs'}", sweep=True))
    assert said.count("pwan: 1 trials run") == 2  # rank 0 alone speaks
    here(*cells, f"output={tmp_path / 'ours'}", sweep=True)
    rows = read_rows(tmp_path / "theirs")
    assert numbers(rows) == numbers(read_rows(tmp_path / "ours")) and len(rows) == 4
    assert {row["device"] for row in rows if row["method"] == "pwan"} == {"cpu cpu"}


def test_other_trainers_deal_trials_out_and_rows_stay_the_same(tmp_path: Path) -> None:
    finished(command("method.pwan.steps=3", f"output={tmp_path / 'two'}"))
    here("method.pwan.steps=3", "workers=1", f"output={tmp_path / 'one'}")
    rows = read_rows(tmp_path / "two")
    assert numbers(rows) == numbers(read_rows(tmp_path / "one")) and {row["status"] for row in rows} == {"ok"}


def test_another_number_of_devices_is_told(tmp_path: Path) -> None:
    process = command("method.pwan.steps=3", "trainer=ddp", "trainer.devices=3", f"output={tmp_path}")
    said = last_words(process)
    assert process.returncode != 0 and "exitcode  : 2" in said
    assert "error: torchrun started 2 processes, but trainer.devices is 3; make them equal" in said
    assert read_rows(tmp_path) == []


def test_a_trial_that_fails_on_a_rank_is_one_failed_row(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, datetime\n"
        "if 'RANK' in os.environ:\n"
        "    import pwan.lightning.processes as processes\n"
        "    processes.TIMEOUT = datetime.timedelta(seconds=15)\n"  # what a rank that gave up leaves the other one to
        "if os.environ.get('RANK') == '1':\n"
        "    import pwan.lightning.module as module\n"
        "    real, calls = module._register_on, []\n"
        "    def part(*arguments):\n"
        "        calls.append(1)\n"
        "        if len(calls) == 1:\n"
        "            raise MemoryError('of rank 1')\n"
        "        return real(*arguments)\n"
        "    module._register_on = part\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    said = finished(command("method.pwan.steps=3", "trainer=ddp", f"output={tmp_path / 'out'}", path=paths))
    assert "rank 1: MemoryError: of rank 1" in said
    rows = [row for row in read_rows(tmp_path / "out") if row["method"] == "pwan"]
    assert [(row["trial"], row["status"]) for row in rows] == [(0, "failed"), (1, "ok")]


def test_a_rank_that_is_killed_ends_all(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\n"
        "if os.environ.get('RANK') == '1':\n"
        "    from pwan.registration.solver import Solver\n"
        "    real = Solver.step\n"
        "    def step(self, *rest):\n"
        "        if self.steps_done == 5:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return real(self, *rest)\n"
        "    Solver.step = step\n"
    )
    arguments = ["method=[pwan]", "method.pwan.steps=100000", "trainer=ddp", f"output={tmp_path / 'out'}"]
    process = command(*arguments, path=os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    said = last_words(process)
    assert process.returncode != 0 and "SIGKILL" in said


def test_no_crew_without_torchrun_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert assemble() is None
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert assemble() is None
