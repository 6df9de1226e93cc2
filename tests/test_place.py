from __future__ import annotations

import os
from pathlib import Path

import pytest

from pwan.place import python_path

SOURCE = str(Path(__file__).parents[1] / "src")


@pytest.mark.parametrize(("given", "expected"), [("", SOURCE), ("mine", f"{SOURCE}{os.pathsep}mine")])
def test_a_fresh_interpreter_looks_here_first_and_then_where_it_would(monkeypatch, given, expected):
    monkeypatch.setenv("PYTHONPATH", given)
    assert python_path() == expected
