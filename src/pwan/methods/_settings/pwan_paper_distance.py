"""Settings of the authors' d-PWAN."""

from __future__ import annotations

from dataclasses import dataclass

from pwan.choices import Wanted
from pwan.registration.settings import PaperSettings


@dataclass(frozen=True)
class Settings(PaperSettings):
    """The released code's settings, of the distance type."""

    type: Wanted = "distance"
