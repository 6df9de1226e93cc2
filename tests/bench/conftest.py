"""A cell that is made fast, and a method for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pwan import methods
from pwan.bench.cell import Cell
from pwan.synthesis import SynthesisSettings

FAKE = Path(__file__).parent / "fake_methods"


@pytest.fixture
def cell() -> Cell:
    return Cell("test", "torus", "packaged", SynthesisSettings(points=30, rank=20, outlier_ratio=0.5), seed=0)


@pytest.fixture
def shifting(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a method that is on the catalogue's path for one test."""
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(FAKE)])
    return "shifting"
