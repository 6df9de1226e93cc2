"""Many scans in one numbering: a template that is registered onto each, and what the shapes have in common.

template, scans ──> register each ──> (S, N, D) in the template's numbering ──> Procrustes ──> mean, modes, scores
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily

if TYPE_CHECKING:
    from pwan.many.model import ShapeModel, shape_model
    from pwan.many.output import Study
    from pwan.many.registering import Corresponded, register_many
    from pwan.many.settings import StudySettings
    from pwan.many.study import study_files

__all__ = [
    "Corresponded",
    "ShapeModel",
    "Study",
    "StudySettings",
    "register_many",
    "shape_model",
    "study_files",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Corresponded": "pwan.many.registering",
        "ShapeModel": "pwan.many.model",
        "Study": "pwan.many.output",
        "StudySettings": "pwan.many.settings",
        "register_many": "pwan.many.registering",
        "shape_model": "pwan.many.model",
        "study_files": "pwan.many.study",
    },
)
