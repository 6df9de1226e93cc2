"""The soft assignment as a method of its own: the control beside PWAN."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from pwan import methods, shapes
from pwan.methods import soft_assignment
from pwan.problem import mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem


@pytest.mark.parametrize(
    "synthesis",
    [
        SynthesisSettings(points=300, outlier_ratio=1.0, deformation_lambda=50.0),
        SynthesisSettings(points=400, keep=0.85, deformation_lambda=50.0),
    ],
    ids=["noise", "partial"],
)
def test_outliers_and_missing_parts_do_not_pull(synthesis: SynthesisSettings) -> None:
    problem = make_problem(shapes.load("bunny"), synthesis, seed=1, trials=[0, 1])
    result = methods.run("soft_assignment", problem, {}, seeds=[0, 1])
    assert problem.truth is not None
    moved, still = (mean_squared_error(p, problem.truth) for p in (result.transformed, problem.source))
    assert bool((moved < 0.25 * still).all())


def test_a_batch_is_its_problems_one_by_one() -> None:
    synthesis = SynthesisSettings(points=100, outlier_ratio=0.5)
    problem = make_problem(shapes.load("bunny"), synthesis, seed=1, trials=[0, 1])
    both = methods.run("soft_assignment", problem, {}, seeds=[5, 6])
    second = methods.run("soft_assignment", problem.select([1]), {}, seeds=[6])
    torch.testing.assert_close(both.transformed[1:], second.transformed, rtol=0, atol=1e-8)


def test_settings_that_follow_from_the_case() -> None:
    settings = soft_assignment.Settings(slack=0.5)
    whole, part = settings.for_case(whole=True), settings.for_case(whole=False)
    assert whole.slack == part.slack == 0.5
    assert whole.sigma_start > part.sigma_start
    assert all(value is not None for value in dataclasses.astuple(whole) + dataclasses.astuple(part))


def test_numbers_that_leave_the_finite_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(transform, start, *rest, **more):
        return torch.full_like(start, torch.nan)

    monkeypatch.setattr(soft_assignment, "soft_assignment", broken)
    problem = make_problem(shapes.load("bunny"), SynthesisSettings(points=50), seed=1, trials=[0])
    result = methods.run("soft_assignment", problem, {}, seeds=[0])
    assert result.status == ["failed"] and "finite" in result.stop_reason[0]
    assert bool(result.transformed.isfinite().all())
