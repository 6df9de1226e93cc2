"""Many scans in one numbering: a template that is registered onto each, and what the shapes have in common.

template, scans ──> register each ──> (S, N, D) in the template's numbering ──> Procrustes ──> mean, modes, scores
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily

if TYPE_CHECKING:
    from pwan.many.model import ShapeModel, shape_model
    from pwan.many.registering import Corresponded, register_many

__all__ = ["Corresponded", "ShapeModel", "register_many", "shape_model"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Corresponded": "pwan.many.registering",
        "ShapeModel": "pwan.many.model",
        "register_many": "pwan.many.registering",
        "shape_model": "pwan.many.model",
    },
)
