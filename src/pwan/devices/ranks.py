"""The processes that share one registration, each with its part of the points; one process alone is the same thing.

What a step sends is sums and largest values of things whose size does not follow from the number of points. The
package's other rooms know only the object :class:`Ranks`; an object without a group stands for one process alone, whose
reductions give back what they are given, so that there is one code path.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from pwan.transport.objective import largest_share

DIGIT = 8  # bits of the potential that one round of the search for the threshold settles


class Ranks:
    """This process among those that share a registration.

    Args:
        group: of torch.distributed; None for a process alone.

    Attributes:
        rank: number of this process, from 0.
        size: how many processes there are.
        bytes_sent: payload of all reductions so far, in bytes, as this rank handed it over (what the backend makes of
            it on the wire depends on its algorithm; a ring sends it about twice).
        timed: whether to measure the time in reductions, waiting for the others included; see :meth:`seconds`.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank = 0 if group is None else dist.get_rank(group)
        self.size = 1 if group is None else dist.get_world_size(group)
        self.bytes_sent = 0
        self.timed = False
        self._marks: list[tuple[Any, Any]] = []

    def leave(self) -> None:
        """Let go of the group. A reduction after it raises RuntimeError.

        The group's threads end with the last reference to it. A thread that still holds a tensor when the interpreter
        ends aborts the process.
        """
        self.group = None

    def slice(self, count: int) -> slice:
        """Which of ``count`` points are this rank's: adjacent ones, as many as any other rank has or one less.

        Raises:
            ValueError: fewer points than ranks.
        """
        if count < self.size:
            raise ValueError(f"{count} points cannot be dealt out over {self.size} ranks; take fewer ranks")
        parts = self.parts(count)
        start = sum(parts[: self.rank])
        return slice(start, start + parts[self.rank])

    def parts(self, count: int) -> list[int]:
        """How many of ``count`` points each rank has."""
        return [count * (k + 1) // self.size - count * k // self.size for k in range(self.size)]

    def sum(self, *tensors: Tensor) -> list[Tensor]:
        """The sums over all ranks of tensors of one dtype and device, in one message."""
        return self._reduce(tensors, dist.ReduceOp.SUM)

    def largest(self, *tensors: Tensor) -> list[Tensor]:
        """The largest over all ranks of each number; infinity where a rank has NaN."""
        if self.size > 1:  # backends do not agree on the larger one of a number and NaN
            tensors = tuple(tensor.nan_to_num(torch.inf, torch.inf, -torch.inf) for tensor in tensors)
        return self._reduce(tensors, dist.ReduceOp.MAX)

    def of_first(self, tensor: Tensor) -> Tensor:
        """The tensor as rank 0 has it; all have the same shape."""
        if self.size == 1:
            return tensor
        tensor = tensor.contiguous()
        self._send(tensor, lambda: dist.broadcast(tensor, src=0, group=self.group))
        return tensor

    def largest_share(self, values: Tensor, mass: Tensor, weights: Tensor) -> Tensor:
        """:func:`pwan.transport.objective.largest_share` among the points of all ranks, for those of this one.

        The value at the threshold is found to its last bit, eight bits a round, by each rank's histogram of its
        weights, so the bytes sent do not depend on the number of points. Equal values are taken in the order of the
        points.

        Args:
            values: (B, n) of this rank's points.
            mass: (B,) of all points.
            weights: (B, n) of this rank's points.
        """
        if self.size == 1:
            return largest_share(values, mass, weights)
        keys, bits = _ascending_keys(-values), 8 * values.element_size()  # (B, n), smallest first
        left = mass.double()  # (B,) still to be taken
        at_threshold = torch.ones_like(keys, dtype=torch.bool)  # as far as the bits looked at say
        share = torch.zeros_like(weights)
        for shift in range(bits - DIGIT, -1, -DIGIT):
            digit = (keys >> shift) & (2**DIGIT - 1)  # (B, n)
            if shift == bits - DIGIT:
                digit ^= 2 ** (DIGIT - 1)  # the sign: negative numbers first
            own = torch.zeros(len(keys), 2**DIGIT, dtype=torch.float64, device=keys.device)
            own.scatter_add_(1, digit, weights.double() * at_threshold)
            each = own.new_zeros(self.size, *own.shape)
            each[self.rank] = own
            (each,) = self.sum(each)  # (ranks, B, 256)
            histogram = each.sum(0)
            upto = histogram.cumsum(1)  # (B, 256)
            left = left.minimum(upto[:, -1])
            edge = torch.searchsorted(upto, left[:, None]).clamp(max=2**DIGIT - 1)  # (B, 1)
            share = torch.where(at_threshold & (digit < edge), weights, share)
            at_threshold &= digit == edge
            left = left - (upto - histogram).gather(1, edge)[:, 0]
        ties = weights.double() * at_threshold  # (B, n)
        on_earlier_ranks = each[: self.rank].sum(0).gather(1, edge)  # (B, 1), by the last round
        before = on_earlier_ranks + ties.cumsum(1) - ties  # (B, n)
        taken = (left[:, None] - before).clamp(min=0.0).minimum(ties).to(share.dtype)
        return torch.where(at_threshold, taken, share)

    def seconds(self) -> float:
        """Seconds spent in reductions since the last call, where ``timed``; waiting for the other ranks counts."""
        total = 0.0
        for start, end in self._marks:
            if isinstance(start, float):
                total += end - start
            else:
                end.synchronize()
                total += start.elapsed_time(end) / 1000.0
        self._marks.clear()
        return total

    def _reduce(self, tensors: Sequence[Tensor], operation: Any) -> list[Tensor]:
        if self.size == 1:
            return list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._send(flat, lambda: dist.all_reduce(flat, op=operation, group=self.group))
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _send(self, payload: Tensor, send: Callable[[], Any]) -> None:
        if self.group is None:
            raise RuntimeError("this rank has left its group")
        self.bytes_sent += payload.numel() * payload.element_size()
        start = _mark(payload.device) if self.timed else None
        try:
            send()
        except RuntimeError as error:
            traceback.clear_frames(error.__traceback__)  # those of torch hold the group as long as the error lives
            raise
        if self.timed:
            self._marks.append((start, _mark(payload.device)))


@dataclass(frozen=True)
class Place:
    """Where and how the steps of a registration are computed.

    Attributes:
        ranks: this process among those that share the points.
        device: as torch names it; what comes out of a solver is on the CPU.
        dtype: of the steps. Sums over ranks round otherwise than those of one process, and sooner or later a point
            within rounding of a kink of the network or of the potential's bounds falls on its other side. In float32
            this comes after some ten steps, from where one and two ranks differ as two training seeds do; in float64
            they stay the same.
    """

    ranks: Ranks = field(default_factory=Ranks)
    device: str = "cpu"
    dtype: torch.dtype = torch.float32

    def own(self, of_all: Tensor) -> Tensor:
        """This rank's points of (B, n, ...), on the device."""
        return of_all[:, self.ranks.slice(of_all.shape[1])].to(self.device).contiguous()

    def as_on_first(self, tensor: Tensor) -> Tensor:
        """The tensor as rank 0 has it, on the device where it is given."""
        return self.ranks.of_first(tensor.to(self.device)).to(tensor.device)  # a group sends from the device alone


def _mark(device: torch.device) -> Any:
    """A point in time: seconds, or an event in the device's queue, since its work runs later than it is asked for."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _ascending_keys(values: Tensor) -> Tensor:
    """int64 numbers in the order of the floats (B, n): a float's bits are in order but for the sign."""
    kind, largest = (torch.int32, 2**31 - 1) if values.element_size() == 4 else (torch.int64, 2**63 - 1)
    bits = (values + 0.0).view(kind)  # -0 becomes 0: they are one value
    return torch.where(bits < 0, bits ^ largest, bits).to(torch.int64)


def devices_here(count: int, kind: Literal["auto", "gpu", "cpu"] = "auto", name: str = "kind") -> list[str]:
    """The names, as torch spells them, of ``count`` devices of this machine.

    "auto" takes GPUs where there are enough, else the CPU, once for each rank. The user calls the kind by ``name``.

    Raises:
        ValueError: GPUs are asked for and there are fewer.
    """
    found = torch.cuda.device_count()
    if kind == "gpu" and found < count:
        raise ValueError(f"{name}=gpu needs {count} GPUs, but there are {found}; take fewer devices, or {name}=cpu")
    gpus = kind == "gpu" or (kind == "auto" and found >= count)
    return [f"cuda:{k}" if gpus else "cpu" for k in range(count)]
