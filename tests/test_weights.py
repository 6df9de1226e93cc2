"""Weights by which points count evenly, against closed forms, and what a sample of weighted points carries."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pwan import shapes
from pwan.weights import (
    even_weights,
    median_spacing,
    own_dimension,
    weighted_median,
    weighted_quantile,
    weights_of_rows,
)


def sphere(low: int, high: int) -> np.ndarray:
    """So many independent even points of the lower and of the upper half of a sphere."""
    points = np.random.default_rng(0).normal(size=(low + high, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:, 2] = np.abs(points[:, 2])
    points[:low, 2] *= -1
    return points


def test_a_sphere_with_a_dense_half_counts_evenly() -> None:
    points = sphere(400, 1600)
    weights = even_weights(points)
    assert weights.mean() == pytest.approx(1)
    assert weights[points[:, 2] < 0].sum() / weights.sum() == pytest.approx(0.5, abs=0.05)  # by counts it is 0.2


def test_points_of_a_line_count_by_the_room_along_it() -> None:
    place = np.concatenate([np.arange(0, 100, 1.0), np.arange(100, 200, 0.25)])
    weights = even_weights(np.column_stack([place, np.zeros_like(place)]))
    assert weights[20] / weights[300] == pytest.approx(4)


def test_a_point_far_from_all_others_counts_at_most_sixteen_times_on_a_surface() -> None:
    points = np.concatenate([sphere(300, 300), [[50.0, 0, 0]]])
    weights = even_weights(points)
    assert weights[-1] == weights.max()
    assert weights[-1] == pytest.approx(16.0 * np.median(weights))


def test_points_at_one_place_share_its_weight() -> None:
    points = sphere(100, 100)
    once, twice = even_weights(points), even_weights(np.concatenate([points, points[:50]]))
    assert twice[:50] == pytest.approx(twice[200:])
    together = twice[:200].copy()
    together[:50] *= 2
    assert together / together.mean() == pytest.approx(once)
    assert even_weights(np.zeros((40, 3))).tolist() == [1.0] * 40  # no place has more room than another


def test_vertices_count_by_a_third_of_the_areas_of_their_faces() -> None:
    # a square of area 1 in two triangles, and a triangle of area 2 on its right edge
    points = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [5, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3], [1, 4, 2]])
    areas = np.array([1.0, 2.5, 3.0, 0.5, 2.0]) / 3
    for d in (2, 3):
        given = np.column_stack([points, np.full((5, d - 2), 7.0)])
        assert even_weights(given, faces) == pytest.approx(areas / areas.mean())


def test_areas_make_the_vertices_of_a_mesh_even() -> None:
    shape = shapes.load("head_smile")
    assert shape.vertices is not None and shape.faces is not None
    weights = even_weights(shape.vertices, shape.faces)
    fresh = shape.sample(20_000, np.random.default_rng(0))
    for axis in range(3):  # the even mean of a coordinate, which the vertices alone miss
        even = fresh[:, axis].mean()
        assert abs(np.average(shape.vertices[:, axis], weights=weights) - even) < 0.02
    assert np.abs(shape.vertices.mean(0) - fresh.mean(0)).max() > 0.1


def test_what_no_face_with_an_area_names_counts_as_the_nearest_vertex_that_one_names() -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.9, 0, 0], [0, 5, 0], [0, 1, 3]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [4, 4, 5]])  # the last two have no area
    assert even_weights(points, faces).tolist() == [1.0] * 6
    bare = points[:5]
    assert even_weights(bare, faces[1:2]) == pytest.approx(even_weights(bare))  # then the density is all there is


@pytest.mark.parametrize(
    ("faces", "words"),
    [
        ([[0, 1, 9]], "names point 9 of 4, whose numbers are 0 to 3"),
        ([[0, 1, -1]], "names point -1 of 4"),
        ([[0, 1, 2, 3]], "must be triangles"),
        ([[0.0, 1.0, 2.0]], "must be triangles"),
    ],
)
def test_faces_that_are_no_triangles_of_the_points_are_refused(faces: list, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        even_weights(np.eye(4)[:, :3], np.array(faces))


@pytest.mark.parametrize("count", [7, 8])
def test_the_weighted_median_of_equal_weights_is_the_median(count: int) -> None:
    values = np.random.default_rng(0).normal(size=count)
    assert weighted_median(values, np.full(count, 1.0)) == weighted_median(values, None) == np.median(values)
    assert weighted_median(values, np.arange(count) == 3) == values[3]
    assert weighted_median(np.array([1.0, 2, 5]), np.array([2.0, 1, 1])) == np.median([1, 1, 2, 5])


def test_the_weighted_quantile_of_equal_weights_is_the_quantile() -> None:
    values = np.random.default_rng(0).normal(size=11)
    for share in (0.0, 0.3, 0.95, 1.0):
        assert weighted_quantile(values, np.full(11, 2.0), share) == pytest.approx(np.quantile(values, share))
        assert weighted_quantile(values, None, share) == np.quantile(values, share)
    assert weighted_quantile(np.array([1.0, 2, 3]), np.array([0.0, 0, 1]), 0.5) == pytest.approx(2.5)
    assert weighted_quantile(np.array([4.0]), np.array([2.0]), 0.5) == 4.0


def test_the_own_dimension_of_a_curve_a_surface_and_a_body() -> None:
    generator = np.random.default_rng(0)
    at = generator.random(500)
    curve = np.column_stack([np.cos(6 * at), np.sin(6 * at), at])
    assert [own_dimension(points) for points in (curve, sphere(250, 250), generator.random((2000, 3)))] == [1, 2, 3]
    assert own_dimension(np.zeros((100, 3))) in (1, 2, 3)


def test_rows_carry_their_share_of_the_mass() -> None:
    weights = torch.tensor([[1.0, 2, 3, 4, 0, 0], [0, 0, 0, 0, 0, 6]], dtype=torch.float64)
    rows = torch.tensor([[0, 2], [1, 2]])
    # ten in six points are 10 / 3 in two; where none of the drawn ones has any they share it evenly
    expected = torch.tensor([[10 / 12, 10 / 4], [1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(weights_of_rows(weights, rows), expected)
    ones = torch.ones(2, 6, dtype=torch.float64)
    assert torch.equal(weights_of_rows(ones, rows), ones[:, :2])


def test_the_spacing_of_a_mesh_that_repeats_its_vertices_is_that_of_its_places() -> None:
    line = np.stack((np.arange(20.0), np.zeros(20)), -1)
    assert median_spacing(line) == median_spacing(np.repeat(line, 2, axis=0)) == 1.0
    assert median_spacing(np.repeat(line, 3, axis=0), np.full(60, 0.2)) == 1.0
