"""WGAN: complete transport of both sets (appendix "Connections between PWAN and WGAN"); the control without partial
matching.
"""

from dataclasses import dataclass
from typing import Literal

from pwan.registration.coarse import register
from pwan.registration.presets import resolved
from pwan.registration.settings import PwanSettings

__all__ = ["Settings", "register", "resolved"]


@dataclass(frozen=True)
class Settings(PwanSettings):
    """PWAN's settings, with neither bound nor threshold on the potential."""

    type: Literal["auto", "mass", "distance", "complete"] = "complete"
