"""Settings of WGAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.registration.settings import PwanSettings


@dataclass(frozen=True)
class Settings(PwanSettings):
    """PWAN's settings, with neither bound nor threshold on the potential."""

    type: Literal["auto", "mass", "distance", "complete"] = "complete"
