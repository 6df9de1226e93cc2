"""Synthetic problems: a shape, deformed smoothly, with noise, outliers and missing parts (the paper's experiments)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pwan.lazy import lazily
from pwan.synthesis.settings import SynthesisSettings

if TYPE_CHECKING:
    from pwan.synthesis.problems import make_problem

__all__ = ["SynthesisSettings", "make_problem"]

__getattr__, __dir__ = lazily(__name__, {"make_problem": "pwan.synthesis.problems"})
