"""From coarse to fine: which points are taken, which direction leads, and what all points begin from."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pwan import lightning, shapes
from pwan.bench.trials import _OnTheWay
from pwan.normalisation import matches_whole_source
from pwan.problem import FAILED, OK, Progress, RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.registration import coarse
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

SMALL: dict[str, Any] = {"steps": 6, "stages": 1, "stage_steps": 4, "warmup": 5, "updates": 2, "width": 16}
SMALL |= {"features": 16, "rank": 40}


def problem(points: int, trials: int = 1, **synthesis: Any) -> RegistrationProblem:
    return make_problem(
        shapes.load("torus"), SynthesisSettings(points=points, **synthesis), seed=0, trials=list(range(trials))
    )


def truth_of(given: RegistrationProblem) -> Tensor:
    assert given.truth is not None
    return given.truth


# --- a guess --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{}, {"parametrisation": "free", "refinement": "none"}, {"normalisation": "separate"}, {"sample": 50}],
    ids=str,
)
def test_a_registration_begins_from_its_guess(settings: dict[str, Any]) -> None:
    given = problem(300, trials=2, deformation_lambda=50.0)
    truth = truth_of(given)
    running = Registration(replace(given, guess=truth), PwanSettings(**(SMALL | settings)), [0, 1])
    parameters = running.solver.transform.parameters
    left = mean_squared_error(running.transformed(parameters), truth)
    assert bool((left < 0.02 * mean_squared_error(given.source, truth)).all())


@pytest.mark.parametrize("kind", ["affine", "rigid"])
def test_a_guess_is_followed_as_far_as_the_transform_can(kind: Any) -> None:
    given = problem(200)
    angle = torch.tensor(0.4, dtype=torch.float64)
    turn = torch.eye(3, dtype=torch.float64)
    turn[:2, :2] = torch.tensor([[angle.cos(), angle.sin()], [-angle.sin(), angle.cos()]])
    guess = given.source @ turn + 0.3
    running = Registration(replace(given, guess=guess), PwanSettings(transform=kind, **SMALL), [0])
    moved = running.transformed(running.solver.transform.parameters)
    assert float(mean_squared_error(moved, guess)) < 1e-3


def test_a_guess_of_another_shape_is_refused() -> None:
    given = problem(100)
    with pytest.raises(ValueError, match=r"guess must have the shape of source \(1, 100, 3\), got \(1, 99, 3\)"):
        replace(given, guess=given.source[:, 1:])


# --- fewer points ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "q", "sizes"), [(150, 180, (150, 180)), (5000, 5000, (2000, 2000))])
def test_the_same_share_of_both_sets_is_taken(r: int, q: int, sizes: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    sets = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (r, q))
    given = RegistrationProblem(*sets, mass=torch.tensor([100.0, 150.0], dtype=torch.float64))
    few = coarse.sampled(replace(given, guess=given.source), [0, 1])
    assert (few.source.shape[1], few.reference.shape[1]) == sizes
    assert few.mass is not None and few.guess is not None
    assert few.mass.tolist() == pytest.approx([100.0 * sizes[0] / r, 150.0 * sizes[0] / r])
    assert torch.equal(few.guess, few.source)
    assert not torch.equal(few.source[0, :100], few.source[1, :100]) and few.truth is None
    again = coarse.sampled(given, [0, 1])
    assert torch.equal(again.source, few.source) and torch.equal(again.reference, few.reference)


@pytest.mark.parametrize(
    ("r", "q", "sizes"), [(1000, 20_000, (200, 4000)), (20_000, 1000, (2000, 100)), (300_000, 1000, (10_000, 100))]
)
def test_of_sets_of_very_different_sizes_the_smaller_keeps_its_shape(r: int, q: int, sizes: tuple[int, int]) -> None:
    given = RegistrationProblem(*(torch.rand(1, n, 3, dtype=torch.float64) for n in (r, q)))
    few = coarse.sampled(replace(given, mass=torch.tensor([float(min(r, q))], dtype=torch.float64)), [0])
    assert (few.source.shape[1], few.reference.shape[1]) == sizes
    assert few.mass is not None and few.mass.tolist() == [min(sizes)]  # all of the smaller set, as without a mass


def test_all_of_the_source_stays_all_of_it() -> None:
    for r in range(2100, 2130):  # 2000 / r * r is not 2000 for all of them
        given = RegistrationProblem(
            *torch.rand(2, 1, r, 3, dtype=torch.float64), mass=torch.tensor([float(r)]).double()
        )
        assert bool(matches_whole_source(coarse.sampled(given, [0])).all()), r


def test_of_very_many_pairs_the_weightiest_stay() -> None:
    points = torch.rand(1, 3000, 3, dtype=torch.float64)
    pairs = torch.arange(2500)[None, :, None].expand(-1, -1, 2)
    weights = torch.linspace(0.0, 1.0, 2500, dtype=torch.float64)[None]
    few = coarse.sampled(RegistrationProblem(points, points, landmarks=pairs, landmark_weights=weights), [0])
    assert few.landmarks is not None and few.landmark_weights is not None and few.landmarks.shape == (1, 1000, 2)
    assert float(few.landmark_weights.min()) == pytest.approx(1500 / 2499)
    assert few.source.shape[1] == 2000


def test_known_pairs_stay_and_are_turned_round_with_the_sets() -> None:
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (3000, 4000))
    pairs = torch.stack((torch.randint(3000, (2, 7), generator=generator), torch.randint(4000, (2, 7))), -1)
    pairs[1, 1] = pairs[1, 0]  # twice the same
    few = coarse.sampled(RegistrationProblem(y, x, landmarks=pairs), [3, 4])
    assert few.landmarks is not None
    back = coarse.turned_round(few, [])
    assert back.landmarks is not None and torch.equal(back.source, few.reference)
    for k in range(2):
        assert torch.equal(few.source[k, few.landmarks[k, :, 0]], y[k, pairs[k, :, 0]])
        assert torch.equal(few.reference[k, few.landmarks[k, :, 1]], x[k, pairs[k, :, 1]])
        assert torch.equal(back.source[k, back.landmarks[k, :, 0]], x[k, pairs[k, :, 1]])


def test_what_is_left_of_a_mesh_stays_one() -> None:
    """The few of a batch get their edges, as many rows for each, on both sides; all of a set keep their faces."""
    shape = shapes.load("body_walk")
    source = torch.tensor(shape.points)[None].expand(2, -1, -1)
    faces = torch.tensor(np.asarray(shape.faces, dtype=np.int64))[None].expand(2, -1, -1)
    given = RegistrationProblem(source, source[:, :150], source_faces=faces)
    few = coarse.sampled(given, [0, 1], 400)
    assert few.source_faces is not None and few.reference_faces is None
    longest = torch.cdist(few.source, few.source).max()
    for points, edges in zip(few.source, few.source_faces, strict=True):
        assert torch.equal(edges[:, 1], edges[:, 2])
        assert len(edges[:, :2].unique()) == few.source.shape[1]
        assert (points[edges[:, 0]] - points[edges[:, 1]]).norm(dim=1).max() < 0.2 * longest
    back = coarse.turned_round(few, [])
    assert back.source_faces is None and back.reference_faces is few.source_faces
    assert coarse.sampled(given, [0, 1], source.shape[1]).source_faces is faces


# --- both directions ------------------------------------------------------------------------------------------------


def ended(points: Tensor) -> RegistrationResult:
    """A result that has brought its source there."""
    made: dict[str, Any] = dict.fromkeys(f.name for f in fields(RegistrationResult))
    return RegistrationResult(**{**made, "transformed": points, "transform": ["the way there"], "status": [OK]})


@pytest.mark.parametrize("limit", ["mass", "distance", "complete"])
@pytest.mark.parametrize("normalisation", ["joint", "separate"])
def test_the_way_back_is_the_inverse_where_it_is_nearer(limit: Any, normalisation: Any) -> None:
    made = problem(400, deformation_lambda=50.0)
    truth, (first, last) = truth_of(made), (0, 400) if limit == "complete" else (60, 340)  # else 280 are in both sets
    order = first + torch.randperm(400 - first, generator=torch.Generator().manual_seed(0))
    goals, homes = truth[:, order], made.source[0, order]
    limits = {"mass": {"mass": 280.0}, "distance": {"distance": 0.02}}.get(limit, {})
    numbers = {name: torch.tensor([value], dtype=torch.float64) for name, value in limits.items()}
    given = RegistrationProblem(made.source[:, :last], goals, **numbers)
    settings = PwanSettings(**{**SMALL, "type": limit, "normalisation": normalisation, "rank": 80})
    running = Registration(given, settings, [0])
    (far, near), (home, away) = (
        (ended(points[None]) for points in ends) for ends in ((given.source[0], truth[0, :last]), (homes, goals[0]))
    )
    inverse, word = coarse._lead(running, far, home, 0)
    assert inverse is not None and "onto the source" in word
    both = slice(first, last)
    moved = inverse(made.source[0])[None]
    error, start = (float(mean_squared_error(points[:, both], truth[:, both])) for points in (moved, made.source))
    assert error < 0.05 * start, (error, start)
    assert coarse._lead(running, near, away, 0) == (
        "the way there",
        "began where a coarse registration of fewer points led",
    )
    failed = replace(home, status=[FAILED])
    assert coarse._lead(running, far, failed, 0)[0] == "the way there"
    assert coarse._lead(running, replace(near, status=[FAILED]), away, 0)[0] is not None
    assert coarse._lead(running, replace(far, status=[FAILED]), failed, 0) == (None, "both coarse registrations failed")


def test_all_points_begin_from_the_better_direction_and_the_result_says_which() -> None:
    given = problem(250, trials=3)
    told: list[Progress] = []
    settings = PwanSettings(coarse_steps=60, **(SMALL | {"steps": 2, "refinement": "none"}))
    result = coarse.register(given, settings, seeds=[0, 1, 2], observer=told.append)
    assert all("; began where a coarse registration of" in reason for reason in result.stop_reason)
    steps = [progress.step for progress in told]
    assert steps == sorted(set(steps)) and steps[-1] == told[-1].steps == 18  # 2 + 4 of its own, and twice as many
    assert [p.step - p.before for p in told][-6:] == [1, 2, 3, 4, 5, 6] and result.steps == [6, 6, 6]
    assert torch.equal(told[0].transformed(), given.source)
    assert not torch.equal(told[-1].transformed(), given.source)
    truth = truth_of(given)
    alone = coarse.register(given, replace(settings, coarse_steps=0), seeds=[0, 1, 2])
    left, without = (mean_squared_error(moved, truth).mean() for moved in (result.transformed, alone.transformed))
    assert float(left) < 0.5 * float(without)


def test_a_trainer_drives_all_three_registrations() -> None:
    given = problem(120)
    settings = PwanSettings(coarse_steps=5, **SMALL)
    plain = coarse.register(given, settings, seeds=[0])
    taken = []

    def drive(*task: Any, **more: Any) -> RegistrationResult:
        taken.append(task[0].source.shape)
        return lightning.register(*task, **more)

    driven = coarse.register(given, settings, seeds=[0], drive=drive)
    assert len(taken) == 3
    assert torch.equal(plain.transformed, driven.transformed) and plain.stop_reason == driven.stop_reason


def test_points_dealt_over_ranks_begin_from_the_same_guess() -> None:
    given = problem(120)
    given = replace(given, guess=truth_of(given))
    settings = PwanSettings(**SMALL)
    plain = coarse.register(given, settings, seeds=[0])
    shared = lightning.register(given, settings, seeds=[0], devices=2, accelerator="cpu", precision=64)
    torch.testing.assert_close(shared.transformed, plain.transformed, atol=0.01, rtol=0)


def test_a_free_displacement_is_led_by_no_modes() -> None:
    with pytest.raises(ValueError, match="take coarse_steps=0 with parametrisation=free"):
        PwanSettings(coarse_steps=10, parametrisation="free", refinement="none")


@pytest.mark.parametrize("limits", [{"mass": [80.0, 100.0]}, {"distance": [0.1, 0.2]}], ids=str)
def test_problems_of_both_cases_and_known_pairs_take_part(limits: dict[str, list[float]]) -> None:
    given = problem(100, trials=2)
    numbers = {name: torch.tensor(values, dtype=torch.float64) for name, values in limits.items()}
    pairs = torch.tensor([[[0, 5], [7, 9]]]).expand(2, -1, -1)
    given = RegistrationProblem(given.source, given.reference, landmarks=pairs, **numbers)
    kind: Any = "distance" if "distance" in limits else "mass"
    settings = PwanSettings(**SMALL, type=kind, coarse_steps=4, normalisation="separate")
    result = coarse.register(given, settings, seeds=[0, 1])
    assert result.status == [OK, OK]


def test_a_limit_of_distance_is_turned_round_in_the_sources_units() -> None:
    given = problem(60)
    given = RegistrationProblem(given.source * 1000, given.reference, distance=torch.tensor([0.1], dtype=torch.float64))
    settings = PwanSettings(**SMALL, type="distance", normalisation="separate")
    with pytest.warns(UserWarning, match="the extents differ"):
        running = Registration(given, settings, [0])
    back = coarse.turned_round(given, [running])
    assert back.distance is not None
    assert back.distance.tolist() == pytest.approx([100.0], rel=0.1)


def test_curves_of_runs_are_of_the_registration_of_all_points() -> None:
    given = problem(80)
    watched = _OnTheWay(truth_of(given), lambda report: None, snapshots=True)
    settings = PwanSettings(**SMALL, coarse_steps=20)
    result = coarse.register(given, settings, seeds=[0], observer=watched)
    kept = watched.arrays(0, snapshots=True)
    assert kept["curve_step"].tolist() == list(range(1, 11)) and result.steps == [10]
    assert kept["snapshot_step"].tolist() == [1, 2]
    assert kept["curve_mse"][-1] < kept["curve_mse"][0] or kept["curve_mse"][0] < 0.02


@pytest.mark.skipif("PWAN_DATA" not in os.environ, reason="PWAN_DATA names no folder with the paper's point sets")
def test_arms_that_hang_beside_a_body_come_up() -> None:
    body = SynthesisSettings(points=600, deformation="partner", noise=0.0)
    given = make_problem(shapes.load("humans_18_19", "paper"), body, seed=0, trials=[0])
    settings = PwanSettings(
        normalisation="joint", beta=1.0, coherence=0.003, affine_penalty=0.01, frequency=3.0, steps=20
    )
    result = coarse.register(given, replace(settings, refinement="none", coarse_steps=400), seeds=[0])
    truth = truth_of(given)
    here = torch.cat((given.source, torch.ones(1, 600, 1, dtype=torch.float64)), -1)
    best_affine = here @ torch.linalg.lstsq(here, truth).solution
    assert "onto the source" in result.stop_reason[0]
    assert float(mean_squared_error(result.transformed, truth)) < 0.8 * float(mean_squared_error(best_affine, truth))


def test_a_batch_of_several_cases_counts_the_same_steps_from_first_to_last() -> None:
    given = replace(problem(60, trials=2), mass=torch.tensor([30.0, 60.0], dtype=torch.float64))
    told: list[Progress] = []
    settings = PwanSettings(coarse_steps=3, **(SMALL | {"steps": 2, "refinement": "none"}))
    coarse.register(given, settings, seeds=[0, 1], observer=told.append)
    assert len({progress.steps for progress in told}) == 1 and told[-1].step == told[-1].steps
