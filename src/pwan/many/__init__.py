"""Many sets of points: a template that is registered onto each scan, and what the shapes have in common; and one shape
led through the frames of something that moves.

    template, scans ──> register each ──> (S, N, D) in the template's numbering ──> Procrustes ──> mean, modes, scores
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily

if TYPE_CHECKING:
    from pwan.many.model import ShapeModel, shape_model
    from pwan.many.output import Study
    from pwan.many.registering import Corresponded, register_many
    from pwan.many.sequence import RegisteredSequence, register_sequence
    from pwan.many.settings import StudySettings
    from pwan.many.study import study_files

__all__ = [
    "Corresponded",
    "RegisteredSequence",
    "ShapeModel",
    "Study",
    "StudySettings",
    "register_many",
    "register_sequence",
    "shape_model",
    "study_files",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Corresponded": "pwan.many.registering",
        "RegisteredSequence": "pwan.many.sequence",
        "ShapeModel": "pwan.many.model",
        "Study": "pwan.many.output",
        "StudySettings": "pwan.many.settings",
        "register_many": "pwan.many.registering",
        "register_sequence": "pwan.many.sequence",
        "shape_model": "pwan.many.model",
        "study_files": "pwan.many.study",
    },
)
