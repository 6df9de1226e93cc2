from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from pwan.transport import partial_wasserstein


def linear_programme(x, y, a, b, *, mass=None, distance=0.0):
    """The definitions POT_primal (carry at least m) and POT_primal_lag, word for word, by another solver."""
    cost = cdist(x, y) - distance
    q, r = cost.shape
    rows, columns = np.kron(np.eye(q), np.ones(r)), np.kron(np.ones(q), np.eye(r))
    matrix, bound = np.vstack([rows, columns]), np.concatenate([a, b])
    if mass is not None:
        matrix, bound = np.vstack([matrix, -np.ones(q * r)]), np.append(bound, -mass)
    return linprog(cost.ravel(), A_ub=matrix, b_ub=bound, method="highs").fun


def random_sets(seed, q=9, r=7, dimension=2):
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(q, dimension)), generator.normal(size=(r, dimension))
    return x, y, generator.uniform(0.2, 2, q), generator.uniform(0.2, 2, r)


def check_plan(plan, a, b, mass=None):
    assert (plan >= 0).all()
    assert (plan.sum(1) <= a + 1e-9).all() and (plan.sum(0) <= b + 1e-9).all()
    if mass is not None:
        assert plan.sum() == pytest.approx(mass, rel=1e-9)


def test_two_point_masses():
    x, y = [[0.0, 0.0]], [[3.0, 4.0]]
    assert partial_wasserstein(x, y).value == 5
    assert partial_wasserstein(x, y, mass=0.3).value == pytest.approx(1.5)
    assert partial_wasserstein(x, y, distance=7).value == pytest.approx(-2)
    far = partial_wasserstein(x, y, distance=4.9)
    assert far.value == 0 and far.plan.sum() == 0
    heavy = partial_wasserstein(x, y, reference_weights=[4.0], source_weights=[2.5])
    assert heavy.value == pytest.approx(12.5) and heavy.plan == pytest.approx(np.array([[2.5]]))


def test_equal_sets_cost_nothing():
    x, _, a, _ = random_sets(0)
    assert partial_wasserstein(x, x[::-1]).value == 0
    assert partial_wasserstein(x, x, mass=2.5).value == pytest.approx(0, abs=1e-12)
    result = partial_wasserstein(x, x, distance=0.1, reference_weights=a, source_weights=a)
    assert result.value == pytest.approx(-0.1 * a.sum())


def test_translated_set_costs_mass_times_shift():
    x, _, a, _ = random_sets(1, dimension=3)
    shift = np.array([0.3, -0.4, 1.2])
    assert partial_wasserstein(x, x + shift).value == pytest.approx(9 * 1.3)
    value = partial_wasserstein(x, x + shift, reference_weights=a, source_weights=a).value
    assert value == pytest.approx(a.sum() * 1.3)


@pytest.mark.parametrize("columns", [1, 2])
def test_points_of_a_line_by_sorting(columns):
    generator = np.random.default_rng(2)
    x, y = np.zeros((40, columns)), np.zeros((40, columns))
    x[:, 0], y[:, 0] = generator.normal(size=40), generator.normal(size=40) + 0.5
    expected = np.abs(np.sort(x[:, 0]) - np.sort(y[:, 0])).sum()
    assert partial_wasserstein(x, y).value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_against_linear_programming(seed, weighted):
    x, y, a, b = random_sets(seed)
    if not weighted:
        a, b = np.ones(9), np.ones(7)
    weights = {"reference_weights": a, "source_weights": b} if weighted else {}
    for share in (0.1, 0.5, 0.77, 1.0):
        mass = share * min(a.sum(), b.sum())
        result = partial_wasserstein(x, y, mass=mass, **weights)
        assert result.value == pytest.approx(linear_programme(x, y, a, b, mass=mass), rel=1e-8)
        check_plan(result.plan, a, b, mass)
    for h in (0.2, 0.8, 3.0, 100.0):
        result = partial_wasserstein(x, y, distance=h, **weights)
        assert result.value == pytest.approx(linear_programme(x, y, a, b, distance=h), rel=1e-8)
        check_plan(result.plan, a, b)
        assert (cdist(x, y)[result.plan > 0] < h).all()  # no carried mass goes farther than h


