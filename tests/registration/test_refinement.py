"""The nearest refinement: it improves what is nearly there, keeps its best state, and never leaves the finite."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import nystrom
from pwan.deformation.rigid import rotation_matrix
from pwan.deformation.transform import Transform
from pwan.registration.refinement import NearestSettings, nearest_cost, nearest_point

NEAREST = NearestSettings(
    steps=50, rate=1e-4, of="source", rule="energy", coherence=0.01, sigma=0.1, affine_penalty=0.0
)


def prepared(kind: str, dtype: torch.dtype = torch.float32) -> tuple[Transform, Coherence, Tensor]:
    """A transform at the identity on 80 points, and a reference that is its image under a small smooth map."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(1, 80, 3, generator=generator, dtype=torch.float64)
    source = (source - source.mean(1, keepdim=True)) / source.square().sum(-1).mean().sqrt()
    coherence = Coherence(source, nystrom(source, torch.arange(80)[None], 2.0))
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


@pytest.mark.parametrize("of", ["source", "reference"])
def test_nearest_matches_nothing_to_a_point_without_mass(of: str) -> None:
    from pwan.registration.refinement import _nearest_residual

    moved = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.2, 0.1]]], dtype=torch.float64)
    reference = torch.tensor([[[0.0, 0.1], [1.0, 0.2], [0.9, 0.0]]], dtype=torch.float64)
    massive = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    found = _nearest_residual(moved, reference, None, None, of, (massive, massive))
    alone = _nearest_residual(moved[:, :2], reference[:, :2], None, None, of)
    torch.testing.assert_close(found[1], alone[1])
    torch.testing.assert_close(found[0][:, :2], alone[0])
    assert not bool(found[0][:, 2].any())


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


def test_the_released_rule_stops_by_the_data_alone_and_counts_from_the_state_after_the_first_step() -> None:
    transform, coherence, reference = prepared("nonrigid")
    start = transform.parameters.detach().clone()
    # so stiff that any step costs more energy than it gains: the paper's rule keeps the start
    stiff = replace(NEAREST, rate=1e-3, coherence=10.0)
    assert torch.equal(nearest_point(transform, coherence, start, reference, None, None, stiff)[0], start)
    # the released one goes on as long as the distances fall
    released = replace(stiff, rule="released")
    found, _ = nearest_point(transform, coherence, start, reference, None, None, released)
    assert not torch.equal(found, start)
    assert error(transform, found, reference) < error(transform, start, reference)
    # a first step that makes all worse is taken
    worse, _ = nearest_point(transform, coherence, start, reference, None, None, replace(released, rate=10.0, steps=1))
    assert error(transform, worse, reference) > error(transform, start, reference)


def test_nearest_cost_is_below_every_transport() -> None:
    moved = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]]])
    reference = torch.tensor([[[0.0, 0.1], [0.0, 3.0]]])
    lengths = [0.1, math.hypot(1, 0.1), math.hypot(5, 0.1)]
    cost = nearest_cost(moved, reference, None, None)
    assert float(cost) == pytest.approx(sum(lengths) / 3)
    cost = nearest_cost(moved, reference, torch.tensor([2.0]), None)
    assert float(cost) == pytest.approx(sum(lengths[:2]) / 3)  # of a source that weighs 1 in all
    cost = nearest_cost(moved, reference, None, torch.tensor([0.5]))
    assert float(cost) == pytest.approx((0.1 + 0.5 + 0.5) / 3)
    cost = nearest_cost(moved, reference, None, None, (None, torch.tensor([[2.0, 1.0, 1.0]])))
    assert float(cost) == pytest.approx((2 * lengths[0] + lengths[1] + lengths[2]) / 4)
    # nothing goes to a point without mass
    cost = nearest_cost(moved, reference, None, None, (torch.tensor([[0.0, 1.0]]), None))
    assert float(cost) == pytest.approx((3 + math.hypot(1, 3) + math.hypot(5, 3)) / 3)
    assert bool(nearest_cost(moved * math.inf, reference, None, None).isnan())
