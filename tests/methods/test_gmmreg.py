from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

from pwan import methods, shapes
from pwan.deformation.splines import thin_plate_spline
from pwan.methods._baseline import RegistrationFailedError
from pwan.methods.gmmreg import Objective, check_not_collapsed, gaussians, overlap
from pwan.problem import RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem

SHORT = {"widths": [0.5, 0.2], "smoothness": [0.1, 0.02], "evaluations": [10, 15]}


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return 0.5 * np.random.default_rng(seed).normal(size=(n, d))


def noise_problem(dimension: int = 3) -> RegistrationProblem:
    shape, count = (shapes.load("bunny"), 200) if dimension == 3 else (shapes.load("fish"), 80)
    settings = SynthesisSettings(points=count, outlier_ratio=0.2, deformation_lambda=10, rank=50)
    return make_problem(shape, settings, seed=0, trials=[0])


def errors(problem: RegistrationProblem, result: RegistrationResult, index: slice = slice(None)) -> tuple[float, float]:
    """MSE of the result, and of the source put with its centre where the truth's is, which no method may use."""
    assert problem.truth is not None and result.status == ["ok"]
    centred = problem.source - problem.source.mean(1, keepdim=True) + problem.truth.mean(1, keepdim=True)
    found, centred = (mean_squared_error(p[:, index], problem.truth[:, index]) for p in (result.transformed, centred))
    return float(found), float(centred)


def run(source: np.ndarray, reference: np.ndarray, **options: Any) -> RegistrationResult:
    problem = RegistrationProblem(torch.from_numpy(source)[None], torch.from_numpy(reference)[None])
    return methods.run("gmmreg", problem, options, seeds=[0])


def objective(d: int, control: np.ndarray, smoothness: float = 0.3) -> Objective:
    spline = thin_plate_spline(control)
    return Objective(spline, spline.basis(points(12, d)), points(15, d, 1), 0.4, smoothness)


def identity(objective: Objective) -> np.ndarray:
    d = objective.reference.shape[1]
    coefficients = np.zeros((objective.basis.shape[1], d))
    coefficients[1 : d + 1] = np.eye(d)
    return coefficients


def test_overlap_of_two_points_is_the_formula() -> None:
    z, x = np.zeros((1, 2)), np.array([[0.3, 0.4]])
    value, gradient = overlap(z, x, 0.5)
    assert value == pytest.approx(math.exp(-1), rel=1e-12)
    np.testing.assert_allclose(gradient, 2 / 0.25 * math.exp(-1) * x, rtol=1e-12)


def test_gaussians_are_those_of_the_differences() -> None:
    z, x = points(12, 3), points(15, 3, 1)
    expected = np.exp(-np.square(z[:, None] - x[None]).sum(-1) / 0.02**2)
    np.testing.assert_allclose(gaussians(z, x, 0.02**2), expected, rtol=1e-9, atol=1e-250)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("free", [True, False])
def test_gradient_is_that_of_finite_differences(d: int, free: bool) -> None:
    """Control points at the source points, and elsewhere."""
    cost = objective(d, points(12, d) if free else points(9, d, 5))
    at = identity(cost).ravel() + 0.1 * np.random.default_rng(2).normal(size=cost.basis.shape[1] * d)
    value, gradient = cost(at)
    numeric = approx_fprime(at, lambda flat: cost(flat)[0], 1e-7)
    assert np.abs(gradient).max() > 0.01 and math.isfinite(value)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5 * np.abs(gradient).max())


