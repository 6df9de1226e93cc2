"""The settings of a study: a template's file and many scans' files; and what options of many sets may not hold. Nothing
slow is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from pwan.many.listing import listed
from pwan.scans.folder import stem
from pwan.scans.settings import ScanSettings
from pwan.settings import build_settings, convert_fields

Onto = Literal["template", "mean"]
Moves = Literal["template", "scans"]
# of a registration, what the study sets itself
OWN = ("source", "reference", "output", "overwrite")
ROLES = ("source_", "reference_")


@dataclass(frozen=True)
class StudySettings:
    """Settings of :func:`pwan.many.study_files`.

    Attributes:
        template: the file whose points, and faces, all scans get.
        scans: a list of two files or more, or of folders or patterns of them, also of a single one.
        output: the folder for the results, made if it does not exist.
        to: "template" registers with the template alone. "mean" then registers with the mean shape, and with the next
            one, until it stays.
        moves: "template" moves the template onto each scan. "scans" moves each scan onto the template, and each
            template point then takes the place that the nearest point of the moved scan has in its file.
        remove_size: take out the sizes of the shapes, beside positions and turns, before mean and modes.
        workers: over so many processes the registrations are dealt; "auto": one for each core.
        overwrite: write over results of something else.
        each: settings of each registration by their names in :class:`pwan.scans.ScanSettings`, where "source" is the
            template and "reference" the scan, whichever moves.
    """

    template: str
    scans: tuple[str, ...]
    output: str = "study"
    to: Onto = "template"
    moves: Moves = "template"
    remove_size: bool = False
    workers: int | Literal["auto"] = "auto"
    overwrite: bool = False
    each: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        convert_fields(self)
        if self.workers != "auto" and self.workers < 1:
            raise ValueError(f"workers must be a number from 1 on, or auto, got {self.workers}")
        own = [name for name in OWN if name in self.each]
        if own:
            raise ValueError(f"{', '.join(own)} of a registration are set by the study")
        if "landmarks" in self.each:
            raise ValueError(
                "landmarks are of one scan and cannot serve many; leave them out, or register the scan that needs them "
                "alone"
            )
        self.of("scan", Path(self.output))  # checks them

    def of(self, scan: str, folder: Path, **changed: Any) -> ScanSettings:
        """The settings of one registration, whose results go into this folder."""
        told, files = {**self.each, **changed}, (self.template, scan)
        if self.moves == "scans":
            told, files = {_other_role(name): value for name, value in told.items()}, files[::-1]
        ends = dict(zip(("source", "reference"), files, strict=True))
        told |= {**ends, "output": str(folder), "overwrite": True}
        one: ScanSettings = build_settings(ScanSettings, told, owner="register")
        return one

    def names(self) -> dict[str, str]:
        """The scans' files by their names, which are those of the files without suffixes; in the order of
        :func:`pwan.many.listing.listed`.

        Raises:
            ValueError: fewer than two, a folder or a pattern without any, or two of one name.
            OSError: a folder that cannot be read.
        """
        found: dict[str, str] = {}
        for path in listed(self.scans):
            name = stem(Path(path))
            if name in found:
                raise ValueError(
                    f"{found[name]} and {path} have the same name, {name}, by which their results are known; rename "
                    "one of them"
                )
            found[name] = path
        if len(found) < 2:
            raise ValueError(f"expected two scans or more, found {', '.join(found.values()) or 'none'}")
        return found


def study_keys() -> tuple[str, ...]:
    """The names of the settings that a registration of two files does not have."""
    pair = [one.name for one in fields(ScanSettings)]
    return tuple(one.name for one in fields(StudySettings) if one.name not in (*pair, "template", "scans", "each"))


def _other_role(name: str) -> str:
    """A setting's name of the other file."""
    role = next((role for role in ROLES if name.startswith(role)), None)
    return name if role is None else ROLES[1 - ROLES.index(role)] + name.removeprefix(role)


def check_shared(options: Mapping[str, Any], many: str, caller: str) -> None:
    """Refuse what belongs to one set alone where ``many``, "source" or "reference", are several, each with points of
    its own.

    Raises:
        ValueError: such an option.
    """
    one = [name for name in ("source_attributes", "reference_attributes") if options.get(name) is not None]
    for name in (f"{many}_weights", f"{many}_faces"):
        if options.get(name) is not None and not isinstance(options[name], str):
            one.append(name)
    if one:
        raise ValueError(
            f"{caller} has one {one[0]} for all sets, but it belongs to the points of one; leave it out, call "
            "pwan.register for each, or give files, which hold it beside their points"
        )
