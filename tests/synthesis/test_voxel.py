from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pwan.synthesis.voxel import voxel_means


def test_one_mean_for_each_occupied_cube() -> None:
    points = np.array([[0.1, 0.1], [0.3, 0.5], [1.5, 0.5], [-0.5, 0.5], [-0.1, 0.9]])
    carried = np.array([[1.0], [3.0], [5.0], [7.0], [9.0]])
    means, values = voxel_means(points, 1.0, carried)
    np.testing.assert_allclose(means, [[-0.3, 0.7], [0.2, 0.3], [1.5, 0.5]])
    np.testing.assert_allclose(values, [[8.0], [2.0], [5.0]])


def test_edge_zero_changes_nothing() -> None:
    points = np.random.default_rng(0).normal(size=(20, 3))
    (same,) = voxel_means(points, 0.0)
    assert same is points


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 300), edge=st.floats(0.05, 3), dimension=st.sampled_from([2, 3]), seed=st.integers(0, 1000))
def test_every_cube_keeps_its_mean_and_no_two_points_share_one(n: int, edge: float, dimension: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, dimension))
    (means,) = voxel_means(points, edge)
    cubes: dict[tuple[float, ...], list[np.ndarray]] = {}
    for point in points:
        cubes.setdefault(tuple(np.floor(point / edge)), []).append(point)
    expected = np.array([np.mean(cubes[cube], axis=0) for cube in sorted(cubes)])
    np.testing.assert_allclose(means, expected, atol=1e-12)
