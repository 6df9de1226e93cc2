"""Which files a folder, a pattern or a list means, and in which order. Nothing slow is imported here."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from pwan.pointfiles.detect import SUFFIXES, suffix_of


def listed(named: Sequence[str]) -> list[str]:
    """The files that are meant by the names of files and folders, and by patterns.

    Of a folder these are the files whose suffix is that of a format of points, but for hidden ones. Files of a folder
    or a pattern go by the numbers in their names (2 before 10). So do names in alphabetical order, which is how a shell
    gives them, all together or one folder's after another's; any other order is kept.

    Raises:
        ValueError: a folder without such files, or a pattern that fits no file.
        OSError: a folder that cannot be read.
    """
    runs = [list(named)]
    if not _is_alphabetical(named):
        runs = [list(run) for _, run in groupby(named, lambda name: Path(name).parent)]
    names = [name for run in runs for name in (sorted(run, key=_by_numbers) if _is_alphabetical(run) else run)]
    return [path for name in names for path in _meant(name)]


def named_in(given: Any) -> tuple[str, ...]:
    """The names in a list, or in its text ``[a.ply,b.ply]``, or the one name that stands alone."""
    if isinstance(given, str):
        given = [part.strip().strip("\"'") for part in given[1:-1].split(",")] if _is_list(given) else [given]
    return tuple(map(str, given))


def means_many(given: Any) -> bool:
    """Whether it names more than one file: a list, a folder or a pattern."""
    if not isinstance(given, str):
        return given is not None
    return _is_list(given) or Path(given).is_dir() or _is_pattern(given)


def goes_by_numbers(paths: Sequence[str]) -> bool:
    """Whether the files go by the numbers in their names, with the folders' or without."""
    keys = [_by_numbers(path) for path in paths], [_by_numbers(Path(path).name) for path in paths]
    return any(key == sorted(key) for key in keys)


def out_of_order(paths: Sequence[str]) -> tuple[str, str] | None:
    """The names of the first two files, one after the other, whose numbers go back; None where the files go by them."""
    if goes_by_numbers(paths):
        return None
    names = [Path(path).name for path in paths]
    return next((pair for pair in pairwise(names) if _numbers(pair[0]) > _numbers(pair[1])), None)


def _is_alphabetical(names: Sequence[str]) -> bool:
    return list(names) == sorted(names)


def _meant(name: str) -> list[str]:
    if Path(name).is_dir():
        inside = [path for path in Path(name).iterdir() if path.is_file() and not path.name.startswith(".")]
        found = [str(path) for path in inside if suffix_of(path) in SUFFIXES or ".mrk.json" in path.name.lower()]
        if not found:
            raise ValueError(f"{name} holds no file of points that can be read; name the files one by one if it does")
    elif _is_pattern(name):
        found = glob.glob(name)
        if not found:
            raise ValueError(f"no file fits {name!r}; check the pattern")
    else:
        return [name]
    return sorted(found, key=_by_numbers)


def _is_list(text: str) -> bool:
    return text.startswith("[") and text.endswith("]") and not os.path.exists(text)


def _is_pattern(name: str) -> bool:
    return glob.has_magic(name) and not os.path.exists(name)


def _by_numbers(name: str) -> list[tuple[int, int | str]]:
    """A key that puts frame_2 before frame_10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"([0-9]+)", name) if part]


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall("[0-9]+", name)]
