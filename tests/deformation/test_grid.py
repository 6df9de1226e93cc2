"""The displacement as a grid: exact for affine maps, fine enough for others, the way back, and ITK's own reading."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from pwan.deformation import grid as grid_module
from pwan.deformation.grid import QUANTILE, DisplacementGrid, check_nodes, to_grid
from pwan.deformation.grid_files import write_grid
from pwan.deformation.inverse import points_behind
from pwan.deformation.kernels import KernelSum
from pwan.deformation.space import SpaceTransform
from pwan.normalisation import Frame

RNG = np.random.default_rng(0)
FILES = ("h5", "tfm", "nrrd", "nii.gz")


def affine(matrix: np.ndarray, shift: np.ndarray) -> SpaceTransform:
    d = len(shift)
    zero, one = torch.zeros(1, 1, d, dtype=torch.float64), torch.ones(1, 1, 1, dtype=torch.float64)
    frame = Frame(zero, one, zero, one)
    return SpaceTransform(frame, torch.from_numpy(matrix), torch.from_numpy(shift)[None], KernelSum.zero(d))


def turned(d: int, degrees: float = 75.0) -> np.ndarray:
    matrix, angle = np.eye(d), math.radians(degrees)
    matrix[:2, :2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return matrix


def bent(d: int = 3, strength: float = 0.3) -> SpaceTransform:
    """Turned, shifted and bent; one to one."""
    centres = torch.from_numpy(RNG.normal(size=(5, d)))
    weights = strength * torch.from_numpy(RNG.normal(size=(5, d)))
    return replace(affine(turned(d), np.arange(1.0, d + 1)), displacement=KernelSum(centres, weights, "gaussian", 1.5))


def points(d: int = 3, count: int = 60) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, d))


def read_transform(path: Path) -> sitk.Transform:
    """As ITK reads it: a transform's file, or an image of displacements."""
    if path.suffix in (".h5", ".tfm"):
        return sitk.ReadTransform(str(path))
    return sitk.DisplacementFieldTransform(sitk.ReadImage(str(path), sitk.sitkVectorFloat64))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("direction", ["forward", "back"])
def test_an_affine_map_is_exact_on_the_coarsest_grid(d, direction):
    matrix = turned(d) @ (np.eye(d) + 0.2 * np.random.default_rng(2).normal(size=(d, d)))
    transform, y = affine(matrix, np.arange(1.0, d + 1)), points(d)
    grid = transform.to_grid(y, direction=direction)
    x = transform(y)
    before, after = (y, x) if direction == "forward" else (x, y)
    np.testing.assert_allclose(grid(before), after, atol=1e-9)
    assert grid.error < 1e-9 and grid.missing == 0 and max(grid.shape) <= 18


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("direction", ["forward", "back"])
def test_a_bent_map_is_followed_as_near_as_was_asked_and_not_much_nearer(d, direction):
    transform, y = bent(d), points(d)
    x = transform(y)
    before, after = (y, x) if direction == "forward" else (x, y)
    grid = to_grid(transform, y, direction=direction, tolerance=0.01)
    assert 0.002 < max(grid.error, grid.between) <= 0.01
    assert np.quantile(np.linalg.norm(grid(before) - after, axis=1), QUANTILE) < 0.015
    finer = to_grid(transform, y, direction=direction, spacing=grid.spacing / 2)
    assert finer.between == pytest.approx(grid.between / 4, rel=0.5)  # linear interpolation: the square of the spacing


def test_the_way_back_of_a_known_smooth_map():
    @dataclass
    class Wave:
        """(x, y) to (x, y + sin x), whose inverse is (x, y - sin x)."""

        def __call__(self, at: np.ndarray) -> np.ndarray:
            return at + np.column_stack((np.zeros(len(at)), np.sin(at[:, 0])))

        def jacobians(self, at: np.ndarray) -> np.ndarray:
            out = np.tile(np.eye(2), (len(at), 1, 1))
            out[:, 0, 1] = np.cos(at[:, 0])
            return out

    places = np.random.default_rng(3).uniform(-3, 3, size=(500, 2))
    found, left = points_behind(Wave(), places, np.random.default_rng(4).uniform(-3, 3, size=(40, 2)))
    np.testing.assert_allclose(found, places - np.column_stack((np.zeros(500), np.sin(places[:, 0]))), atol=1e-8)
    assert left.max() < 1e-8


def test_where_a_map_folds_there_is_no_way_back_and_the_share_is_said():
    @dataclass
    class Fold:
        """(x, y) to (x^2, y): nothing goes to the left of 0."""

        def __call__(self, at: np.ndarray) -> np.ndarray:
            return np.column_stack((at[:, 0] ** 2, at[:, 1]))

        def jacobians(self, at: np.ndarray) -> np.ndarray:
            out = np.tile(np.eye(2), (len(at), 1, 1))
            out[:, 0, 0] = 2 * at[:, 0]
            return out

    y = np.random.default_rng(5).uniform(-1, 1, size=(200, 2))
    found, left = points_behind(Fold(), np.array([[0.25, 0.0], [-0.5, 0.0]]), y)
    assert abs(found[0, 0]) == pytest.approx(0.5) and left[0] < 1e-8 and left[1] >= 0.5
    assert to_grid(Fold(), y, direction="back", spacing=0.08).missing > 0.05
    assert to_grid(Fold(), y[y[:, 0] > 0.4], direction="back", spacing=0.02).missing == 0


