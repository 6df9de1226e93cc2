"""Slow functions of a shape, and shapes matched by them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan.deformation.graph import shape_graph
from pwan.deformation.spectral import slow_functions, spectral_match


def line(n: int) -> np.ndarray:
    return np.column_stack((np.linspace(0.0, 1.0, n), np.zeros(n), np.zeros(n)))


def test_slow_functions_of_a_line_are_cosines() -> None:
    """The eigenfunctions of a segment whose ends are free; the constant one is the slowest."""
    along = line(200)
    functions, share = slow_functions(shape_graph(along), 4)
    assert share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(functions.T @ (share[:, None] * functions), np.eye(4), atol=1e-9)
    for k in range(4):
        cosine = np.cos(np.pi * k * along[:, 0]) * (np.sqrt(2) if k else 1.0)
        cosine *= np.sign(cosine[0] * functions[0, k])
        np.testing.assert_allclose(functions[:, k], cosine, atol=0.07)  # the ends of the graph smear


def test_no_more_functions_than_points() -> None:
    functions, _ = slow_functions(shape_graph(line(5)), 80)
    assert functions.shape == (5, 5)


def starfish(n: int, seed: int, turned: float) -> np.ndarray:
    """Four arms of different lengths on a disc, (n, 3); the longest one turned up by an angle around its root."""
    generator = np.random.default_rng(seed)
    lengths = np.array([1.0, 1.4, 1.9, 2.6])
    arm = generator.choice(4, n, p=lengths / lengths.sum())
    along, across = generator.uniform(0, lengths[arm]), generator.uniform(-0.15, 0.15, n)
    points = np.column_stack((along, across, np.zeros(n)))
    lifted = Rotation.from_rotvec([0.0, -turned, 0.0]).apply(points - [0.3, 0, 0]) + [0.3, 0, 0]
    points = np.where(((arm == 3) & (along > 0.3))[:, None], lifted, points)
    around = Rotation.from_rotvec(np.outer(np.pi / 2 * arm, [0.0, 0.0, 1.0]))
    return around.apply(points)


def test_a_lifted_arm_is_matched_to_the_arm_that_lies() -> None:
    """A match that is wrong for all of the lifted arm, as the nearest points are, is led to the right one."""
    source, truth = starfish(700, 0, 2.0), starfish(700, 0, 0.0)
    reference = starfish(700, 1, 0.0)
    near = np.linalg.norm(source[:, None] - reference, axis=-1).argmin(1)
    partner = spectral_match(shape_graph(source), shape_graph(reference), near)
    before, after = (np.linalg.norm(reference[rows] - truth, axis=1) for rows in (near, partner))
    assert np.quantile(before, 0.9) > 1.0
    assert np.quantile(after, 0.9) < 0.3  # the width of an arm
