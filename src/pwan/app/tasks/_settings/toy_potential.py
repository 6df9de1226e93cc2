"""Settings of the task ``toy_potential``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.transport.settings import NeuralSettings


@dataclass(frozen=True)
class Settings:
    """The two sets and the discrepancies.

    Attributes:
        reference: the positions of its points.
        source: the positions of its points.
        masses: a potential of L_M,m for each.
        distances: a potential of L_D,h for each.
        updates: of the network, see ``NeuralSettings``.
    """

    reference: tuple[float, ...] = (-3.0, -2.6, -2.2, -1.8, -1.4, -0.8, -0.4, 0.0, 9.0)
    source: tuple[float, ...] = (1.0, 1.4, 1.8, 3.4, 3.8, 4.2, 4.6)
    masses: tuple[float, ...] = (3.0,)
    distances: tuple[float, ...] = (2.0,)
    updates: int = 3000

    def __post_init__(self) -> None:
        if not (self.masses or self.distances):
            raise ValueError("masses and distances are both empty; give at least one mass or distance")
        NeuralSettings(updates=self.updates)
