"""Register one file of points onto another: what a person with two scans calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily
from pwan.scans.settings import ScanSettings

if TYPE_CHECKING:
    from pwan.scans.folder import files
    from pwan.scans.outcome import Outcome
    from pwan.scans.registering import register_files

__all__ = ["Outcome", "ScanSettings", "files", "register_files"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Outcome": "pwan.scans.outcome",
        "files": "pwan.scans.folder",
        "register_files": "pwan.scans.registering",
    },
)
