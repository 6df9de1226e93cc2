"""``pwan register frames/*.ply --sequence`` and ``task=register reference=frames sequence=true``: frames of something
that moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pwan.exit_codes import FAILED, OK
from pwan.many.listing import goes_by_numbers, listed, out_of_order
from pwan.scans import ScanSettings
from pwan.words import counted

if TYPE_CHECKING:  # torch takes seconds to load
    from pwan.problem import Observer

SHOWN = 3  # frames that are named at either end of the order


@dataclass(frozen=True)
class Frames:
    """A sequence that is asked for.

    Attributes:
        files: of the frames, in their order.
        order: this in words.
        settings: for each frame; ``source`` is the file that is led.
    """

    files: list[str]
    order: str
    settings: ScanSettings


def frames_of(named: Sequence[str]) -> tuple[list[str], str]:
    """The frames that files, folders or patterns name, and in words their order, as :func:`pwan.many.listing.listed`
    has it.

    Raises:
        ValueError: a folder with files of several kinds, or without any, or a pattern that fits none.
        OSError: a folder cannot be read.
    """
    found = listed(named)
    kinds = sorted({Path(file).suffix.lower() for file in found})
    folder = next((name for name in named if Path(name).is_dir()), None)
    if folder is not None and len(kinds) > 1:
        raise ValueError(
            f"{folder} holds files of several kinds ({', '.join(kinds)}); name the frames by a pattern, as "
            f"'{folder}/*{kinds[0]}'"
        )
    how = "by the numbers in their names" if goes_by_numbers(found) else "as they were named"
    names = [Path(name).name for name in found]
    if len(names) > 2 * SHOWN:
        names[SHOWN:-SHOWN] = ["..."]
    return found, f"{counted(len(found), 'frame')}, {how}: {', '.join(names)}"


def order_doubt(files: Sequence[str]) -> str:
    """A warning where the numbers in the names of the frames go back; else nothing."""
    pair = out_of_order(files)
    if pair is None:
        return ""
    return (
        f"warning: the frames are not in the order of the numbers in their names: {pair[0]} stands before {pair[1]}; "
        "name them in order, or give a folder"
    )


def run(
    asked: Frames, tell: Callable[[str], None], bar: AbstractContextManager[Observer]
) -> tuple[int, tuple[Path, ...]]:
    """Lead one file through the frames and say what came of it; returns the exit code, 1 where a frame failed, and what
    was written. The bar is closed before the verdict.

    Raises:
        ValueError: wrong input, as :func:`pwan.many.frame_files.register_frame_files` has it; so for the others.
        OSError: a file or a folder.
        ImportError: a package is missing.
    """
    print(asked.order)
    if doubt := order_doubt(asked.files):
        tell(doubt)
    asked.settings.chosen()
    for file in (asked.settings.source, *asked.files):
        Path(file).stat()
    from pwan.many.frame_files import register_frame_files  # loads torch
    from pwan.many.sequence import sentences

    with bar as observer:
        done = register_frame_files(asked.files, asked.settings, tell=tell, observer=observer)
    print()
    print("\n".join(sentences(done.frames)))
    return FAILED if any(frame.failed for frame in done.frames) else OK, done.written
