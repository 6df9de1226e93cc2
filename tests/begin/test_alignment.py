"""The search of a start: closed forms, properties, and one partial bunny turned over."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from pwan import shapes
from pwan.begin import alignment
from pwan.begin.alignment import (
    Similarities,
    Start,
    _closest_points,
    _different,
    _rotations,
    find_start,
    procrustes,
    second_look,
)
from pwan.randomness import numpy_generator
from pwan.synthesis import SynthesisSettings, make_problem

LEFT, RIGHT = 0.35, -0.35  # RMS radii: where the halves end


@pytest.fixture(scope="module")
def halves() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Source, reference, truth and mass of one small partial bunny."""
    settings = SynthesisSettings(points=300, keep=0.85, deformation_lambda=50)
    made = make_problem(shapes.load("bunny"), settings, seed=1, trials=[0])
    assert made.truth is not None and made.mass is not None
    return made.source[0].numpy(), made.reference[0].numpy(), made.truth[0].numpy(), float(made.mass[0])


def turned_over(d: int) -> np.ndarray:
    """A rotation by 180 degrees about an axis that is no coordinate axis."""
    if d == 2:
        return -np.eye(2)
    axis = np.array([1.0, 2.0, -2.0]) / 3
    return 2 * np.outer(axis, axis) - np.eye(3)


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
        procrustes(points[None], 9.0 * points[None], np.ones((1, 20)), rotation=True, scale=True, scales=scales)
        for scales in (None, (0.4, 2.5))
    )
    assert free.scale[0] == pytest.approx(9.0) and held.scale[0] == 2.5
    np.testing.assert_allclose(held.apply(points)[0].mean(0), 9.0 * points.mean(0))


def test_procrustes_gives_no_mirror_image() -> None:
    points = numpy_generator(0, "test").standard_normal((1, 30, 3))
    found = procrustes(points, points * [1, 1, -1], np.ones((1, 30)), rotation=True, scale=False)
    assert np.linalg.det(found.rotation[0]) == pytest.approx(1.0)


@pytest.mark.parametrize(("d", "degrees"), [(2, 2.6), (3, 35)])
def test_no_rotation_is_far_from_the_covering(d: int, degrees: float) -> None:
    covering = _rotations(d)
    np.testing.assert_allclose(
        covering @ covering.swapaxes(1, 2), np.broadcast_to(np.eye(d), covering.shape), atol=1e-12
    )
    np.testing.assert_allclose(np.linalg.det(covering), 1.0)
    np.testing.assert_allclose(covering[0], np.eye(d), atol=1e-12)
    if d == 3:
        traces = np.einsum("kij,nij->nk", covering, Rotation.random(200, rng=numpy_generator(0, "test")).as_matrix())
        cosine = (traces.max(1) - 1) / 2
        assert np.degrees(np.arccos(cosine.clip(-1, 1))).max() < degrees


def test_closest_points_never_end_worse_than_they_began(
    halves: tuple[np.ndarray, np.ndarray, np.ndarray, float],
) -> None:
    source, reference, _, _ = halves
    tried = procrustes(source[None], source[None] + 0.1, np.ones((1, len(source))), rotation=True, scale=False)
    costs = [
        _closest_points(tried, source, reference, (0.8, 0.8), steps, True, False)[1][0] for steps in (0, 1, 2, 5, 20)
    ]
    assert costs == sorted(costs, reverse=True) and costs[-1] < 0.7 * costs[0]


