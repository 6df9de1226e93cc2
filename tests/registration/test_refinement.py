"""Both refinements: they improve what is nearly there, keep their best state, and never leave the finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.rigid import rotation_matrix
from pwan.deformation.transform import Transform
from pwan.registration import refinement
from pwan.registration.refinement import NearestSettings, nearest_point
from pwan.registration.soft_assignment import SoftSettings, soft_assignment

NEAREST = NearestSettings(steps=50, rate=1e-4, of="source", coherence=0.01, sigma=0.1, affine_penalty=0.0)


def prepared(kind: str, dtype: torch.dtype = torch.float32) -> tuple[Transform, Coherence, Tensor]:
    """A transform at the identity on 80 points, and a reference that is its image under a small smooth map."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(1, 80, 3, generator=generator, dtype=torch.float64)
    source = (source - source.mean(1, keepdim=True)) / source.square().sum(-1).mean().sqrt()
    coherence = Coherence(source, torch.arange(80)[None], 2.0)
    if kind == "nonrigid":
        reference = source + 0.1 * torch.sin(source[..., [1, 2, 0]])
    else:
        rows = torch.zeros(1, 3, 3, dtype=torch.float64)
        rows[0, 0, 1], rows[0, 1, 2] = 0.1, -0.05
        reference = source @ rotation_matrix(rows) + 0.05
    coherence.to(dtype)
    transform = Transform(kind, source.to(dtype), coherence.basis if kind == "nonrigid" else None)  # type: ignore[arg-type]
    return transform, coherence, reference[:, torch.randperm(80, generator=generator)].to(dtype)


def error(transform: Transform, parameters: Tensor, reference: Tensor) -> float:
    return float(torch.cdist(transform.points(parameters), reference).amin(2).square().mean())


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


@pytest.mark.parametrize("of", ["source", "reference"])
@pytest.mark.parametrize("limit", ["none", "mass", "distance"])
def test_nearest_never_gets_worse_and_says_how_it_ended(of: str, limit: str) -> None:
    transform, coherence, reference = prepared("nonrigid")
    mass = torch.tensor([40.0]) if limit == "mass" else None
    distance = torch.tensor([0.3]) if limit == "distance" else None
    start = transform.parameters.detach().clone()
    settings = replace(NEAREST, rate=1e-3, of=of, coherence=1e-4)
    found, words = nearest_point(transform, coherence, start, reference, mass, distance, settings)
    assert error(transform, found, reference) < error(transform, start, reference)
    assert len(words) == 1 and words[0].startswith(("stopped at step", "took all 50 steps"))


def test_nearest_stops_at_the_first_increase_and_keeps_the_state_before() -> None:
    transform, coherence, reference = prepared("nonrigid")
    start = transform.parameters.detach().clone()
    huge = replace(NEAREST, rate=10.0)
    found, words = nearest_point(transform, coherence, start, reference, None, None, huge)
    assert torch.equal(found, start)
    assert words == ["stopped at step 1: no further decrease"]


def test_nearest_with_nothing_within_the_distance_keeps_the_start() -> None:
    transform, coherence, reference = prepared("nonrigid")
    start = transform.parameters.detach().clone()
    distance = torch.tensor([1e-9])
    found, words = nearest_point(transform, coherence, start, reference + 50, None, distance, NEAREST)
    assert torch.equal(found, start)
    assert "no further decrease" in words[0]


