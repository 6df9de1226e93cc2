"""``pwan register frames/*.ply --sequence`` and ``python run.py task=register reference=frames sequence=true``: which
files are the frames of a sequence, and in which order.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

SHOWN = 3  # frames that are named at either end of the order


def frames_of(named: Sequence[str]) -> tuple[list[str], str]:
    """The frames that a folder, a pattern or files name, and in words their order.

    Files of a folder or a pattern go by the numbers in their names, and so do files in alphabetical order, which is how
    a shell gives them; any other order is kept.

    Raises:
        ValueError: an empty folder, one with files of several kinds, or a pattern that fits none.
        OSError: the folder cannot be read.
    """
    found = list(named)
    if len(found) == 1 and Path(found[0]).is_dir():
        found = _in_folder(Path(found[0]))
    elif len(found) == 1 and not Path(found[0]).exists() and glob.has_magic(found[0]):
        found = sorted(glob.glob(found[0]))
        if not found:
            raise ValueError(f"no file fits {named[0]!r}; check the pattern")
    given = found != sorted(found)
    if not given:
        found = sorted(found, key=_by_numbers)
    how = "as they were named" if given else "by the numbers in their names"
    names = [Path(name).name for name in found]
    if len(names) > 2 * SHOWN:
        names[SHOWN:-SHOWN] = ["..."]
    return found, f"{len(found)} frames, {how}: {', '.join(names)}"


def _in_folder(folder: Path) -> list[str]:
    """Its files, but for hidden ones.

    Raises:
        ValueError: none, or files of several kinds.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise ValueError(f"{folder} holds no files; expected the frames of a sequence, one file each")
    kinds = sorted({path.suffix.lower() for path in files})
    if len(kinds) > 1:
        raise ValueError(
            f"{folder} holds files of several kinds ({', '.join(kind or 'without a suffix' for kind in kinds)}); name "
            f"the frames by a pattern, as '{folder}/*{kinds[0]}'"
        )
    return [str(path) for path in files]


def _by_numbers(name: str) -> list[tuple[int, int | str]]:
    """A key that puts frame_2 before frame_10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"([0-9]+)", name) if part]
