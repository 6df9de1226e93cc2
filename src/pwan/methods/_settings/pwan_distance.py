"""Settings of d-PWAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.registration.settings import PwanSettings


@dataclass(frozen=True)
class Settings(PwanSettings):
    """PWAN's settings, of the distance type."""

    type: Literal["auto", "mass", "distance", "complete"] = "distance"
