"""What ``experiment=paper`` runs: each line of its list as a command, with its cells and the time that it takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from hydra import compose
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from pwan.app.config import check
from pwan.app.tasks._settings.paper import Settings
from pwan.place import command
from pwan.pool import choose_workers
from pwan.settings import nearest
from pwan.shapes import paper

BENCHMARK = "benchmark"
GUESS = 10.0  # seconds of a trial of which nothing is known
OVERHEAD = 2.0  # seconds that a method takes in a cell beside its trials: pictures, summary, W&B
# keys of the command line that are passed on, each with the tasks in which it changes anything; None: all
_PASSED: dict[str, tuple[str, ...] | None] = {
    "seed": None,
    "workers": None,
    "retry_failed": None,
    "logger": None,
    "trainer": None,
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
        """What follows ``run.py``; the last of two words with the same key is valid."""
        return [*(["-m"] if self.swept else []), f"experiment={self.experiment}", *self.words, *more]

    def command(self, *more: str) -> str:
        """As a user would type it."""
        return f"{command()} {shlex.join(self.arguments(*more))}"

    def lasts(self, workers: int | str) -> float:
        """The seconds that all of it takes, by those that are stated."""
        return len(self.cells) * sum(lasting(self.trials, one, workers) for one in self.seconds)


def lasting(trials: int, seconds: float, workers: int | str) -> float:
    """The seconds that so many trials of one method take in one cell."""
    return seconds * ceil(trials / max(choose_workers(workers, trials), 1)) + OVERHEAD if trials else 0.0


def plan(settings: Settings, overrides: Sequence[str], workers: int | str) -> list[Item]:
    """All lines of the list, those that are left out with the reason. Hydra must be initialised.

    Args:
        settings: of the task.
        overrides: of the command line; those that mean something to an experiment are passed on to it.
        workers: see :func:`pwan.pool.choose_workers`.

    Raises:
        ValueError: an experiment that does not exist, or an override that cannot be passed on.
    """
    parser = OverridesParser.create()
    given = parser.parse_overrides(list(overrides))
    _check_passed(given)
    known = sorted(GlobalHydra.instance().config_loader().get_group_options("experiment"))
    items, spent = [], 0.0
    for line in settings.experiments:
        experiment, *own = shlex.split(line) or [""]
        if experiment not in known:
            raise ValueError(
                f"options.experiments: experiment {experiment!r} does not exist{nearest(experiment, known)}; "
                f"there are {', '.join(known)}"
            )
        item = _item(line, experiment, parser.parse_overrides(own), given, settings.seconds)
        takes = item.lasts(workers)
        if not item.left_out and settings.hours is not None and spent + takes > settings.hours * 3600:
            left = max(settings.hours * 3600 - spent, 0.0)
            why = f"it takes {duration(takes)}, and {duration(left)} are left of options.hours={settings.hours:g}"
            item = replace(item, left_out=why)
        spent += 0.0 if item.left_out else takes
        items.append(item)
    return items


def duration(seconds: float) -> str:
    """In words."""
    for limit, size, unit in ((120, 1, ".0f s"), (7200, 60, ".0f min")):
        if seconds < limit:
            return f"{seconds / size:{unit[:3]}}{unit[3:]}"
    return f"{seconds / 3600:.1f} h"


def _check_passed(given: Sequence[Override]) -> None:
    """Refuse what no experiment can be given from here."""
    for override in given:
        key = override.key_or_group
        if key.partition(".")[0] in (*_OWN, *_PASSED) or key in _PASSED:
            continue
        raise ValueError(
            f"experiment=paper cannot pass on {key!r}, of which every experiment has its own; run the one that you mean "
            f"by itself, for example {command()} -m experiment=noise_bunny {override.input_line}. Passed on are "
            f"{', '.join(_PASSED)}"
        )


def _item(
    line: str, experiment: str, own: Sequence[Override], given: Sequence[Override], seconds: dict[str, Any]
) -> Item:
    named = f"experiment={experiment}"
    single = [str(override.input_line) for override in own if not override.is_sweep_override()]
    base = compose("config", [named, *single], return_hydra_config=True)
    listed = [str(name) for override in given if override.key_or_group == "method" for name in _values(override)]
    passed = [override for override in given if _means_something(override, base.task, listed or list(base.method))]
    keys = {override.key_or_group for override in passed}
    words = [str(o.input_line) for o in [*(o for o in own if o.key_or_group not in keys), *passed]]
    params = base.hydra.sweeper.get("params") or {}
    cells = _cells([*(f"{key}={value}" for key, value in params.items()), named, *words])
    item = Item(line, experiment, base.task, tuple(words), bool(params), cells)
    if listed and _about_methods([*params, *(override.key_or_group for override in own)]):
        alone = [str(o.input_line) for o in [*own, *(o for o in passed if o.key_or_group != "method")]]
        return replace(item, words=tuple(alone), left_out="it is about methods of its own, and the command names others")
    try:
        checked = check(compose("config", list(cells[0])))
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        return replace(item, left_out=str(error).splitlines()[0])
    if checked.cell.shape_source == "paper" and paper.needs_folder(checked.cell.shape):
        return replace(item, left_out=f"its points are in the folder that {paper.FOLDER_VARIABLE} names, which is not set")
    if item.task != BENCHMARK:
        return replace(item, methods=(item.task,), seconds=(float(seconds.get(experiment, GUESS)),))
    methods = tuple(entry.name for entry in checked.entries)
    known = {**seconds.get("other", {}), **seconds.get(experiment, {})}
    return replace(
        item, methods=methods, trials=checked.trials, seconds=tuple(float(known.get(name, GUESS)) for name in methods)
    )


def _about_methods(keys: Iterable[str]) -> bool:
    """Whether a line of the list names methods, or varies a setting of one."""
    return any(key.lstrip("+").partition(".")[0] == "method" for key in keys)


def _means_something(override: Override, task: str, methods: Sequence[str]) -> bool:
    key = override.key_or_group
    section, _, rest = key.partition(".")
    if section in _OWN:
        return False
    tasks = _PASSED[key if key in _PASSED else section]
    fits = section != "method" or not rest or rest.partition(".")[0] in methods
    return fits and (tasks is None or task in tasks)


def _values(override: Override) -> list[Any]:
    value = override.value()
    return [getattr(one, "text", one) for one in value] if isinstance(value, list) else [value]


def _cells(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The overrides of each cell, as Hydra's sweeper makes them."""
    (cells,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(list(words)), None)
    return tuple(tuple(cell) for cell in cells)
