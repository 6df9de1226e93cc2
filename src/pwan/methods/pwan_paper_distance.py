"""d-PWAN with the settings of the authors' released code."""

from dataclasses import dataclass
from typing import Literal

from pwan.registration.coarse import register
from pwan.registration.presets import resolved
from pwan.registration.settings import PaperSettings

__all__ = ["Settings", "register", "resolved"]


@dataclass(frozen=True)
class Settings(PaperSettings):
    """The released code's settings, of the distance type."""

    type: Literal["auto", "mass", "distance", "complete"] = "distance"
