"""Settings of PWAN."""

from pwan.registration.settings import PwanSettings as Settings

__all__ = ["Settings"]
