"""Files that take their names only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path, hidden: Path | None = None) -> Iterator[None]:
    """An OSError that names no file, as that of a full disk, or one in a ``hidden`` place, names this path."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and (error.filename is None or (hidden and _is_in(error.filename, hidden))):
            error.filename, error.filename2 = str(path), None
        raise


def words(error: OSError, place: Path | None = None) -> str:
    """What the system complains of, after the path or, where none is known, the place; a sentence of ours as it is."""
    path = place if error.filename is None else os.fsdecode(error.filename)
    if error.errno is None or path is None:
        return str(error) if error.errno is None else str(error.strerror)
    if isinstance(error, FileExistsError):
        return f"{path} is a file; expected a folder there, or none yet"
    return f"{path}: {error.strerror}"


def _is_in(name: str | bytes | int, place: Path) -> bool:
    return not isinstance(name, int) and Path(os.fsdecode(name)).is_relative_to(place)


@contextmanager
def in_one_move(path: Path) -> Iterator[Path]:
    """Where to write a file that is then moved to ``path``, so that no reader ever meets half of it.

    What a killed process leaves behind ends in ".tmp".
    """
    half = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path, half):
            yield half
            os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