def test_nearest_gradient_is_that_of_the_matched_distances() -> None:
    from pwan.registration.refinement import _nearest_residual

    moved = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]], dtype=torch.float64)
    reference = torch.tensor([[[0.1, 0.0], [1.0, 0.2]]], dtype=torch.float64)
    gradient, value = _nearest_residual(moved, reference, torch.tensor([2.0]).double(), None, "source")
    assert math.isclose(float(value), (0.1**2 + 0.2**2) / 2)
    expected = torch.tensor([[[-0.1, 0.0], [0.0, -0.2], [0.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected)
    # half a point: of the second distance one half counts
    _, value = _nearest_residual(moved, reference, torch.tensor([1.5]).double(), None, "source")
    assert math.isclose(float(value), (0.1**2 + 0.5 * 0.2**2) / 1.5)
    # within h = 0.15 lies one of the two; the other counts as h and does not pull
    gradient, value = _nearest_residual(moved, reference, None, torch.tensor([0.15]).double(), "reference")
    assert math.isclose(float(value), (0.1**2 + 0.15**2) / 2, rel_tol=1e-6)
    torch.testing.assert_close(gradient[0, 0], torch.tensor([-0.1, 0.0], dtype=torch.float64))
    assert bool((gradient[0, 1:] == 0).all())


def test_nearest_turns_on_from_a_rotation() -> None:
    # the derivative of a rotation is taken where the rotation is, not at the identity
    transform, _, _ = prepared("rigid", torch.float64)
    start = transform.parameters.detach().clone()
    start[0, 0, 1], start[0, 0, 2], start[0, 1, 2] = 1.5, -0.9, 0.7
    target = transform.points(start)
    start[0, 0, 1] += 0.02
    settings = replace(NEAREST, steps=400, rate=1e-4)
    found, _ = nearest_point(transform, None, start, target, None, None, settings)
    assert float((transform.points(start) - target).square().sum(-1).mean()) > 1e-4
    assert float((transform.points(found) - target).square().sum(-1).mean()) < 1e-6


@pytest.mark.parametrize("of", ["source", "reference"])
def test_nearest_that_leaves_the_finite_keeps_its_start(of: str) -> None:
    transform, coherence, reference = prepared("nonrigid")
    start = transform.parameters.detach().clone()
    settings = replace(NEAREST, rate=1e38, of=of)
    found, words = nearest_point(transform, coherence, start, reference, None, None, settings)
    assert torch.equal(found, start)
    assert words == ["left the finite at step 1"]


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
    monkeypatch.setattr(refinement, "SOFT_POINTS", 20)
    transform, _, reference = prepared("nonrigid")
    half = Transform("nonrigid", transform.source[:, :40], transform.basis[:, :40])  # type: ignore[index]
    far = torch.cat((reference, 10 + torch.rand(1, 320, 3)), 1)  # (1, 400, 3), four of five are outliers
    sizes = []
    plain = refinement._kernel

    def kernel(y: Tensor, x: Tensor, sigma: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        sizes.append((y.shape[1], x.shape[1]))
        return plain(y, x, sigma)

    monkeypatch.setattr(refinement, "_kernel", kernel)
    start = half.parameters.detach()
    soft_assignment(half, start, far, torch.tensor([40.0]), SoftSettings(steps=1), [0])
    assert sizes == [(20, 200)] * refinement.SAMPLES


@pytest.mark.parametrize("sigma", [0.03, 0.1, 1.0])
def test_a_kernel_of_near_pairs_gives_the_products_of_all_pairs(sigma: float) -> None:
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (300, 400))
    x[0, :20] = y[0, :20]  # no distance at all
    u, v = (torch.rand(2, n, 2, generator=generator, dtype=torch.float64) for n in (300, 400))
    kernel = torch.exp(-0.5 * (y[:, :, None] - x[:, None]).square().sum(-1) / sigma**2)
    to_source, to_reference = refinement._kernel(y, x, sigma)
    torch.testing.assert_close(to_source(v), kernel @ v, rtol=1e-9, atol=1e-4)
    torch.testing.assert_close(to_reference(u), kernel.mT @ u, rtol=1e-9, atol=1e-4)
    assert (refinement._near_pairs(y[0], x[0], sigma) is not None) == (sigma < 1.0)


def test_each_problem_of_a_batch_decides_for_itself_whether_it_holds_near_pairs_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (200, 300))
    y[1], x[1] = 0.05 * y[1], 0.05 * x[1]  # all near each other
    v = torch.rand(2, 300, 1, generator=generator, dtype=torch.float64)
    together = refinement._kernel(y, x, 0.1)[0](v)
    for k in range(2):
        assert torch.equal(refinement._kernel(y[k : k + 1], x[k : k + 1], 0.1)[0](v[k : k + 1]), together[k : k + 1])


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
    to_source, _ = refinement._kernel(y, x, 0.03)
    assert bool(to_source(torch.ones(1, 12, 1, dtype=torch.float64)).isnan().all())


def test_of_a_large_source_the_mean_over_samples_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "SOFT_POINTS", 20)
    transform, _, reference = prepared("nonrigid")
    start, settings, told = transform.parameters.detach(), SoftSettings(steps=2), []
    found = soft_assignment(transform, start, reference, None, settings, [0], lambda step, _: told.append(step))
    each = [
        refinement._anneal(transform, start, reference, None, settings, [0], sample, lambda *_: None)
        for sample in range(refinement.SAMPLES)
    ]
    assert all(not torch.equal(each[0], other) for other in each[1:])
    assert torch.allclose(found, torch.stack(each).mean(0), atol=1e-6)
    assert told == list(range(1, 2 * refinement.SAMPLES + 1))
