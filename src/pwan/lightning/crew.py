"""The processes that torchrun or Slurm's srun has started: rank 0 does the work of the command line, and the others
follow when it calls them.

It may do other things for a long time between two calls, so the others wait at a store rather than in a group, whose
waits time out. Each call has a group of its own, since a rank that fails leaves its group broken.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from lightning_fabric.plugins.environments.lightning import find_free_network_port

from pwan.devices.threads import threads
from pwan.lightning.group import environment, fabric_of, take_part, variables
from pwan.problem import Observer

POLL_SECONDS = 0.05  # between two looks at the store; chosen by eye


@dataclass
class Crew:
    """The processes, as one of them sees them.

    Attributes:
        store: where they find each other.
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
        """As rank 0 do the work, while the others do the same on their devices.

        For the arguments see :func:`pwan.lightning.processes.launch`.

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
        with threads(None), variables(MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="False"):
            return fabric_of(devices, num_nodes).launch(take_part, given, observer)  # type: ignore[arg-type]

    def _next(self) -> Any:
        while not self.store.check([self._key()]):
            time.sleep(POLL_SECONDS)
        return json.loads(self.store.get(self._key()))

    def _key(self) -> str:
        return f"pwan/{self.calls}"


def assemble() -> Crew | None:
    """The crew that this process belongs to, or None where it was started alone."""
    seen = environment()
    if seen is None or seen.world_size() == 1:
        return None
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = seen.main_address, str(seen.main_port)
    store, rank, size = next(dist.rendezvous("env://", seen.global_rank(), seen.world_size()))
    store.set(f"pwan/torch/{rank}", torch.__version__)
    return Crew(store, rank, size, "torchrun" if isinstance(seen, TorchElasticEnvironment) else "srun")
