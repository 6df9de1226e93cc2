"""The catalogue of tasks, which is the folder ``tasks``: found by name, and loaded only when one is run."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from pwan.settings import nearest, settings_of

REGISTER = "register"  # a task without Hydra, of pwan.app.own_scans
_TASKS = "pwan.app.tasks"


def names() -> list[str]:
    """The names of all tasks, sorted."""
    folder = Path(__file__).parent / "tasks"
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_"))


def find(name: str) -> ModuleType:
    """The module of a task.

    Raises:
        ValueError: no such task; names the nearest one.
    """
    check_name(name)
    return importlib.import_module(f"{_TASKS}.{name}")


def check_name(name: str) -> None:
    """Refuse a name that no task has.

    Raises:
        ValueError: no such task; names the nearest one.
    """
    if name not in names():
        there = sorted([*names(), REGISTER])
        raise ValueError(f"task {name!r} does not exist{nearest(name, there)}; it is one of {', '.join(there)}")


def settings_class(name: str) -> type:
    """A task's ``Settings``, without loading the task itself where they stand in ``_settings/<name>.py``.

    Raises:
        ValueError: no such task; names the nearest one.
    """
    check_name(name)
    return settings_of(_TASKS, name)