@pytest.mark.parametrize("end", FILES)
@pytest.mark.parametrize("coordinates", ["lps", "ras"])
def test_itk_moves_points_as_the_map_does(end, coordinates, tmp_path):
    transform, y = bent(), points()
    turn = np.array([-1, -1, 1] if coordinates == "ras" else [1, 1, 1])
    for direction, before, after in (("forward", y, transform(y)), ("back", transform(y), y)):
        grid = to_grid(transform, y, direction=direction, tolerance=0.02)
        path = tmp_path / f"{direction}.{end}"
        write_grid(grid, path, coordinates=coordinates)
        itk = read_transform(path)
        found = np.array([itk.TransformPoint(point) for point in (before * turn).tolist()]) * turn
        np.testing.assert_allclose(found, grid(before), atol=1e-5 if end == "nii.gz" else 1e-9)
        assert np.median(np.linalg.norm(found - after, axis=1)) < 0.02
        assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


def test_a_picture_of_the_source_resampled_by_the_way_back_lies_on_the_reference(tmp_path):
    """ITK's resampling asks at each place of the result where to look in the source: that is the way back."""
    transform, y = bent(strength=0.2), points()
    centre = np.array([0.3, -0.2, 0.4])
    write_grid(to_grid(transform, y, direction="back", tolerance=0.01), tmp_path / "back.h5")
    goal = transform(centre[None])[0]
    result = sitk.Image([40] * 3, sitk.sitkFloat32)  # an image around where the blob belongs
    result.SetSpacing([0.1] * 3)
    result.SetOrigin((goal - 2.0).tolist())
    blob = sitk.GaussianSource(
        sitk.sitkFloat32, size=[60] * 3, sigma=[0.3] * 3, mean=(centre + 3.0).tolist(), spacing=[0.1] * 3
    )
    blob.SetOrigin([-3.0] * 3)
    image = sitk.Resample(blob, result, sitk.ReadTransform(str(tmp_path / "back.h5")), sitk.sitkLinear, 0.0)
    brightest = np.unravel_index(sitk.GetArrayFromImage(image).argmax(), image.GetSize()[::-1])[::-1]
    there = np.array(image.TransformIndexToPhysicalPoint([int(k) for k in brightest]))
    np.testing.assert_allclose(there, goal, atol=0.1)
    assert np.linalg.norm(goal - centre) > 1  # it did move


def test_in_the_plane_too(tmp_path):
    transform, y = bent(2), points(2)
    grid = to_grid(transform, y, tolerance=0.02)
    for end in FILES:
        write_grid(grid, tmp_path / f"grid.{end}")
        itk = read_transform(tmp_path / f"grid.{end}")
        found = np.array([itk.TransformPoint(point) for point in y.tolist()])
        np.testing.assert_allclose(found, grid(y), atol=1e-5)


def test_outside_the_grid_points_stay():
    grid = to_grid(affine(np.eye(3), np.ones(3)), points())
    np.testing.assert_array_equal(grid(np.full((1, 3), 99.0)), np.full((1, 3), 99.0))
    assert repr(grid).startswith("DisplacementGrid: forward, ") and isinstance(grid, DisplacementGrid)


def test_more_nodes_than_memory_are_refused_with_the_spacing_that_fits(monkeypatch):
    monkeypatch.setattr(grid_module, "_free_memory", lambda: 1e6)
    y = points()
    with pytest.raises(ValueError, match=r"more than the memory that is free; take spacing=([\d.]+) or more") as said:
        to_grid(bent(), y, spacing=1e-3)
    fits = float(str(said.value).split("take spacing=")[1].split()[0])
    check_nodes(y, fits)
    with pytest.raises(ValueError, match="nodes"):
        check_nodes(y, 0.95 * fits)
    automatic = to_grid(bent(), y, tolerance=1e-9)  # takes the finest that fits, and says what is left
    assert automatic.between > 1e-9 and math.prod(automatic.shape) <= 1e6 / 144


def test_bad_input_is_one_sentence(tmp_path):
    transform, y = bent(), points()
    with pytest.raises(ValueError, match="direction must be forward or back, got 'up'"):
        to_grid(transform, y, direction="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"spacing must be positive, got 0"):
        to_grid(transform, y, spacing=0)
    with pytest.raises(ValueError, match=r"expected points of shape \(N, D\)"):
        to_grid(transform, y[0])
    grid = to_grid(transform, y)
    with pytest.raises(ValueError, match=r"expected a name that ends in .h5, .tfm, .nrrd, .nii.gz"):
        write_grid(grid, tmp_path / "grid.vtk")
    with pytest.raises(ValueError, match="coordinates must be lps or ras"):
        write_grid(grid, tmp_path / "grid.h5", coordinates="xyz")  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no-folder"):
        write_grid(grid, tmp_path / "no-folder" / "grid.h5")


def test_a_missing_package_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "SimpleITK", None)
    with pytest.raises(
        ImportError, match=r"a displacement grid needs the extra 'export': pip install 'pwan\[export\]'"
    ):
        write_grid(to_grid(bent(), points()), tmp_path / "grid.h5")
