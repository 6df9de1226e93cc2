"""The soft assignment: it improves what is nearly there, in samples of large sets, and never leaves the finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pwan.deformation.transform import Transform
from pwan.registration import soft_assignment as soft
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from tests.registration.test_refinement import error, prepared


@pytest.mark.parametrize("kind", ["nonrigid", "affine", "rigid"])
def test_soft_assignment_finds_the_map(kind: str) -> None:
    transform, _, reference = prepared(kind)
    start = transform.parameters.detach().clone()
    settings = SoftSettings(smoothness=0.1, affine_ridge=0.1, sigma_end=0.02)
    found = soft_assignment(transform, start, reference, None, settings, [0])
    assert error(transform, start, reference) > 5e-3
    assert error(transform, found, reference) < 1e-4
    if kind == "rigid":
        turn = transform.affine(found)
        torch.testing.assert_close(turn @ turn.mT, torch.eye(3)[None], atol=1e-5, rtol=0)


def test_soft_assignment_with_a_mass_leaves_the_rest_alone() -> None:
    transform, _, reference = prepared("affine")
    near = reference[:, reference[0, :, 0] < 0]
    mass = torch.tensor([float(near.shape[1])])
    settings = SoftSettings.for_case(whole=False)
    found = soft_assignment(transform, transform.parameters.detach(), near, mass, settings, [0])
    assert bool(found.isfinite().all())
    assert error(transform, found, reference) < 5e-3


def test_soft_assignment_counts_a_fraction_of_a_point_in_part() -> None:
    transform, _, reference = prepared("affine")
    start = transform.parameters.detach().clone()
    settings = replace(SoftSettings.for_case(whole=False), steps=1)
    found = [
        soft_assignment(transform, start, reference, torch.tensor([m]), settings, [0])[0] for m in (40.0, 40.5, 41.0)
    ]
    low, high = (found[1] - found[0]).abs().max(), (found[2] - found[1]).abs().max()
    assert float(low) > 0 and float(high) > 0


def test_samples_of_large_sets_are_the_same_share_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    # of 40 source points all are to be matched; were the reference of 400 cut to 20 as well, most would find no partner
    monkeypatch.setattr(soft, "SOFT_POINTS", 20)
    transform, _, reference = prepared("nonrigid")
    half = Transform("nonrigid", transform.source[:, :40], transform.basis[:, :40])  # type: ignore[index]
    far = torch.cat((reference, 10 + torch.rand(1, 320, 3)), 1)  # (1, 400, 3), four of five are outliers
    sizes = []
    plain = soft._kernel

    def kernel(
        y: Tensor, x: Tensor, sigma: float, rooms: list[Tensor]
    ) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        sizes.append((y.shape[1], x.shape[1]))
        return plain(y, x, sigma, rooms)

    monkeypatch.setattr(soft, "_kernel", kernel)
    start = half.parameters.detach()
    soft_assignment(half, start, far, torch.tensor([40.0]), SoftSettings(steps=1), [0])
    assert sizes == [(20, 200)] * soft.SAMPLES


@pytest.mark.parametrize("sigma", [0.03, 0.1, 1.0])
@pytest.mark.parametrize("many", [0, 10**9])
def test_a_kernel_gives_the_products_of_all_pairs(monkeypatch: pytest.MonkeyPatch, sigma: float, many: int) -> None:
    monkeypatch.setattr(soft, "MANY", many)
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (300, 400))
    x[0, :20] = y[0, :20]  # no distance at all
    u, v = (torch.rand(2, n, 2, generator=generator, dtype=torch.float64) for n in (300, 400))
    kernel = torch.exp(-0.5 * (y[:, :, None] - x[:, None]).square().sum(-1) / sigma**2)
    to_source, to_reference = soft._kernel(y, x, sigma, rooms_for(y))
    near = soft._near_pairs(y[0], x[0], sigma) is not None
    assert near == (sigma < 1.0 and many == 0)
    exact = {"rtol": 1e-9 if near else 1e-3, "atol": 1e-4}  # all pairs are in float32
    torch.testing.assert_close(to_source(v), kernel @ v, **exact)
    torch.testing.assert_close(to_reference(u), kernel.mT @ u, **exact)


def rooms_for(points: torch.Tensor) -> list[torch.Tensor]:
    return [torch.empty(0, dtype=torch.float32) for _ in points]


def test_what_float32_hardly_holds_costs_no_time_and_no_number() -> None:
    y, x = (torch.linspace(0, 1, 3 * n, dtype=torch.float64).view(1, n, 3) for n in (150, 160))
    to_source, _ = soft._kernel(y, x + 10.0, 0.1, rooms_for(y))
    found = to_source(torch.ones(1, 160, 1, dtype=torch.float64))
    tiny = torch.finfo(torch.float32).tiny  # below it numbers are a hundred times slower
    assert float(found.max()) < 1e-30 and float(found.min()) > tiny


def test_each_problem_of_a_batch_decides_for_itself_whether_it_holds_near_pairs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(soft, "MANY", 0)
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (200, 300))
    y[1], x[1] = 0.05 * y[1], 0.05 * x[1]  # all near each other
    v = torch.rand(2, 300, 1, generator=generator, dtype=torch.float64)
    together = soft._kernel(y, x, 0.1, rooms_for(y))[0](v)
    for k in range(2):
        alone = soft._kernel(y[k : k + 1], x[k : k + 1], 0.1, rooms_for(y[:1]))[0](v[k : k + 1])
        assert torch.equal(alone, together[k : k + 1])


def test_few_points_far_apart_are_still_fitted() -> None:
    # at the end no point has another within five sigma, but what is next to nothing is still in proportion
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(1, 8, 3, generator=generator, dtype=torch.float64)
    x = y + 0.15 * torch.randn(1, 8, 3, generator=generator, dtype=torch.float64)
    transform = Transform("rigid", y, None)
    found = soft_assignment(transform, transform.parameters.detach(), x, None, SoftSettings.for_case(whole=True), [0])
    assert float((transform.points(found) - x).square().sum(-1).mean().sqrt()) < 0.5


def test_a_kernel_of_points_that_left_the_finite_is_not_searched_for_near_pairs() -> None:
    y, x = torch.full((1, 10, 3), math.nan, dtype=torch.float64), torch.rand(1, 12, 3, dtype=torch.float64)
    to_source, _ = soft._kernel(y, x, 0.03, rooms_for(y))
    assert bool(to_source(torch.ones(1, 12, 1, dtype=torch.float64)).isnan().all())


def test_of_a_large_source_one_sample_takes_the_first_steps_and_the_mean_over_samples_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transform, _, reference = prepared("nonrigid")
    count = transform.source.shape[1]
    monkeypatch.setattr(soft, "SOFT_POINTS", count // 3)
    assert soft.steps_of(transform, SoftSettings(steps=4)) == 4 * soft.SAMPLES  # none are shared: samples differ much
    monkeypatch.setattr(soft, "SOFT_POINTS", -(-count // 2))
    start, settings, told = transform.parameters.detach(), SoftSettings(steps=4), []
    found = soft_assignment(transform, start, reference, None, settings, [0], lambda step, _: told.append(step))

    def some(sample: int, steps: range, begin: Tensor) -> Tensor:
        return soft._anneal(transform, start, begin, reference, None, settings, [0], sample, steps, lambda *_: None)

    near = some(0, range(3), start)
    each = [some(sample, range(3, 4), near) for sample in range(soft.SAMPLES)]
    assert all(not torch.equal(each[0], other) for other in each[1:])
    assert torch.allclose(found, torch.stack(each).mean(0), atol=1e-6)
    assert told == list(range(1, 3 + soft.SAMPLES + 1))
    assert soft.steps_of(transform, settings) == told[-1]


@pytest.mark.parametrize("weight", [10.0, 1e3, 1e5])
def test_a_label_of_any_weight_keeps_the_kernel_right(weight: float) -> None:
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(1, n, 4, generator=generator, dtype=torch.float64) for n in (150, 160))
    y[..., 3], x[..., 3] = (weight * (torch.arange(n) % 2) for n in (150, 160))
    v = torch.rand(1, 160, 2, generator=generator, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (y[:, :, None] - x[:, None]).square().sum(-1) / 0.1**2)
    to_source, _ = soft._kernel(y, x, 0.1, rooms_for(y))
    torch.testing.assert_close(to_source(v), kernel @ v, rtol=2e-2, atol=1e-4)
