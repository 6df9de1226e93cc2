"""``pwan register template.ply scans/*.ply`` and ``task=register source=template.ply reference=folder``: many scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pwan import many
from pwan.exit_codes import FAILED, OK
from pwan.many import folder
from pwan.many.listing import means_many
from pwan.many.settings import OWN, StudySettings, study_keys
from pwan.progress import counting_bar
from pwan.settings import build_settings


def is_asked(given: Mapping[str, Any]) -> bool:
    """Whether the arguments are of a study: a list of scans, a folder or a pattern, or a setting that only it has."""
    scans = given.get("reference")
    return means_many(scans) or (scans is not None and any(key in given for key in study_keys()))


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


def run(settings: StudySettings, tell: Callable[[str], None]) -> tuple[int, tuple[Path, ...]]:
    """Do what a study asks for, and say what came of it; returns the exit code, 1 where a scan failed, and what was
    written.

    Raises:
        ValueError: wrong input, as :func:`pwan.many.study_files` has it; so for the others.
        OSError: a file or a folder.
        ImportError: a package is missing.
    """
    folder.check_study(settings)  # before torch is loaded
    with counting_bar("scan") as show:
        study = many.study_files(settings, tell=tell, on_done=show)
    print()
    for sentence in study.sentences():
        print(f"- {sentence}")
    written = () if study.kept else tuple(study.folder / name for name in folder.TOP)
    return FAILED if study.failed else OK, written
