"""Settings of CPD by probreg."""

from pwan.methods._settings.pycpd import Settings

__all__ = ["Settings"]
