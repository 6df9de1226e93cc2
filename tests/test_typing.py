"""Types as another project's mypy sees them: the package lies on the import path, and ``py.typed`` makes it count."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
USE = """
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray

from pwan import PwanSettings, partial_wasserstein, read_points, register

array, tensor = np.zeros((10, 3)), torch.zeros(10, 3)

result = register(array, tensor, mass=3, settings=PwanSettings(steps=3), rank=5)
assert_type(result.transformed, NDArray[Any])
assert_type(register(tensor, array, distance=array[0]).matched, torch.Tensor)
assert_type(register([[0.0, 1.0]], [array, array], mass=[1, 2]).transformed, NDArray[Any])
assert_type(partial_wasserstein(array, tensor).value, float)
register(read_points("a.ply"), array, mass="auto", landmarks=[[1, 2]], progress=True)
register(tensor[None], tensor[None], mass=tensor[0], landmarks=[None, array])
if result.status == "ok":
    print(result.seconds / result.steps, result.transform(array))

register(array)  # type: ignore[call-overload]
register(None, array)  # type: ignore[call-overload]
register("a.ply", array)  # type: ignore[arg-type]
register(array, array, mass="all")  # type: ignore[arg-type]
register(array, array, landmarks="all")  # type: ignore[arg-type]
register(array, array, settings={"steps": 3})  # type: ignore[call-overload]
register(array, array, method=3)  # type: ignore[call-overload]
register(array, array, progress="yes")  # type: ignore[call-overload]
result.transfromed  # type: ignore[attr-defined]
"""


def test_types_seen_from_outside(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    cache = tmp_path / "cache"
    if (ROOT / ".mypy_cache").is_dir():  # of a check of this project: torch need not be read again
        shutil.copytree(ROOT / ".mypy_cache", cache)
    options = ["--ignore-missing-imports", "--warn-redundant-casts", "--warn-unused-ignores", "--python-version=3.11"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={cache}", *options, "use.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
