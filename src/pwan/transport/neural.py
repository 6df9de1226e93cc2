"""The Kantorovich-Rubinstein form of partial transport, maximised by a potential network (paper, Theorems 1 and 2)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pwan.randomness import numpy_generator
from pwan.transport import TransportProblem, TransportResult
from pwan.transport.potential import Architecture, PotentialNetwork


@dataclass(frozen=True)
class NeuralSettings:
    """Options of the neural solver.

    Attributes:
        seed: of the network and of the segment points.
        updates: network updates by Adam.
        step_size: of the first update; it falls along a cosine to ``final_step_size`` times itself.
        features, frequency, widths: of the network, see ``potential.Architecture``.
        kappa: strength of the gradient penalty kappa * mean(max(|grad f| - 1, 0)^2), taken in coordinates of unit RMS
            radius and for a carried mass of 1. The gradient norm exceeds 1 by about 1/kappa, and so does the value.
        segment_points: random points of segments between the two sets that each update's penalty sees beside the sets.
        certificate_points: random points of such segments at which the final gradient norm is measured.
        device: of the network.
    """

    seed: int = 0
    updates: int = 6000
    step_size: float = 2e-3
    final_step_size: float = 0.005
    features: int = 64
    frequency: float = 2.0
    widths: tuple[int, ...] = (128, 128)
    kappa: float = 1000.0
    segment_points: int = 256
    certificate_points: int = 20_000
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("updates", "segment_points", "certificate_points"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("step_size", "kappa"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 < self.final_step_size <= 1:
            raise ValueError(f"final_step_size must be above 0 and at most 1, got {self.final_step_size}")
