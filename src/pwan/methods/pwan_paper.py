"""m-PWAN with the settings of the authors' released code (slow; the yardstick for the default)."""

from pwan.registration.flexibility import register
from pwan.registration.presets import resolved
from pwan.registration.settings import PaperSettings as Settings

__all__ = ["Settings", "register", "resolved"]
