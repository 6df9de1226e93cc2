"""Settings of the task ``dm_against_pdm``."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """Which problem of the cell.

    Attributes:
        trial: its number, from 0. The methods are those of the list ``method``, a picture each.
    """

    trial: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, at_least_zero=("trial",))
