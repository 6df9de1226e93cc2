"""PWAN, the default: mass type unless the problem states only a distance; complete when it states neither."""

from pwan.registration.flexibility import register
from pwan.registration.presets import resolved
from pwan.registration.settings import PwanSettings as Settings

__all__ = ["Settings", "register", "resolved"]
