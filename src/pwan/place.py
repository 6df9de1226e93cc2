"""Where the configuration lies, and what the command is called there: in a clone, or installed without one."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
INSTALLED = (_PACKAGE / "conf").is_dir()  # the wheel holds it there


def conf_folder() -> Path:
    """The folder of the configuration: in the installed package, else that of the clone."""
    return _PACKAGE / "conf" if INSTALLED else _PACKAGE.parents[1] / "conf"


def command() -> str:
    """What a user types before ``experiment=noise_bunny``."""
    return "pwan run" if INSTALLED else "python run.py"
