"""The room of point files knows nothing of registration."""

from __future__ import annotations

import ast
from pathlib import Path

import pwan.pointfiles

ROOM = Path(pwan.pointfiles.__file__).parent


def test_it_imports_nothing_of_ours_but_itself_and_the_files_below():
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            ours = [name for name in names if name.split(".")[0] == "pwan"]
            below = ("pwan.files", "pwan.extras")
            assert all(name in below or name.startswith("pwan.pointfiles") for name in ours), (path, ours)
            assert not isinstance(node, ast.ImportFrom) or node.level == 0, path
