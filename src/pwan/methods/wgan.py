"""WGAN: complete transport of both sets (appendix "Connections between PWAN and WGAN"); the control without partial
matching.
"""

from pwan.methods._settings.wgan import Settings
from pwan.registration.flexibility import register
from pwan.registration.presets import resolved

__all__ = ["Settings", "register", "resolved"]
