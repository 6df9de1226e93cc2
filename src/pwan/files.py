"""Files that take their names only when they are whole."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


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


def save_text(path: Path, text: str) -> None:
    """Write a text in one move."""
    save_bytes(path, text.encode())


def save_bytes(path: Path, content: bytes) -> None:
    """Write a file in one move."""
    with in_one_move(path) as half:
        half.write_bytes(content)


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an npz file, under exactly this name, in one move."""
    with in_one_move(path) as half, open(half, "wb") as file:
        np.savez(file, **arrays)


def kept_arrays(path: Path) -> dict[str, Any] | None:
    """The arrays of an npz file; None where there is none, or what lies there is not whole."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile):  # np.load may give a bare array
        return None


def digest(path: str | Path) -> str:
    """What the file's content is known by: its SHA-256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def unfinished_in(folder: Path) -> Iterator[Path]:
    """A folder inside this one that goes in the end, and this one with it where it was made for nothing."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=".pwan-", suffix=".tmp", dir=folder))
    try:
        yield half
    finally:
        shutil.rmtree(half, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


@contextmanager
def alone_in(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the folder's lock, which dies with its holder: of two runs into it, one moves its files at a time.

    Raises:
        BlockingIOError: another run holds it, and this one is not to wait.
    """
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise BlockingIOError(
                f"another run is writing in {folder}; wait for it, or give this one a folder of its own with output=..."
            ) from None
        yield
    finally:
        os.close(place)
