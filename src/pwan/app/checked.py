"""A configuration that has been checked: what a task is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pwan.bench.cell import Cell, MethodEntry
from pwan.bench.settings import TrackingSettings, TrainerSettings


@dataclass(frozen=True)
class Checked:
    """The configuration as the tasks want it."""

    task: str
    cell: Cell
    entries: list[MethodEntry]
    trials: int
    workers: int | str
    retry_failed: bool
    tracking: TrackingSettings
    trainer: TrainerSettings
    options: Any  # the task's settings
    resolved: dict[str, Any]  # with every default spelled out; a benchmark adds its methods' settings
