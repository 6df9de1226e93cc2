"""A batch of registrations on its way from problem to result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
import torch

from pwan import partial_wasserstein, shapes
from pwan.problem import Progress, RegistrationProblem
from pwan.registration import pipeline
from pwan.registration.matched import matched_points
from pwan.registration.settings import PwanSettings
from pwan.registration.solver import Solver
from pwan.synthesis import SynthesisSettings, make_problem

# long enough that the problems of a batch stop at different steps
STOPPING = PwanSettings(steps=60, stages=1, stage_steps=20, warmup=3, width=16, features=16, tolerance=0.15)
SEEDS = [3, 4, 5, 6, 7]


def batch(keep: float = 1.0) -> RegistrationProblem:
    settings = SynthesisSettings(points=40, keep=keep, deformation_lambda=50, distance=0.2)
    return make_problem(shapes.load("torus"), settings, seed=0, trials=[0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    "changed", [{}, {"threshold": "learned"}, {"type": "distance", "tolerance": 0.1}, {"optimiser": "rmsprop"}]
)
def test_problems_that_stop_leave_their_batch_and_no_number_changes(
    changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, settings = batch(0.8), replace(STOPPING, **changed)  # type: ignore[arg-type]
    alone = [pipeline.register(problem.select([k]), settings, seeds=[SEEDS[k]]) for k in range(5)]
    sizes: list[int] = []
    step = Solver.step

    def watched(self: Solver, *arguments: object) -> dict[str, torch.Tensor]:
        sizes.append(len(self.setup.reference))
        return step(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Solver, "step", watched)
    told: list[Progress] = []
    where: list[torch.Tensor] = []

    def observer(progress: Progress) -> None:
        told.append(progress)
        where.append(progress.transformed())

    together = pipeline.register(problem, settings, seeds=SEEDS, observer=observer)
    steps = [one.steps[0] for one in alone]
    assert len(set(steps)) > 1, "the batch is to hold problems that stop at different steps"
    assert together.steps == steps
    assert sizes[0] == 5 and sizes == sorted(sizes, reverse=True) and sizes[-1] < 5
    assert len(sizes) == max(steps) == len(told)
    for k, one in enumerate(alone):
        assert torch.equal(together.transformed[k], one.transformed[0])
        assert torch.equal(together.transformed_unrefined[k], one.transformed_unrefined[0])
        assert together.history[k] == one.history[0]
        assert together.stop_reason[k] == one.stop_reason[0]
        x = problem.reference[k]
        assert together.potential is not None and one.potential is not None
        assert torch.equal(together.potential[k](x), one.potential[0](x))
    first = steps.index(min(steps))  # what has left is shown where it came to rest
    assert torch.equal(where[-1][first], together.transformed[first])


def test_the_share_of_time_goes_with_a_problem() -> None:
    registration = pipeline.Registration(batch(), STOPPING, SEEDS)
    registration.step()
    before = registration.seconds
    part = registration.part([1, 4])
    assert part.seconds > before > 0
    assert part.solver.steps_done == 1 and part.seeds == [4, 7]
    torch.testing.assert_close(part.transformed(), registration.transformed()[[1, 4]], rtol=0, atol=0)


def turned(away: float, dimension: int = 3) -> tuple[RegistrationProblem, torch.Tensor]:
    """A torus of which each set lacks a part, the source a little turned and moved away; and where it belongs."""
    points = torch.from_numpy(shapes.load("torus").points[:160, :dimension].astype(float, copy=True))
    keep = points[:, 0].argsort()
    reference, truth = points[keep[:120]], points[keep[40:]]
    c, s = math.cos(0.2), math.sin(0.2)
    rotation = torch.eye(dimension, dtype=torch.float64)
    rotation[:2, :2] = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    shift = torch.tensor([0.6, 0.8, 0.0][:dimension], dtype=torch.float64) * away
    source = truth @ rotation + shift
    mass = torch.tensor([80.0], dtype=torch.float64)
    return RegistrationProblem(source[None], reference[None], mass=mass), truth


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("refinement", ["none", "soft", "nearest"])
def test_a_rotation_is_orthogonal_to_the_last_digit(dimension: int, refinement: Literal["none", "soft"]) -> None:
    problem, _ = turned(0.0, dimension)
    settings = PwanSettings(transform="rigid", steps=10, stages=0, warmup=3, width=16, refinement=refinement)
    result = pipeline.register(problem, settings, seeds=[0])
    unit = torch.eye(dimension, dtype=torch.float64)
    assert result.transform is not None
    for affine in (result.affine[0], torch.tensor(result.transform[0].to_dict()["affine"], dtype=torch.float64)):
        assert (affine - unit).abs().max() > 1e-3  # it has turned
        torch.testing.assert_close(affine @ affine.mT, unit, atol=2e-15, rtol=0)
    assert torch.det(result.affine[0]) == pytest.approx(1.0, abs=2e-15)


@pytest.mark.parametrize("transform", ["rigid", "nonrigid"])
@pytest.mark.parametrize("limit", ["mass", "distance"])
def test_from_far_away_a_source_arrives_where_it_arrives_from_near(
    transform: Literal["rigid", "nonrigid"], limit: str
) -> None:
    def error(away: float) -> float:
        problem, truth = turned(away)
        if limit == "distance":
            problem = replace(problem, mass=None, distance=torch.tensor([1.0], dtype=torch.float64))
        result = pipeline.register(problem, PwanSettings(transform=transform, width=32), seeds=[0])
        assert result.status == ["ok"]
        moved = problem.source @ result.affine + result.translation + result.displacement
        torch.testing.assert_close(moved, result.transformed, atol=1e-9, rtol=0)
        return float((result.transformed[0] - truth).square().sum(-1).mean().sqrt())

    errors = [error(away) for away in (10.0, 1e3, 1e6)]
    assert max(errors) < 0.1 and max(errors) - min(errors) < 1e-3


def test_matched_points_may_share_a_partner_where_a_plan_does_not() -> None:
    # three source points beside one reference point, and one farther away beside another
    source = torch.tensor([[0.1, 0.0], [0.2, 0.0], [0.0, 0.1], [5.4, 0.0]], dtype=torch.float64)
    reference = torch.tensor([[0.0, 0.0], [5.0, 0.0], [9.0, 9.0]], dtype=torch.float64)
    mass, distance = (torch.tensor([limit], dtype=torch.float64) for limit in (2.0, 0.3))
    by_mass = RegistrationProblem(source[None], reference[None], mass=mass)
    matched, _ = matched_points(source[None], by_mass, "mass")
    carried = partial_wasserstein(reference, source, mass=2.0).source_share
    assert carried is not None and carried.tolist() in ([1, 0, 0, 1], [0, 0, 1, 1])
    assert matched.sum() == 2 and not bool(matched[0, 3])
    by_distance = RegistrationProblem(source[None], reference[None], distance=distance)
    matched, _ = matched_points(source[None], by_distance, "distance")
    carried = partial_wasserstein(reference, source, distance=0.3).source_share
    assert carried is not None and carried.sum() == 1
    assert matched[0].tolist() == [True, True, True, False]
