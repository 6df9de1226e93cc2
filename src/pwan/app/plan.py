"""What ``experiment=paper`` runs: each line of its list as a command, with its cells and the time that it takes."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pwan.app.config import KEYS, check
from pwan.place import command
from pwan.pool import choose_workers
from pwan.settings import nearest
from pwan.shapes import paper

BENCHMARK = "benchmark"
GUESS = 10.0  # seconds of a trial of which nothing is known
OVERHEAD = 2.0  # seconds that a method takes in a cell beside its trials, for pictures, summary and W&B; by eye
# keys of the command line that are passed on, each with the tasks in which it changes anything; None: all
_PASSED: dict[str, tuple[str, ...] | None] = {
    "seed": None,
    "workers": (BENCHMARK,),  # the others measure or draw one thing after the other
    "retry_failed": (BENCHMARK, "scalability"),
    "logger": (BENCHMARK,),
    "trainer": (BENCHMARK,),
    "trials": (BENCHMARK,),
    "method": (BENCHMARK, "scalability"),  # what the others show belongs to the methods that they name
    "shape.source": (BENCHMARK, "datasets", "dm_against_pdm"),  # the rest draw from surfaces, or have no shape
}
_OWN = ("experiment", "output", "options")


@dataclass(frozen=True)
class Item:
    """One line of the list.

    Attributes:
        line: as it stands in the list.
        experiment: its name.
        task: that the experiment runs.
        words: what follows ``experiment=<name>`` in its command.
        swept: whether it is a sweep.
        cells: the overrides of each cell.
        methods: their names in a benchmark; else the name of the task.
        trials: of each cell.
        seconds: of one trial of each of the methods, stated and not measured here.
        left_out: why it is not run; empty where it is.
    """

    line: str
    experiment: str
    task: str
    words: tuple[str, ...]
    swept: bool
    cells: tuple[tuple[str, ...], ...]
    methods: tuple[str, ...] = ()
    trials: int = 1
    seconds: tuple[float, ...] = ()
    left_out: str = ""

    def arguments(self, *more: str) -> list[str]:
        """What follows ``run.py``, with more words in place of those of the same key."""
        keys = {word.partition("=")[0] for word in more}
        words = [word for word in self.words if word.partition("=")[0] not in keys]
        return [*(["-m"] if self.swept else []), f"experiment={self.experiment}", *words, *more]

    def command(self, *more: str) -> str:
        """As a user would type it."""
        return f"{command()} {shlex.join(self.arguments(*more))}"

    def lasts(self, workers: int | str) -> float:
        """The seconds that all of it takes, by those that are stated."""
        return len(self.cells) * sum(lasting(self.trials, one, workers) for one in self.seconds)


def lasting(trials: int, seconds: float, workers: int | str) -> float:
    """The seconds that so many trials of one method take in one cell."""
    return seconds * ceil(trials / max(choose_workers(workers, trials), 1)) + OVERHEAD if trials else 0.0


def plan(
    lines: Sequence[str],
    overrides: Sequence[str],
    *,
    seconds: Mapping[str, Any],
    hours: float | None,
    workers: int | str,
) -> list[Item]:
    """All lines of the list, those that are left out with the reason. Hydra must be initialised.

    Args:
        lines: an experiment and its own overrides each.
        overrides: of the command line; those that mean something to an experiment are passed on to it.
        seconds: see the task's settings.
        hours: see the task's settings.
        workers: see :func:`pwan.pool.choose_workers`.

    Raises:
        ValueError: no line, an experiment that does not exist or is such a list itself, or an override that cannot be
            passed on.
    """
    if not lines:
        raise ValueError("options.experiments is empty; take experiment=paper, which names those of the paper")
    parser = OverridesParser.create()
    given = parser.parse_overrides(list(overrides))
    _check_passed(given)
    known = sorted(GlobalHydra.instance().config_loader().get_group_options("experiment"))
    items, spent = [], 0.0
    for line in lines:
        experiment, *own = shlex.split(line) or [""]
        if experiment not in known:
            raise ValueError(
                f"options.experiments: experiment {experiment!r} does not exist{nearest(experiment, known)}; "
                f"there are {', '.join(known)}"
            )
        item = _item(line, experiment, parser.parse_overrides(own), given, seconds)
        if item.task == "paper":
            raise ValueError(f"options.experiments: {experiment!r} is a list of experiments itself; name those of it")
        takes = item.lasts(workers)
        if not item.left_out and hours is not None and spent + takes > hours * 3600:
            left = max(hours * 3600 - spent, 0.0)
            why = f"it takes {duration(takes)}, and {duration(left)} are left of options.hours={hours:g}"
            item = replace(item, left_out=why)
        spent += 0.0 if item.left_out else takes
        items.append(item)
    return items


def duration(seconds: float) -> str:
    """In words."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _check_passed(given: Sequence[Override]) -> None:
    """Refuse what no experiment can be given from here."""
    for override in given:
        key = override.key_or_group
        if key.partition(".")[0] in (*_OWN, *_PASSED) or key in _PASSED:
            continue
        raise ValueError(
            f"experiment=paper cannot pass on {key!r}, of which every experiment has its own; run the one that you "
            f"mean by itself, for example {command()} -m experiment=noise_bunny {override.input_line}; passed on are "
            f"{', '.join(_PASSED)}"
        )


