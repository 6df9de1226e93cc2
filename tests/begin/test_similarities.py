"""Similarities of least squares: closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from pwan.begin.similarities import procrustes
from pwan.randomness import numpy_generator
from tests.begin.turned import turned_over


@pytest.mark.parametrize("d", [2, 3])
def test_procrustes_finds_a_similarity_and_leaves_points_of_no_weight_out(d: int) -> None:
    generator = numpy_generator(0, "test")
    points, shift = generator.standard_normal((20, d)), np.arange(1.0, d + 1)
    goal = 1.7 * points @ turned_over(d) + shift
    goal[0] += 100.0
    weight = np.ones((1, 20))
    weight[0, 0] = 0.0
    found = procrustes(points[None], goal[None], weight, rotation=True, scale=True)
    assert found.scale[0] == pytest.approx(1.7)
    np.testing.assert_allclose(found.rotation[0], turned_over(d), atol=1e-12)
    np.testing.assert_allclose(found.translation[0], shift, atol=1e-12)
    np.testing.assert_allclose(found.undo(found.apply(points)[0])[0], points, atol=1e-12)


def test_procrustes_keeps_a_scale_within_what_is_allowed_and_the_centres_together() -> None:
    points = numpy_generator(0, "test").standard_normal((20, 3)) + 4.0
    free, held = (
        procrustes(points[None], 9.0 * points[None], np.ones((1, 20)), rotation=True, scale=True, **limits)
        for limits in ({}, {"least_scale": 0.4, "most_scale": 2.5})
    )
    assert free.scale[0] == pytest.approx(9.0) and held.scale[0] == 2.5
    np.testing.assert_allclose(held.apply(points)[0].mean(0), 9.0 * points.mean(0))


def test_procrustes_gives_no_mirror_image() -> None:
    points = numpy_generator(0, "test").standard_normal((1, 30, 3))
    found = procrustes(points, points * [1, 1, -1], np.ones((1, 30)), rotation=True, scale=False)
    assert np.linalg.det(found.rotation[0]) == pytest.approx(1.0)
