"""Settings of the paper's text."""

from pwan.registration.settings import TextSettings as Settings

__all__ = ["Settings"]
