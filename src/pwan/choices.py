"""The words that settings of several rooms may hold. Nothing slow is imported here, so that settings are checked at
once.
"""

from __future__ import annotations

from typing import Literal

Normalisation = Literal["auto", "separate", "joint", "none"]  # see :func:`pwan.normalisation.normalise`
TransformKind = Literal["nonrigid", "affine", "rigid"]  # see :class:`pwan.deformation.transform.Transform`
KernelKind = Literal["gaussian", "geodesic"]  # of the coherence, see :class:`pwan.registration.settings.PwanSettings`
EnergyKind = Literal["bending", "rigid"]  # what a displacement costs, see the same
Kind = Literal["mass", "distance", "complete"]  # what a discrepancy limits, see :mod:`pwan.transport.objective`
Wanted = Literal["auto", "released", "mass", "distance", "complete"]  # of a kind, see the settings
BANDS = ("quartiles", "std")  # around the medians of the figures of accuracy
ACCURACY_SHAPES = ("bunny", "monkey", "armadillo")  # the panels of the paper's figures of accuracy, in this order
