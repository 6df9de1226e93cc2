"""``pwan register template.ply scans/*.ply`` and ``task=register source=template.ply reference=folder``: many scans."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pwan import many
from pwan.exit_codes import FAILED, OK
from pwan.many import folder
from pwan.many.settings import OWN, StudySettings, study_keys
from pwan.process import code_of
from pwan.settings import build_settings


def is_asked(given: Mapping[str, Any]) -> bool:
    """Whether the arguments are of a study: a setting that only it has, a list of scans, or a folder."""
    scans = given.get("reference")
    if isinstance(scans, str) and not _is_list(scans):
        return Path(scans).is_dir() or any(key in given for key in study_keys())
    return scans is not None


def listed(scans: Any) -> tuple[str, ...]:
    """The scans' files: of a list, or of its text ``[a.ply,b.ply]``."""
    if isinstance(scans, str):
        scans = [part.strip().strip("\"'") for part in scans[1:-1].split(",")] if _is_list(scans) else [scans]
    return tuple(map(str, scans))


def settings_of(values: Mapping[str, Any], of_method: Mapping[str, Any]) -> StudySettings:
    """The settings of a study from those of the command line.

    Raises:
        ValueError: one of them is wrong.
    """
    own = {name: value for name, value in values.items() if name in (*study_keys(), "output", "overwrite")}
    each = {name: value for name, value in values.items() if name not in (*own, *OWN)}
    if of_method:
        each["method_settings"] = dict(of_method)
    own |= {"template": values["source"], "scans": values["reference"], "each": each}
    settings: StudySettings = build_settings(StudySettings, own, owner="register")
    return settings


def _is_list(text: str) -> bool:
    return text.startswith("[") and text.endswith("]") and not Path(text).exists()


def run(settings: StudySettings, words: Callable[[str], str]) -> int:
    """Do what a study asks for, and say what came of it; returns the exit code, 1 where a scan failed.

    Raises:
        ValueError: wrong input, as :func:`pwan.many.study_files` has it; so for the others.
        OSError: a file or a folder.
        ImportError: a package is missing.
    """
    folder.check_study(settings)  # before torch is loaded
    try:
        with _bar() as show:
            study = many.study_files(settings, tell=lambda text: tqdm.write(words(text)), on_done=show)
    except KeyboardInterrupt as stop:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return code_of(stop)
    print()
    for sentence in study.sentences():
        print(f"- {sentence}")
    print("\nwritten:")
    for name in folder.TOP:
        if (study.folder / name).exists():
            print(f"  {(study.folder / name).resolve()}")
    return FAILED if study.failed else OK


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Shows how many registrations of how many are done, and the time left; each round has a bar of its own."""
    bars: list[Any] = []

    def show(done: int, count: int) -> None:
        if not bars or done < bars[0].n:
            for bar in bars:
                bar.close()
            bars[:] = [tqdm(total=count, initial=done, desc="register", unit="scan", smoothing=0)]
        bars[0].n = done
        bars[0].refresh()

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
