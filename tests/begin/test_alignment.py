"""The search of a start: closed forms, properties, and one partial bunny turned over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from pwan import shapes
from pwan.attributes import Attributes
from pwan.begin import alignment
from pwan.begin.alignment import (
    SEARCH,
    _closest_points,
    _different,
    _rotations,
    _Search,
    _unlike,
    find_start,
    margin_of,
)
from pwan.begin.similarities import NormalisedSets, Similarities, procrustes
from pwan.randomness import numpy_generator
from pwan.synthesis import SynthesisSettings, make_problem
from tests.begin.turned import halves_of_a_bunny, pear, turned_over


@pytest.fixture(scope="module")
def halves() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Source, reference, truth and mass of one small partial bunny."""
    settings = SynthesisSettings(points=300, keep=0.85, deformation_lambda=50)
    made = make_problem(shapes.load("bunny"), settings, seed=1, trials=[0])
    assert made.truth is not None and made.mass is not None
    return made.source[0].numpy(), made.reference[0].numpy(), made.truth[0].numpy(), float(made.mass[0])


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


@pytest.mark.parametrize("degrees", [70, 150])
def test_a_smooth_shape_of_few_points_is_turned_back(degrees: float) -> None:
    """Two draws of a ball with bumps, which is nearly the same after many turns."""
    first, second = pear(300, 0), pear(300, 1)
    axis = np.array([1.0, 2.0, -2.0]) / 3
    turn = Rotation.from_rotvec(np.radians(degrees) * axis).as_matrix()
    start = find_start(first @ turn, second)
    left = np.degrees(Rotation.from_matrix(turn @ start.rotation).magnitude())
    assert start.changed and left < 15 and start.cost < start.cost_given and start.rival > 1.05


@pytest.mark.parametrize("few", [8, 20, 50])
def test_few_points_of_a_surface_stay_on_it(few: int) -> None:
    whole = pear(2000, 0)
    source = whole[:few] + 0.1 * np.sin(whole[:few, ::-1])
    assert not find_start(source, whole[50:]).changed


def test_a_part_in_place_stays_though_it_would_slide_onto_the_whole_of_the_other() -> None:
    first, second = pear(1500, 0), pear(1500, 1)
    source, reference = first[first[:, 0] < 0.2], second[second[:, 0] > -0.6]
    start = find_start(source + 0.03 * np.sin(2 * source[:, ::-1]), reference)
    assert not start.changed


def test_a_ball_stays_and_its_turn_is_said_to_be_open() -> None:
    points = numpy_generator(0, "ball").standard_normal((600, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    start = find_start(points[:300], points[300:])
    assert not start.changed and start.rival < 1.1
    assert "the turn is not determined by the shapes" in start.reason


def test_the_margin_grows_as_points_get_few() -> None:
    assert margin_of(6, 3) == margin_of(3, 2) == np.inf
    assert margin_of(12, 3) == pytest.approx(2 * SEARCH.margin) == margin_of(6, 2)
    assert margin_of(10**6, 3) == pytest.approx(SEARCH.margin, rel=1e-4)


def test_of_overlapping_halves_nobody_said_how_much_and_they_stay() -> None:
    source, reference, _ = halves_of_a_bunny()
    assert not find_start(source, reference).changed


def test_rows_that_correspond_are_sampled_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows of both sets in a sample would be partners that the whole sets do not give so often."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    fit = alignment.quick_fit
    monkeypatch.setattr(
        alignment,
        "quick_fit",
        lambda y, x, mass, seed, rows: (seen.append((y[0][rows], x)), fit(y, x, mass, seed, rows))[1],
    )
    points = numpy_generator(0, "test").standard_normal((600, 3))
    find_start(points, points, rotation=False)
    ((y, x),) = seen
    both = {row.tobytes() for row in y.round(9)} & {row.tobytes() for row in x.round(9)}
    assert len(y) == len(x) == 300 and 120 < len(both) < 180  # half of half of them by chance


def test_what_is_shifted_counts_as_different_and_what_is_near_does_not() -> None:
    identity = Similarities(np.ones(1), np.eye(3)[None], np.zeros((1, 3)))
    turned = Similarities(np.ones(1), turned_over(3)[None], np.zeros((1, 3)))
    around = identity.to_all_sides(0.4) + identity.to_all_sides(0.1) + turned
    np.testing.assert_allclose(around.translation[:3], [[0, 0, 0], [0.4, 0, 0], [0, 0.4, 0]])
    np.testing.assert_array_equal(_different(around, np.arange(15)), [0, 1, 2, 3, 4, 5, 6, 14])


def test_labels_count_in_which_start_is_taken() -> None:
    # a bar whose ends are alike, after half a turn: its places say nothing, the labels of its ends do
    generator = np.random.default_rng(0)
    y, x = (generator.uniform(-1, 1, (100, 3)) * (2.0, 0.7, 0.4) for _ in range(2))
    turn = np.diag([-1.0, -1.0, 1.0])
    ends = [torch.from_numpy(0.3 * (points[None, :, :1] > 0)) for points in (y, x)]
    start = find_start(y @ turn, x, attributes=Attributes(*ends, labels=1))
    assert start.changed and (turn @ start.rotation)[0, 0] > 0.9, start


def test_normals_are_compared_as_each_start_turns_them() -> None:
    points, turn = np.random.default_rng(0).normal(size=(1, 20, 3)), np.diag([-1.0, -1.0, 1.0])
    along = torch.tensor([0.3, 0.0, 0.0], dtype=torch.float64).expand(1, 20, 3)
    sets = NormalisedSets.of(points[0], points[0], scale=False)
    search = _Search(sets, (1.0, 1.0), False, True, False, 0, Attributes(-along, along, normals=True))
    candidates = Similarities(np.ones(2), np.stack((np.eye(3), turn)), np.zeros((2, 3)))
    np.testing.assert_allclose(_unlike(search, candidates, np.tile(points, (2, 1, 1)), points[0]), [0.6, 0.0])
    assert (_unlike(replace(search, attributes=None), candidates, points, points[0]) == 0).all()
