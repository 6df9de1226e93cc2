from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from pwan.transport import check_problem, neural, partial_wasserstein
from pwan.transport.duality import feasible, steepest_pairs

# a few violent updates: potentials of every kind, most of them far too steep
WILD = {"features": 8, "widths": (16, 16), "segment_points": 16, "certificate_points": 20}


def bounded(x, y, **options):
    """The exact value and the neural result of a potential that has learned next to nothing."""
    wild = {**WILD, "updates": 3, "step_size": 1.0, "solver": "neural"}
    exact = partial_wasserstein(x, y, **options)
    found = partial_wasserstein(x, y, **options, **wild)
    assert found.lower_bound <= exact.value + 1e-9 * abs(exact.value)
    assert found.checked_pairs == 1
    return exact, found


coordinates = st.one_of(st.integers(-2, 2).map(float), st.floats(-5, 5, allow_nan=False, width=32))
weights = st.one_of(st.just(1.0), st.just(0.0), st.floats(0.01, 10), st.sampled_from([1e-6, 1e9]))


@st.composite
def problems(draw):
    """Two sets with points in one place, isolated pairs, weights of all sizes, and any mass or distance."""
    d = draw(st.integers(1, 3))
    x, y = (np.array(draw(st.lists(st.tuples(*[coordinates] * d), min_size=1, max_size=7))) for _ in range(2))
    if draw(st.booleans()):  # points of one set in the places of the other
        y = np.concatenate([y, x[: draw(st.integers(1, len(x)))]])
    if draw(st.booleans()):  # an isolated pair
        away = np.zeros(d)
        away[0] = draw(st.sampled_from([30.0, -1e3]))
        x, y = np.concatenate([x, [away + 2 * np.eye(d)[-1]]]), np.concatenate([y, [away]])
    options = {}
    if draw(st.booleans()):
        for name, n in (("reference_weights", len(x)), ("source_weights", len(y))):
            options[name] = np.array(draw(st.lists(weights, min_size=n, max_size=n)))
            options[name][0] = 1.0
    sums = [
        options.get("reference_weights", np.ones(len(x))).sum(),
        options.get("source_weights", np.ones(len(y))).sum(),
    ]
    limit = draw(st.sampled_from(["all", "mass", "distance"]))
    if limit == "mass":
        options["mass"] = min(sums) * draw(st.floats(1e-6, 1))
    if limit == "distance":
        options["distance"] = draw(st.floats(0.01, 50))
    return x, y, options


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems())
def test_no_problem_lifts_the_lower_bound_above_the_exact_value(problem):
    x, y, options = problem
    bounded(x, y, **options)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(), st.integers(0, 9), st.floats(1e-3, 1e3))
def test_any_values_are_made_feasible(problem, seed, size):
    x, y, _ = problem
    f = -size * np.random.default_rng(seed).exponential(size=(2, len(x)))
    f_x, f_y, share = (
        value.numpy() if isinstance(value, torch.Tensor) else value
        for value in feasible(*map(torch.from_numpy, (x, y, f)), 10**9, np.random.default_rng(0))
    )
    assert share == 1 and (f_x <= 0).all() and (f_x >= f - 1e-12 * size).all()
    assert (f_x[:, :, None] - f_y[:, None] <= cdist(x, y) + 1e-12 * (size + cdist(x, y).max())).all()


def test_an_isolated_pair_that_no_segment_hits():
    # 500 identical points, and one pair at a distance of 4: the exact value is 4
    cloud = np.random.default_rng(0).normal(size=(500, 2))
    x, y = np.concatenate([cloud, [[30.0, 2.0]]]), np.concatenate([cloud, [[30.0, -2.0]]])
    result = partial_wasserstein(x, y, solver="neural", **{**WILD, "updates": 150, "step_size": 0.05, "kappa": 1.0})
    assert result.lower_bound == pytest.approx(4.0, rel=1e-9) and result.lower_bound <= 4.0
    far = partial_wasserstein(x, y, distance=3.0, solver="neural", **WILD, updates=20)
    exact = partial_wasserstein(x, y, distance=3.0).value
    assert exact == pytest.approx(-1500.0) and exact * (1 + 1e-9) <= far.lower_bound <= exact * (1 - 1e-9)


