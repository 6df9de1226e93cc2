"""d-PWAN: transports no farther than the problem's distance threshold h; without one, all of the source is matched."""

from pwan.methods._settings.pwan_distance import Settings
from pwan.registration.flexibility import register
from pwan.registration.presets import resolved

__all__ = ["Settings", "register", "resolved"]
