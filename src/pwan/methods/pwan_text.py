"""m-PWAN with the settings of the paper's text where it differs from the authors' released code (slow)."""

from pwan.registration.flexibility import register
from pwan.registration.presets import resolved
from pwan.registration.settings import TextSettings as Settings

__all__ = ["Settings", "register", "resolved"]
