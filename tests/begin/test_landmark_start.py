"""A start by landmarks: closed forms, and what does not determine one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan import shapes
from pwan.begin.landmark_start import start_by_landmarks, start_towards


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_a_start_by_landmarks_is_their_similarity(d: int, scale: bool) -> None:
    generator = np.random.default_rng(0)
    source = generator.normal(size=(50, d)) + 1e6
    turn = Rotation.from_rotvec([0.3, -1.2, 2.0]).as_matrix() if d == 3 else np.array([[0.0, 1.0], [-1.0, 0.0]])
    factor = 1.7 if scale else 1.0
    reference = factor * (source - 1e6) @ turn + np.arange(d)
    landmarks = np.column_stack((np.arange(d), np.arange(d)))
    start = start_by_landmarks(source, reference, landmarks, scale=scale)
    assert start is not None and start.changed and start.cost < 1e-8
    np.testing.assert_allclose(start.apply(source), reference, atol=1e-7)
    assert f"by the {d} landmarks" in start.reason and start.reason.startswith("turned by ")
    assert start_by_landmarks(source, reference, landmarks[: d - 1], scale=scale) is None


def test_the_scale_by_landmarks_of_a_small_part_is_that_of_the_landmarks() -> None:
    """The sets' own radii say nothing of it."""
    whole = shapes.load("bunny").points[:500]
    near = np.linalg.norm(whole - whole[7], axis=1).argsort()[:40]
    source, landmarks = 2.0 * whole[near] + [1.0, -2.0, 3.0], np.column_stack((np.arange(40), near))
    start = start_by_landmarks(source, whole, landmarks, scale=True)
    back = start_by_landmarks(whole, source, landmarks[:, ::-1], scale=True)
    assert start is not None and back is not None
    assert start.scale == pytest.approx(0.5, rel=1e-9) and back.scale == pytest.approx(2.0, rel=1e-9)
    np.testing.assert_allclose(start.apply(source), whole[near], atol=1e-9)


def test_landmarks_that_point_the_other_way_tell_no_scale_without_a_turn() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    landmarks = np.column_stack((np.arange(6), np.arange(6)))
    assert start_by_landmarks(points, -2.0 * points, landmarks, rotation=False, scale=True) is None
    same = start_by_landmarks(points, 2.0 * points, landmarks, rotation=False, scale=True)
    assert same is not None and same.scale == pytest.approx(2.0)


def test_three_landmarks_on_a_line_or_twice_the_same_place_tell_no_start() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    points[1], points[2] = points[0] + 1.0, points[0] + 3.0
    three, four = (np.column_stack((np.arange(n), np.arange(n))) for n in (3, 4))
    assert start_by_landmarks(points, points + 1.0, three) is None
    assert start_by_landmarks(points, points + 1.0, four) is not None
    flat = points[:, :2].copy()
    flat[1] = flat[0]
    assert start_by_landmarks(flat, flat + 1.0, three[:2]) is None
    assert start_by_landmarks(flat, flat + 1.0, three) is not None


def test_a_start_by_landmarks_weighs_them_and_leaves_alone_what_is_near() -> None:
    generator = np.random.default_rng(0)
    source = generator.normal(size=(50, 3))
    reference = source + [1.0, 2.0, 3.0]
    reference[5] += 1.0
    landmarks = np.column_stack((np.arange(6), np.arange(6)))
    weights = np.array([1.0, 1, 1, 1, 1, 1e-9])
    start = start_by_landmarks(source, reference, landmarks, weights)
    assert start is not None
    np.testing.assert_allclose(start.apply(source), source + [1.0, 2.0, 3.0], atol=1e-6)
    near = start_by_landmarks(source, source.copy(), landmarks)
    assert near is not None and not near.changed and "kept as given" in near.reason
    line = np.column_stack((np.arange(50.0), np.zeros((50, 2))))
    assert start_by_landmarks(line, reference, landmarks) is None  # which way to turn about the line is open


def test_a_start_towards_places_leaves_the_bending_alone() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(50, 3))
    turn = Rotation.from_rotvec([0.0, 0.3, 0.1])
    start = start_towards(points, turn.apply(points) + [1.0, 0.0, 0.0])
    assert start is not None and start.scale == 1.0 and start.reason == "where the last trusted frame led"
    np.testing.assert_allclose(start.apply(points), turn.apply(points) + [1.0, 0.0, 0.0], atol=1e-12)
    shifted = start_towards(points, 2.0 * points + [1.0, 0.0, 0.0], rotation=False, scale=True)
    assert shifted is not None and shifted.scale == pytest.approx(2.0)


def test_all_that_register_takes_as_landmarks_gives_the_same_start() -> None:
    source = np.random.default_rng(0).normal(size=(20, 2))
    reference = source @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    rows = np.arange(6)[:, None].repeat(2, 1)
    last = [19, 0]  # the worst pair, which a weight of 0 takes out
    both = source[:6], reference[:6]
    for given in (
        rows,
        rows.tolist(),
        np.column_stack(both),
        both,
        np.stack(both),
        np.column_stack((np.vstack((rows, last)), [1.0] * 6 + [0.0])),
    ):
        start = start_by_landmarks(source, reference, given)
        assert start is not None and start.reason.startswith("turned by 90 degrees")
        np.testing.assert_allclose(start.apply(source), reference, atol=1e-12)
    voxels = np.round(10 * source)  # whole numbers, and no rows
    start = start_by_landmarks(voxels, voxels + [3, 4], np.column_stack((voxels[:6], voxels[:6] + [3, 4])))
    assert start is not None and start.translation == pytest.approx([3.0, 4.0])


@pytest.mark.parametrize(
    ("landmarks", "says"),
    [
        ([[0, 0], [1, -1]], "landmark 1 names row -1 of the reference, whose rows are 0 to 19"),
        ([[0, 0], [20, 1]], "landmark 1 names row 20 of the source"),
        ([[0.5, 1.0], [1.0, 2.0]], "must hold whole numbers"),
        ([[0, 1, 2, 3, 4, 5, 6]], "landmarks must be an array"),
    ],
)
def test_landmarks_that_are_none_of_these_sets_are_refused(landmarks: list, says: str) -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=says):
        start_by_landmarks(points, points, landmarks)
