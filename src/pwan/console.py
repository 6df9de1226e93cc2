"""The command ``pwan`` of an installed package; ``python run.py`` of a clone is its ``pwan run``.

Above the room ``pwan.app``, which it imports late: the core alone says what extra a command needs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence

import pwan
from pwan import process
from pwan.exit_codes import OK, WRONG_INPUT
from pwan.extras import MissingExtraError, needs
from pwan.place import conf_folder
from pwan.settings import nearest

USAGE = """\
pwan: non-rigid registration of point sets by partial distribution matching.

  pwan register a.ply b.ply output=folder     move one file's points onto another's (pwan register --help)
  pwan run experiment=noise_bunny             one cell of the paper's figure, 20 trials (pwan run --help)
  pwan run -m experiment=noise_bunny          the paper's whole grid, a folder for each cell
  pwan run experiment=noise_bunny --cfg job   what would be run, with every key that can be set
  pwan report                                 all results below outputs on one page, outputs/report.html
  pwan --version

Results are written to outputs/ in the folder where you are, and read there by the report.
In Python: import pwan; help(pwan.register). README.md and docs/ of the source tell more.
"""


def _register(arguments: Sequence[str]) -> int:
    with needs("scans", "pwan register", "pandas", "plotly", "matplotlib"):
        from pwan.app import own_scans

    return own_scans.main(arguments)


def _run(arguments: Sequence[str], name: str = "run") -> int:
    with needs("bench", f"pwan {name}", "wandb", "pytorch_lightning"):
        from pwan.app import main

    return main(arguments, conf=conf_folder())


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "register": _register,
    "report": lambda arguments: _run(["task=report", *arguments], "report"),
    "run": _run,
}


def command(arguments: Sequence[str] | None = None) -> None:
    """The entry point: does what is asked for and ends with its exit code, which is that of :func:`pwan.app.main`."""
    process.run(lambda: _command(list(sys.argv[1:] if arguments is None else arguments)))


def _command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return OK if arguments else WRONG_INPUT
    first, *rest = arguments
    if first == "--version":
        print(f"pwan {pwan.__version__}")
        return OK
    if first in ("-sc", "--shell-completion"):
        return _complete(arguments)
    if first in COMMANDS:
        try:
            return COMMANDS[first](rest)
        except MissingExtraError as error:
            print(f"error: {error}", file=sys.stderr)
            return WRONG_INPUT
    near = nearest(first, tuple(COMMANDS))
    if not near and ("=" in first or first.startswith("-")):
        near = f" (did you mean 'pwan run {first}'?)"
    print(f"error: unknown command {first!r}{near}; there are {', '.join(COMMANDS)} (see pwan --help)", file=sys.stderr)
    return WRONG_INPUT


def _complete(arguments: list[str]) -> int:
    """Hydra's completion, for which ``run`` is part of the program's name."""
    line = os.environ.get("COMP_LINE", "")
    words = re.match(r"\s*\S+\s+(\w+)\s", line)
    if line and (words is None or words[1] != "run"):
        print(" ".join(COMMANDS) if words is None else "")
        return OK
    os.environ["COMP_LINE"] = re.sub(r"^(\s*\S+)\s+run\b", r"\1", line)
    return _run(arguments)
