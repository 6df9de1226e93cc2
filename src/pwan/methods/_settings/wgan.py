"""Settings of WGAN."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Wanted
from pwan.registration.settings import PwanSettings


@dataclass(frozen=True)
class Settings(PwanSettings):
    """PWAN's settings, with neither bound nor threshold on the potential."""

    type: Wanted = "complete"
