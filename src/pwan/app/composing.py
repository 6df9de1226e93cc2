"""Hydra composes more often than it needs to, which is most of the time until a wrong key is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra._internal.hydra import Hydra

_SWEEP = "MULTIRUN"  # the one value of hydra.mode that says more than the flags do


@contextmanager
def composed_once(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[None]:
    """Hydra first composes everything to learn ``hydra.mode``, which without a word of it follows from the flags."""
    texts = (path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.yaml"))
    if any(_SWEEP in text for text in (*overrides, *texts)):
        yield
        return
    before = Hydra.get_mode
    Hydra.get_mode = lambda *given, **named: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Hydra.get_mode = before  # type: ignore[method-assign]
