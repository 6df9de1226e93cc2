"""Settings of CPD by biocpd."""

from pwan.methods._settings.cpd import Settings

__all__ = ["Settings"]
