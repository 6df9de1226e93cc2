"""How near two sets lie: planes and curves in closed form, and what is left between draws of one surface."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import KDTree

from pwan.begin.nearness import Surface, distances_left, nearest_rows
from pwan.randomness import numpy_generator


def plane(n: int, seed: int = 0) -> np.ndarray:
    """Points of the unit square at height 0."""
    return np.column_stack((numpy_generator(seed, "plane").random((n, 2)), np.zeros(n)))


def test_the_distance_to_a_plane_is_the_height_above_it_and_beyond_its_edge_the_way_to_it() -> None:
    surface = Surface.through(plane(500))
    assert surface.normals is not None
    above = np.array([[0.5, 0.5, 0.03], [0.31, 0.62, -0.2]])
    np.testing.assert_allclose(surface.distance(above), [0.03, 0.2], atol=1e-9)
    beside = surface.distance(np.array([[3.0, 0.5, 0.0]]))
    assert beside == pytest.approx(2.0, abs=0.2)  # less the reach of the last point's plane


def test_points_that_fill_space_and_few_points_have_the_distance_of_neighbours() -> None:
    generator = numpy_generator(0, "fill")
    for points in (generator.random((500, 2)), plane(40)):
        surface = Surface.through(points)
        assert surface.normals is None
        np.testing.assert_allclose(surface.distance(points + 1e-4), np.sqrt(points.shape[1]) * 1e-4)


def test_draws_of_one_surface_lie_nearer_than_their_spacing() -> None:
    ball = numpy_generator(0, "ball").standard_normal((600, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    left = distances_left(np.stack((ball[:300], 1.1 * ball[:300])), ball[300:], [(1.0, 1.0), (0.5, 0.5)])
    assert left.shape == (2, 2) and left[0, 0] < 0.04  # the neighbours of either set are 0.1 apart
    assert left[1, 0] == pytest.approx(0.1, abs=0.02)
    assert (left[:, 1] < left[:, 0]).all()


def test_of_a_part_the_nearest_share_counts() -> None:
    whole = plane(600)
    part = whole[:300][whole[:300, 0] < 0.5] + [0, 0, 0.01]
    shares = [(1.0, 1.0), (0.9, 0.4)]
    left = distances_left(part[None], whole[300:], shares)[0]
    assert left[0] > 0.1 and left[1] == pytest.approx(0.01, abs=0.002)


def test_of_a_set_with_next_to_no_points_nothing_is_measured_to_it() -> None:
    whole = plane(600)
    few = whole[:8] + [0, 0, 0.01]
    both = [(1.0, 1.0)]
    assert distances_left(few[None], whole[300:], both)[0, 0] == pytest.approx(0.01, abs=4e-3)
    assert distances_left(whole[None, 300:], few, both)[0, 0] == pytest.approx(0.01, abs=4e-3)
    assert distances_left(few[None], whole[:8], both)[0, 0] == pytest.approx(0.01, abs=4e-3)


def test_the_nearest_rows_are_those_of_a_tree() -> None:
    points = np.random.default_rng(3).normal(size=(5, 900, 3))
    others = np.random.default_rng(4).normal(size=(70, 3))
    assert np.array_equal(nearest_rows(points, others), KDTree(others).query(points)[1])
