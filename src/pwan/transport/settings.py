"""What a potential network looks like, and what the neural solver may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Architecture:
    """What the network looks like.

    Attributes:
        widths: sizes of the hidden layers.
        skip: the output of the second layer joins the last one's before the linear output (appendix, figure of the
            network; the released code's reading of it).
        features: number m of random Fourier features; the network then sees x, sin(x B) and cos(x B), with a random
            matrix B (D, m). 0: the network sees x alone, as in the paper.
        frequency: standard deviation of the normal distribution from which B is drawn, in radians for each unit of x.
        slope: of the leaky ReLU (0.2 in the released code, 0 for the ReLU of the paper's text).
        init: "torch" for torch's default for a linear layer (released code), "kaiming" for He's normal initialisation
            with a small output layer.
    """

    widths: tuple[int, ...] = (32, 64, 128, 64)
    skip: bool = True
    features: int = 0
    frequency: float = 1.0
    slope: float = 0.2
    init: Literal["torch", "kaiming"] = "torch"

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1 or self.features < 0 or self.frequency <= 0:
            raise ValueError(f"widths and frequency must be positive and features at least 0, got {self}")


@dataclass(frozen=True)
class NeuralSettings:
    """Options of the neural solver. Lengths below are in units of the RMS radius of both sets together.

    Attributes:
        seed: of the network and of the segment points.
        updates: network updates by Adam (0.9, 0.99).
        step_size: of the first update; it falls along a cosine.
        final_step_size: of the last update, as a share of ``step_size``.
        features: of the network, see :class:`Architecture`.
        frequency: of the network, see :class:`Architecture`.
        widths: of the network, see :class:`Architecture`.
        kappa: strength of the gradient penalty kappa * mean(max(|grad f| - 1, 0)^2) for a carried mass of 1. The
            gradient norms, and with them the value, exceed what is allowed by some 1/kappa.
        start_kappa: kappa of the first update; it grows geometrically.
        segment_points: random points of segments between the two sets, drawn anew for each update, that the penalty
            sees beside the points of both sets: half between any two points, a quarter between near neighbours, a
            quarter between the pairs whose slope was last found the largest.
        certificate_points: random points of such segments at which the final gradient norm is measured.
        certificate_pairs: up to so many pairs of a reference and a source point the lower bound is proved, in about
            50 s for 10^9; of more it looks at a sample of so many (see ``TransportResult.checked_pairs``).
        device: of the network, as torch names it.
    """

    seed: int = 0
    updates: int = 4000
    step_size: float = 4e-3
    final_step_size: float = 0.005
    features: int = 64
    frequency: float = 2.0
    widths: tuple[int, ...] = (128, 128)
    kappa: float = 1000.0
    start_kappa: float = 10.0
    segment_points: int = 256
    certificate_points: int = 20_000
    certificate_pairs: int = 1_000_000_000
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("updates", "segment_points", "certificate_points", "certificate_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("step_size", "kappa", "start_kappa"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 < self.final_step_size <= 1:
            raise ValueError(f"final_step_size must be above 0 and at most 1, got {self.final_step_size}")
        self.architecture()

    def architecture(self) -> Architecture:
        return Architecture(
            widths=self.widths, skip=False, features=self.features, frequency=self.frequency, init="kaiming"
        )
