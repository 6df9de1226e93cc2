"""d-PWAN: transports no farther than the problem's distance threshold h; without one, all of the source is matched."""

from dataclasses import dataclass
from typing import Literal

from pwan.registration.coarse import register
from pwan.registration.presets import resolved
from pwan.registration.settings import PwanSettings

__all__ = ["Settings", "register", "resolved"]


@dataclass(frozen=True)
class Settings(PwanSettings):
    """PWAN's settings, of the distance type."""

    type: Literal["auto", "mass", "distance", "complete"] = "distance"
