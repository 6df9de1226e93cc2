"""Where package and configuration lie, and what the command is called there: in a clone, or installed without one."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).parent
INSTALLED = (_PACKAGE / "conf").is_dir()  # the wheel holds it there


def conf_folder() -> Path:
    """The folder of the configuration: in the installed package, else that of the clone."""
    return _PACKAGE / "conf" if INSTALLED else _PACKAGE.parents[1] / "conf"


def command() -> str:
    """What a user types before ``experiment=noise_bunny``."""
    return "pwan run" if INSTALLED else "python run.py"


def python_path() -> str:
    """The value of PYTHONPATH with which a fresh interpreter finds this package, also from a plain clone."""
    return os.pathsep.join(filter(None, [str(_PACKAGE.parent), os.environ.get("PYTHONPATH")]))
