"""What the last run in a folder came to, and the order in which the folder's settings were run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pwan.bench.job import Outcome
from pwan.files import save_text

OUTCOMES, ORDER = "last_run.json", "last_settings.json"


def begin_run(folder: Path, settings: Sequence[str]) -> None:
    """Put these settings (their hashes) at the end of the order; what the run before came to is forgotten."""
    earlier = [key for key in settings_in_order(folder) if key not in settings]
    save_text(folder / ORDER, json.dumps([*earlier, *settings], indent=1))
    (folder / OUTCOMES).unlink(missing_ok=True)


def end_run(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Keep what became of each method."""
    save_text(folder / OUTCOMES, json.dumps([asdict(outcome) for outcome in outcomes], indent=1))


def read_outcomes(folder: Path) -> list[Outcome]:
    """What became of each method when the folder was last run; empty where that run was cut short."""
    path = folder / OUTCOMES
    return [Outcome(**outcome) for outcome in json.loads(path.read_text())] if path.exists() else []


def settings_in_order(folder: Path) -> list[str]:
    """The settings that were run in the folder, those of the last run at the end.

    A folder of before this was kept knows those of its last run alone, if that was not cut short.
    """
    path = folder / ORDER
    if path.exists():
        return list(json.loads(path.read_text()))
    return [outcome.settings for outcome in read_outcomes(folder)]
