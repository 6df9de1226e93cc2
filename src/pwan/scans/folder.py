"""The folder of a registration's results: the files in it, and whether they can be written. Nothing slow is
imported here, so that a folder is refused at once.
"""

from __future__ import annotations

import os
from pathlib import Path

from pwan.extras import needs
from pwan.scans.settings import GRIDS, MESHES, ScanSettings

RESULT, TRANSFORM, MATCHES, PAGE = "result.json", "transform.pwan", "matches.csv", "report.html"
STUDY, SEQUENCE = "study.json", "sequence.json"  # of many registrations, each in a folder inside


def _exported(settings: ScanSettings, names: tuple[str, ...]) -> dict[str, str]:
    """The files' names of exports by their names."""
    return {name: name if name in GRIDS else f"{stem(Path(settings.source))}_registered.{name}" for name in names}


def stale(settings: ScanSettings) -> list[Path]:
    """Exports of an earlier run that this one does not write: they would stand beside a result of another run."""
    kept = {path.resolve() for path in (*files(settings).values(), Path(settings.source), Path(settings.reference))}
    there = (Path(settings.output) / name for name in _exported(settings, (*GRIDS, *MESHES)).values())
    return [path for path in there if path.resolve() not in kept and path.is_file()]


def files(settings: ScanSettings) -> dict[str, Path]:
    """The files that a run with these settings writes, by what they hold."""
    folder, source = Path(settings.output), Path(settings.source)
    names = {"points": f"{stem(source)}_registered{suffixes(source)}"}
    names |= {"result": RESULT, "transform": TRANSFORM, "matches": MATCHES, "page": PAGE}
    own = suffixes(source).lower()  # the moved points are in such a file already
    names |= _exported(settings, settings.exports)
    return {what: folder / name for what, name in names.items() if what == "points" or own != f".{what}"}


def check_output(settings: ScanSettings) -> None:
    """Refuse before anything is computed what could not be written in the end.

    Raises:
        OSError: the folder is a file, or cannot be made or written to.
        ValueError: the folder holds results already, or is that of many registrations.
        MissingExtraError: a package that an export needs is not installed.
    """
    for package, extra, names in (("SimpleITK", "export", GRIDS), ("trimesh", "scans", ("glb",))):
        if found := [name for name in settings.exports if name in names]:
            with needs(extra, f"export={found[0]}", package):
                pass
    folder = Path(settings.output)
    check_writable(folder)
    for name, what in ((STUDY, "a study of many scans"), (SEQUENCE, "a sequence of frames")):
        if (folder / name).exists():
            raise ValueError(f"{folder} holds {what} ({name}), but two files are registered; name another with output=")
    existing = [path.name for path in files(settings).values() if os.path.lexists(path)]
    folders = [path for path in files(settings).values() if path.is_dir()]
    if folders:
        raise IsADirectoryError(f"{folders[0]} is a folder where a file would be written; name another with output=")
    if existing and not settings.overwrite:
        raise ValueError(
            f"{folder} holds results already ({', '.join(existing)}); name another folder with output=, or write over "
            "them with overwrite=true"
        )


def check_writable(folder: Path) -> None:
    """Refuse a folder for results that is a file, or cannot be made or written to.

    Raises:
        OSError: it is so.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; expected a folder for the results, name another with output=")
    above = folder
    while not above.exists():
        above = above.parent
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(f"{above} cannot be written to; name another folder with output=")


def stem(path: Path) -> str:
    """The file's name without its suffix, and without that below .gz."""
    return path.name.removesuffix(suffixes(path)) or path.name


def suffixes(path: Path) -> str:
    """The suffix of the file, with .gz where it ends so; .mrk.json is one."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    double = ".mrk" if inner.name.lower().endswith(".mrk.json") else ""
    return inner.name[-len(double + inner.suffix) :] * bool(inner.suffix) + (path.suffix if inner != path else "")
