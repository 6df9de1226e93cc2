"""The folder of a study: what stands in it, and whether it can be written. Nothing slow is imported here."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pwan.files import digest
from pwan.many.settings import StudySettings
from pwan.scans.folder import STUDY, check_output, check_writable, suffixes

PAGE, POINTS, MODEL = "study.html", "corresponded.npz", "model.npz"
SCANS, MODES, SCORES = "scans.csv", "modes.csv", "scores.csv"
CORRESPONDED, SHAPES, REGISTRATIONS = "corresponded", "shapes", "registrations"
TOP = (STUDY, PAGE, POINTS, MODEL, SCANS, MODES, SCORES, CORRESPONDED, SHAPES, REGISTRATIONS)
DONE = "done.npz"  # in the folder of a registration: written last


def registrations(settings: StudySettings, number: int) -> Path:
    """The folder of the registrations of a round, which count from 1."""
    return Path(settings.output) / (REGISTRATIONS if number == 1 else f"{REGISTRATIONS}_{number}")


def mesh_name(settings: StudySettings, name: str) -> str:
    """The file's name of a shape in the template's format."""
    return f"{name}{suffixes(Path(settings.template))}"


def check_study(settings: StudySettings) -> dict[str, str]:
    """Refuse before anything is read what could not be done; the scans' files by their names.

    Raises:
        OSError: a file that is not there, or a folder that is a file or cannot be written to.
        ValueError: no scans, two of one name, or a folder that holds something else, also a study of other files.
        MissingExtraError: a package that an export needs is not installed.
    """
    names = settings.names()
    for path in (settings.template, *names.values()):
        Path(path).stat()
    folder = Path(settings.output)
    check_writable(folder)
    for name, path in names.items():
        check_output(settings.of(path, registrations(settings, 1) / name))
    there = [name for name in TOP if os.path.lexists(folder / name)]
    if there and STUDY not in there and not settings.overwrite:
        raise ValueError(
            f"{folder} holds {', '.join(there)}, and not of a study; name another folder with output=, or write over "
            "them with overwrite=true"
        )
    others = _others(settings, names)
    if others and not settings.overwrite:
        raise ValueError(
            f"{folder} holds results of other files already ({others}); name another folder with output=, or write "
            "over them with overwrite=true"
        )
    return names


def finished(folder: Path) -> dict[str, Any] | None:
    """What the finished study in a folder says of itself; None where none is, or all of its scans failed."""
    try:
        held = json.loads((folder / STUDY).read_text(encoding="utf-8"))
        return held if held["finished"] and held["registered"] else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _others(settings: StudySettings, names: Collection[str]) -> str:
    """The files of the finished study in the folder that are not of this one, in words."""
    held = finished(Path(settings.output))
    if held is None:
        return ""
    template = held["template"]
    if template != settings.template and held.get("template_digest") != digest(settings.template):
        return f"of the template {template}"
    gone = [name for name in held["registered"] if name not in names]
    return f"of {', '.join(gone)}, which this run leaves out" if gone else ""
