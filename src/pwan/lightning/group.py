"""The group of processes that share a registration, formed by Lightning whoever has started them."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
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
from lightning_fabric.strategies import DDPStrategy
from lightning_fabric.strategies.launchers.multiprocessing import _MultiProcessingLauncher

from pwan.devices.ranks import Ranks
from pwan.devices.threads import threads
from pwan.problem import Observer

TIMEOUT = timedelta(seconds=45)  # how long a rank waits for another one; the death of one is usually noticed at once


class Strategy(DDPStrategy):
    """Forms the group without a word, and without a further wrapping of what tells of errors.

    Attributes:
        variables: of the environment of a rank that is started here; a server that forks has those of its own start.
    """

    variables: dict[str, str] | None = None

    def _configure_launcher(self) -> None:
        super()._configure_launcher()
        if self._start_method != "popen":
            self._launcher = _Launcher(self, start_method=self._start_method)

    def setup_environment(self) -> None:
        os.environ.update(self.variables or {})
        hook = sys.excepthook
        with quiet():
            super().setup_environment()
        sys.excepthook = hook


class _Launcher(_MultiProcessingLauncher):
    """Works in a notebook too: neither a spawned process nor a server that forks knows of the session."""

    is_interactive_compatible = True


def fabric_of(devices: Sequence[str], num_nodes: int = 1, start_method: Any = "popen") -> Fabric:
    """Lightning's view of the ranks: those that live already ("popen"), or those that it is to start.

    It leaves its mark in the environment, see :func:`variables`.

    Args:
        devices: of all ranks.
        num_nodes: machines.
        start_method: of processes, as multiprocessing names it.
    """
    if num_nodes == 1 and any(name == "lo" for _, name in socket.if_nameindex()):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all are on this machine, whatever its name resolves to
    strategy, here = Strategy(start_method=start_method, timeout=TIMEOUT), [*map(torch.device, devices)]
    here = here[: len(here) // num_nodes]
    started = start_method == "popen"
    strategy.variables = None if started else dict(os.environ)
    return Fabric(
        accelerator=here[0].type,
        devices=len(here) if here[0].type == "cpu" else [device.index or 0 for device in here],
        num_nodes=num_nodes,
        strategy=strategy,
        plugins=None if started else [LightningEnvironment()],
    )


def take_part(fabric: Fabric, given: Any, observer: Observer | None = None) -> Any:
    """The work of one rank; what it is, ``given`` says on rank 0: the function and its further arguments."""
    with joined(fabric) as ranks:
        work, arguments = fabric.broadcast(given)
        more = {} if observer is None else {"observer": observer}
        result = work(ranks, str(fabric.device), *arguments, **more)
        fabric.barrier()  # none leaves before all are done
        return result


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


@contextmanager
def variables(**more: str) -> Iterator[None]:
    """More variables of the environment; what Lightning leaves there would tell it next time that others have started
    the processes.
    """
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def environment() -> ClusterEnvironment | None:
    """Who has started this process beside others, as Lightning sees it; None if nobody has."""
    if TorchElasticEnvironment.detect():
        return TorchElasticEnvironment()
    if "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", 1)) > 1:
        return SLURMEnvironment(auto_requeue=False)
    return LightningEnvironment() if "LOCAL_RANK" in os.environ else None
