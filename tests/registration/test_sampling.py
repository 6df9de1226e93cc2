"""Large sets: a step looks at a sample of the points, all of them in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pwan import shapes
from pwan.problem import RegistrationProblem, mean_squared_error
from pwan.registration.pipeline import Registration, register
from pwan.registration.presets import resolved
from pwan.registration.sample import Draws, part_of_each
from pwan.registration.settings import LARGE, SAMPLE, SAMPLE_FIRST, PaperSettings, PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

SMALL: dict[str, Any] = {"steps": 12, "stages": 1, "stage_steps": 6, "warmup": 5, "updates": 2, "width": 16}
SMALL |= {"features": 16, "rank": 20}


def problem(points: int, **synthesis: Any) -> RegistrationProblem:
    return make_problem(shapes.load("torus"), SynthesisSettings(points=points, **synthesis), seed=0, trials=[0, 1])


@pytest.mark.parametrize(("n", "share", "size"), [(100, 0.25, 25), (103, 0.25, 26), (7, 0.01, 1), (5, 1.0, 5)])
def test_each_point_comes_once_before_one_comes_again(n: int, share: float, size: int) -> None:
    draws = Draws(n, share, (0, "test"))
    a_round = [draws(step) for step in range(n // size)]
    assert {len(rows) for rows in a_round} == {size}
    together = torch.cat(a_round)
    assert len(together.unique()) == len(together) and 0 <= int(together.min()) <= int(together.max()) < n
    assert torch.equal(Draws(n, share, (0, "test"))(3), draws(3))  # by the step alone
    if n > size > 1:
        assert not torch.equal(draws(n // size), a_round[0])  # the next round has another order
        assert not torch.equal(Draws(n, share, (1, "test"))(0), a_round[0])


@pytest.mark.parametrize("synthesis", [{"outlier_ratio": 0.5}, {"keep": 0.8}])
def test_a_sample_of_all_points_is_all_points(synthesis: dict[str, float]) -> None:
    given = problem(60, **synthesis)
    whole, sampled = (register(given, PwanSettings(sample=n, **SMALL), seeds=[0, 1]) for n in (0, 1000))
    assert torch.equal(whole.transformed, sampled.transformed)


@pytest.mark.parametrize("synthesis", [{"outlier_ratio": 0.5}, {"keep": 0.8}, {"keep": 0.8, "distance": 0.1}])
def test_samples_register_as_all_points_do(synthesis: dict[str, float]) -> None:
    given = problem(500, deformation_lambda=50.0, **synthesis).select([0, 0, 0])
    assert given.truth is not None
    settings: dict[str, Any] = {"rank": 30, "steps": 60, "stages": 1, "refinement": "none"}
    settings |= {"type": "distance"} if "distance" in synthesis else {}
    all_points, samples = (
        float(mean_squared_error(result.transformed, given.truth).mean())  # one draw of the network may be lucky
        for result in (register(given, PwanSettings(sample=n, **settings), seeds=[0, 1, 2]) for n in (0, 200))
    )
    start = float(mean_squared_error(given.source, given.truth).mean())
    assert samples < 0.3 * start and samples < 2.0 * all_points, (start, all_points, samples)


def test_a_step_sees_the_sample_and_the_mass_is_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    registration = Registration(
        problem(200, outlier_ratio=0.5, mass_factor=0.9), PwanSettings(sample=50, **SMALL), [0, 1]
    )
    solver, seen = registration.solver, []
    plain = solver.network.accumulate_gradient
    monkeypatch.setattr(
        solver.network,
        "accumulate_gradient",
        lambda features, *more: (seen.append(features.shape[1]), plain(features, *more))[1],
    )
    before = solver.game.sample.points.clone()
    registration.step()
    registration.step()
    assert set(seen) == {50 + 75} and solver.game.sample.points.shape == (2, 50, 3)
    assert not torch.equal(before, solver.game.sample.points)
    shares = solver.game.loss(torch.zeros(2, 75), torch.zeros(2, 50), solver.game.sample.seen).source_share
    assert shares.sum(1).tolist() == pytest.approx([45.0, 45.0])
    _, transported = solver.evaluate(solver.answer())  # at the end all points count
    assert transported.tolist() == pytest.approx([180.0, 180.0])


@pytest.mark.parametrize(("later", "points"), [(50, 50), (0, 200)])
def test_the_first_stage_sees_a_smaller_sample(later: int, points: int) -> None:
    registration = Registration(
        problem(200, outlier_ratio=0.5), PwanSettings(sample_first=20, sample=later, **SMALL), [0, 1]
    )
    seen = []
    while not registration.leaving():
        registration.step()
        seen.append(registration.solver.game.sample.points.shape[1])
    assert seen == [20] * 12 + [points] * 6
    _, transported = registration.solver.evaluate(registration.solver.answer())
    assert transported.tolist() == pytest.approx([200.0, 200.0])


@pytest.mark.parametrize("at", [5, 12, 14])  # the second stage begins with the 13th step
@pytest.mark.parametrize("samples", [{"sample": 40}, {"sample": 40, "sample_first": 15}, {"sample_first": 15}])
def test_a_run_goes_on_from_any_step_to_the_bit(at: int, samples: dict[str, int]) -> None:
    given = problem(120, outlier_ratio=0.5)
    settings = PwanSettings(**{"sample": 0, **samples}, **SMALL)
    unbroken = register(given, settings, seeds=[0, 1])
    first, second = (Registration(given, settings, [0, 1]) for _ in range(2))
    for _ in range(at):
        first.step()
    second.load_state_dict(first.state_dict())
    while not second.solver.finished:
        second.step()
    assert torch.equal(second.finish().transformed, unbroken.transformed)


def test_who_samples_follows_from_the_size() -> None:
    torus = torch.from_numpy(shapes.load("torus").points.copy())
    for n, sample, of_first in ((LARGE, 0, 0), (LARGE + 1, SAMPLE, SAMPLE_FIRST)):
        points = torus[torch.arange(n) % len(torus)][None]
        given = RegistrationProblem(points, points)
        used = resolved(given, PwanSettings())
        assert (used["sample"], used["sample_first"]) == (sample, of_first)
        used = resolved(given, PwanSettings(sample=7))
        assert (used["sample"], used["sample_first"]) == (7, 0)
        assert resolved(given, PwanSettings(sample_first=7))["sample_first"] == 7
        assert resolved(given, PaperSettings())["sample"] == 0  # the paper's steps look at all points


@pytest.mark.parametrize(("n", "count"), [(100, 3), (7, 7), (10, 4), (5, 1)])
def test_each_point_belongs_to_one_part_and_each_part_is_all_over_the_set(n: int, count: int) -> None:
    part = part_of_each(n, count)
    assert part.shape == (n,) and set(part) == set(range(count))
    for first in range(0, n - count + 1, count):
        assert sorted(part[first : first + count]) == list(range(count))
    assert (part == part_of_each(n, count)).all()
    if count == 3:  # no stripes: points are often in some order
        assert any((part[first : first + count] != part[:count]).any() for first in range(count, n - count, count))


@pytest.mark.parametrize("sampled", [{"update_points": 180}, {"update_points": 130, "sample": 160}])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_update_of_the_potential_sees_a_part_and_the_mass_is_its_share(
    monkeypatch: pytest.MonkeyPatch, sampled: dict[str, int], weighted: bool
) -> None:
    given = problem(200, outlier_ratio=0.5, mass_factor=0.9)
    if weighted:
        generator = torch.Generator().manual_seed(2)
        masses = [torch.rand(of.shape[:2], generator=generator).double() for of in (given.source, given.reference)]
        given = replace(given, source_weights=masses[0], reference_weights=masses[1], mass=0.9 * masses[0].sum(1))
    settings = PwanSettings(**{"sample": 0, **sampled}, **SMALL)
    registration = Registration(given, settings, [0, 1])
    game, seen = registration.solver.game, []
    plain = game.network.accumulate_gradient
    monkeypatch.setattr(
        game.network,
        "accumulate_gradient",
        lambda features, *more: (seen.append(features.shape[1]), plain(features, *more))[1],
    )
    for _ in range(3):
        registration.step()
    r, q = game.sample.seen.sizes.r, game.sample.seen.sizes.q
    parts = game.sample.parts
    assert len(parts) == 3 and len(seen) == 5 + 3 * 2
    assert sum(part.sizes.q for part in parts) == q and sum(part.sizes.r for part in parts) == r
    assert seen == [sum(parts[k % 3].sizes) for k in range(len(seen))]  # one after the other, over all steps
    assert torch.cat([part.rows for part in parts]).sort().values.tolist() == list(range(q + r))
    assert given.mass is not None
    for part in parts:
        found = game.loss(torch.zeros(2, part.sizes.q), torch.zeros(2, part.sizes.r), part)
        share = part.sizes.r / given.source.shape[1]
        assert found.source_share.sum(1).tolist() == pytest.approx((share * given.mass).tolist(), rel=1e-5)
        if weighted:
            of_part = part.masses.source.sum(1).tolist()
            assert of_part == pytest.approx((share * given.source_total).tolist(), rel=1e-5)


def test_parts_register_as_all_points_do() -> None:
    given = problem(400, keep=0.8, deformation_lambda=50.0).select([0, 0, 0])
    assert given.truth is not None
    settings: dict[str, Any] = {"rank": 30, "steps": 60, "stages": 1, "refinement": "none"}
    whole, parts = (
        float(mean_squared_error(result.transformed, given.truth).mean())
        for result in (register(given, PwanSettings(update_points=n, **settings), seeds=[0, 1, 2]) for n in (0, 150))
    )
    assert parts < 1.5 * whole, (whole, parts)


@pytest.mark.parametrize("few", [{"source": 30}, {"reference": 30}])
def test_few_points_of_either_set_are_seen_whole(few: dict[str, int]) -> None:
    given = problem(600)
    points = {"source": given.source, "reference": given.reference}
    points |= {name: points[name][:, :count] for name, count in few.items()}
    registration = Registration(RegistrationProblem(**points), PwanSettings(**SMALL), [0, 1])
    assert registration.solver.game.sample.parts == [registration.solver.game.sample.seen]


def test_many_points_fall_into_ten_parts_at_most() -> None:
    registration = Registration(problem(3000), PwanSettings(**SMALL), [0, 1])
    assert len(registration.solver.game.sample.parts) == 10


def test_a_run_in_parts_goes_on_to_the_bit() -> None:
    given = problem(120, outlier_ratio=0.5)
    settings = PwanSettings(update_points=100, **SMALL)
    straight, resumed = Registration(given, settings, [0, 1]), Registration(given, settings, [0, 1])
    for _ in range(5):
        straight.step()
    resumed.load_state_dict(straight.state_dict())
    for _ in range(4):
        straight.step()
        resumed.step()
    assert torch.equal(straight.solver.transform.parameters, resumed.solver.transform.parameters)
    assert len(straight.solver.game.sample.parts) > 1
