"""Processes that torchrun started: rank 0 does the work of the command line, the others follow when it calls them.

Rank 0 may do other things for a long time between two registrations, so the others wait at torchrun's own store rather
than in a group, whose waits time out. Each registration has a group of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pwan.devices.ranks import Ranks, member

POLL_SECONDS = 0.05  # between two looks at the store; chosen by eye


@dataclass
class Crew:
    """The processes of one torchrun, as one of them sees it.

    Attributes:
        store: torchrun's own, where the processes find each other.
        rank: of this process, from 0.
        size: how many processes there are.
        calls: how often rank 0 has called so far.
    """

    store: Any
    rank: int
    size: int
    calls: int = 0

    @contextmanager
    def called(self, work: tuple[Any, ...], devices: Sequence[str]) -> Iterator[Ranks]:
        """This process as rank 0, while the others do the same work on their devices, one for each."""
        with tempfile.TemporaryDirectory(prefix="pwan-ranks-") as folder:
            torch.save((list(devices), work), Path(folder) / "work")
            self.store.set(self._key(), folder)
            with self._group(devices) as ranks:
                yield ranks

    def follow(self, do: Callable[..., Any]) -> None:
        """Do what rank 0 calls for, ``do(ranks, device, *work)``, until nothing is left to do."""
        while folder := self._call():
            devices, work = torch.load(Path(folder) / "work", map_location="cpu", weights_only=False)
            try:
                with self._group(devices) as ranks:
                    do(ranks, devices[self.rank], *work)
            except Exception as error:  # rank 0 meets it too, or the broken group, and has one failed trial
                if not isinstance(error, ValueError):  # which all refuse alike, and rank 0 says why
                    print(f"rank {self.rank}: {type(error).__name__}: {error}", file=sys.stderr)

    def dismiss(self) -> None:
        """As rank 0, tell the others that nothing is left to do."""
        with suppress(RuntimeError):  # they may be gone already
            self.store.set(self._key(), "")

    @contextmanager
    def _group(self, devices: Sequence[str]) -> Iterator[Ranks]:
        """This process in the group of this call, which none leaves before all are done."""
        meeting = dist.PrefixStore(f"{self._key()}/group", self.store)
        self.calls += 1
        with member(devices[self.rank], self.rank, self.size, meeting) as ranks:
            yield ranks
            ranks.sum(torch.zeros(1, dtype=torch.float32, device=devices[self.rank]))

    def _call(self) -> str:
        while not self.store.check([self._key()]):
            time.sleep(POLL_SECONDS)
        return self.store.get(self._key()).decode()

    def _key(self) -> str:
        return f"pwan/{self.calls}"


def crew(environment: Mapping[str, str] = os.environ) -> Crew | None:
    """The crew that this process belongs to, or None where torchrun did not start it or started it alone.

    Raises:
        ValueError: processes on several machines.
    """
    if "TORCHELASTIC_RUN_ID" not in environment or int(environment["WORLD_SIZE"]) == 1:
        return None
    if environment["LOCAL_WORLD_SIZE"] != environment["WORLD_SIZE"]:
        raise ValueError(
            f"torchrun started {environment['WORLD_SIZE']} processes, {environment['LOCAL_WORLD_SIZE']} of them on "
            "this machine; expected all on one machine (--nnodes 1)"
        )
    store, rank, size = next(dist.rendezvous("env://"))
    return Crew(store, rank, size)
