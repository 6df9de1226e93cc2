"""The tasks, which ``task=`` of the command line chooses (:mod:`pwan.app.catalogue`): one file in this folder adds one.

A task file ``tasks/<name>.py`` defines

- ``Settings``: a frozen dataclass with the task's own settings and their defaults, set by ``options.<key>=``. It stands
  in ``_settings/<name>.py``, which loads neither torch nor pandas, so that a wrong key is refused at once. A method
  ``check_files()`` of it refuses, with a ValueError, files that must be there and are not;
- ``run(checked, settings, folder) -> int``: does the work, writes everything into ``folder`` (``config.yaml`` with
  :func:`write_config` once nothing can be wrong with the input any more), prints what a user wants to see and gives the
  exit code: 0 done, 1 a job failed as a whole. A ValueError is the user's mistake and is shown in one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from pwan.app.checked import Checked
from pwan.bench.settings import LOOP
from pwan.files import save_text


def check_loop(checked: Checked) -> None:
    """Refuse a trainer, for a task that drives the steps itself.

    Raises:
        ValueError: another trainer than the plain loop.
    """
    if checked.trainer != LOOP:
        raise ValueError(
            f"trainer={checked.trainer.name} is for task=benchmark, task={checked.task} drives the steps itself; leave "
            "it out, or take trainer=loop"
        )


def write_config(folder: Path, resolved: dict[str, Any]) -> None:
    """Write ``config.yaml``, every setting spelled out, into the folder, which is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    save_text(folder / "config.yaml", OmegaConf.to_yaml(resolved))
