"""Settings of the task ``dashboard``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import ACCURACY_SHAPES

FIGURES = tuple(
    f"{kind}_{shape}" for kind in ("noise", "partial") for shape in ACCURACY_SHAPES
)  # the experiments behind them


@dataclass(frozen=True)
class Settings:
    """Where the workspace goes and what it shows.

    Attributes:
        entity: the user or team in W&B; that of the logger where it is null.
        project: in W&B; that of the logger where it is null.
        experiments: whose runs are shown, those of the two figures unless others are named; all for an empty list.
            W&B draws at most 100 runs: with many methods name the experiments of one figure.
        figures: a folder with the figures that ``task=report`` drew, such as outputs/report_figures: those of accuracy
            are logged as a run of their own, and the workspace opens with them. None for none.
        file: write the workspace's specification, what W&B would be sent, to this file (JSON; relative to where the
            command is called) and stay offline.
    """

    entity: str | None = None
    project: str | None = None
    experiments: tuple[str, ...] = FIGURES
    figures: str | None = None
    file: str | None = None
