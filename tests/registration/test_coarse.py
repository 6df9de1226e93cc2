"""From coarse to fine: which points are taken, which direction leads, and what all points begin from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pwan import lightning, shapes
from pwan.problem import Progress, RegistrationProblem, mean_squared_error
from pwan.registration import coarse, dealt
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
    few = coarse.sampled(given, [0, 1])
    assert (few.source.shape[1], few.reference.shape[1]) == sizes
    assert few.mass is not None
    assert few.mass.tolist() == pytest.approx([100.0 * sizes[0] / r, 150.0 * sizes[0] / r])
    assert not torch.equal(few.source[0, :100], few.source[1, :100]) and few.truth is None
    again = coarse.sampled(given, [0, 1])
    assert torch.equal(again.source, few.source) and torch.equal(again.reference, few.reference)


def test_of_a_reference_far_larger_some_points_of_the_source_are_left() -> None:
    given = RegistrationProblem(*(torch.rand(1, n, 3, dtype=torch.float64) for n in (1000, 100_000)))
    few = coarse.sampled(given, [0])
    assert (few.source.shape[1], few.reference.shape[1]) == (coarse.FEWEST, coarse.WIDEST)


def test_known_pairs_stay_and_are_turned_round_with_the_sets() -> None:
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (3000, 4000))
    pairs = torch.stack((torch.randint(3000, (2, 7), generator=generator), torch.randint(4000, (2, 7))), -1)
    pairs[1, 1] = pairs[1, 0]  # twice the same
    few = coarse.sampled(RegistrationProblem(y, x, pairs=pairs), [3, 4])
    assert few.pairs is not None
    back = coarse.turned_round(few)
    assert back.pairs is not None and torch.equal(back.source, few.reference)
    for k in range(2):
        assert torch.equal(few.source[k, few.pairs[k, :, 0]], y[k, pairs[k, :, 0]])
        assert torch.equal(few.reference[k, few.pairs[k, :, 1]], x[k, pairs[k, :, 1]])
        assert torch.equal(back.source[k, back.pairs[k, :, 0]], x[k, pairs[k, :, 1]])


# --- both directions ------------------------------------------------------------------------------------------------


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
    inverse = coarse._way_back(given, settings, 0, given.source[0], homes)
    assert inverse is not None
    both = slice(first, last)
    moved = inverse(made.source[0])[None]
    error, start = (float(mean_squared_error(points[:, both], truth[:, both])) for points in (moved, made.source))
    assert error < 0.05 * start, (error, start)
    assert coarse._way_back(given, settings, 0, truth[0, :last], goals[0]) is None


def test_all_points_begin_from_the_better_direction_and_the_result_says_which() -> None:
    given = problem(250, trials=2)
    told: list[Progress] = []
    settings = PwanSettings(coarse_steps=60, **(SMALL | {"steps": 2, "refinement": "none"}))
    result = coarse.register(given, settings, seeds=[0, 1], observer=told.append)
    assert all("; began where a coarse registration of" in reason for reason in result.stop_reason)
    steps = [progress.step for progress in told]
    assert steps == sorted(steps) and steps[-1] == told[-1].steps and len({p.steps for p in told}) == 1
    assert torch.equal(told[0].transformed(), given.source)
    assert not torch.equal(told[-1].transformed(), given.source)
    truth = truth_of(given)
    alone = coarse.register(given, replace(settings, coarse_steps=0), seeds=[0, 1])
    left, without = (mean_squared_error(moved, truth).mean() for moved in (result.transformed, alone.transformed))
    assert float(left) < 0.5 * float(without)


def test_a_trainer_drives_all_three_registrations() -> None:
    given = problem(120)
    settings = PwanSettings(coarse_steps=5, **SMALL)
    plain = coarse.register(given, settings, seeds=[0])
    driven = coarse.register(given, settings, seeds=[0], drive=lightning.register)
    assert torch.equal(plain.transformed, driven.transformed) and plain.stop_reason == driven.stop_reason


def test_points_dealt_over_ranks_begin_from_the_same_coarse_registration() -> None:
    given = problem(120)
    settings = PwanSettings(coarse_steps=5, **SMALL)
    plain = coarse.register(given, settings, seeds=[0])

    def two_ranks(*task: Any, **more: Any) -> Any:
        return dealt.register(*task, **more, devices=["cpu", "cpu"], dtype=torch.float64)

    shared = coarse.register(given, settings, seeds=[0], drive=two_ranks)
    torch.testing.assert_close(shared.transformed, plain.transformed, atol=0.05, rtol=0)


def test_a_free_displacement_is_led_by_no_modes() -> None:
    with pytest.raises(ValueError, match="take coarse_steps=0 with parametrisation=free"):
        PwanSettings(coarse_steps=10, parametrisation="free", refinement="none")
