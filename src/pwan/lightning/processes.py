"""A registration in several processes: those that torchrun or srun has started, or else such as Lightning starts.

Lightning's launcher starts them beside this process, which keeps what the user holds (an observer, rows, the cells of a
sweep) and is no rank itself. Lightning's other launcher would run the command line once more for each rank, the whole
sweep with it, and where a rank dies it ends this process with SIGKILL, without a word.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import (
    Pipe,
    active_children,
    current_process,
    get_all_start_methods,
    get_start_method,
    set_forkserver_preload,
    set_start_method,
)
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from pwan.lightning.crew import Crew
from pwan.lightning.group import environment, fabric_of, take_part, variables
from pwan.problem import Observer, Progress

START_METHODS = {"auto": "forkserver", "ddp_spawn": "spawn"}
POLL_SECONDS = 0.05  # between two looks at what the ranks do; chosen by eye
# variables that tell Lightning and torch of ranks
TOLD = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE")

crew: Crew | None = None  # to which this process of a command line belongs
spawned = False  # whether this process is a rank that :func:`launch` has started


def launch(
    work: Callable[..., Any],
    devices: Sequence[str],
    *arguments: Any,
    num_nodes: int = 1,
    strategy: str = "auto",
    observer: Observer | None = None,
) -> Any:
    """Run ``work(ranks, device, *arguments)`` in a process for each device, and give back what rank 0's returns.

    Args:
        work: a function of a module, since it is found by its name.
        devices: of all ranks: "cpu" for a rank on the CPU with one thread, or "cuda:0" and the like.
        arguments: what can be pickled.
        num_nodes: machines, each of which has the same number of ranks.
        strategy: how Lightning starts processes here: "ddp_spawn", each afresh; "auto" forks a server that has loaded
            all, since loading Lightning takes seconds (2 ranks on 2 busy cores: 30 s spawned, 1 s from the second
            launch on).
        observer: given to rank 0's work as ``observer``; it is called in this process.

    Raises:
        ValueError: what the work refuses, or not as many processes as devices where others start them.
        RuntimeError: a rank failed or died; the others are ended.
    """
    check_size(len(devices) // num_nodes, num_nodes)
    if crew is not None and len(devices) > 1:
        return crew.call(work, devices, arguments, num_nodes, observer)
    if current_process().daemon:
        raise ValueError(f"{len(devices)} devices cannot be used by a process of a pool; take workers=1")
    if strategy not in START_METHODS:
        raise ValueError(f"strategy must be {' or '.join(START_METHODS)}, got {strategy!r}; the points are dealt out")
    ours, theirs = Pipe()
    with tempfile.TemporaryDirectory(prefix="pwan-ranks-") as name, _unaware(), ThreadPoolExecutor(1) as pool:
        folder, before = Path(name), active_children()
        torch.save((work, arguments), folder / "work")
        fabric = fabric_of(devices, start_method=START_METHODS[strategy])
        running = pool.submit(fabric.launch, _Rank(folder, None if observer is None else theirs))
        try:
            while not running.done():
                _serve(ours, observer, running)
            running.result()
        except (ProcessRaisedException, ProcessExitedException) as error:
            raise RuntimeError(
                f"rank {error.error_index} of {len(devices)} failed: {error}"
                + (
                    ""
                    if (folder / "begun").exists()
                    else "; is what the script does below `if __name__ == '__main__':`?"
                )
            ) from error
        finally:
            _end(before, running)
        result = torch.load(folder / "result", map_location="cpu", weights_only=False)
    if isinstance(result, ValueError):
        raise result
    return result


def started() -> bool:
    """Whether the ranks of a registration are processes that live already, this one among them."""
    return dist.is_initialized() or (crew is None and environment() is not None)


def plugins() -> list[LightningEnvironment]:
    """Who started the ranks, where Lightning must not guess it: a rank of ours may live inside a job of Slurm."""
    return [LightningEnvironment()] if spawned else []


def check_size(devices: int, num_nodes: int) -> None:
    """Refuse other numbers than those of the crew.

    Raises:
        ValueError: there are more or fewer processes than devices on all machines together, or none on the others.
    """
    if crew is None and num_nodes > 1:
        raise ValueError(
            f"num_nodes={num_nodes} needs processes that torchrun or srun has started on each machine, but this one "
            "was started alone; docs/many_devices.md has the commands"
        )
    if crew is not None and devices * num_nodes not in (1, crew.size):
        nodes = f" and trainer.num_nodes is {num_nodes}" if num_nodes > 1 else ""
        raise ValueError(
            f"{crew.starter} started {crew.size} processes, but trainer.devices is {devices}{nodes}; make them equal"
        )


@dataclass
class _Rank:
    """The life of a rank that is started here.

    Attributes:
        folder: with the work, and for the result.
        line: to who observes rank 0, if anybody.
    """

    folder: Path
    line: Connection | None

    def __call__(self, fabric: Fabric) -> None:
        global spawned
        spawned = True
        (self.folder / "begun").touch()
        # comes by Ctrl-C to all, and where the process that waits has died
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        first = fabric.global_rank == 0
        given = torch.load(self.folder / "work", map_location="cpu", weights_only=False) if first else None
        try:
            result = take_part(fabric, given, _Far(self.line) if first and self.line is not None else None)
        except ValueError as error:  # which all refuse alike
            result = error
        if first:
            torch.save(result, self.folder / "result")


class _Far:
    """An observer in another process, at the other end of the line."""

    def __init__(self, line: Connection) -> None:
        self.line = line

    def __call__(self, progress: Progress) -> None:
        self.line.send((progress.step, progress.steps, progress.before))
        while self.line.recv():  # it asks where the points are
            self.line.send(progress.transformed().numpy())


def _serve(line: Connection, observer: Observer | None, running: Future[Any]) -> None:
    """Wait a moment for a word of :class:`_Far`, and call the observer then."""
    if not line.poll(POLL_SECONDS):
        return
    step, steps, before = line.recv()

    def transformed() -> torch.Tensor:
        line.send(True)
        while not line.poll(POLL_SECONDS):
            if running.done():
                raise RuntimeError("rank 0 has ended, so that nobody knows where the points are")
        return torch.from_numpy(line.recv())

    assert observer is not None
    observer(Progress(step, steps, transformed, before))
    line.send(False)


def _end(before: list[Any], running: Future[Any]) -> None:
    """End the ranks of a launch that is not to go on, also those that are still being started."""
    while not running.done():
        for child in active_children():
            if child not in before:
                child.kill()
        time.sleep(POLL_SECONDS)


@contextmanager
def _unaware() -> Iterator[None]:
    """An environment for ranks to be started here, which tells nothing of other ones."""
    own = get_start_method(allow_none=True)
    paths = os.pathsep.join(filter(None, sys.path))  # for what a server loads
    with variables(OMP_NUM_THREADS="1", PYTHONPATH=paths):
        for name in TOLD:
            os.environ.pop(name, None)
        set_forkserver_preload(["pwan.lightning.module"])
        if own not in (None, *get_all_start_methods()):  # joblib's workers have one that their children do not know
            set_start_method("spawn", force=True)
        try:
            yield
        finally:
            set_start_method(own, force=True)
