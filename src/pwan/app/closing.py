"""The end of a sweep: one summary, one table of what became of each cell and method, one exit code.

A launcher may run the cells in other processes and on other machines, so what a job came to is told by a file in the
sweep's folder: the job writes it, the process that was started reads it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import Any, ClassVar

from hydra.conf import HydraConf
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from pwan.exit_codes import FAILED, OK, WRONG_INPUT
from pwan.files import save_text
from pwan.place import python_path

_KEY = "PWAN_SWEEP"  # the variable with the sweep's key: Hydra sets it wherever a job runs
_SERIAL = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"


class Sweep(Callback):
    """Hydra calls it in the process that was started, before any job; conf/config.yaml names it.

    ``folder`` stays None where there is no sweep; ``cells`` are the overrides of those that were composed.
    """

    folder: ClassVar[Path | None] = None
    key: ClassVar[str] = ""
    cells: ClassVar[set[tuple[str, ...]]] = set()

    def on_multirun_start(self, config: DictConfig, **more: Any) -> None:
        Sweep.folder = Path(config.hydra.sweep.dir).resolve()
        Sweep.key = config.hydra.job.env_set[_KEY]  # resolved here, and so kept with the configuration of every cell
        _compose_once(GlobalHydra.instance().config_loader(), again=in_parallel(config.hydra))
        if in_parallel(config.hydra):
            os.environ["PYTHONPATH"] = python_path()


def register_key() -> None:
    """Tell Hydra the resolver that conf/config.yaml names for the sweep's key.

    The key is kept with the configuration: every cell, wherever it is composed, has that of the first process.
    """
    OmegaConf.register_new_resolver("pwan_sweep", lambda: Sweep.key, replace=True, use_cache=True)


def begin() -> None:
    """Called before a command line is composed: forgets the sweep before."""
    Sweep.folder = None
    Sweep.cells = set()
    Sweep.key = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"  # two sweeps may share the folder


def in_parallel(hydra: HydraConf) -> bool:
    """Whether the launcher runs several cells at once."""
    return bool(hydra.launcher._target_ != _SERIAL)


def note(hydra: HydraConf, task: str, code: int | None, error: str = "") -> None:
    """Called in a sweep's job: tell its exit code (None: it has begun), and why it ended early."""
    folder = _notes(Path(hydra.sweep.dir).resolve(), hydra.job.env_set[_KEY])
    folder.mkdir(parents=True, exist_ok=True)
    told = {"folder": hydra.runtime.output_dir, "task": task, "code": code, "error": error}
    save_text(folder / f"{hydra.job.num}.json", json.dumps(told))


def close(*, stopped: bool = False) -> int:
    """Called after a sweep: write its summary, print what became of each cell, give the exit code.

    ``stopped``: by Ctrl-C or a signal, so that a cell that began and did not end has not failed, and others have not
    begun.
    """
    assert Sweep.folder is not None
    folder = _notes(Sweep.folder, Sweep.key)
    files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    notes = [json.loads(file.read_text()) for file in files]
    shutil.rmtree(folder, ignore_errors=True)
    if not (notes or stopped):  # what kept the first cell from beginning has been said
        return OK
    if any(note["task"] == "benchmark" and note["code"] != WRONG_INPUT for note in notes):  # else no row is new
        from pwan.bench.rows import read_rows
        from pwan.bench.summary import write_tables

        write_tables(Sweep.folder, read_rows(Sweep.folder))
    print(f"\n{describe(notes, len(Sweep.cells), stopped=stopped)}\nall cells so far: {Sweep.folder}")
    return max((FAILED if note["code"] is None else note["code"] for note in notes), default=OK)


def describe(notes: list[dict[str, Any]], cells: int, *, stopped: bool = False) -> str:
    """A table with a line for each cell and method that got trials or went wrong, and one sentence.

    Args:
        notes: of the cells that have begun.
        cells: how many there are.
        stopped: by Ctrl-C.
    """
    lines = [line for note in notes for line in _lines(note, stopped)]
    shown = [line for line in lines if line["ran"] or line["taken"] or line["why"]]
    failed = sum(note["code"] not in ((OK, None) if stopped else (OK,)) for note in notes)
    rest = len(lines) - len(shown)
    if not shown and not stopped:
        return f"nothing to do: all {len(notes)} cells were finished already"
    table = f"{_table(shown)}\n" if shown else ""
    count = cells if stopped else len(notes)
    said = f"{count} {'cell' if count == 1 else 'cells'}, {failed} failed as a job"
    if stopped:
        said += f"; stopped; {cells - len(notes)} not begun: the same command again does only what is missing"
    return f"{table}{said}; {rest} lines left out where nothing was to do"


def _table(lines: list[dict[str, Any]]) -> str:
    """Columns side by side under their names."""
    rows = [list(lines[0]), *([str(value) for value in line.values()] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _lines(note: dict[str, Any], stopped: bool) -> list[dict[str, Any]]:
    cell = {"cell": Path(note["folder"]).name}
    nothing = {"method": "-", "ran": 0, "skipped": 0, "taken": 0, "failed": 0}
    if note["code"] is None:
        return [{**cell, **nothing, "why": "stopped" if stopped else "its process ended before the job did"}]
    if note["error"]:
        return [{**cell, **nothing, "why": note["error"].splitlines()[0]}]
    if note["task"] != "benchmark":
        why = "" if note["code"] == OK else f"exit code {note['code']}"
        return [{**cell, **nothing, "method": note["task"], "ran": 1, "why": why}]
    from pwan.bench.last_run import read_outcomes

    return [
        {**cell, **{name: getattr(o, name) for name in nothing}, "why": o.error}
        for o in read_outcomes(Path(note["folder"]))
    ]


def _notes(sweep: Path, key: str) -> Path:
    return sweep / f".jobs-{key}"


def _compose_once(loader: Any, *, again: bool) -> None:
    """Hydra composes each cell twice, to check it before any runs and to run it: let the second take the first's.

    Composing is most of the time that a finished sweep takes. ``again``: a launcher composes elsewhere, or gives to
    other processes what it composes, so that each is made anew; the cells are counted all the same.
    """
    compose = loader.load_sweep_config
    composed: dict[tuple[str, ...], DictConfig] = {}

    def load(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        cell = tuple(sweep_overrides)
        Sweep.cells.add(cell)
        if again:
            return compose(master_config, sweep_overrides)
        if cell in composed:
            return composed.pop(cell)
        composed[cell] = compose(master_config, sweep_overrides)
        return composed[cell]

    loader.load_sweep_config = load
