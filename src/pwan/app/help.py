"""What ``--help`` says. Hydra's own help takes seconds to list the choices."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from pwan.place import command

TEXT = """\
pwan: non-rigid registration of point sets by partial distribution matching.

  {run} experiment=noise_bunny                          one cell of the paper's figure, 20 trials
  {run} experiment=noise_bunny 'method=[pwan]' trials=5 exactly these methods, fewer trials
  {run} -m experiment=noise_bunny                       the paper's whole grid, a folder for each cell
  {run} experiment=paper options.list=true              the paper's experiments one by one; without list: runs them
  {run} experiment=noise_bunny --cfg job                what would be run, with every key; runs nothing
  {run} experiment=partial_bunny shape.source=paper     the paper's own points (PWAN_DATA or a download)
  {run} task=report                                     all results on one page
  {run} task=register source=a.ply reference=b.ply      two files of your own (task=register --help)

Results are written to outputs/<name of the experiment>; the same command again does only what is missing.
Any key can be overridden: problem.points=2000 problem.outlier_ratio=0.6 method.pwan.steps=200 seed=1 workers=4
Flags stand anywhere: -m (a sweep), --cfg job, --info defaults, --config-dir FOLDER (configuration of your own),
--version, --shell-completion install=bash, and --hydra-help for all of Hydra's.

Choices (group=choice):

{choices}
"""


def text(folders: Sequence[Path]) -> str:
    """The help, with the choices of the folders of configuration."""
    groups: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in folder.glob("*/*.yaml")):
        groups.setdefault(path.parent.name, set()).add(path.stem)
    lines = [
        textwrap.fill(f"{group}: {', '.join(sorted(groups[group]))}", 110, subsequent_indent="  ")
        for group in sorted(groups)
    ]
    return TEXT.format(run=command(), choices="\n".join(lines))
