"""Settings of the task ``precision``: those of the neural solver, and how long the paper's own network learns."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.settings import check_ranges
from pwan.transport.settings import NeuralSettings


@dataclass(frozen=True)
class Settings(NeuralSettings):
    """Settings of the neural solver, and below them of the paper's network, which learns as that of ``pwan_paper``.

    Attributes:
        paper_steps: of u = 30 updates each; 0 leaves this network out.
        paper_seeds: how many such networks for each value, from ``seed`` on.
        paper_penalty_every: every how many updates its gradient penalty is taken; 0: on the first of a step only, as
            the released code registers.
    """

    paper_steps: int = 500
    paper_seeds: int = 3
    paper_penalty_every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self, positive=("paper_seeds",), at_least_zero=("paper_steps", "paper_penalty_every"))
