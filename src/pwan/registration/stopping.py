"""When a problem has come to rest: by the mean of its iterates of a window its points are where the window before had
them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwan.deformation.transform import Transform
from pwan.devices.ranks import Ranks

WINDOW = 10  # iterates of a mean
STATE = ("window", "stopped_at", "stopped_answer")  # beside the points


class Stopping:
    """The stopping rule of B problems and what it has found so far.

    Args:
        tolerance: root mean square displacement of the points from window to window below which a problem stops, in
            normalised units; 0: none ever stops.
        transform: whose parameters are the iterates, of this rank's points.
        ranks: the processes that share the points.
        count: source points of all ranks together.

    Attributes:
        stopped_at: (B,) the step after which each problem stopped; 0: it still runs.
        stopped_answer: (B, P, D) the parameters where it stopped: the mean of its last window.
    """

    def __init__(self, tolerance: float, transform: Transform, ranks: Ranks, count: int) -> None:
        self.tolerance, self.transform, self.ranks, self.count = tolerance, transform, ranks, count
        self.window = torch.zeros_like(transform.parameters)  # the mean of the iterates so far
        self.window_points = torch.full_like(transform.source, torch.inf)  # (B, n, D) of the window before
        self.stopped_at = torch.zeros(len(self.window), dtype=torch.int64, device=self.window.device)
        self.stopped_answer = torch.zeros_like(self.window)

    def observe(self, step: int, *, moving: bool) -> None:
        """Take in the iterate of the step after the one before.

        Args:
            step: its number.
            moving: whether the answer is still meant to move; then none stops.
        """
        if not self.tolerance:
            return
        self.window += self.transform.parameters / WINDOW
        if step % WINDOW:
            return
        if not moving:
            points = self.transform.points(self.window)  # (B, n, D)
            share = points.shape[1] / self.count
            (squares,) = self.ranks.sum((points - self.window_points).square().sum(-1).mean(-1) * share)
            stops = (squares.sqrt() < self.tolerance) & (self.stopped_at == 0)
            self.stopped_at[stops] = step
            self.stopped_answer[stops] = self.window[stops]
            self.window_points = points
        self.window.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that :meth:`observe` changes, of the points of all ranks, which must ask together."""
        points = self.window_points
        of_all = points.new_zeros(len(points), self.count, points.shape[2])
        of_all[:, self.ranks.slice(self.count)] = points
        (of_all,) = self.ranks.sum(of_all)
        return {**{name: getattr(self, name).clone() for name in STATE}, "window_points": of_all}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` gave, on however many ranks; other entries are passed over."""
        for name in STATE:
            getattr(self, name).copy_(state[name])
        self.window_points.copy_(state["window_points"][:, self.ranks.slice(self.count)])
