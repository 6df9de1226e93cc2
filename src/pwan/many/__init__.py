"""One shape and many sets of points: the frames of something that moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily

if TYPE_CHECKING:
    from pwan.many.sequence import RegisteredSequence, register_sequence

__all__ = ["RegisteredSequence", "register_sequence"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "RegisteredSequence": "pwan.many.sequence",
        "register_sequence": "pwan.many.sequence",
    },
)
