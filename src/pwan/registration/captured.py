"""A step as one recorded graph of the GPU: a small step is hundreds of kernels, whose launches take longer than their
work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from pwan.devices.ranks import Place
from pwan.registration.settings import PwanSettings

Outcome = TypeVar("Outcome")


def may_capture(settings: PwanSettings, place: Place) -> bool:
    """Whether a step can be recorded: a graph can hold neither messages, nor matrix exponentials, nor an RMSprop whose
    rate changes."""
    on_gpu = torch.device(place.device).type == "cuda"
    return (
        on_gpu
        and place.ranks.size == 1
        and settings.transform != "rigid"
        and settings.optimiser == "adam"
        and settings.energy == "bending"
    )


class Captured(Generic[Outcome]):
    """A recorded piece of work, which reads and writes the same tensors each time."""

    def __init__(self) -> None:
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Callable[[], Outcome]) -> Outcome:
        """Do the work, which is recorded if it was not before; its outcome is in the same tensors each time."""
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.outcome = work()
            self.graph = graph
        self.graph.replay()
        return self.outcome

    def forget(self) -> None:
        """Record again at the next call, since the tensors are others now."""
        self.graph = None