def test_weights_of_equal_size_below_one_take_the_same_way_as_ones():
    x, y, _, _ = random_sets(3)
    a, b = np.full(9, 0.25), np.full(7, 0.25)
    for options in ({"mass": 1.75}, {"mass": 1.0}, {"distance": 0.7}):
        result = partial_wasserstein(x, y, reference_weights=a, source_weights=b, **options)
        assert result.value == pytest.approx(linear_programme(x, y, a, b, **options), rel=1e-8)


@pytest.mark.parametrize("mass", [1.0, 3.0, 4.4, 7.0])
def test_duality_over_a_grid_of_h(mass):
    # L_M,m = max over h of L_D,h + h m; between neighbours of the grid the concave function varies by at most step * m
    x, y, _, _ = random_sets(4)
    grid = np.linspace(0.005, 4, 800)
    dual = [partial_wasserstein(x, y, distance=h).value + h * mass for h in grid]
    value = partial_wasserstein(x, y, mass=mass).value
    assert max(dual) <= value + 1e-9
    assert max(dual) >= value - 0.005 * mass


def test_value_is_convex_and_increasing_in_the_mass():
    x, y, a, b = random_sets(5)
    masses = np.linspace(0.05, 1, 25) * min(a.sum(), b.sum())
    values = [partial_wasserstein(x, y, mass=m, reference_weights=a, source_weights=b).value for m in masses]
    assert (np.diff(values) >= -1e-9).all()
    assert (np.diff(values, 2) >= -1e-9).all()


coordinates = st.floats(-5, 5, allow_nan=False, width=32)
point_sets = st.integers(1, 3).flatmap(
    lambda d: st.tuples(
        *[st.lists(st.tuples(*[coordinates] * d), min_size=1, max_size=6).map(np.array) for _ in range(2)]
    )
)
thresholds = st.one_of(
    st.floats(0.01, 1).map(lambda share: {"share": share}), st.floats(0.01, 20).map(lambda h: {"distance": h})
)


def value_of(x, y, threshold, scale=1.0, **weights):
    if "share" in threshold:
        total = min(len(x), len(y)) if not weights else min(w.sum() for w in weights.values())
        return partial_wasserstein(x, y, mass=threshold["share"] * total, **weights).value
    return partial_wasserstein(x, y, distance=threshold["distance"] * scale, **weights).value


@settings(max_examples=60, deadline=None, derandomize=True)
@given(point_sets, thresholds, st.floats(1e-6, 1e6), st.integers(0, 99))
def test_invariances(sets, threshold, scale, seed):
    x, y = sets
    generator = np.random.default_rng(seed)
    value = value_of(x, y, threshold)
    near = {"rel": 1e-6, "abs": 1e-6}
    assert value_of(y, x, threshold) == pytest.approx(value, **near)
    assert value_of(generator.permutation(x), generator.permutation(y), threshold) == pytest.approx(value, **near)
    shift = generator.normal(size=x.shape[1]) * 10
    assert value_of(x + shift, y + shift, threshold) == pytest.approx(value, **near)
    assert value_of(x * scale, y * scale, threshold, scale) / scale == pytest.approx(value, **near)
    halves = {"reference_weights": np.full(2 * len(x), 0.5), "source_weights": np.full(2 * len(y), 0.5)}
    assert value_of(np.tile(x, (2, 1)), np.tile(y, (2, 1)), threshold, **halves) == pytest.approx(value, **near)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(point_sets, thresholds)
def test_bounds_of_the_value(sets, threshold):
    x, y = sets
    smaller = min(len(x), len(y))
    value = value_of(x, y, threshold)
    if "share" in threshold:
        assert 0 <= value <= threshold["share"] * smaller * cdist(x, y).max() + 1e-9
    else:
        assert -threshold["distance"] * smaller - 1e-9 <= value <= 0


def test_float32_tensors_and_weights():
    x, y, a, b = random_sets(6)
    a, b = (a / a.sum()).astype(np.float32), (b / b.sum()).astype(np.float32)
    # neither sum is 1 in float64, and a mass of 1 is meant to be all of it
    result = partial_wasserstein(
        torch.tensor(x, dtype=torch.float32, requires_grad=True), y, mass=1.0, reference_weights=a, source_weights=b
    )
    assert isinstance(result.plan, np.ndarray) and result.plan.dtype == np.float64
    assert result.value == pytest.approx(partial_wasserstein(x, y, reference_weights=a, source_weights=b).value, 1e-5)