def test_a_partial_bunny_is_turned_back(halves: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    source, reference, truth, mass = halves
    given = 0.6 * source @ turned_over(3) + [4.0, -3.0, 9.0]
    before = given.copy()
    start = find_start(given, reference, mass=mass, scale=True)
    np.testing.assert_array_equal(given, before)
    assert start.changed and "turned by" in start.reason and start.cost < 0.3 * start.cost_given
    assert ((start.apply(given) - truth) ** 2).sum(1).mean() < 0.1  # 3.0 when turned over
    assert start.scale == pytest.approx(1 / 0.6, rel=0.15)
    assert np.linalg.det(start.rotation) == pytest.approx(1.0)
    as_tensor = start.apply(torch.from_numpy(given))
    np.testing.assert_allclose(as_tensor.numpy(), start.apply(given))


def test_aligned_sets_stay(halves: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    source, reference, _, mass = halves
    start = find_start(source, reference, mass=mass)
    assert not start.changed and start.reason.startswith("kept as given")
    np.testing.assert_array_equal(start.apply(source), source)


def test_the_same_set_stays(halves: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    _, reference, _, _ = halves
    assert not find_start(reference, reference).changed


def test_a_shift_alone_is_undone_by_a_shift_alone(halves: tuple[np.ndarray, np.ndarray, np.ndarray, float]) -> None:
    source, reference, truth, mass = halves
    start, again = (find_start(source + 7.0, reference, mass=mass, rotation=False, seed=5) for _ in range(2))
    assert start.cost == again.cost  # the same seed gives the same
    np.testing.assert_array_equal(start.rotation, np.eye(3))
    assert start.scale == 1.0 and start.changed and "shifted" in start.reason
    assert ((start.apply(source + 7.0) - truth) ** 2).sum(1).mean() < 0.25


def test_two_dimensions() -> None:
    generator = numpy_generator(3, "test")
    angle = generator.random(300) * 2 * np.pi
    radius = 1 + 0.5 * np.cos(angle) + 0.3 * np.sin(3 * angle)  # of a curve without symmetry
    curve = np.stack((radius * np.cos(angle), radius * np.sin(angle)), 1)
    given = curve[:200] @ turned_over(2) + [5.0, 1.0]
    start = find_start(given, curve[100:], mass=190)
    assert np.abs(start.apply(given) - curve[:200]).max() < 0.15


@pytest.mark.parametrize("mass", [0, 301])
def test_a_mass_out_of_range_is_refused(mass: float) -> None:
    points = numpy_generator(0, "test").standard_normal((300, 3))
    with pytest.raises(ValueError, match="mass"):
        find_start(points, points, mass=mass)


def halves_of_a_bunny() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two overlapping halves, the reference's bent: 44% of the source's points have a partner, at the truth."""
    points = shapes.load("bunny").points[:500]
    along = points[:, 0]
    bent = points + 0.1 * np.stack((np.zeros_like(along), along**2, np.sin(2 * along)), 1)
    left, right = along < LEFT, along > RIGHT
    return points[left], bent[right], bent[left]


def test_of_overlapping_halves_nobody_said_how_much_and_they_stay() -> None:
    source, reference, _ = halves_of_a_bunny()
    assert not find_start(source, reference).changed


def test_a_second_look_tells_halves_that_have_slid_and_leads_back() -> None:
    source, reference, truth = halves_of_a_bunny()
    slid = truth + [0.3, 0.0, 0.0]
    mass = float((truth[:, 0] > RIGHT).sum())
    given = source + 0.05
    look = second_look(given, reference, slid, mass=mass)
    assert look is not None
    ratio, start = look
    assert ratio < 0.3 and start.changed and start.scale == 1.0
    before, after = (((points - truth) ** 2).sum(1).mean() for points in (given, start.apply(given)))
    assert after < 0.5 * before
    near = truth + 0.005 * numpy_generator(0, "test").standard_normal(truth.shape)
    good, exact = (second_look(source, reference, moved, mass=mass) for moved in (near, truth))
    assert good is not None and exact is not None and good[0] > 1.0 and exact[0] == np.inf


def test_a_second_look_at_a_far_smaller_reference_takes_enough_of_it_or_does_not_look() -> None:
    points = shapes.load("bunny").points.copy()
    source, reference = points[:3000], points[3000:3300]  # the same surface, ten times as dense
    noise = numpy_generator(0, "test").standard_normal(source.shape)
    near = second_look(source, reference, source + 0.01 * noise, mass=300)
    slid = second_look(source + 0.05, reference, source + [0.3, 0.0, 0.0], mass=300)
    assert near is not None and slid is not None and slid[0] < 0.6 < 0.9 < near[0]
    sphere = numpy_generator(1, "test").standard_normal((8000, 3))
    for few in (4, 5, 28):  # 0.7 of 28 points is below 20
        assert second_look(sphere, sphere[:few], sphere + 0.1, mass=few) is None
        assert second_look(sphere[:few], sphere, sphere[:few] + 0.1, mass=few) is None
    assert second_look(sphere[:29], sphere, sphere[:29] + 0.1, mass=29) is not None


def test_rows_that_correspond_are_sampled_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows of both sets in a sample would be partners that the whole sets do not give so often."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    softly = alignment._softly
    monkeypatch.setattr(alignment, "_softly", lambda c, y, x, *more: (seen.append((y, x)), softly(c, y, x, *more))[1])
    points = numpy_generator(0, "test").standard_normal((600, 3))
    find_start(points, points, rotation=False)
    ((y, x),) = seen
    both = {row.tobytes() for row in y.round(9)} & {row.tobytes() for row in x.round(9)}
    assert len(y) == len(x) == 300 and 120 < len(both) < 180  # half of half of them by chance


def test_one_start_after_the_other() -> None:
    points = numpy_generator(0, "test").standard_normal((5, 3))
    first, second = (
        Start(scale, turned_over(3), np.array(shift), 1.0, 2.0, True, word)
        for scale, shift, word in ((2.0, [1.0, 2, 3], "one"), (0.5, [0.0, -1, 4], "two"))
    )
    both = first.then(second)
    np.testing.assert_allclose(both.apply(points), second.apply(first.apply(points)), atol=1e-12)
    assert both.reason == "two" and both.scale == 1.0


def test_what_is_shifted_counts_as_different_and_what_is_near_does_not() -> None:
    one = Similarities(np.ones(1), np.eye(3)[None], np.zeros((1, 3)))
    around = (
        one.to_all_sides(0.4) + one.to_all_sides(0.1) + Similarities(np.ones(1), turned_over(3)[None], np.zeros((1, 3)))
    )
    np.testing.assert_allclose(around.translation[:3], [[0, 0, 0], [0.4, 0, 0], [0, 0.4, 0]])
    np.testing.assert_array_equal(_different(around, np.arange(15)), [0, 1, 2, 3, 4, 5, 6, 14])
