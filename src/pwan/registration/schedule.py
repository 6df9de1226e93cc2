"""What changes in a registration by the number of its steps alone: stages, the rate, and the thresholds in force."""

from __future__ import annotations

import torch
from torch import Tensor

from pwan.registration.settings import PwanSettings


class Schedule:
    """Where a registration is on its way.

    Attributes:
        done: steps taken.
        total: steps of all stages.
        distance: (B,) the distance type's threshold h in force, annealed to its value; None for other types. It keeps
            its tensor from step to step.
        reach: (B,) of the mass type, infinite in the first stage (see ``PwanSettings.reach``); None for off. It keeps
            its tensor too.
    """

    def __init__(self, settings: PwanSettings, distance: Tensor | None, reach: Tensor | None) -> None:
        """distance and reach, (B,) each: the values they come to."""
        assert settings.steps is not None and settings.stages is not None and settings.rate is not None
        self.first, self.length = settings.steps, settings.stage_steps
        self.total = self.first + (settings.stages * self.length if self.first else 0)
        self.first_rate, self.distance_start = settings.rate, settings.distance_start
        self.stiffness_start, self.last_stiffness = settings.stiffness_start, settings.stiffness
        self._distance, self._reach = distance, reach
        self.distance = None if distance is None else distance.clone()
        self.reach = None if reach is None else reach.clone()
        self.move_to(0)

    def move_to(self, done: int) -> None:
        """So many steps are taken."""
        self.done = done
        if self.distance is not None and self._distance is not None:
            start = self._distance.clamp(min=self.distance_start)
            self.distance.copy_(start * (self._distance / start) ** self.annealed())
        if self.reach is not None and self._reach is not None:
            self.reach.copy_(self._reach).add_(torch.inf if self.stage()[0] == 0 else 0.0)

    def stage(self) -> tuple[int, int, int]:
        """Number of the stage that the next step belongs to, the step's number within it, and its length."""
        if self.done < self.first:
            return 0, self.done, self.first
        later = self.done - self.first
        return 1 + later // self.length, later % self.length, self.length

    def rate(self) -> float:
        """Of the transform's optimiser: halved from stage to stage."""
        return self.first_rate * 0.5 ** self.stage()[0]

    def stiffness(self) -> float:
        """Of the rigid energy, from its start to its value at the end of the first stage."""
        done = min(1.0, self.done / self.first) if self.first else 1.0
        return self.stiffness_start * (self.last_stiffness / self.stiffness_start) ** done

    def annealed(self) -> float:
        """How far h is on its way, from 0 to 1 halfway through the first stage."""
        return min(1.0, 2.0 * self.done / self.first) if self.first else 1.0
