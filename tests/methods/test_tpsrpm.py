from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.interpolate import RBFInterpolator

from pwan import methods, shapes
from pwan.deformation.kernels import thin_plate_kernel
from pwan.deformation.splines import homogeneous
from pwan.methods.tpsrpm import SplineFit, aims_mixture, aims_rpm
from pwan.problem import RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem

SHORT = {"rate": 0.8, "inner_steps": 3}


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


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
    return methods.run("tpsrpm", problem, options, seeds=[0])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("smoothness", [1e-3, 1.0, 300.0])
def test_inner_solve_is_the_dense_solve(d: int, smoothness: float) -> None:
    """The published formulas, in homogeneous coordinates, with inverses."""
    y, aims, affine_smoothness = points(40, d), points(40, d, 1), 0.01 * smoothness
    ones, kernel = homogeneous(y), thin_plate_kernel(y, y)
    q, r = np.linalg.qr(ones, mode="complete")
    q1, q2, r = q[:, : d + 1], q[:, d + 1 :], r[: d + 1]
    vy = homogeneous(aims)
    c = q2 @ np.linalg.inv(q2.T @ kernel @ q2 + smoothness * np.eye(39 - d)) @ q2.T @ vy
    a = np.linalg.inv(r.T @ r + affine_smoothness * np.eye(d + 1)) @ (r.T @ q1.T @ (vy - kernel @ c) - r.T @ r)
    expected = (ones @ (np.eye(d + 1) + a) + kernel @ c)[:, 1:]
    fit = SplineFit.of(y)
    coefficients = fit.solve(aims, smoothness, affine_smoothness)
    np.testing.assert_allclose(fit.moved(coefficients), expected, atol=1e-10)
    np.testing.assert_allclose(fit.spline.basis(y) @ coefficients, expected, atol=1e-10)
    np.testing.assert_allclose(coefficients[: d + 1], (np.eye(d + 1) + a)[:, 1:], atol=1e-10)


@pytest.mark.parametrize(("d", "kernel"), [(2, "thin_plate_spline"), (3, "linear")])
def test_with_a_free_affine_part_it_is_the_smoothing_spline(d: int, kernel: str) -> None:
    y, aims, elsewhere = points(40, d), points(40, d, 1), points(7, d, 2)
    fit = SplineFit.of(y)
    coefficients = fit.solve(aims, 0.3, 0.0)
    expected = RBFInterpolator(y, aims, smoothing=0.3, kernel=kernel, degree=1)(elsewhere)
    np.testing.assert_allclose(fit.spline.basis(elsewhere) @ coefficients, expected, atol=1e-9)


def test_much_smoothness_gives_the_identity() -> None:
    y = points(20, 3)
    fit = SplineFit.of(y)
    np.testing.assert_allclose(fit.moved(fit.solve(points(20, 3, 1), 1e9, 1e9)), y, atol=1e-6)


def test_mixture_is_the_formula() -> None:
    v, x, temperature, outlier = points(15, 3), points(20, 3, 1), 0.4, 0.25
    m = np.exp(-np.square(v[:, None] - x[None]).sum(-1) / temperature) / np.sqrt(temperature)
    m /= m.sum(0) + outlier
    np.testing.assert_allclose(aims_mixture(v, x, temperature, outlier), m @ x / m.sum(1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("outlier", [1e-3, 0.5])
def test_rpm_is_the_double_normalisation(outlier: float) -> None:
    v, x, temperature = points(15, 3), points(20, 3, 1), 0.4
    m = np.exp(-np.square(v[:, None] - x[None]).sum(-1) / temperature)
    column, row = np.full((15, 1), outlier), np.full((1, 20), outlier)
    for _ in range(10):
        sums = m.sum(1, keepdims=True) + column
        m, column = m / sums, column / sums
        totals = m.sum(0, keepdims=True) + row
        m, row = m / totals, row / totals
        if (np.square(sums - 1).sum() + np.square(totals - 1).sum()) / 35 < 0.05**2:
            break
    np.testing.assert_allclose(aims_rpm(v, x, temperature, outlier), m @ x / m.sum(1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("aims", [aims_mixture, aims_rpm])
def test_points_far_from_everything_aim_at_the_nearest(aims: Any) -> None:
    v, x = points(15, 3), points(20, 3, 1)
    v[3] += 100.0
    nearest = x[np.square(v[3] - x).sum(1).argmin()]
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        found = aims(v, x, 0.003, 0.25)
    np.testing.assert_allclose(found[3], nearest, atol=1e-9)
    assert np.isfinite(found).all() and found.max() <= x.max() and found.min() >= x.min()


def test_published_schedule_has_86_temperatures() -> None:
    y = points(20, 3)
    result = run(y, y + 0.01)
    temperatures = np.array(result.history[0]["temperature"])
    assert result.steps == [86] and len(temperatures) == 86
    assert temperatures[0] == 1.5 and temperatures[-1] >= 1.5 / 500 > 0.93 * temperatures[-1]
    np.testing.assert_allclose(temperatures[1:] / temperatures[:-1], 0.93)
    assert "1.5" in result.stop_reason[0] and "86" in result.stop_reason[0]


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("correspondence", ["mixture", "rpm"])
def test_a_smooth_deformation_with_outliers_is_undone(dimension: int, correspondence: str) -> None:
    problem = noise_problem(dimension)
    result = methods.run("tpsrpm", problem, {"correspondence": correspondence}, seeds=[0])
    after, before = errors(problem, result)
    assert after < 0.5 * before


def test_every_other_point_carries_all() -> None:
    problem = noise_problem(2)
    result = methods.run("tpsrpm", problem, {"every": 2}, seeds=[0])
    after, before = errors(problem, result, slice(1, None, 2))  # those that took no part
    assert after < 0.8 * before


def test_collapse_is_a_failure_with_words() -> None:
    """At a huge temperature all points aim at the middle, and nothing holds the affine part."""
    result = run(points(30, 3), points(40, 3, 1), start_temperature=1e6, cooling=1.0, affine_smoothness=1e-15)
    assert result.status == ["failed"] and "collapsed" in result.stop_reason[0]
    assert not result.displacement.any()


def test_no_measure_for_the_outlier_weight_is_a_failure_with_words() -> None:
    y, x = points(30, 3), points(40, 3, 1)
    x -= x.mean(0)
    x[:, 0] = np.where(np.arange(40) % 2, 1.0, -1.0)  # a centre of exactly zero
    y[:, 0] -= y[:, 0].max()
    result = run(y, x, normalisation="none", **SHORT)
    assert result.status == ["failed"] and "outlier weight" in result.stop_reason[0]
    assert run(y, x, normalisation="none", correspondence="rpm", **SHORT).status == ["ok"]


def test_too_few_points_left_is_a_failure_with_words() -> None:
    result = run(points(20, 3), points(20, 3, 1), every=7, **SHORT)
    assert result.status == ["failed"] and "every 7th point leaves 3" in result.stop_reason[0]


def test_overflow_is_a_failure() -> None:
    result = run(1e200 * points(20, 3), 1e200 * points(20, 3, 1), normalisation="none", **SHORT)
    assert result.status == ["failed"] and result.stop_reason[0]


@pytest.mark.parametrize(
    "options",
    [
        {"start_temperature": 0.0},
        {"cooling": 0.5},
        {"rate": 1.0},
        {"rate": 0.0},
        {"inner_steps": 0},
        {"smoothness": -1.0},
        {"affine_smoothness": 0.0},
        {"every": 0},
        {"correspondence": "icp"},
    ],
)
def test_settings_out_of_range_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        methods.settings("tpsrpm", options)
