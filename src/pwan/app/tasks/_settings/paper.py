"""Settings of the task ``paper``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Which experiments are run, and how far each time round.

    Attributes:
        experiments: one a line, in the order in which they are run: the name of a file in conf/experiment, and its own
            overrides, for example "noise_bunny method=[pwan_paper] trials=10".
        seconds: of one trial as they were measured, a mean over an experiment's cells, by experiment and method; under
            "other" of a method in any other experiment. Of a task without trials: of all of it.
        hours: what would take longer altogether, by these seconds, is left out and said; None for no limit.
        rounds: how many trials all experiments have before the first of them gets more.
        list: only say what would be run.
        report: write the page of ``task=report`` at the end.

    Raises:
        ValueError: a number that is out of its range, or none.
    """

    experiments: tuple[str, ...] = ()
    seconds: dict[str, Any] = field(default_factory=dict)
    hours: float | None = 6.0
    rounds: tuple[int, ...] = (2,)
    list: bool = False
    report: bool = True

    def __post_init__(self) -> None:
        check_ranges(self, positive=("hours", "rounds"))
        for name, given in self.seconds.items():
            for value in given.values() if isinstance(given, dict) else [given]:
                if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                    raise ValueError(f"seconds.{name} must hold positive numbers, got {value!r}")
