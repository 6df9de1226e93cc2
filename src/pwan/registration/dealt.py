"""A registration whose points are dealt out over devices of this machine; this process is rank 0 and starts the others,
unless torchrun has.

They are fresh interpreters rather than forks or spawns, so that a worker process or a script without a main guard may
start them too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from pwan.devices.ranks import Place, Ranks, member
from pwan.devices.torchrun import Crew
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.registration import pipeline
from pwan.registration.settings import PwanSettings

crew: Crew | None = None  # whom torchrun started beside this process
PATIENCE = 5.0  # seconds that a rank may take to end by itself once all is done, or once another one has failed


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    devices: Sequence[str],
    dtype: torch.dtype = torch.float32,
) -> RegistrationResult:
    """As :func:`pwan.registration.pipeline.register`, with the points dealt out over the devices.

    Args:
        devices: one for each rank, of :func:`pwan.devices.ranks.devices_here`; the first one is this process's.
        dtype: see :class:`Place`.

    Raises:
        ValueError: what every registration refuses, and a free displacement on several devices.
        RuntimeError: a rank failed or died; says what it left as its last words.
    """
    work = (problem, settings, list(seeds), dtype)
    with crew.called(work, devices) if crew and len(devices) > 1 else _following(work, devices) as ranks:
        place = Place(ranks, devices[0], dtype)
        return pipeline.register(problem, settings, seeds=seeds, observer=observer, place=place)


@contextmanager
def _following(work: tuple[Any, ...], devices: Sequence[str]) -> Iterator[Ranks]:
    """This process as rank 0, while the others do the same work on their devices."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pwan-ranks-")))
        torch.save(work, folder / "work")
        others: dict[int, subprocess.Popen[bytes]] = {}
        stack.callback(_end, others)
        paths = os.pathsep.join(filter(None, sys.path))
        for rank in range(1, len(devices)):
            command = f"from pwan.registration.dealt import _follow; _follow({str(folder)!r}, {list(devices)}, {rank})"
            with open(folder / f"words-{rank}", "wb") as words:
                others[rank] = subprocess.Popen(
                    [sys.executable, "-c", command],
                    env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=words,
                )
        try:
            with member(devices[0], 0, len(devices), folder / "meeting") as ranks:
                yield ranks
        except RuntimeError as error:  # of torch.distributed, when another rank has gone
            said = _last_words(others, folder)
            if not said:
                raise
            raise RuntimeError(f"{said} of {len(devices)}; this rank noticed: {error}") from error


def _follow(folder: str, devices: list[str], rank: int) -> None:
    """The life of another rank: the same registration, whose result rank 0 gives."""
    work = torch.load(Path(folder) / "work", map_location="cpu", weights_only=False)
    with member(devices[rank], rank, len(devices), Path(folder) / "meeting") as ranks:
        take_part(ranks, devices[rank], *work)


def take_part(
    ranks: Ranks,
    device: str,
    problem: RegistrationProblem,
    settings: PwanSettings,
    seeds: Sequence[int],
    dtype: torch.dtype,
) -> None:
    """The same registration as rank 0's, whose result is that one's to give."""
    pipeline.register(problem, settings, seeds=seeds, place=Place(ranks, device, dtype))


def _last_words(others: dict[int, subprocess.Popen[bytes]], folder: Path) -> str:
    """Which rank has failed, and with what; empty where all others live on."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and all(process.poll() is None for process in others.values()):
        time.sleep(0.05)
    failed = {k: f"rank {k} ended with exit code {p.returncode}" for k, p in others.items() if p.poll()}
    for k, ended in failed.items():
        lines = (folder / f"words-{k}").read_text(errors="replace").strip().splitlines()
        if lines:
            return f"{ended} ({lines[-1]})"
    return next(iter(failed.values()), "")


def _end(others: dict[int, subprocess.Popen[bytes]]) -> None:
    for process in others.values():
        try:
            process.wait(PATIENCE if sys.exc_info()[0] is None else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
