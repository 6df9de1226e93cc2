"""docs/exports.md: its reader of transform.pwan in plain numpy, the bytes that it describes, and its Python."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pwan.deformation.corrected import Corrected
from pwan.deformation.graph import shape_graph
from pwan.deformation.kernels import KernelSum
from pwan.deformation.space import SpaceTransform
from pwan.deformation.surface_map import SurfaceDisplacement
from pwan.scans.settings import GRIDS, MESHES, SHORT
from tests.deformation.test_space import draw, some_transform

PAGE = (Path(__file__).parents[1] / "docs" / "exports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def mover(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    """As the page has it."""
    scope: dict[str, Any] = {}
    exec(next(block for block in BLOCKS if "def mover" in block), scope)
    return scope["mover"](path)


def on_a_surface(d: int, count: int = 40) -> SpaceTransform:
    plain = some_transform(d)
    points, values = draw(count, d, seed=7), 0.1 * draw(count, d, seed=8)
    graph = shape_graph(points.numpy())
    return replace(plain, displacement=SurfaceDisplacement.of(points, values, plain.affine, graph))


def pinned(transform: SpaceTransform) -> SpaceTransform:
    d = len(transform.affine)
    correction = KernelSum(draw(4, d, seed=10), 0.1 * draw(4, d, seed=11), "gaussian", 0.4)
    return replace(transform, displacement=Corrected(transform.displacement, correction))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kind", ["gaussian", "thin_plate", "surface", "few", "pinned"])
def test_the_reader_in_plain_numpy_moves_points_as_the_transform_does(d, kind, tmp_path):
    small = {"surface": 40, "few": d + 2}
    transform = on_a_surface(d, small[kind]) if kind in small else some_transform(d, kind.replace("pinned", "gaussian"))
    if kind == "pinned":
        transform = pinned(transform)
    transform.save(tmp_path / "transform.pwan")
    at = 2 * draw(50, d, seed=9).numpy()
    on_it = at
    if kind in small:  # also at the very points
        frame = transform.frame
        known = transform.displacement.centres * frame.source_scale[0] + frame.source_centre[0]
        on_it = np.concatenate((at, known.numpy()))
    np.testing.assert_allclose(mover(tmp_path / "transform.pwan")(on_it), transform(on_it), atol=1e-9)


def test_the_bytes_are_as_described(tmp_path):
    transform = some_transform(3)
    transform.save(tmp_path / "transform.pwan")
    with zipfile.ZipFile(tmp_path / "transform.pwan") as archive:
        assert all(one.compress_type == zipfile.ZIP_STORED for one in archive.infolist())
        members = {one.removesuffix(".npy"): archive.read(one) for one in archive.namelist()}
    data = members["weights"]
    length = struct.unpack("<H", data[8:10])[0]
    assert data[:8] == b"\x93NUMPY\x01\x00" and data[10 : 9 + length].rstrip().endswith(b"}")
    assert b"'descr': '<f8', 'fortran_order': False, 'shape': (7, 3)" in data[10 : 10 + length]
    numbers = np.array(struct.unpack("<21d", data[10 + length :])).reshape(7, 3)
    np.testing.assert_array_equal(numbers, transform.displacement.weights)  # type: ignore[attr-defined]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\| (`\w+`(?:, `\w+`)*) \| \(", PAGE))))
    pinned(on_a_surface(3)).save(tmp_path / "other.pwan")
    assert named == set(members) | set(np.load(tmp_path / "other.pwan").files)


def test_the_python_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    some_transform(3).save(tmp_path / "folder" / "transform.pwan")
    exec(next(block for block in BLOCKS if "to_grid" in block), {"source": draw(30, 3).numpy()})
    assert (tmp_path / "back.nii.gz").exists()


def test_a_grid_of_a_surface_map_is_led_through_its_points_and_is_no_finer_than_they_lie():
    transform = on_a_surface(3, 80)
    transform = replace(transform, affine=torch.eye(3, dtype=torch.float64))
    frame = transform.frame
    points = (transform.displacement.centres * frame.source_scale[0] + frame.source_centre[0]).numpy()
    moved = transform(points)
    for direction, before, after in (("forward", points, moved), ("back", moved, points)):
        grid = transform.to_grid(points, direction=direction, tolerance=1e-6)  # type: ignore[arg-type]
        apart = np.sort(np.linalg.norm(before[:, None] - before, axis=2), 1)[:, 1]
        assert grid.spacing >= 0.99 * np.median(apart)
        plain = np.linalg.norm(before - after, axis=1)
        assert np.median(np.linalg.norm(grid(before) - after, axis=1)) < 0.1 * np.median(plain)


def test_the_names_on_the_page_are_those_that_are_known():
    named = {
        one
        for row in re.findall(r"(?m)^\| (`[\w.`, ]+) ?(?:\.\.\.)? ?\| [`o]", PAGE)
        for one in re.findall(r"`([\w.]+)`", row)
    }
    assert {"glb", "ply", "obj", "grid", "forward.h5", "back.tfm"} <= named <= {*GRIDS, *MESHES, *SHORT}
