"""The task behind ``experiment=paper``: every experiment of a list, one after the other, each as its own command.

The folders and rows are those of an experiment's own command, so that either goes on where the other was. An experiment
has a process of its own: what one takes or breaks, the next does not feel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from tqdm import tqdm

from pwan.app.checked import Checked
from pwan.app.plan import BENCHMARK, Item, duration, plan
from pwan.app.standing import (
    Part,
    Rows,
    failed,
    measured,
    missing,
    note_end,
    parts_of,
    rows_there,
    words,
)
from pwan.app.tasks._settings.paper import Settings
from pwan.bench.summary import write_table
from pwan.exit_codes import FAILED, OK, WRONG_INPUT
from pwan.place import python_path
from pwan.pool import choose_workers
from pwan.process import code_of

SUMMARY = "paper.csv"
EVERY = 300.0  # seconds between two lines that say how far all is; chosen by eye

Start = Callable[[Sequence[str], Callable[[], Any]], int]  # arguments, and what is to be called now and then


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    hydra = HydraConfig.get()
    if hydra.mode == RunMode.MULTIRUN:
        raise ValueError(
            "experiment=paper is a sweep of sweeps by itself; leave out -m, and give one value for each key"
        )
    items = plan(
        settings.experiments,
        list(hydra.overrides.task),
        seconds=settings.seconds,
        hours=settings.hours,
        workers=checked.workers,
    )
    print(describe(items, folder, checked.workers))
    if settings.list:
        return OK
    _check_alone()
    more = [*_launcher(hydra.overrides.hydra), *_conf(hydra.runtime.config_sources)]
    return run_all(items, checked, folder, lambda words, tell: start([*words, *more], tell))


def describe(items: Sequence[Item], folder: Path, workers: int | str) -> str:
    """The lines of the list that are run, with the time that they take; the others, why, and their command."""
    taken = [item for item in items if not item.left_out]
    table = pd.DataFrame(
        {
            "experiment": item.line,
            "cells": len(item.cells),
            "methods": len(item.methods) if item.task == BENCHMARK else "-",
            "trials": item.trials if item.task == BENCHMARK else "-",
            "takes": duration(item.lasts(workers)),
        }
        for item in taken
    )
    lines = [table.to_string(index=False)] if taken else []
    takes = duration(sum(item.lasts(workers) for item in taken))
    lines.append(
        f"{len(taken)} of {len(items)} lines, {sum(len(item.cells) for item in taken)} cells: about {takes} with "
        f"{max(choose_workers(workers, 10**6), 1)} trials at once, by times measured on two cores"
    )
    if len(taken) < len(items):
        lines.append(
            "left out, with the command that runs it by itself (options.hours=null leaves out none for its time):"
        )
        lines += [
            f"  {item.line}: {item.left_out}\n    {item.command(*_place(item, folder))}"
            for item in items
            if item.left_out
        ]
    return "\n".join(lines)


def run_all(items: Sequence[Item], checked: Checked, folder: Path, start: Start) -> int:
    """Run what is missing of all lines that are not left out: a few trials of each, then more.

    Args:
        items: of the list.
        checked: the configuration of the task.
        folder: with a folder for each experiment.
        start: runs a command.

    Returns:
        The exit code, the largest of all commands.
    """
    settings, workers = checked.options, checked.workers
    parts, codes = _all_parts(items)

    def tell() -> str:
        return words(parts, rows_there(parts, folder), workers)

    if not (parts or codes):
        return OK  # why nothing is to be run has been said
    folder.mkdir(parents=True, exist_ok=True)
    print(tell())
    try:
        for up_to in (*sorted(settings.rounds), None):
            for item in items:
                own = [part for part in parts if part.item == item]
                retry = checked.retry_failed and up_to is None
                if codes.get(item.line) != WRONG_INPUT and _gap(own, rows_there(own, folder), up_to, retry=retry):
                    codes[item.line] = _run_item(item, own, folder, up_to, start, lambda: print(tell(), flush=True))
                    print(tell(), flush=True)
    finally:
        there = rows_there(parts, folder)
        summary = _summary(parts, there, codes)
        write_table(summary, folder / SUMMARY)
        print(f"\n{summary.to_string(index=False)}\n{words(parts, there, workers)}")
    if settings.report and codes:
        _report(folder)
    return max([*codes.values(), *(FAILED for part in parts if _all_failed(part, there))], default=OK)


def start(arguments: Sequence[str], tell: Callable[[], Any]) -> int:
    """Run a command of this program in a process of its own, and give its exit code.

    The process is told of Ctrl-C and of a signal by this one alone, so once, and then awaited.
    """
    line = [sys.executable, "-P", "-c", "from pwan.console import command; command()", "run", *arguments]
    with subprocess.Popen(line, env={**os.environ, "PYTHONPATH": python_path()}, process_group=0) as process:
        try:
            while True:
                try:
                    code = process.wait(EVERY)
                except subprocess.TimeoutExpired:
                    tell()
                else:
                    return code if code >= 0 else FAILED
        except KeyboardInterrupt as stop:
            process.send_signal(code_of(stop) - 128)
            process.wait()
            raise


def _all_parts(items: Sequence[Item]) -> tuple[list[Part], dict[str, int]]:
    """The parts of all lines that are run, and exit codes of those that cannot be."""
    parts: list[Part] = []
    codes: dict[str, int] = {}
    taken = [item for item in items if not item.left_out]
    for item in tqdm(taken, desc="what is there", unit="experiment", delay=5):
        try:
            parts += parts_of(item)
        except (ValueError, OSError) as error:
            print(f"error: {item.line}: {error}", file=sys.stderr)
            codes[item.line] = WRONG_INPUT
    return parts, codes


def _gap(parts: Sequence[Part], there: Rows, up_to: int | None, *, retry: bool) -> bool:
    """Whether a command has anything to do."""
    return any(missing(part, there, up_to) or (retry and failed(part, there)) for part in parts)


def _run_item(
    item: Item, parts: Sequence[Part], folder: Path, up_to: int | None, start: Start, tell: Callable[[], Any]
) -> int:
    more = _place(item, folder)
    if up_to is not None and up_to < item.trials:
        more += [f"trials={up_to}", "logger=none"]  # W&B gets a run once, with all trials
    print(f"\n{item.command(*more)}", flush=True)
    begun = time.monotonic()
    code = start(item.arguments(*more), tell)
    if code == OK and item.task != BENCHMARK:
        note_end(parts[0], folder, time.monotonic() - begun)
    return code


def _summary(parts: Sequence[Part], there: Rows, codes: dict[str, int]) -> pd.DataFrame:
    """A line for each line of the list that was to be run."""
    lines = []
    for line in dict.fromkeys([*(part.item.line for part in parts), *codes]):
        own = [part for part in parts if part.item.line == line]
        lines.append(
            {
                "experiment": line,
                "cells": len({part.cell for part in own}),
                "trials": sum(part.trials for part in own),
                "missing": sum(missing(part, there) for part in own),
                "failed": sum(failed(part, there) for part in own),
                "hours": round(sum(sum(measured(part, there)) for part in own) / 3600, 3),
                "exit_code": codes.get(line, OK),
            }
        )
    return pd.DataFrame(lines)


def _all_failed(part: Part, there: Rows) -> bool:
    return not missing(part, there) and failed(part, there) == part.trials


def _report(folder: Path) -> None:
    """The page of all results; that there is none takes nothing from them."""
    from pwan.app.tasks.report import Settings as ReportSettings
    from pwan.app.tasks.report import make_report

    try:
        print(f"page: {make_report(folder, ReportSettings(folder=str(folder)))}")
    except (ValueError, OSError) as error:
        print(f"error: no page of the results: {error}", file=sys.stderr)


def _launcher(overrides: Sequence[str]) -> list[str]:
    """The overrides of Hydra's own that are passed on: how a sweep's cells are started.

    Raises:
        ValueError: another one.
    """
    passed = [word for word in overrides if not word.startswith("hydra.mode=")]
    for word in passed:
        if not word.lstrip("+").startswith(("hydra/launcher=", "hydra.launcher.")):
            raise ValueError(f"experiment=paper passes on hydra/launcher and hydra.launcher alone, got {word!r}")
    return passed


def _check_alone() -> None:
    """Refuse several processes that torchrun or srun has started, of which each command would take all.

    Raises:
        ValueError: there are such.
    """
    from pwan.lightning import processes  # takes seconds to import

    if processes.crew is not None:
        raise ValueError("experiment=paper starts commands of its own; start it by itself, without torchrun or srun")


def _conf(sources: Sequence[Any]) -> list[str]:
    """The flags that name the folders of this command's configuration."""
    flags = {"main": "--config-path", "command-line": "--config-dir"}
    return [f"{flags[source.provider]}={source.path}" for source in sources if source.provider in flags]


def _place(item: Item, folder: Path) -> list[str]:
    """The override that puts an experiment's results into the folder, where its command would not by itself."""
    if folder == Path("outputs").resolve():
        return []
    return [f"output={_quoted(str(folder / item.experiment))}"]


def _quoted(text: str) -> str:
    """As Hydra reads it whatever it holds."""
    return text if re.fullmatch(r"[\w./-]+", text) else "'" + text.replace("'", "\\'") + "'"
