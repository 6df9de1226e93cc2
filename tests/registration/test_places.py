"""Landmarks at positions: they stand as points without mass, and pull where the result's transform leads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pwan import register, shapes
from pwan.problem import RegistrationProblem
from pwan.registration.landmarks import Pull
from pwan.registration.pipeline import Registration
from pwan.registration.places import with_landmarks
from pwan.registration.settings import PwanSettings

POINTS = shapes.load("bunny").points
PLACES = POINTS[:100:25] + np.random.default_rng(1).normal(size=(4, 3)) * 0.05
GOALS = PLACES + [0.1, 0.0, 0.2]
QUICK: dict[str, Any] = {"steps": 0, "stages": 0, "refinement": "none"}


def problem(count: int = 1) -> RegistrationProblem:
    y, x = torch.tensor(POINTS[:100]), torch.tensor(POINTS[100:220])
    return RegistrationProblem(y.expand(count, -1, -1).clone(), x.expand(count, -1, -1).clone())


FORMS: dict[str, Any] = {
    "columns": np.hstack((PLACES, GOALS)),
    "columns and weights": np.hstack((PLACES, GOALS, np.ones((4, 1)))),
    "a pair of arrays": (PLACES, GOALS),
    "a pair of lists": [PLACES.tolist(), GOALS.tolist()],
    "a pair of tensors": (torch.from_numpy(PLACES), torch.from_numpy(GOALS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_positions_are_points_without_mass_behind_the_others(form: str) -> None:
    placed, extra = with_landmarks(problem(), FORMS[form], single=True)
    assert extra == 4 and placed.source.shape == (1, 104, 3) and placed.reference.shape == (1, 124, 3)
    np.testing.assert_array_equal(placed.source[0, 100:], PLACES)
    np.testing.assert_array_equal(placed.reference[0, 120:], GOALS)
    assert placed.landmarks is not None and placed.landmark_weights is not None
    assert placed.landmarks[0].tolist() == [[100 + k, 120 + k] for k in range(4)]
    assert placed.landmark_weights.tolist() == [[1.0] * 4]
    assert placed.source_total.tolist() == [100.0] and placed.reference_total.tolist() == [120.0]


def test_rows_add_no_point_and_each_problem_has_its_own_kind() -> None:
    placed, extra = with_landmarks(problem(), [[3, 7], [4, 8]], single=True)
    assert extra == 0 and placed.source_weights is None and placed.source.shape == (1, 100, 3)
    placed, extra = with_landmarks(problem(3), [[[3, 7, 2.0]], (PLACES, GOALS), None], single=False)
    assert extra == 4 and placed.landmarks is not None and placed.landmark_weights is not None
    assert placed.landmarks[0, 0].tolist() == [3, 7] and placed.landmarks[1, 0].tolist() == [100, 120]
    assert placed.landmark_weights.tolist() == [[2.0, 0, 0, 0], [1.0] * 4, [0.0] * 4]


@pytest.mark.parametrize("options", [{}, {"kernel": "geodesic"}, {"transform": "rigid"}, {"transform": "affine"}])
def test_they_pull_where_the_transform_of_space_leads(options: dict[str, Any]) -> None:
    placed, _ = with_landmarks(problem(), (PLACES, GOALS), single=True)
    running = Registration(placed, PwanSettings(**options, **QUICK, rank=30), [0])
    generator = torch.Generator().manual_seed(0)
    theta = running.solver.setup.transform.parameters.detach()
    theta = theta + 0.1 * torch.randn(theta.shape, generator=generator)
    setup, maps = running.solver.setup, running.space_maps(theta)
    assert maps is not None
    pull = Pull.of(running.problem, setup.transform, setup.reference, 3.0)
    assert pull is not None
    apart = (maps[0](PLACES) - GOALS) / float(running.frame.reference_scale)
    np.testing.assert_allclose(pull.residual(theta)[0], apart, atol=2e-4)  # of points that PWAN rounds
    assert float(pull.energy(theta)[0]) == pytest.approx(1.5 * np.square(apart).sum(1).mean(), rel=1e-3)


def test_a_turn_that_the_shape_leaves_open_follows_landmarks_between_the_points() -> None:
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.column_stack((np.cos(angles), np.sin(angles)))
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    places = 1.3 * np.column_stack((np.cos(angles[:4] + 0.1), np.sin(angles[:4] + 0.1)))
    result = register(
        ring, ring + 2, landmarks=(places, places @ turn + 2), transform="rigid", steps=10, stages=0, refinement="none"
    )
    np.testing.assert_allclose(result.affine, turn, atol=1e-2)
    np.testing.assert_allclose(result.transform(places), places @ turn + 2, atol=1e-2)


def test_a_result_and_its_observer_show_the_caller_s_own_points() -> None:
    seen: list[tuple[int, ...]] = []
    result = register(
        POINTS[:100],
        POINTS[100:220],
        landmarks=(PLACES, GOALS),
        observer=lambda progress: seen.append(tuple(progress.transformed().shape)),
        **{**QUICK, "steps": 2},
    )
    arrays = result.transformed, result.transformed_unrefined, result.displacement
    assert {array.shape for array in arrays} == {(100, 3)} and seen == [(1, 100, 3)] * 2
    assert (
        result.matched.shape == (100,) and result.reference_matched.shape == (120,) and result.weights == (None, None)
    )
    np.testing.assert_allclose(result.transform(POINTS[:100]), result.transformed, atol=1e-4)


@pytest.mark.parametrize("method", ["pwan_distance", "soft_assignment"])
def test_they_pull_in_other_methods_too(method: str) -> None:
    options: dict[str, Any] = {"steps": 8} | ({"stages": 0, "distance": 0.3} if method == "pwan_distance" else {})
    apart = []
    for landmarks in (None, (PLACES, GOALS)):
        result = register(POINTS[:100], POINTS[100:220], landmarks=landmarks, method=method, rank=30, **options)
        apart.append(np.linalg.norm(result.transform(PLACES) - GOALS, axis=1).mean())
    assert apart[1] < 0.3 * apart[0]


WRONG: dict[str, tuple[Any, str]] = {
    "columns of another dimension": ([[1, 2, 3, 4]], r"an array \(L, 2\) of whole numbers.* or \(L, 6\) of positions"),
    "five columns": (np.ones((2, 5)), r"got an array of float64 and shape \(2, 5\)"),
    "arrays of different lengths": (
        (PLACES, GOALS[:3]),
        r"a pair of arrays \(L, 3\), positions in the source.*: 4 and 3",
    ),
    "arrays of 2-D": ((PLACES[:, :2], GOALS[:, :2]), r"got an array of float64 and shape \(2, 4, 2\)"),
    "not finite": (np.full((2, 6), np.nan), r"finite positions, but 2 of 2 are not \(the first is number 0\)"),
    "another frame": ((PLACES, GOALS + 50), "on or near the reference, whose extent is .* in the same coordinate sys"),
    "words": ("nose", r"must be an array \(L, 2\)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_landmarks_is_refused(case: str) -> None:
    given, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        register(POINTS[:100], POINTS[100:220], landmarks=given)


def test_a_free_displacement_knows_no_position() -> None:
    with pytest.raises(ValueError, match="a landmark at a position needs a transform of all of space"):
        register(POINTS[:100], POINTS[100:220], landmarks=(PLACES, GOALS), method="pwan_paper")


def test_beside_positions_a_guess_says_of_each_place_what_it_says_of_the_nearest_point() -> None:
    source = torch.tensor([[[0.0, 0.0], [4.0, 0.0], [0.0, 9.0]]], dtype=torch.float64)
    moved = torch.tensor([[[1.0, 0.0], [0.0, 3.0], [0.0, 0.0]]], dtype=torch.float64)
    problem = RegistrationProblem(source, source + 1, guess=source + moved)
    places = np.array([[3.0, 1.0, 4.0, 4.0]])
    with_one, extra = with_landmarks(problem, places, single=True)
    assert extra == 1 and with_one.guess is not None
    assert with_one.guess[0].tolist() == [[1.0, 0.0], [4.0, 3.0], [0.0, 9.0], [3.0, 4.0]]
