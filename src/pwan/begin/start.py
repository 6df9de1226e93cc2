"""The start: the similarity from which a registration begins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Start:
    """A similarity: moved = scale * points @ rotation + translation.

    Attributes:
        scale: 1 unless a scale was asked for.
        rotation: (D, D), determinant 1.
        translation: (D,), input units.
        cost: how far apart the sets are from this start. The function that makes the start says what it measures, and
            in which unit.
        cost_given: the same from the sets as given.
        changed: whether this is anything but the identity.
        reason: in words.
        rival: how many times as much the best start that is turned otherwise (by more than 20 degrees) leaves; near 1
            or less where the shapes do not determine the turn. Infinite where no other was tried.
    """

    scale: float
    rotation: np.ndarray
    translation: np.ndarray
    cost: float
    cost_given: float
    changed: bool
    reason: str
    rival: float = math.inf

    @classmethod
    def kept_as_given(cls, dimension: int, cost: float, why: str) -> Start:
        """The identity."""
        return cls(1.0, np.eye(dimension), np.zeros(dimension), cost, cost, False, f"kept as given: {why}")

    def then(self, later: Start) -> Start:
        """This start and the later one after it, with the later one's costs and reason, and the lesser rival."""
        return replace(
            later,
            scale=self.scale * later.scale,
            rotation=self.rotation @ later.rotation,
            translation=later.scale * self.translation @ later.rotation + later.translation,
            rival=min(self.rival, later.rival),
        )

    def apply(self, points: Any) -> Any:
        """The points (N, D) moved; an array or a tensor, as given."""
        if isinstance(points, torch.Tensor):
            return self.scale * points @ points.new_tensor(self.rotation) + points.new_tensor(self.translation)
        return self.scale * np.asarray(points) @ self.rotation + self.translation
