"""Weighted points: a point of weight 2 is two points, weights of 1 are none, and mass is what is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pwan import lightning, methods, shapes
from pwan.begin.estimate import estimate_limits
from pwan.deformation.transform import Transform
from pwan.normalisation import matches_whole_source, normalise
from pwan.problem import RegistrationProblem
from pwan.registration import coarse, pipeline
from pwan.registration.flexibility import measure_fit
from pwan.registration.matched import matched_points
from pwan.registration.pipeline import Registration
from pwan.registration.presets import resolve, resolve_kind
from pwan.registration.refinement import _nearest_residual
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.registration.setup import quantise, reach
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.transport import partial_wasserstein
from pwan.transport.objective import objective

SMALL: dict[str, Any] = {"steps": 6, "stages": 1, "stage_steps": 4, "warmup": 5, "updates": 2, "width": 16}
SMALL |= {"features": 16, "rank": 20}


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def problem(points: int = 60, trials: int = 1, **synthesis: Any) -> RegistrationProblem:
    settings = SynthesisSettings(points=points, deformation_lambda=50.0, **synthesis)
    return make_problem(shapes.load("torus"), settings, seed=0, trials=list(range(trials)))


def heavy(given: RegistrationProblem) -> RegistrationProblem:
    """With whole weights of both sets."""
    b, r, q = len(given), given.source.shape[1], given.reference.shape[1]
    generator = torch.Generator().manual_seed(5)
    y, x = (torch.randint(1, 4, (b, n), generator=generator).double() for n in (r, q))
    return replace(given, mass=None, source_weights=y, reference_weights=x)


def laid_out(points: Tensor, weights: Tensor) -> Tensor:
    """(1, sum of weights, D): each point as often as its weight says."""
    return points[0].repeat_interleave(weights[0].long(), 0)[None]


def as_points(given: RegistrationProblem) -> RegistrationProblem:
    """The problem whose points come as often as they weigh."""
    assert given.source_weights is not None and given.reference_weights is not None
    return RegistrationProblem(
        laid_out(given.source, given.source_weights),
        laid_out(given.reference, given.reference_weights),
        mass=given.mass,
        distance=given.distance,
    )


# --- weight 2 is two points -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mass", "learned", "distance", "complete"])
@pytest.mark.parametrize("fold", [True, False])
def test_the_objective_of_a_heavy_point_is_that_of_several(kind: Any, fold: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1, n, generator=generator, dtype=torch.float64) for n in (9, 7))
    a, b = double(1, 2, 1, 3, 1, 1, 2, 1, 1)[None], double(2, 1, 1, 3, 1, 1, 1)[None]
    limits: dict[str, Any] = {"mass": double(6.5)}
    if kind in ("learned", "distance"):
        limits |= {"threshold": double(0.7)}
    name = "mass" if kind == "learned" else kind
    weighted = objective(x, y, name, reference_weights=a, source_weights=b, fold=fold, **limits)
    many = objective(laid_out(x[..., None], a)[..., 0], laid_out(y[..., None], b)[..., 0], name, fold=fold, **limits)
    torch.testing.assert_close(weighted.value, many.value)
    torch.testing.assert_close(weighted.threshold, many.threshold)
    for of_heavy, of_many, weights in (
        (weighted.source_slope, many.source_slope, b),
        (weighted.source_share, many.source_share, b),
        (weighted.reference_slope, many.reference_slope, a),
    ):
        rows = torch.arange(len(weights[0])).repeat_interleave(weights[0].long())
        torch.testing.assert_close(of_heavy[0], torch.zeros_like(weights[0]).index_add_(0, rows, of_many[0]))


def affine(source: Tensor) -> Transform:
    return Transform("affine", source, None)


@pytest.mark.parametrize("mass", [None, 40.0])
def test_the_soft_assignment_of_a_heavy_point_is_that_of_several(mass: float | None) -> None:
    given, limit = heavy(problem(30)), None if mass is None else double(mass)  # so few that all pairs are held
    settings = SoftSettings(steps=10, affine_ridge=1.0)
    weighted, many = affine(given.source), affine(as_points(given).source)
    start = weighted.parameters.detach()
    one = soft_assignment(weighted, start, given.reference, limit, settings, [0], weights=given.masses)
    several = soft_assignment(many, start, as_points(given).reference, limit, settings, [0])
    assert float((one - start).abs().max()) > 1e-3
    torch.testing.assert_close(one, several)
    light = soft_assignment(weighted, start, given.reference, limit, settings, [0])
    assert float((one - light).abs().max()) > 1e-5


@pytest.mark.parametrize("of", ["source", "reference"])
@pytest.mark.parametrize("limits", [{}, {"mass": 40.5}, {"distance": 0.3}], ids=str)
def test_the_nearest_refinement_of_a_heavy_point_is_that_of_several(of: str, limits: dict[str, float]) -> None:
    given = heavy(problem())
    many, weights = as_points(given), given.source_weights
    mass, distance = (double(limits[name]) if name in limits else None for name in ("mass", "distance"))
    gradient, value = _nearest_residual(given.source, given.reference, mass, distance, of, given.masses)
    of_many, same = _nearest_residual(many.source, many.reference, mass, distance, of)
    torch.testing.assert_close(value, same)
    assert weights is not None
    rows = torch.arange(weights.shape[1]).repeat_interleave(weights[0].long())
    torch.testing.assert_close(gradient[0], torch.zeros_like(gradient[0]).index_add_(0, rows, of_many[0]))


@pytest.mark.parametrize("limits", [{"mass": 40.5}, {"distance": 0.2}], ids=str)
def test_a_heavy_point_is_matched_where_one_of_several_is(limits: dict[str, float]) -> None:
    given = replace(heavy(problem()), **{name: double(value) for name, value in limits.items()})
    many = as_points(given)
    kind = "mass" if "mass" in limits else "distance"
    found, of_many = matched_points(given.source, given, kind), matched_points(many.source, many, kind)
    for flags, several, weights in zip(found, of_many, given.masses[::-1], strict=True):
        assert weights is not None
        rows = torch.arange(weights.shape[1]).repeat_interleave(weights[0].long())
        counts = torch.zeros(weights.shape[1]).index_add_(0, rows, several[0].float())
        assert torch.equal(flags[0], counts > 0) and 0 < int(flags.sum()) < flags.numel()


def test_the_frame_of_a_heavy_point_is_that_of_several() -> None:
    given = heavy(problem())
    for mode in ("separate", "joint"):
        one, several = (normalise(each, mode)[1] for each in (given, as_points(given)))  # type: ignore[arg-type]
        torch.testing.assert_close(one.__dict__, several.__dict__)


def test_the_exact_discrepancy_of_a_heavy_point_is_that_of_several() -> None:
    given = heavy(problem(20))
    many = as_points(given)
    a, b = (weights[0] for weights in given.masses if weights is not None)
    for limits in ({}, {"mass": 9.5}, {"distance": 0.3}):
        one = partial_wasserstein(given.reference[0], given.source[0], reference_weights=a, source_weights=b, **limits)
        assert one.value == pytest.approx(partial_wasserstein(many.reference[0], many.source[0], **limits).value)


def test_the_estimate_of_a_heavy_point_is_that_of_several() -> None:
    given = heavy(problem(150, keep=0.8))
    many = as_points(given)
    a, b = (weights[0] for weights in given.masses if weights is not None)
    one = estimate_limits(given.source[0], given.reference[0], source_weights=b, reference_weights=a)
    ones = {
        "source_weights": torch.ones(many.source.shape[1]),
        "reference_weights": torch.ones(many.reference.shape[1]),
    }
    several = estimate_limits(many.source[0], many.reference[0], **ones)
    assert (one.mass, one.overlap, one.reason) == (several.mass, several.overlap, several.reason)
    assert one.mass > 100 and "by their weights" in one.reason


def test_a_set_that_weighs_the_same_all_over_is_matched_the_same_whatever_it_weighs() -> None:
    # the discrepancy is divided by the source's mass: with every mass three times as large nothing moves otherwise
    given = problem(outlier_ratio=0.5)
    settings = PwanSettings(**SMALL, refinement="none")
    threes = [torch.full(of.shape[:2], 3.0, dtype=torch.float64) for of in (given.source, given.reference)]
    heavier = replace(given, mass=3 * given.mass, source_weights=threes[0], reference_weights=threes[1])
    one, other = (pipeline.register(each, settings, seeds=[1]) for each in (given, heavier))
    torch.testing.assert_close(one.transformed, other.transformed, atol=1e-4, rtol=0)
    assert one.history[0]["loss"] == pytest.approx(other.history[0]["loss"], rel=1e-3)


def test_points_without_mass_are_as_if_they_were_not_there() -> None:
    given = problem(40)
    far = torch.tensor([[[9.0, 9, 9], [-9, 9, 0]]], dtype=torch.float64)
    ones = torch.ones(1, 40, dtype=torch.float64)
    more = torch.cat((ones, torch.zeros(1, 2).double()), 1)
    beside = RegistrationProblem(given.source, torch.cat((given.reference, far), 1), reference_weights=more)
    plain = RegistrationProblem(given.source, given.reference)
    for name in ("reference_centre", "reference_scale"):
        torch.testing.assert_close(*(getattr(normalise(each, "separate")[1], name) for each in (plain, beside)))
    settings: dict[str, Any] = {"steps": 5, "rank": 10, "normalisation": "joint"}
    one, other = (methods.run("soft_assignment", each, settings, seeds=[0]) for each in (plain, beside))
    torch.testing.assert_close(one.transformed, other.transformed)
    assert other.reference_matched[0].tolist() == [True] * 40 + [False] * 2


def test_the_reach_is_of_the_spacing_where_the_mass_is() -> None:
    line = torch.cat((torch.arange(60) * 0.1, 6 + torch.arange(50) * 1.0)).double()
    points = torch.stack((line, torch.zeros_like(line)), -1)[None]
    weights = torch.cat((torch.full((60,), 0.1), torch.ones(50))).double()[None]
    torch.testing.assert_close(reach(points, 0.0), double(0.2))
    torch.testing.assert_close(reach(points, 0.0, weights), double(2.0))


# --- weights of 1 are none ------------------------------------------------------------------------------------------

EVERY: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "whole": ("pwan", {"outlier_ratio": 0.5}, SMALL),
    "part": ("pwan", {"keep": 0.8}, SMALL),
    "distance": ("pwan_distance", {"keep": 0.8, "distance": 0.1}, SMALL),
    "sample": ("pwan", {"keep": 0.8}, SMALL | {"sample": 20}),
    "coarse": ("pwan", {"keep": 0.8}, SMALL | {"coarse_steps": 3}),
    "nearest": ("pwan_paper", {"keep": 0.8}, {"steps": 3, "updates": 2, "nearest_steps": 3}),
    "complete": ("wgan", {}, SMALL | {"coarse_steps": 3}),
    "soft": ("soft_assignment", {"keep": 0.8}, {"steps": 5, "rank": 20}),
}


@pytest.mark.parametrize("name", EVERY)
def test_weights_of_one_change_no_bit(name: str) -> None:
    method, synthesis, settings = EVERY[name]
    given = problem(120 if name == "coarse" else 60, trials=2, **synthesis)
    ones = {side: torch.ones(getattr(given, side).shape[:2]).double() for side in ("source", "reference")}
    weighted = replace(given, source_weights=ones["source"], reference_weights=ones["reference"])
    one, other = (methods.run(method, each, settings, seeds=[1, 2]) for each in (given, weighted))
    for field in ("transformed", "transformed_unrefined", "matched", "reference_matched"):
        assert torch.equal(getattr(one, field), getattr(other, field))
    assert one.history == other.history


# --- mass is what is counted ----------------------------------------------------------------------------------------


def test_without_a_limit_all_of_the_lighter_set_is_matched() -> None:
    given = heavy(problem(60))  # of 60 points each
    kind, limited = resolve_kind(given, "auto")
    assert kind == "mass" and limited.mass is not None
    totals = given.source_total, given.reference_total
    assert torch.equal(limited.mass, totals[0].minimum(totals[1]))
    assert matches_whole_source(limited).tolist() == [bool(totals[0] <= totals[1])]
    light = replace(given, source_weights=torch.full((1, 60), 0.1).double())
    assert matches_whole_source(resolve_kind(light, "auto")[1]).tolist() == [True]
    assert float(resolve_kind(light, "mass")[1].mass) == pytest.approx(6.0)


def test_a_coarse_sample_carries_its_share_of_the_mass_and_turned_round_the_sets_change_places() -> None:
    given = replace(heavy(problem(400)), mass=double(500.0))
    few = coarse.sampled(given, [0], 150)
    share = few.source.shape[1] / 400
    assert few.mass is not None and 0 < share < 1
    torch.testing.assert_close(few.source_total, given.source_total * share)
    torch.testing.assert_close(few.reference_total, given.reference_total * share)
    torch.testing.assert_close(few.mass, double(500.0 * share))
    whole = coarse.sampled(replace(given, mass=given.lighter), [0], 150)
    assert whole.mass is not None and torch.equal(whole.mass, whole.lighter)
    running = Registration(few, PwanSettings(**SMALL), [0])
    back = coarse.turned_round(few, [running])
    assert back.source_weights is few.reference_weights and back.reference_weights is few.source_weights


def test_a_coarse_sample_of_an_uneven_set_is_even() -> None:
    """One half of a square holds nine in ten points, and each of the others weighs nine times as much."""
    generator = np.random.default_rng(0)
    left = torch.from_numpy(generator.random((1, 1800, 2)))
    right = torch.from_numpy(generator.random((1, 200, 2)) + [1.0, 0.0])
    points = torch.cat((left, right), 1)
    weights = torch.cat((torch.full((1, 1800), 1 / 1.8), torch.full((1, 200), 5.0)), 1).double()
    few = coarse.sampled(RegistrationProblem(points, points, source_weights=weights), [0], 300)
    assert few.source_weights is not None
    beyond = few.source[0, :, 0] > 1
    assert 120 < int(beyond.sum()) < 180  # of 300; chance would draw 30
    assert float(few.source_weights.min()) > 0.8 * float(few.source_weights.max())
    assert float(few.source_weights[0, beyond].sum() / few.source_weights.sum()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    "settings",
    [{}, {"threshold": "learned"}, {"sample": 30}, {"coarse_steps": 3}, {"type": "complete"}],
    ids=str,
)
def test_problems_of_a_weighted_batch_are_solved_as_alone(settings: dict[str, Any]) -> None:
    given = heavy(problem(120, trials=2))
    given = replace(given, mass=None if "type" in settings else double(100.0, 150.0))
    options = SMALL | settings
    method = "wgan" if "type" in settings else "pwan"
    together = methods.run(method, given, options, seeds=[1, 2])
    assert together.status == ["ok", "ok"]
    for k in range(2):
        alone = methods.run(method, given.select([k]), options, seeds=[k + 1])
        assert torch.equal(together.transformed[k], alone.transformed[0])
        assert torch.equal(together.matched[k], alone.matched[0])


@pytest.mark.parametrize("settings", [PwanSettings(**SMALL), PaperSettings(steps=4, updates=3, nearest_steps=3)])
def test_a_trainer_and_a_checkpoint_give_the_weighted_registration(settings: PwanSettings) -> None:
    given = replace(heavy(problem(60)), mass=double(70.0))
    plain = pipeline.register(given, settings, seeds=[1])
    assert torch.equal(plain.transformed, lightning.register(given, settings, seeds=[1]).transformed)
    light = pipeline.register(replace(given, source_weights=None, mass=double(50.0)), settings, seeds=[1])
    assert not torch.equal(plain.transformed_unrefined, light.transformed_unrefined)
    first, second = Registration(given, settings, [1]), Registration(given, settings, [1])
    first.step()
    second.load_state_dict(first.state_dict())
    while not second.solver.finished:
        second.step()
    assert torch.equal(plain.transformed, second.finish().transformed)


def test_uneven_vertices_counted_evenly_register_nearly_as_even_points() -> None:
    # points of a segment, three times as dense in its left half, onto a longer even one: by counts they slide
    left, right = torch.linspace(-1, 0, 61)[:-1], torch.linspace(0, 1, 21)
    source = torch.cat((left, right)).double()
    even = torch.linspace(-1, 1, 81).double()
    band = 0.05 * torch.sin(torch.arange(81)).double()
    y, x = torch.stack((source, band), -1)[None], torch.stack((even, band), -1)[None]
    weights = torch.cat((torch.full((60,), 1 / 3), torch.ones(21))).double()[None] * 81 / 41
    settings: dict[str, Any] = {"transform": "affine", "normalisation": "none", "refinement": "none"}
    counted, weighed = (
        methods.run("pwan", RegistrationProblem(y, x, source_weights=of), settings | {"steps": 60}, seeds=[0])
        for of in (None, weights)
    )
    moved = [float((result.transformed - y).square().sum(-1).mean()) for result in (counted, weighed)]
    assert moved[1] < 0.3 * moved[0]


def test_a_fit_is_judged_by_the_weights() -> None:
    # a dense half that fits, and a sparse one of as much mass that has moved away by ten spacings
    line = torch.cat((torch.arange(90) * 0.1, 9 + torch.arange(9) * 1.0)).double()
    points = torch.stack((line, torch.zeros_like(line), torch.zeros_like(line)), -1).numpy()
    moved, weights = points.copy(), torch.cat((torch.full((90,), 0.1), torch.ones(9))).double().numpy()
    moved[95:, 1] += 10.0
    counted, weighed = (measure_fit(points, moved, points, *of) for of in ((99.0,), (18.0, weights, weights)))
    assert counted.source < 1.0 < weighed.source


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (torch.full((1, 60), -1.0).double(), "finite and zero or positive, but 60 are not .the first is -1 in row 0."),
        (torch.full((1, 60), torch.nan).double(), "finite and zero or positive"),
        (torch.full((1, 60), torch.inf).double(), "finite and zero or positive"),
        (torch.zeros(1, 60).double(), "must not all be zero"),
        (torch.eye(60)[None, 3].double(), "leave mass at a single place, and a registration needs points that differ"),
        (torch.ones(1, 59).double(), r"must be float64 of shape \(1, 60\), one for each point"),
        (torch.ones(60).double(), "one for each point"),
        (torch.ones(1, 60), "must be float64"),
    ],
)
@pytest.mark.parametrize("side", ["source", "reference"])
def test_weights_that_are_none_are_refused(side: str, weights: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=f"{side}_weights {words}" if words.startswith(("must", "leave")) else words):
        replace(problem(60), **{f"{side}_weights": weights})


def test_a_mass_beyond_the_lighter_set_is_refused() -> None:
    given = problem(60)
    halves = torch.full((1, 60), 0.5).double()
    with pytest.raises(ValueError, match=r"at most the total weight of the lighter set, \[30.0\]"):
        replace(given, mass=double(31.0), source_weights=halves)
    tenths = torch.full((1, 60), 0.1, dtype=torch.float64)
    replace(given, mass=double(6.0), source_weights=tenths)  # however their sum is rounded


@pytest.mark.parametrize("method", sorted(set(methods.names())))
def test_a_method_takes_weights_or_says_that_it_does_not(method: str) -> None:
    given = heavy(problem(30))
    if methods.takes_weights(method):
        assert method == "soft_assignment" or issubclass(methods.settings_class(method), PwanSettings)
        return
    with pytest.raises(ValueError, match=f"method {method} counts each point once.*take one of pwan"):
        methods.run(method, given, {}, seeds=[0])


def test_far_points_without_weight_change_nothing() -> None:
    given = problem(120, trials=1)
    far = torch.full((1, 12, 3), -9e5, dtype=torch.float64)
    with_far = RegistrationProblem(
        given.source,
        torch.cat((given.reference, far), 1),
        reference_weights=torch.cat((torch.ones(1, 120), torch.zeros(1, 12)), 1).double(),
    )
    rounded = quantise(with_far.reference, with_far.reference_weights)[:, :120]
    torch.testing.assert_close(rounded, quantise(given.reference), rtol=0.0, atol=1e-4)
    rigid = PwanSettings(energy="rigid", kernel="geodesic")
    assert resolve(rigid, with_far, "mass")[1].sigma_end == resolve(rigid, given, "mass")[1].sigma_end
