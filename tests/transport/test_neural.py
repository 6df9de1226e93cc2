from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from pwan.transport import check_problem, neural, partial_wasserstein

# sizes at which a test takes seconds; the defaults are measured in benchmarks/precision.md
SMALL = {
    "updates": 600,
    "step_size": 1e-2,
    "kappa": 200.0,
    "features": 16,
    "widths": (32, 32),
    "segment_points": 64,
    "certificate_points": 500,
}


def sets(q=24, r=16):
    """Two arcs that overlap in part, the source shifted off the reference."""
    t, u = np.linspace(0, 4, q), np.linspace(1, 5, r)
    return np.stack([np.cos(t), np.sin(t)], 1), np.stack([1.1 * np.cos(u) + 0.3, np.sin(u) - 0.2], 1)


CASES = [
    {"mass": 5.5},
    {"mass": 16.0},
    {"distance": 0.4},
    {"distance": 6.0},
    {"reference_weights": np.full(24, 1 / 24), "source_weights": np.full(16, 1 / 16)},
]


@pytest.fixture(scope="module")
def solved():
    x, y = sets()
    problems = [check_problem(x, y, **case) for case in CASES]
    return neural.solve(problems, neural.NeuralSettings(**SMALL))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_near_the_exact_value_and_bounded_by_it(solved, case):
    exact, result = partial_wasserstein(*sets(), **CASES[case]).value, solved[case]
    assert result.value == pytest.approx(exact, rel=0.05)
    assert result.lower_bound <= exact + 1e-9 * abs(exact)
    assert result.lower_bound >= exact - 0.3 * abs(exact)
    assert result.plan is None


@pytest.mark.parametrize("case", range(len(CASES)))
def test_potential_is_within_its_theorem(solved, case):
    # -h <= f <= 0, Lipschitz up to the measured norm, and the value follows from f alone
    (x, y), result, options = sets(), solved[case], CASES[case]
    points = np.concatenate([x, y])
    f = result.potential(points)
    assert f.shape == (40,) and (f <= 0).all()
    gaps = np.abs(f[:, None] - f[None, :])
    assert (gaps <= 1.1 * result.gradient_norm * cdist(points, points) + 1e-9).all()
    f_x, f_y = f[:24], f[24:]
    a, b = options.get("reference_weights", np.ones(24)), options.get("source_weights", np.ones(16))
    if "distance" in options:
        h = options["distance"]
        assert (f >= -h - 1e-9).all()
        value = (a * f_x).sum() - (b * f_y).sum() - h * b.sum()
    else:
        # Theorem 2 for this f, with the best h found on a grid that holds the maximiser, some |f(y)|
        m = options.get("mass", 1.0)
        h = np.abs(f_y)[:, None]
        value = ((a * f_x).sum() - (b * np.maximum(f_y, -h)).sum(1) + h[:, 0] * (m - b.sum())).max()
    assert result.value == pytest.approx(value, rel=1e-9)


def test_one_problem_alone_gives_what_it_gives_in_a_batch(solved):
    result = partial_wasserstein(*sets(), solver="neural", **CASES[2], **SMALL)
    assert result.value == pytest.approx(solved[2].value, rel=1e-4)
    again = partial_wasserstein(*sets(), solver="neural", **CASES[2], **SMALL)
    assert again.value == result.value and again.lower_bound == result.lower_bound
    other = partial_wasserstein(*sets(), solver="neural", **CASES[2], **SMALL, seed=1)
    assert other.value != result.value


@pytest.mark.parametrize("case", [1, 2])
def test_gradient_is_that_of_the_potential(solved, case):
    (x, y), result, step = sets(), solved[case], 1e-7
    points = np.concatenate([x, y])
    steps = step * np.eye(2)
    slopes = np.stack([(result.potential(points + e) - result.potential(points - e)) / (2 * step) for e in steps], 1)
    f = result.potential(points)
    smooth = (np.abs(f - f.min()) > 1e-5) & (f < -1e-5)  # off the kinks at -h and 0
    assert smooth.sum() > 10
    assert result.potential.gradient(points)[smooth] == pytest.approx(slopes[smooth], abs=1e-5)
    assert np.linalg.norm(slopes, axis=1).max() <= result.gradient_norm * (1 + 1e-5)
    if "distance" in CASES[case]:  # flat beyond h and at 0
        assert (np.linalg.norm(slopes, axis=1) == 0).any()


@pytest.mark.parametrize(("scale", "origin"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e6)])
def test_scale_and_origin_change_nothing_but_rounding(scale, origin):
    x, y = sets()
    options = {**SMALL, "updates": 30, "solver": "neural"}
    plain = partial_wasserstein(x, y, distance=0.4, **options)
    moved = partial_wasserstein(x * scale + origin, y * scale + origin, distance=0.4 * scale, **options)
    assert moved.value / scale == pytest.approx(plain.value, rel=1e-3)
    values = moved.potential(torch.tensor(x * scale + origin)) / scale
    assert values == pytest.approx(plain.potential(x), abs=1e-3)


def test_points_that_are_all_the_same():
    result = partial_wasserstein(np.ones((3, 2)), np.ones((2, 2)), solver="neural", **{**SMALL, "updates": 20})
    assert np.isfinite(result.value) and result.lower_bound <= 1e-9


def test_observer_is_told_of_each_update():
    told = []
    problem = check_problem(*sets(), mass=3)
    neural.solve([problem], neural.NeuralSettings(**{**SMALL, "updates": 3}), lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"updates": 0}, "updates must be at least 1"),
        ({"kappa": -1.0}, "kappa must be positive"),
        ({"final_step_size": 2.0}, "final_step_size"),
        ({"widths": ()}, "widths"),
        ({"update": 3}, "did you mean 'updates'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        partial_wasserstein(*sets(), solver="neural", **options)


def test_unequal_problems_and_wrong_points(solved):
    problems = [check_problem(*sets()), check_problem(*sets(q=9))]
    with pytest.raises(ValueError, match="same numbers of points"):
        neural.solve(problems, neural.NeuralSettings(**SMALL))
    with pytest.raises(ValueError, match=r"\(N, 2\)"):
        solved[0].potential(np.ones((4, 3)))


def test_divergence_is_an_error():
    with pytest.raises(RuntimeError, match="lower step_size"):
        partial_wasserstein(*sets(), solver="neural", **{**SMALL, "updates": 20, "step_size": 1e30})
