"""Registrations by the rigid energy: implicit steps, and limbs that turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pwan.problem import RegistrationProblem, mean_squared_error
from pwan.registration import pipeline
from pwan.registration.optimisers import ImplicitSteps
from pwan.registration.presets import resolve
from pwan.registration.settings import PwanSettings
from tests.registration.test_flexibility import QUICK, two_poses

RIGID = replace(QUICK, energy="rigid", kernel="geodesic", normalisation="joint", steps=40)


def test_an_implicit_step_goes_as_far_as_the_rate_where_nothing_holds() -> None:
    theta = torch.nn.Parameter(torch.zeros(1, 2, 3), requires_grad=False)
    theta.grad = torch.ones(1, 2, 3)
    metric = torch.diag(torch.tensor([1.0, 4.0], dtype=torch.float64))[None]
    ImplicitSteps(theta, metric, lambda: torch.zeros(1, 2, 2, dtype=torch.float64), 0.1).step()
    assert torch.allclose(theta, torch.tensor([-0.1, -0.025])[None, :, None].expand(1, 2, 3))


def test_an_implicit_step_ends_at_the_least_of_a_stiff_energy() -> None:
    """Of stiffness 1e6: a first-order step of this rate would leap over it."""
    theta = torch.nn.Parameter(torch.tensor([[[3.0]]]), requires_grad=False)
    stiff = torch.full((1, 1, 1), 1e6, dtype=torch.float64)
    theta.grad = (stiff[0] * (theta - 2.0)).float()
    ImplicitSteps(theta, torch.ones(1, 1, 1, dtype=torch.float64), lambda: stiff, 0.1).step()
    assert float(theta) == pytest.approx(2.0, abs=1e-4)


def test_a_leg_that_swings_is_found_before_any_refinement() -> None:
    problem = two_poses(700)
    assert problem.truth is not None
    errors = []
    for settings in (QUICK, RIGID):
        result = pipeline.register(replace(problem, truth=None), settings, seeds=[0])
        errors.append(float(mean_squared_error(result.transformed_unrefined, problem.truth)))
    assert errors[1] < 0.5 * errors[0]


def test_a_mesh_that_repeats_its_vertices_is_refined() -> None:
    """The refinement's widths are spacings of the places, not of the vertices."""
    problem = two_poses(120)
    twice = (points.repeat_interleave(2, dim=1) for points in (problem.source, problem.reference))
    settings = replace(RIGID, steps=3, warmup=1)
    soft = [resolve(settings, one, "mass")[1] for one in (problem, RegistrationProblem(*twice))]
    assert soft[0].sigma_end == pytest.approx(soft[1].sigma_end) and soft[1].sigma_end > 0.01
    moved = pipeline.register(RegistrationProblem(*(problem.source.repeat(1, 2, 1),) * 2), settings, seeds=[0])
    assert moved.status == ["ok"]


def test_landmarks_pull_and_a_checkpoint_goes_on() -> None:
    problem = two_poses(150)
    problem = replace(problem, truth=None, landmarks=torch.tensor([[[0, 3], [5, 9]]]))
    whole = pipeline.Registration(problem, replace(RIGID, steps=6, stages=1, stage_steps=4), [0])
    half = pipeline.Registration(problem, whole.settings, [0])
    for _ in range(5):
        half.step()
    resumed = pipeline.Registration(problem, whole.settings, [0])
    resumed.load_state_dict(half.state_dict())
    for running in (whole, resumed):
        while not running.solver.finished:
            running.step()
    assert torch.equal(whole.finish().transformed, resumed.finish().transformed)
    far = (problem.source[0, [0, 5]] - problem.reference[0, [3, 9]]).norm(dim=1).mean()
    assert float((whole.transformed()[0, [0, 5]] - problem.reference[0, [3, 9]]).norm(dim=1).mean()) < 0.5 * float(far)


@pytest.mark.parametrize("other", [{"transform": "rigid"}, {"refinement": "nearest"}, {"parametrisation": "free"}])
def test_what_has_no_modes_cannot_take_it(other: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="energy=rigid"):
        PwanSettings(**{"energy": "rigid", "refinement": "none", **other})  # type: ignore[arg-type]