def test_value_is_the_distance_of_the_mixtures() -> None:
    """For an affine map nothing but the L2 distance is left, up to the term of the reference alone."""
    cost = objective(3, points(12, 3))
    affine = identity(cost)
    affine[:4] += 0.2 * points(4, 3, 3)
    value, _ = cost(affine.ravel())
    moved = cost.basis @ affine
    each = [overlap(a, b, 0.4)[0] for a, b in ((moved, moved), (moved, cost.reference))]
    assert value == pytest.approx(each[0] - 2 * each[1], rel=1e-12)
    assert value + overlap(cost.reference, cost.reference, 0.4)[0] > 0
    same = Objective(cost.spline, cost.basis, points(12, 3), 0.4, 0.3)
    at, gradient = same(identity(same).ravel())
    assert at + overlap(points(12, 3), points(12, 3), 0.4)[0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_bending_is_charged_by_the_smoothness() -> None:
    loose, stiff = objective(3, points(12, 3), 0.0), objective(3, points(12, 3), 2.0)
    at = identity(loose) + 0.1 * points(12, 3, 3)
    assert stiff(at.ravel())[0] - loose(at.ravel())[0] == pytest.approx(2.0 * stiff.spline.energy(at), rel=1e-9)


def test_affine_part_is_free_of_the_smoothness() -> None:
    y = points(60, 3)
    turned = y @ np.array([[1.1, 0.1, 0], [-0.1, 0.9, 0], [0, 0, 1.0]])
    result = run(y, turned, widths=[0.5], smoothness=[100.0], evaluations=[300])
    assert float(result.displacement.abs().max()) < 1e-6
    after = np.square(result.transformed[0].numpy() - turned).sum(1).mean()
    assert after < 1e-3 * np.square(y - turned).sum(1).mean()


def test_stages_go_down_and_keep_to_their_evaluations() -> None:
    problem = noise_problem()
    result = methods.run("gmmreg", problem, SHORT, seeds=[0])
    history = result.history[0]
    losses, widths = np.array(history["loss"]), np.array(history["width"])
    assert len(losses) == result.steps[0] <= 25
    assert set(widths) == {0.5, 0.2} and (np.diff(widths) <= 0).all()
    for width in (0.5, 0.2):
        assert (np.diff(losses[widths == width]) <= 0).all()
    assert [part.split(":")[0] for part in result.stop_reason[0].split("; ")] == ["width 0.5", "width 0.2"]


def test_a_source_in_place_converges_there() -> None:
    y = points(60, 3)
    result = run(y, y[::-1].copy())
    assert result.status == ["ok"] and result.stop_reason[0].count("converged") == 3
    np.testing.assert_allclose(result.transformed[0], y, atol=1e-6)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("options", [{}, {"control_grid": 4}])
def test_a_smooth_deformation_with_outliers_is_undone(dimension: int, options: dict[str, Any]) -> None:
    problem = noise_problem(dimension)
    result = methods.run("gmmreg", problem, options, seeds=[0])
    after, before = errors(problem, result)
    assert after < 0.5 * before


def test_collapse_is_a_failure_with_words() -> None:
    y = points(20, 3)
    check_not_collapsed(y, 0.01 * y)
    with pytest.raises(RegistrationFailedError, match="collapsed: its RMS radius went from"):
        check_not_collapsed(y, 1e-4 * y + 3.0)


def test_a_source_that_collapses_is_given_back() -> None:
    y, cluster = points(20, 3), 1e-9 * points(30, 3, 1)
    stages = {"widths": [1.0, 0.1, 0.01], "smoothness": [10.0] * 3, "evaluations": [100] * 3, "tolerance": 0.0}
    with pytest.warns(UserWarning, match="extents"):
        result = run(y, cluster, normalisation="none", **stages)
    assert result.status == ["failed"] and "collapsed" in result.stop_reason[0]
    np.testing.assert_allclose(result.transformed[0], y)


def test_overflow_is_a_failure() -> None:
    result = run(1e200 * points(20, 3), 1e200 * points(20, 3, 1), normalisation="none", **SHORT)
    assert result.status == ["failed"] and result.stop_reason[0]


@pytest.mark.parametrize(
    "options",
    [
        {"widths": [0.5, 0.0, 0.02]},
        {"smoothness": [0.1, -1.0, 0.0]},
        {"evaluations": [50, 50, 0]},
        {"tolerance": -1.0},
        {"control_grid": 1},
        {"widths": [0.5]},
        {"widths": [], "smoothness": [], "evaluations": []},
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        methods.settings("gmmreg", options)