def test_points_without_weight_take_no_part():
    x, y, _, _ = random_sets(7)
    result = partial_wasserstein(x, y, mass=3.5, reference_weights=[1.0] * 5 + [0.0] * 4)
    assert result.value == pytest.approx(partial_wasserstein(x[:5], y, mass=3.5).value)
    assert result.plan[5:].sum() == 0


def test_inputs_are_not_changed():
    x, y, a, b = random_sets(8)
    copies = [array.copy() for array in (x, y, a, b)]
    for array in (x, y, a, b):
        array.setflags(write=False)
    partial_wasserstein(x, y, mass=2.0, reference_weights=a, source_weights=b)
    assert all((one == other).all() for one, other in zip((x, y, a, b), copies, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": 3.1}, "at most the total weight of the lighter set, 3"),
        ({"mass": 0.0}, "mass must be positive"),
        ({"mass": float("nan")}, "mass must be positive"),
        ({"mass": [1.0, 2.0]}, "mass must be one positive number"),
        ({"distance": -1.0}, "distance must be positive"),
        ({"distance": float("inf")}, "distance must be positive and finite"),
        ({"mass": 1.0, "distance": 1.0}, "not both"),
        ({"source": [[0.0, 1.0, 2.0]]}, "reference is 2-D and source is 3-D"),
        ({"source": [0.0, 1.0]}, r"source must have shape \(N, D\)"),
        ({"source": np.empty((0, 2))}, "at least one point"),
        ({"source": [["a", "b"]]}, "source must be an array of real numbers"),
        ({"source": [[0.0, 1.0], [2.0]]}, "source must be an array of real numbers"),
        ({"source": [[0.0, 1.0], [np.nan, 0.0]]}, "the first is row 1"),
        ({"reference_weights": [1.0, 1.0]}, "one weight for each of the 4 points"),
        ({"source_weights": [1.0, -1.0, 1.0]}, "not negative"),
        ({"source_weights": [1.0, np.inf, 1.0]}, "finite"),
        ({"source_weights": [0.0, 0.0, 0.0]}, "nothing to carry"),
        ({"solver": "sinkhorn"}, "'exact' or 'neural'"),
        ({"max_iteration": 5}, "did you mean 'max_iterations'"),
        ({"max_iterations": 0}, "at least 1"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"reference": np.eye(4, 2), "source": np.ones((3, 2)), **changes}
    with pytest.raises(ValueError, match=message):
        partial_wasserstein(arguments.pop("reference"), arguments.pop("source"), **arguments)


@pytest.mark.filterwarnings("ignore:numItermax reached")
def test_too_few_iterations_are_an_error():
    x, y, a, b = random_sets(9, q=60, r=50)
    with pytest.raises(RuntimeError, match="did not finish"):
        partial_wasserstein(x, y, mass=20.0, reference_weights=a, source_weights=b, max_iterations=3)


def test_exact_value_is_its_own_lower_bound():
    x, y, _, _ = random_sets(10)
    result = partial_wasserstein(x, y)
    assert result.lower_bound == result.value and result.potential is None and result.gradient_norm is None


# what lies far outside the others in size takes no digits from them


def test_a_weight_above_what_is_carried_counts_as_that():
    x, y, _, _ = random_sets(11)
    heavy, clipped = np.ones(9), np.ones(9)
    for weight in (1e3, 1e9, 1e16, 1e100):
        heavy[4], clipped[4] = weight, 5
        value = partial_wasserstein(x, y, mass=5, reference_weights=heavy).value
        assert value == pytest.approx(linear_programme(x, y, clipped, np.ones(7), mass=5), rel=1e-8)
        both = partial_wasserstein(x, x, mass=5, reference_weights=heavy, source_weights=heavy)
        assert both.value == pytest.approx(0, abs=1e-12)
        clipped[4] = 7
        value = partial_wasserstein(x, y, distance=0.7, reference_weights=heavy).value
        assert value == pytest.approx(linear_programme(x, y, clipped, np.ones(7), distance=0.7), rel=1e-8)


def test_heavy_points_out_of_reach_of_each_other():
    x, y, a, b = random_sets(12)
    far = [np.concatenate([points, [[side, 0.0]]]) for points, side in ((x, 50.0), (y, -50.0))]
    weights = {"reference_weights": np.append(a, 1e16), "source_weights": np.append(b, 1e16)}
    expected = linear_programme(x, y, a, b, distance=0.7)
    assert partial_wasserstein(*far, distance=0.7, **weights).value == pytest.approx(expected, rel=1e-8)
    assert partial_wasserstein(*far, distance=1e-9, **weights).plan.sum() == 0


@pytest.mark.parametrize("away", [1e6, 1e13, 1e14, 1e16, 1e100])
@pytest.mark.parametrize("weighted", [False, True])
def test_outliers_however_far_change_nothing(away, weighted):
    x, y, a, b = random_sets(13)
    if not weighted:
        a, b = np.ones(9), np.ones(7)
    one, other = np.concatenate([x, [[away, 0.0]]]), np.concatenate([y, [[-away, 0.0]]])
    weights = {"reference_weights": np.append(a, 1.0), "source_weights": np.append(b, 1.0)}
    for options in ({"mass": 5.0}, {"distance": 0.8}):
        value = partial_wasserstein(one, other, **options, **weights).value
        assert value == pytest.approx(linear_programme(x, y, a, b, **options), rel=1e-8)
    # what has to be carried there is
    assert partial_wasserstein(one[-1:], other).value == pytest.approx(cdist(one[-1:], other).min())


@pytest.mark.parametrize("share", [1e-3, 1e-9, 1e-16, 1e-30])
def test_a_tiny_mass_goes_between_the_nearest_points(share):
    x, y, a, b = random_sets(14)
    for weights in ({}, {"reference_weights": a, "source_weights": b}):
        value = partial_wasserstein(x, y, mass=share, **weights).value
        assert value == pytest.approx(share * cdist(x, y).min(), rel=1e-9)


@pytest.mark.parametrize("apart", [1e-5, 1e-8, 1e-11])
def test_near_identical_sets(apart):
    x, y, a, _ = random_sets(15, q=9, r=9)
    moved = x + apart * y
    expected = np.sort(np.linalg.norm(moved - x, axis=1))[:5].sum()  # each to its own
    assert partial_wasserstein(x, moved, mass=5).value == pytest.approx(expected, rel=1e-9)
    value = partial_wasserstein(x, moved, reference_weights=a, source_weights=a).value
    assert value == pytest.approx((a * np.linalg.norm(moved - x, axis=1)).sum(), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": [[0.0, 1e200]]}, "source holds numbers up to 1e.200, whose squares overflow"),
        ({"reference_weights": [1e300, 1.0, 1.0, 1.0]}, "reference_weights holds weights up to 1e.300"),
    ],
)
def test_numbers_whose_squares_or_sums_overflow(changes, message):
    arguments = {"reference": np.eye(4, 2), "source": np.ones((3, 2)), **changes}
    with pytest.raises(ValueError, match=message):
        partial_wasserstein(arguments.pop("reference"), arguments.pop("source"), **arguments)


def test_shares_are_what_the_plan_carries_of_each_point():
    x, y, a, b = random_sets(16)
    result = partial_wasserstein(x, y, mass=2.5, reference_weights=a, source_weights=b)
    assert result.source_share.sum() == pytest.approx(2.5) == result.reference_share.sum()
    assert (result.source_share <= b + 1e-12).all() and (result.reference_share <= a + 1e-12).all()
    # two points of the source beside one of the reference: the plan carries one of them
    lonely = partial_wasserstein([[0.0, 0.0], [9.0, 0.0]], [[0.1, 0.0], [0.2, 0.0], [8.0, 0.0]], distance=0.5)
    assert lonely.source_share.tolist() == [1.0, 0.0, 0.0] and lonely.reference_share.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_threshold_beyond_all_costs_is_no_threshold(weighted):
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(30, 2)), draw.normal(size=(25, 2))
    weights = (
        {"reference_weights": draw.uniform(0.5, 2, 30), "source_weights": draw.uniform(0.5, 2, 25)} if weighted else {}
    )
    usual, far = (partial_wasserstein(x, y, distance=h, **weights) for h in (1e3, 1e16))
    np.testing.assert_allclose(far.plan, usual.plan, atol=1e-9)
