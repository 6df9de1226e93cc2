"""Files that take their names only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def in_one_move(path: Path) -> Iterator[Path]:
    """Where to write a file that is then moved to ``path``, so that no reader ever meets half of it.

    What a killed process leaves behind ends in ".tmp".
    """
    half = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield half
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