@pytest.mark.parametrize("flipped", [False, True])
def test_near_identical_sets_are_bounded_by_nearest_distances_and_the_value_is_in_doubt(flipped):
    x = np.random.default_rng(1).normal(size=(90, 3))
    y = x + 6e-4 * np.random.default_rng(2).normal(size=x.shape)
    y = y[::-1] if flipped else y
    exact = partial_wasserstein(x, y).value
    result = partial_wasserstein(x, y, solver="neural", **WILD, updates=50)
    assert result.lower_bound == pytest.approx(exact, rel=1e-6)
    assert "is the lower bound" in result.doubt and "solver='exact'" in result.doubt and "doubt=" in repr(result)
    assert partial_wasserstein(x, y).doubt is None


def test_a_value_that_the_bound_confirms_is_in_no_doubt():
    # one point each: the potential is a slope along a line
    result = partial_wasserstein([[0.0, 0.0]], [[3.0, 4.0]], solver="neural", **WILD, updates=400)
    assert result.value == pytest.approx(5, rel=0.05) and result.doubt is None
    assert result.lower_bound == pytest.approx(5, rel=1e-9) and result.lower_bound <= 5


def test_far_outliers_and_heavy_weights_are_bounded():
    x, y = np.random.default_rng(3).normal(size=(9, 2)), np.random.default_rng(4).normal(size=(7, 2))
    heavy = np.ones(9)
    heavy[2] = 1e16
    bounded(x, y, mass=5.0, reference_weights=heavy)
    exact, found = bounded(np.concatenate([x, [[1e14, 0.0]]]), y, mass=5.0)
    assert found.lower_bound > 0.2 * exact.value  # the network sees one point, the nearest distances see all
    bounded(x + 1e6, y + 1e6)
    bounded(1e-9 * x, 1e-9 * y, distance=1e-9)


def test_of_more_pairs_a_sample_and_its_share_is_said():
    x, y = np.random.default_rng(5).normal(size=(40, 2)), np.random.default_rng(6).normal(size=(30, 2))
    options = {**WILD, "updates": 10, "solver": "neural"}
    whole, some = partial_wasserstein(x, y, **options), partial_wasserstein(x, y, **options, certificate_pairs=300)
    assert whole.checked_pairs == 1 and some.checked_pairs == pytest.approx(0.25)
    assert partial_wasserstein(x, y).checked_pairs is None
    with pytest.raises(ValueError, match="certificate_pairs must be at least 1"):
        partial_wasserstein(x, y, **options, certificate_pairs=0)


def test_a_batch_has_the_bounds_of_its_problems_alone():
    x, y = np.random.default_rng(7).normal(size=(12, 2)), np.random.default_rng(8).normal(size=(10, 2))
    cases = [{"distance": 0.6}, {"mass": 4.0}, {}]
    options = {**WILD, "updates": 5}
    together = neural.solve([check_problem(x, y, **case) for case in cases], neural.NeuralSettings(**options))
    for case, found in zip(cases, together, strict=True):
        alone = partial_wasserstein(x, y, solver="neural", **options, **case)
        assert found.lower_bound == pytest.approx(alone.lower_bound, rel=1e-5)


def test_steepest_pairs():
    x, y = torch.tensor([[0.0], [5.0]]), torch.tensor([[0.0], [1.0], [7.0]])
    f, g = torch.tensor([0.0, 0.0]), torch.tensor([-9.0, -3.0, -8.0])
    # the slopes are none (one place), 3 and 8/7, and 9/5, 3/4 and 4
    assert steepest_pairs(x, y, f, g, 3).T.tolist() == [[1, 2], [0, 1], [1, 0]]
    assert steepest_pairs(x[:1], y[1:2], f[:1], g[1:2], 3).T.tolist() == [[0, 0]] * 3
