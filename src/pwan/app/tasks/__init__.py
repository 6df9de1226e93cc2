"""The catalogue of tasks, what ``task=`` of the command line chooses: one file in this folder adds one.

A task file ``tasks/<name>.py`` defines

- ``Settings``: a frozen dataclass with the task's own settings and their defaults, set by ``options.<key>=``. It stands
  in ``_settings/<name>.py``, which loads neither torch nor pandas, so that a wrong key is refused at once. A method
  ``check_files()`` of it refuses, with a ValueError, files that must be there and are not;
- ``run(checked, settings, folder) -> int``: does the work, writes everything into ``folder`` (``config.yaml`` with
  :func:`write_config` once nothing can be wrong with the input any more), prints what a user wants to see and gives the
  exit code: 0 done, 1 a job failed as a whole. A ValueError is the user's mistake and is shown in one line.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf

from pwan.files import save_text
from pwan.settings import nearest, settings_of

REGISTER = "register"  # a task without Hydra, of pwan.app.own_scans


def names() -> list[str]:
    """The names of all tasks, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def find(name: str) -> ModuleType:
    """The module of a task.

    Raises:
        ValueError: no such task; names the nearest one.
    """
    check_name(name)
    return importlib.import_module(f"{__name__}.{name}")


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
    return settings_of(__name__, name)


def write_config(folder: Path, resolved: dict[str, Any]) -> None:
    """Write ``config.yaml``, every setting spelled out, into the folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    save_text(folder / "config.yaml", OmegaConf.to_yaml(resolved))
