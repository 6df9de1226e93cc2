"""Result rows on disk, one JSON line a trial: they are the truth, everything else mirrors them."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import platform
import zlib
from collections.abc import Iterable
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pwan
from pwan.files import in_one_move, naming, save_bytes
from pwan.problem import RegistrationProblem, mean_squared_error

Row = dict[str, Any]
NAME = "rows.jsonl"
PACKED = "rows.jsonl.gz"  # the rows of an experiment's cells in one file, as experiments/ keeps them


class RowFile:
    """The rows of one folder, open for appending by one process at a time.

    Raises:
        BlockingIOError: another process is writing rows in this folder. The lock dies with its holder.
        ValueError: a line, other than a last one that was cut off, is not a row.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self._file: BufferedRandom = open(self.path, "a+b")  # noqa: SIM115 (closed by __exit__)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise BlockingIOError(
                f"another run is writing {self.path}; wait for it, or give this one a folder of its own with output=..."
            ) from None
        self.rows, length = _parse(self.path)
        if length < self.path.stat().st_size:
            os.truncate(self.path, length)  # what a killed run left of its last line

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def append(self, row: Row) -> None:
        """Write one row; it is on the disk when this returns."""
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        with naming(self.path):
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.rows.append(row)


def read_rows(folder: Path) -> list[Row]:
    """All rows in the folder and in the folders of cells below it, one for each (settings, trial): the newest.

    A cut last line of a file is dropped.
    """
    rows = [row for path in sorted(folder.rglob(NAME)) for row in _parse(path)[0]]
    return newest(rows)


def read_packed(path: Path) -> list[Row]:
    """The rows of a file written by :func:`write_packed`, or of a folder's ``rows.jsonl``.

    Raises:
        ValueError: the file cannot be unpacked, or a line of it is not a row.
    """
    if path.suffix != ".gz":
        return newest(_parse(path)[0])
    try:
        data = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked ({error}); copy it again") from None
    return newest(_parsed(data, path)[0])


def write_packed(rows: Iterable[Row], path: Path) -> None:
    """Write the rows as JSON lines, compressed, in one move; the same rows give the same bytes."""
    lines = b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)
    save_bytes(path, gzip.compress(lines, mtime=0))


def newest(rows: Iterable[Row]) -> list[Row]:
    """The last row of each (settings, trial), so that a trial that was run again counts once."""
    return list({(row["settings"], row["trial"]): row for row in rows}.values())


def check_same_problem(row: Row, problem: RegistrationProblem, where: str) -> None:
    """Refuse a row whose trial did not begin where the first problem of a batch begins.

    Raises:
        ValueError: their initial errors differ; ``where`` says in the sentence where the row comes from.
    """
    assert problem.truth is not None
    initial = float(mean_squared_error(problem.source, problem.truth)[0])
    if not np.isclose(row["mse_initial"], initial, rtol=1e-6):
        raise ValueError(
            f"trial {row['trial']} in {where} began with the MSE {row['mse_initial']:.6g}, made again it begins with "
            f"{initial:.6g}: it is another problem, by another version of the problems or of the shape; leave it out, "
            "or run it again"
        )


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an npz file in one move, so that no reader meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with in_one_move(path) as half, open(half, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def remove_halves(folder: Path) -> None:
    """Remove what a killed run left half-written in a folder of rows; only for the holder of the folder's lock."""
    for half in [*folder.glob("*.tmp"), *folder.glob("points/*/*.tmp")]:
        half.unlink(missing_ok=True)


def environment() -> dict[str, str]:
    """The columns that say where a row was computed and by which versions."""
    return {
        "device": "cpu",
        "host": f"{len(os.sched_getaffinity(0))} cores {platform.machine()}",
        "versions": f"pwan {pwan.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"python {platform.python_version()}",
    }


def _parse(path: Path) -> tuple[list[Row], int]:
    """The rows of a file, and the length in bytes of what could be read."""
    return _parsed(path.read_bytes(), path)


def _parsed(data: bytes, path: Path) -> tuple[list[Row], int]:
    rows: list[Row] = []
    length = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            complete = line.endswith(b"\n") and isinstance(row, dict) and {"settings", "trial"} <= row.keys()
        except ValueError:
            complete = False
        if complete:
            rows.append(row)
            length += len(line)
        elif number < len(lines):
            raise ValueError(
                f"line {number} of {path} is not a result row; remove the line, or name another file, and run again"
            )
    return rows, length
