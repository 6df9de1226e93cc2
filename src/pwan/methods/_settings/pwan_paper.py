"""Settings of the authors' PWAN."""

from pwan.registration.settings import PaperSettings as Settings

__all__ = ["Settings"]
