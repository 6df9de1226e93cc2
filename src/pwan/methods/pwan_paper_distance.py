"""d-PWAN with the settings of the authors' released code."""

from pwan.methods._settings.pwan_paper_distance import Settings
from pwan.registration.flexibility import register
from pwan.registration.presets import resolved

__all__ = ["Settings", "register", "resolved"]
