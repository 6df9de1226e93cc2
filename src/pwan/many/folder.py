"""The folder of a study: what stands in it, and whether it can be written. Nothing slow is imported here."""

from __future__ import annotations

import os
from pathlib import Path

from pwan.many.settings import StudySettings
from pwan.scans.folder import check_output, check_writable, suffixes

STUDY, PAGE, POINTS, MODEL = "study.json", "study.html", "corresponded.npz", "model.npz"
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
        ValueError: no scans, two of one name, or a folder that holds something else.
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
    return names