def _item(
    line: str, experiment: str, own: Sequence[Override], given: Sequence[Override], seconds: Mapping[str, Any]
) -> Item:
    named = f"experiment={experiment}"
    base = compose("config", [named, *_words(o for o in own if not o.is_sweep_override())], return_hydra_config=True)
    listed = {name for override in given if override.key_or_group == "method" for name in _names(override)}
    passed = [override for override in given if _means_something(override, base.task, listed or set(base.method))]
    params = [f"{key}={value}" for key, value in (base.hydra.sweeper.get("params") or {}).items()]
    swept = bool(params) or any(override.is_sweep_override() for override in own)
    needed = _needed([*OverridesParser.create().parse_overrides(params), *own])
    if listed and needed - listed:
        alone = _words([*own, *(override for override in passed if override.key_or_group != "method")])
        why = f"it is about {', '.join(sorted(needed))}, and the command names other methods"
        return Item(line, experiment, base.task, alone, swept, (), left_out=why)
    keys = {override.key_or_group for override in passed}
    words = _words([*(override for override in own if override.key_or_group not in keys), *passed])
    item = Item(line, experiment, base.task, words, swept, _cells([*params, named, *words]))
    try:  # composing takes most of the time
        checked = check(compose("config", list(item.cells[0])) if passed else OmegaConf.masked_copy(base, KEYS))
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        return replace(item, left_out=str(error).splitlines()[0])
    if checked.cell.shape_source == "paper" and paper.needs_folder(checked.cell.shape):
        return replace(item, left_out=f"its points are in the folder that {paper.FOLDER_VARIABLE} names; set it")
    if item.task != BENCHMARK:
        return replace(item, methods=(item.task,), seconds=(float(seconds.get(experiment, GUESS)),))
    methods = tuple(entry.name for entry in checked.entries)
    known = {**seconds.get("other", {}), **seconds.get(experiment, {})}
    each = tuple(float(known.get(name, GUESS)) for name in methods)
    return replace(item, methods=methods, trials=checked.trials, seconds=each)


def _words(overrides: Iterable[Override]) -> tuple[str, ...]:
    return tuple(str(override.input_line) for override in overrides)


def _needed(overrides: Iterable[Override]) -> set[str]:
    """The methods that these overrides name, or set something of."""
    needed: set[str] = set()
    for override in overrides:
        section, _, rest = override.key_or_group.partition(".")
        if section == "method":
            needed |= {rest.partition(".")[0]} if rest else set(_names(override))
    return needed


def _names(override: Override) -> list[str]:
    """The methods of ``method=[...]``."""
    value = override.value()
    return [str(getattr(one, "text", one)) for one in (value if isinstance(value, list) else [value])]


def _means_something(override: Override, task: str, methods: Collection[str]) -> bool:
    """Whether an override changes anything in an experiment of this task with these methods."""
    key = override.key_or_group
    section, _, rest = key.partition(".")
    if section in _OWN:
        return False
    tasks = _PASSED[key if key in _PASSED else section]
    fits = section != "method" or not rest or rest.partition(".")[0] in methods
    return fits and (tasks is None or task in tasks)


def _cells(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The overrides of each cell, as Hydra's own sweeper makes them, whose words name the cells' folders."""
    values: dict[str, list[str]] = {}  # by the key, of which the last word counts
    for override in OverridesParser.create().parse_overrides(list(words)):
        swept, key = override.is_sweep_override(), override.get_key_element()
        each = override.sweep_string_iterator() if swept else [override.get_value_element_as_str()]
        values[key] = [f"{key}={value}" for value in each]
    return tuple(product(*values.values()))
