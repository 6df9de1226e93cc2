from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan import shapes
from pwan.synthesis.matching import NEIGHBOURS, carried_by_matches

TURN = Rotation.from_euler("xyz", [0.4, -1.1, 2.5]).as_matrix()


@pytest.mark.parametrize("share", [1.0, 0.3], ids=["all vertices", "some of them"])
def test_a_rigid_motion_gives_the_exact_truth(share: float) -> None:
    bunny, generator = shapes.load("bunny"), np.random.default_rng(0)
    assert bunny.vertices is not None
    matched = generator.choice(len(bunny.vertices), round(share * len(bunny.vertices)))  # some of them several times
    here = bunny.vertices[matched]
    points = bunny.sample(2000, generator)
    moved = carried_by_matches(points, here, here @ TURN + [0.3, -2.0, 5.0])
    np.testing.assert_allclose(moved, points @ TURN + [0.3, -2.0, 5.0], atol=1e-9)


def test_a_mirror_image_is_never_made() -> None:
    here = np.random.default_rng(0).normal(size=(NEIGHBOURS, 3))
    mirrored = here * [1, 1, -1]
    moved = carried_by_matches(here, here, mirrored)
    residual = np.linalg.lstsq(here - here.mean(0), moved - moved.mean(0), rcond=None)[0]
    np.testing.assert_allclose(residual @ residual.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(residual) == pytest.approx(1)


def sheet(x: float) -> np.ndarray:
    """A square of 20 by 20 points in the plane of the given x."""
    y, z = np.meshgrid(np.linspace(0, 1, 20), np.linspace(0, 1, 20))
    return np.stack([np.full(400, x), y.ravel(), z.ravel()], 1)


def test_two_parts_that_touch_and_part_do_not_mix() -> None:
    """Two sheets closer to each other than their points; one stays, the other goes far away."""
    here = np.concatenate([sheet(0.0), sheet(0.02)])
    there = np.concatenate([sheet(0.0), sheet(0.02) @ TURN + 3.0])
    points = sheet(-0.005)
    np.testing.assert_allclose(carried_by_matches(points, here, there), points, atol=1e-9)
    points = sheet(0.025)
    np.testing.assert_allclose(carried_by_matches(points, here, there), points @ TURN + 3.0, atol=1e-9)


def test_of_one_vertex_with_several_partners_the_most_central_counts() -> None:
    here = np.concatenate([sheet(0.0), np.repeat(sheet(0.0)[:5], 2, axis=0)])
    there = np.concatenate([sheet(0.0), np.repeat(sheet(0.0)[:5], 2, axis=0)])
    there[400::2] += 3.0  # one of three partners is far off
    np.testing.assert_allclose(carried_by_matches(sheet(0.0), here, there), sheet(0.0), atol=1e-9)
