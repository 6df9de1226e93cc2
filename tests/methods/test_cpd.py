"""CPD: two independent libraries agree, the approximations stay near the exact method, failures are results."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from pwan import methods, shapes
from pwan.methods import cpd, pycpd
from pwan.methods._baseline import is_small
from pwan.problem import RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem


def bunny(points: int, **changed: Any) -> RegistrationProblem:
    settings = SynthesisSettings(**{"points": points, "outlier_ratio": 0.2, "deformation_lambda": 50.0, **changed})
    return make_problem(shapes.load("bunny"), settings, seed=3, trials=[0])


def run(method: str, problem: RegistrationProblem, **options: Any) -> RegistrationResult:
    return methods.run(method, problem, options, seeds=[0])


@pytest.mark.parametrize(
    "problem",
    [
        bunny(150),
        bunny(150, keep=0.8, outlier_ratio=0.0),
        make_problem(shapes.load("fish"), SynthesisSettings(points=80, outlier_ratio=1.0), seed=0, trials=[0]),
    ],
    ids=["outliers", "partial", "plane"],
)
def test_the_two_libraries_give_the_same_points(problem: RegistrationProblem) -> None:
    """Run to the same tolerance, the largest difference of a coordinate is below 1e-5."""
    ours, theirs = (run(method, problem, tolerance=1e-9, max_iterations=400) for method in ("cpd", "pycpd"))
    torch.testing.assert_close(ours.transformed, theirs.transformed, rtol=0, atol=1e-5)
    assert ours.steps == theirs.steps and ours.steps[0] > 20
    assert float(mean_squared_error(ours.transformed, problem.source)) > 1e-3, "both must have moved"


def test_variance_falls_to_the_tolerance() -> None:
    (history,) = run("cpd", bunny(150)).history
    assert history["sigma2"][-1] < 0.05 * history["sigma2"][0]
    assert abs(history["sigma2"][-1] - history["sigma2"][-2]) < 1e-5


def test_large_sets_are_approximated_closely() -> None:
    problem = bunny(600)
    exact, near = run("cpd", problem), run("cpd", problem, exact_points=100)
    assert not torch.equal(exact.transformed, near.transformed)
    assert near.stop_reason[0].endswith("; rank 100, 30 neighbours") and ";" not in exact.stop_reason[0]
    start = mean_squared_error(problem.source, problem.truth)
    for result in (exact, near):
        assert float(mean_squared_error(result.transformed, problem.truth)) < 0.2 * float(start)


@pytest.mark.parametrize(
    ("limit", "source", "reference", "small"),
    [
        (2500, 2000, 6000, True),  # two outliers for each point
        (2500, 2500, 10_000, True),
        (2500, 2500, 10_001, False),  # more than 25 million pairs
        (2500, 2501, 100, False),
        (6000, 6000, 6000, True),  # more pairs, where the limit says so
        (6000, 6000, 6001, False),
        (0, 1, 1, False),
    ],
)
def test_the_source_decides_whether_sets_are_small(limit: int, source: int, reference: int, small: bool) -> None:
    assert is_small(limit, np.empty((source, 3)), np.empty((reference, 3))) == small


def test_the_last_iteration_is_told_from_convergence() -> None:
    problem = bunny(100)
    assert run("cpd", problem, max_iterations=3).stop_reason == ["took all 3 iterations without reaching the tolerance"]
    assert run("cpd", problem).stop_reason[0].startswith("converged at iteration ")


@pytest.mark.parametrize("module", [cpd, pycpd])
def test_what_a_library_raises_is_a_failed_result(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is given back where it started, and the reason is the library's."""
    name = {cpd: "rustcpd.register_deformable", pycpd: "pycpd.DeformableRegistration"}[module]

    def raising(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("no luck\nand more lines")

    monkeypatch.setattr(name, raising)
    problem = bunny(60)
    result = module.register(problem, module.Settings(normalisation="none"), seeds=[0])
    assert result.status == ["failed"]
    assert "raised RuntimeError: no luck;" in result.stop_reason[0]
    torch.testing.assert_close(result.transformed, problem.source)


def test_a_failure_without_words_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(cpd, "library_call", lambda name: nullcontext())
    monkeypatch.setattr("rustcpd.register_deformable", full)
    result = cpd.register(bunny(60), cpd.Settings(), seeds=[0])
    assert result.stop_reason == ["MemoryError; the source is given back where it started"]


def test_points_that_are_not_finite_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        points = np.full((60, 3), np.nan)

    monkeypatch.setattr("rustcpd.register_deformable", lambda *arguments, **options: Found())
    result = cpd.register(bunny(60), cpd.Settings(), seeds=[0])
    assert result.status == ["failed"] and "not finite" in result.stop_reason[0]
    assert bool(result.transformed.isfinite().all())


@pytest.mark.parametrize("changed", [{"outlier_weight": 1.0}, {"beta": 0.0}, {"rank": 0}, {"max_iterations": -1}])
def test_settings_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"method cpd: {next(iter(changed))} must be"):
        methods.settings("cpd", changed)
