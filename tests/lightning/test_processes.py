"""The command line started by torchrun, or by Slurm's srun as far as its variables go, on one machine and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
import torch.distributed.run as torchrun
from lightning_fabric.plugins.environments.lightning import find_free_network_port

from pwan.app import main
from pwan.bench.rows import Row, read_rows
from pwan.lightning.crew import Crew, assemble
from pwan.lightning.group import fabric_of, variables
from tests import warm

ROOT = Path(__file__).parents[2]
RUN = ROOT / "run.py"
ALONE = ("--standalone", "--nproc-per-node", "2")
CELL = [
    *("name=crew", "shape=torus", "problem.points=40", "problem.rank=20", "method=[pwan,cpd]", "trials=2"),
    *("method.pwan.stages=0", "method.pwan.warmup=1", "logger=none", "options.pictures=[]"),
]


class Command(warm.Running):
    """The command line, under torchrun for more than one process; with more variables.

    Its ranks are forked too: torchrun runs the script in processes that it does not start afresh.

    Args:
        said: the file for what it says.
        script: in place of run.py, which it runs in the end.
    """

    def __init__(
        self,
        *arguments: str,
        said: Path,
        processes: int = 2,
        script: Path = RUN,
        launcher: Sequence[str] = (),
        **more: str,
    ) -> None:
        self._said = said
        start = [*(launcher or ALONE), "--run-path", "--start-method", "fork", str(script)]
        words = [*([torchrun.__file__, *start] if processes > 1 else [str(script)]), *CELL, *arguments]
        with said.open("w") as file:
            super().__init__(
                words, environment=environment(**more), folder=ROOT, stdout=file.fileno(), stderr=file.fileno()
            )

    def last_words(self) -> str:
        """What it says until it ends; what does not end in time is ended with all that it started."""
        self.wait(180)
        return self._said.read_text()

    def finished(self) -> str:
        said = self.last_words()
        assert self.returncode == 0, said
        return said


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def patched(tmp_path: Path, patch: str) -> Path:
    """A script that changes the package and then runs the command line."""
    script = tmp_path / "patched.py"
    script.write_text(f"{patch}import runpy\nrunpy.run_path({str(RUN)!r}, run_name='__main__')\n")
    return script


def numbers(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted(
        (row["method"], row["seed"], row["trial"], row["settings"], row["mse"], row["status"]) for row in rows
    )


def here(*arguments: str, sweep: bool = False) -> None:
    """The same command line in this process."""
    assert main([*(["-m"] if sweep else []), *CELL, *arguments], conf=ROOT / "conf") == 0


def test_a_sweep_has_the_same_rows_on_processes_of_torchrun_as_on_our_own(tmp_path: Path) -> None:
    cells = ["trials=1", "seed=0,1", "method.pwan.steps=3", "trainer=ddp", "trainer.devices=2"]
    start = [sys.executable, "-m", "torch.distributed.run", *ALONE, "run.py", "-m"]  # all processes are fresh here
    theirs = [*start, *CELL, *cells, f"output={tmp_path / 'theirs'}"]
    done = subprocess.run(theirs, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("pwan: 1 trials run") == 2  # rank 0 alone speaks
    here(*cells, f"output={tmp_path / 'ours'}", sweep=True)
    rows = read_rows(tmp_path / "theirs")
    assert numbers(rows) == numbers(read_rows(tmp_path / "ours")) and len(rows) == 4
    assert {row["device"] for row in rows if row["method"] == "pwan"} == {"cpu cpu"}


def test_other_trainers_deal_trials_out_and_rows_stay_the_same(tmp_path: Path) -> None:
    Command("method.pwan.steps=3", f"output={tmp_path / 'two'}", said=tmp_path / "said").finished()
    here("method.pwan.steps=3", "workers=1", f"output={tmp_path / 'one'}")
    rows = read_rows(tmp_path / "two")
    assert numbers(rows) == numbers(read_rows(tmp_path / "one")) and {row["status"] for row in rows} == {"ok"}


def test_another_number_of_devices_is_told(tmp_path: Path) -> None:
    arguments = ["method.pwan.steps=3", "trainer=ddp", "trainer.devices=3", f"output={tmp_path / 'out'}"]
    process = Command(*arguments, said=tmp_path / "said")
    said = process.last_words()
    assert process.returncode != 0 and "exitcode  : 2" in said
    assert "error: torchrun started 2 processes, but trainer.devices is 3; make them equal" in said
    assert read_rows(tmp_path / "out") == []


def test_a_trial_that_fails_on_a_rank_is_one_failed_row(tmp_path: Path) -> None:
    script = patched(
        tmp_path,
        "import os, datetime\n"
        "import pwan.lightning.group as group\n"
        "group.TIMEOUT = datetime.timedelta(seconds=15)\n"  # what a rank that gave up leaves the other one to
        "if os.environ['RANK'] == '1':\n"
        "    import pwan.lightning.module as module\n"
        "    real, calls = module._register_on, []\n"
        "    def part(*arguments):\n"
        "        calls.append(1)\n"
        "        if len(calls) == 1:\n"
        "            raise MemoryError('of rank 1')\n"
        "        return real(*arguments)\n"
        "    module._register_on = part\n",
    )
    arguments = ["method.pwan.steps=3", "trainer=ddp", "workers=1", f"output={tmp_path / 'out'}"]
    said = Command(*arguments, said=tmp_path / "said", script=script).finished()
    assert "rank 1: MemoryError: of rank 1" in said
    rows = [row for row in read_rows(tmp_path / "out") if row["method"] == "pwan"]
    assert [(row["trial"], row["status"]) for row in rows] == [(0, "failed"), (1, "ok")]


def test_a_rank_that_is_killed_ends_all(tmp_path: Path) -> None:
    script = patched(
        tmp_path,
        "import os, signal\n"
        "if os.environ['RANK'] == '1':\n"
        "    from pwan.registration.solver import Solver\n"
        "    real = Solver.step\n"
        "    def step(self, *rest):\n"
        "        if self.steps_done == 5:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return real(self, *rest)\n"
        "    Solver.step = step\n",
    )
    arguments = ["method=[pwan]", "method.pwan.steps=100000", "trainer=ddp", f"output={tmp_path / 'out'}"]
    process = Command(*arguments, said=tmp_path / "said", script=script)
    assert "SIGKILL" in process.last_words()
    assert process.returncode != 0


@pytest.mark.parametrize("starter", ["torchrun", "srun"])
def test_two_machines_have_the_points_of_one(starter: str, tmp_path: Path) -> None:
    """Both stand on this machine: two agents of torchrun, or two tasks with Slurm's variables."""
    cell = ["method=[pwan]", "trials=1", "method.pwan.steps=20", "trainer=lightning", "trainer.precision=64"]
    port = find_free_network_port()
    agent = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--local-addr", "127.0.0.1"]
    agent += ["--rdzv-id", "pwan", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    job = {"JOB_ID": "1", "STEP_ID": "0", "NTASKS": "2", "NTASKS_PER_NODE": "1", "NNODES": "2", "NODELIST": "127.0.0.1"}
    running = []
    for node in range(2):
        task = {f"SLURM_{name}": value for name, value in {**job, "PROCID": f"{node}", "NODEID": f"{node}"}.items()}
        how: dict[str, Any] = {"launcher": agent}
        if starter == "srun":
            how = {"processes": 1, "MASTER_PORT": f"{port}", "SLURM_LOCALID": "0", **task}
        arguments = [*cell, "trainer.num_nodes=2", f"output={tmp_path / 'two'}"]
        running.append(Command(*arguments, said=tmp_path / f"said{node}", **how, GLOO_SOCKET_IFNAME="lo"))
    said = [process.finished() for process in running]
    assert sorted("pwan: 1 trials run" in words for words in said) == [False, True]  # rank 0 alone speaks
    here(*cell, f"output={tmp_path / 'one'}")
    (two,), (one,) = read_rows(tmp_path / "two"), read_rows(tmp_path / "one")
    assert two["device"] == "cpu cpu" and abs(two["mse_unrefined"] - one["mse_unrefined"]) < 1e-12
    moved = [
        np.load(next((tmp_path / name).glob("points/*/0.npz")))["transformed_unrefined"] for name in ("one", "two")
    ]
    np.testing.assert_allclose(*moved, rtol=0, atol=1e-10)


def test_ranks_with_different_versions_of_torch_are_told() -> None:
    store = dist.HashStore()
    for rank, version in enumerate(["2.13.0", "2.12.1"]):
        store.set(f"pwan/torch/{rank}", version)
    with pytest.raises(ValueError, match=r"different versions of torch, 2\.13\.0, 2\.12\.1; install one on all"):
        Crew(store, 0, 2, "torchrun").call(print, ["cpu", "cpu"], (), 1, None)


def test_ranks_are_started_from_a_notebook_too() -> None:
    for method in ("forkserver", "spawn"):
        with variables():
            assert fabric_of(["cpu", "cpu"], start_method=method).strategy.launcher.is_interactive_compatible


def test_no_crew_without_torchrun_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert assemble() is None
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert assemble() is None
