"""Processes that share a registration, started and joined in a group by Lightning.

Where nobody has started them, Lightning's launcher spawns them beside this process, which keeps what the user holds (an
observer, rows, the cells of a sweep) and is no rank itself. Lightning's other launcher would run the command line once
more for each rank, the whole sweep with it, and where a rank dies it ends this process with SIGKILL, without a word.

Where torchrun or Slurm's srun has started them, rank 0 does the work of the command line and the others follow when it
calls them. It may do other things for a long time between two calls, so the others wait at a store rather than in a
group, whose waits time out. Each call has a group of its own, since a rank that fails leaves its group broken.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
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
from lightning_fabric.plugins.environments import (
    ClusterEnvironment,
    LightningEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from lightning_fabric.plugins.environments.lightning import find_free_network_port
from lightning_fabric.strategies import DDPStrategy
from lightning_fabric.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from pwan.devices.ranks import Ranks
from pwan.devices.threads import threads
from pwan.problem import Observer, Progress

TIMEOUT = timedelta(seconds=45)  # how long a rank waits for another one; the death of one is usually noticed at once
START_METHODS: dict[str, Any] = {"auto": "forkserver", "ddp_spawn": "spawn"}
GUARD = "does so below `if __name__ == '__main__':`, since each rank reads it too"
POLL_SECONDS = 0.05  # between two looks at what others do; chosen by eye
# variables that tell Lightning and torch of ranks
_TOLD = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK", "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE")

crew: Crew | None = None  # whom torchrun or srun has started beside this process of a command line
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
        ValueError: what the work refuses, or several machines where nobody has started processes.
        RuntimeError: a rank failed or died; the others are ended.
    """
    if crew is not None and len(devices) > 1:
        return crew.call(work, devices, arguments, num_nodes, observer)
    check_size(len(devices) // num_nodes, num_nodes)
    if current_process().daemon:
        raise ValueError(f"{len(devices)} devices cannot be used by a process of a pool; take workers=1")
    ours, theirs = Pipe()
    with tempfile.TemporaryDirectory(prefix="pwan-ranks-") as name, _unaware(), ThreadPoolExecutor(1) as pool:
        folder, before = Path(name), active_children()
        torch.save((work, arguments), folder / "work")
        rank = _Rank(folder, None if observer is None else theirs, dict(os.environ))
        running = pool.submit(_fabric(devices, start_method=START_METHODS[strategy]).launch, rank)
        try:
            while not running.done():
                _serve(ours, observer, running)
            running.result()
        except (ProcessRaisedException, ProcessExitedException) as error:
            hint = "" if (folder / "begun").exists() else "; a script that takes several devices " + GUARD
            raise RuntimeError(f"rank {error.error_index} of {len(devices)} failed: {error}{hint}") from error
        finally:
            _end(before, running)
        result = torch.load(folder / "result", map_location="cpu", weights_only=False)
    if isinstance(result, ValueError):
        raise result
    return result


def started() -> bool:
    """Whether the ranks of a registration are processes that live already, this one among them."""
    return dist.is_initialized() or (crew is None and _environment() is not None)


def plugins() -> list[ClusterEnvironment]:
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
class Crew:
    """The processes that torchrun or srun has started, as one of them sees it.

    Attributes:
        store: where the processes find each other.
        rank: of this process, from 0.
        size: how many processes there are.
        starter: who started them.
        calls: how often rank 0 has called so far.
    """

    store: Any
    rank: int
    size: int
    starter: str
    calls: int = 0

    def call(
        self,
        work: Callable[..., Any],
        devices: Sequence[str],
        arguments: tuple[Any, ...],
        num_nodes: int,
        observer: Observer | None,
    ) -> Any:
        """As rank 0 do the work, while the others do the same on their devices. For the arguments see :func:`launch`.

        Raises:
            ValueError: the processes do not run the same torch.
        """
        versions = [self.store.get(f"pwan/torch/{rank}").decode() for rank in range(self.size)]
        if len(set(versions)) > 1:
            raise ValueError(f"the ranks run different versions of torch, {', '.join(versions)}; install one on all")
        how = [list(devices), num_nodes, find_free_network_port()]
        self.store.set(self._key(), json.dumps(how))
        return self._together(how, (work, arguments), observer)

    def follow(self) -> None:
        """Do what rank 0 calls for until nothing is left to do."""
        while how := self._next():
            try:
                self._together(how)
            except Exception as error:  # rank 0 meets it too, or the broken group, and has one failed trial
                if not isinstance(error, ValueError):  # which all refuse alike, and rank 0 says why
                    print(f"rank {self.rank}: {type(error).__name__}: {error}", file=sys.stderr)

    def dismiss(self) -> None:
        """As rank 0, tell the others that nothing is left to do."""
        with suppress(RuntimeError):  # they may be gone already
            self.store.set(self._key(), "null")

    def _together(self, how: list[Any], given: Any = None, observer: Observer | None = None) -> Any:
        devices, num_nodes, port = how
        self.calls += 1
        with threads(None), _variables(MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="False"):
            return _fabric(devices, num_nodes).launch(_work, given, observer)  # type: ignore[arg-type]

    def _next(self) -> Any:
        while not self.store.check([self._key()]):
            time.sleep(POLL_SECONDS)
        return json.loads(self.store.get(self._key()))

    def _key(self) -> str:
        return f"pwan/{self.calls}"


def assemble() -> Crew | None:
    """The crew that this process belongs to, or None where it was started alone."""
    environment = _environment()
    if environment is None or environment.world_size() == 1:
        return None
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = environment.main_address, str(environment.main_port)
    store, rank, size = next(dist.rendezvous("env://", environment.global_rank(), environment.world_size()))
    store.set(f"pwan/torch/{rank}", torch.__version__)
    return Crew(store, rank, size, "torchrun" if isinstance(environment, TorchElasticEnvironment) else "srun")


@contextmanager
def joined(fabric: Fabric) -> Iterator[Ranks]:
    """This process in the group that Lightning has formed, with one thread on the CPU.

    The group's threads end with the last reference to it. A thread that still holds a tensor when the interpreter
    ends aborts the process.
    """
    ranks = Ranks(dist.group.WORLD if fabric.world_size > 1 else None)
    try:
        with threads(1):
            yield ranks
    finally:
        ranks.leave()
        dist.destroy_process_group()


@contextmanager
def quiet() -> Iterator[None]:
    """Without what Lightning tells of itself; its warnings stay."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _fabric(devices: Sequence[str], num_nodes: int = 1, start_method: Any = "popen") -> Fabric:
    """Lightning's view of the ranks: those that live already ("popen"), or those that it is to start."""
    here = [torch.device(name) for name in devices[: len(devices) // num_nodes]]
    return Fabric(
        accelerator=here[0].type,
        devices=len(here) if here[0].type == "cpu" else [device.index or 0 for device in here],
        num_nodes=num_nodes,
        strategy=_Strategy(start_method=start_method, timeout=TIMEOUT),
        plugins=None if start_method == "popen" else [LightningEnvironment()],
    )


class _Launcher(_MultiProcessingLauncher):
    """Works in a notebook too: neither a spawned process nor a server that forks knows of the session."""

    is_interactive_compatible = True


class _Strategy(DDPStrategy):
    """Forms the group without a word, and without a further wrapping of what tells of errors."""

    def _configure_launcher(self) -> None:
        super()._configure_launcher()
        if self._start_method != "popen":
            self._launcher = _Launcher(self, start_method=self._start_method)

    def setup_environment(self) -> None:
        hook = sys.excepthook
        with quiet():
            super().setup_environment()
        sys.excepthook = hook


def _work(fabric: Fabric, given: Any, observer: Observer | None = None) -> Any:
    """The part of one rank; what it is, ``given`` says on rank 0."""
    with joined(fabric) as ranks:
        work, arguments = fabric.broadcast(given)
        more = {} if observer is None else {"observer": observer}
        result = work(ranks, str(fabric.device), *arguments, **more)
        fabric.barrier()  # none leaves before all are done
        return result


@dataclass
class _Rank:
    """The life of a rank that was started here.

    Attributes:
        folder: with the work, and for the result.
        line: to who observes rank 0, if anybody.
        variables: of the environment; a server that forks has those of its own start.
    """

    folder: Path
    line: Connection | None
    variables: dict[str, str]

    def __call__(self, fabric: Fabric) -> None:
        global spawned
        spawned = True
        os.environ.update(self.variables)
        (self.folder / "begun").touch()
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # comes by Ctrl-C to all, and where the process that waits has died
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        first = fabric.global_rank == 0
        given = torch.load(self.folder / "work", map_location="cpu", weights_only=False) if first else None
        try:
            result = _work(fabric, given, _Far(self.line) if first and self.line is not None else None)
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
def _variables(**more: str) -> Iterator[None]:
    """More variables of the environment; what Lightning leaves there would tell it next time that others have started
    the processes.
    """
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _unaware() -> Iterator[None]:
    """An environment for ranks to be started here, which tells nothing of other ones."""
    own = get_start_method(allow_none=True)
    paths = os.pathsep.join(filter(None, sys.path))  # for what a server loads
    with _variables(OMP_NUM_THREADS="1", PYTHONPATH=paths):
        for name in _TOLD:
            os.environ.pop(name, None)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all are on this machine, whatever its name resolves to
        set_forkserver_preload(["pwan.lightning.module"])
        if own not in (None, *get_all_start_methods()):  # joblib's workers have one that their children do not know
            set_start_method("spawn", force=True)
        try:
            yield
        finally:
            set_start_method(own, force=True)


def _environment() -> ClusterEnvironment | None:
    """Who has started this process beside others; None if nobody has."""
    if spawned:
        return LightningEnvironment()
    if TorchElasticEnvironment.detect():
        return TorchElasticEnvironment()
    if "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        return SLURMEnvironment(auto_requeue=False)
    return LightningEnvironment() if "LOCAL_RANK" in os.environ else None
