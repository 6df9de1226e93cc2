"""Settings of the authors' d-PWAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.registration.settings import PaperSettings


@dataclass(frozen=True)
class Settings(PaperSettings):
    """The released code's settings, of the distance type."""

    type: Literal["auto", "mass", "distance", "complete"] = "distance"
