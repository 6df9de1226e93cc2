"""How far ``experiment=paper`` is: which trials are there already, which are missing, and how long these will take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from hydra import compose
from omegaconf import OmegaConf

import pwan
from pwan import methods, shapes
from pwan.app.config import cell_folder, check
from pwan.app.plan import BENCHMARK, Item, duration, lasting
from pwan.bench.cell import settings_hash
from pwan.bench.rows import Row, read_rows
from pwan.bench.summary import NAME as SUMMARY
from pwan.bench.trials import devices_of
from pwan.files import save_text
from pwan.problem import OK
from pwan.synthesis import make_problem

RECORD = "paper.json"  # tasks without rows that came to their end
_OF_THE_RESULT = ("task", "seed", "shape", "problem", "method", "options", "trainer")  # keys of config.yaml

Rows = Mapping[tuple[str, str], Mapping[int, Row]]  # by experiment and settings, and then by the trial


@dataclass(frozen=True)
class Part:
    """One method in one cell, or a task that is no benchmark.

    Attributes:
        item: that it belongs to.
        cell: its folder's name.
        method: its name, or the task's.
        settings: the hash of its rows.
        trials: that are wanted.
        seconds: of one, stated and not measured here.
    """

    item: Item
    cell: str
    method: str
    settings: str
    trials: int
    seconds: float


def parts_of(item: Item) -> list[Part]:
    """All parts of a line of the list. Hydra must be initialised.

    Raises:
        ValueError: a cell that cannot be.
        OSError: a shape that is not there.
    """
    if item.task != BENCHMARK:
        checked = check(compose("config", list(item.cells[0])))
        used = [(entry.name, methods.settings(entry.method, entry.options)) for entry in checked.entries]
        text = str((pwan.__version__, checked.cell, checked.options, checked.trainer, used))
        return [Part(item, "", item.task, hashlib.sha256(text.encode()).hexdigest()[:12], 1, item.seconds[0])]
    parts = []
    for overrides in item.cells:
        checked = check(compose("config", list(overrides)))
        cell = checked.cell
        shape = shapes.load(cell.shape, cell.shape_source)
        first = make_problem(shape, cell.synthesis, seed=cell.seed, trials=[0])
        for entry, seconds in zip(checked.entries, item.seconds, strict=True):
            resolved = {**entry.resolved(first), **devices_of(entry.method, checked.trainer)}
            name = cell_folder(overrides) if item.swept else ""
            parts.append(Part(item, name, entry.name, settings_hash(cell, entry, resolved), checked.trials, seconds))
    return parts


def rows_there(parts: Sequence[Part], folder: Path) -> Rows:
    """What the folder holds of these parts: the rows of benchmarks; of another task that ended one with its seconds."""
    record = read_record(folder)
    there: dict[tuple[str, str], dict[int, Row]] = {}
    for experiment in {part.item.experiment for part in parts}:
        if (folder / experiment).is_dir():
            for row in read_rows(folder / experiment):
                there.setdefault((experiment, row["settings"]), {})[row["trial"]] = row
        if experiment in record and _is_of(record[experiment], folder / experiment):
            ended = record[experiment]
            there[experiment, ended["settings"]] = {0: {"status": OK, "seconds": ended["seconds"]}}
    return there


def _is_of(ended: Mapping[str, Any], folder: Path) -> bool:
    """Whether the folder still holds the results of the task that ended, and not those of a later command."""
    return (folder / SUMMARY).is_file() and ended.get("config") in (None, _config_hash(folder))  # None: an old record


def _config_hash(folder: Path) -> str:
    """Twelve hex digits of what ``config.yaml`` says of the results; nothing where it cannot be read."""
    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
        text = json.dumps([config.get(key) for key in _OF_THE_RESULT], sort_keys=True)
    except Exception:  # YAML's own errors have no common base
        return ""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_record(folder: Path) -> dict[str, Any]:
    """The tasks without rows that came to their end, by experiment."""
    path = folder / RECORD
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def note_end(part: Part, folder: Path, seconds: float) -> None:
    """Record that a task without rows came to its end."""
    config = _config_hash(folder / part.item.experiment)
    ended = {"settings": part.settings, "seconds": round(seconds, 1), "config": config}
    record = {**read_record(folder), part.item.experiment: ended}
    save_text(folder / RECORD, json.dumps(record, indent=1))


def missing(part: Part, there: Rows, up_to: int | None = None) -> int:
    """How many of the part's trials are not there, or of its first ones."""
    wanted = part.trials if up_to is None else min(part.trials, up_to)
    return sum(trial not in _rows(part, there) for trial in range(wanted))


def failed(part: Part, there: Rows) -> int:
    """How many of the part's trials failed."""
    return sum(row["status"] != OK for trial, row in _rows(part, there).items() if trial < part.trials)


def measured(part: Part, there: Rows) -> list[float]:
    """The seconds of the part's trials that are there."""
    values = [row.get("seconds") for trial, row in _rows(part, there).items() if trial < part.trials]
    return [float(value) for value in values if value is not None and isfinite(value)]


def seconds_left(parts: Sequence[Part], there: Rows, workers: int | str) -> float:
    """How long the missing trials take: by those of their part that are there, else by what is stated."""
    left = 0.0
    for part in parts:
        known = measured(part, there)
        each = sum(known) / len(known) if known else part.seconds
        left += lasting(missing(part, there), each, workers)
    return left


def words(parts: Sequence[Part], there: Rows, workers: int | str) -> str:
    """One line: what is done of all, and the time that is left."""
    cells: dict[tuple[str, str], int] = {}
    for part in parts:
        place = (part.item.line, part.cell)
        cells[place] = cells.get(place, 0) + missing(part, there)
    trials, gap = sum(part.trials for part in parts), sum(cells.values())
    done = sum(rest == 0 for rest in cells.values())
    if not gap:
        return f"over all: all {trials:,} trials of {len(cells)} cells are there"
    return (
        f"over all: {trials - gap:,} of {trials:,} trials and {done} of {len(cells)} cells are there; {gap:,} trials "
        f"remain, about {duration(seconds_left(parts, there, workers))}"
    )


def _rows(part: Part, there: Rows) -> Mapping[int, Row]:
    return there.get((part.item.experiment, part.settings), {})
