"""The rigid energy: nothing for what turns and grows as a whole, little for a limb that turns, much for a stretch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from pwan.deformation import rigidity
from pwan.deformation.coherence import coherence_of
from pwan.deformation.rigidity import Rigidity
from pwan.deformation.settings import Kernel
from pwan.deformation.transform import Transform

TURN = torch.from_numpy(Rotation.from_rotvec([0.3, -2.0, 0.7]).as_matrix())


def rod(n: int = 120, seed: int = 0) -> Tensor:
    """(1, n, 3) a thin rod along x, from -1 to 1."""
    points = np.random.default_rng(seed).uniform(-1, 1, (n, 3)) * np.array([1.0, 0.1, 0.1])
    return torch.from_numpy(points)[None]


def transform_of(source: Tensor) -> Transform:
    kernel = Kernel("geodesic", 0.5, 40)
    return Transform("nonrigid", source, coherence_of(source, None, kernel, [0] * len(source)).basis)


def parameters(transform: Transform, affine: Tensor, shift: float = 0.0) -> Tensor:
    theta = transform.parameters.detach().clone()
    theta[:, :3], theta[:, 3] = affine, shift
    return theta


def towards(transform: Transform, goals: Tensor) -> Tensor:
    """The parameters that bring the source nearest to goals (1, n, 3)."""
    assert transform.basis is not None
    design = torch.cat((transform.source, torch.ones_like(goals[..., :1]), transform.basis), -1)
    return torch.linalg.lstsq(design[0], goals[0], driver="gelsd").solution[None]


def test_what_turns_moves_and_grows_as_a_whole_costs_nothing() -> None:
    source = rod()
    transform = transform_of(source)
    energy = Rigidity.of(transform, source, None)
    theta = parameters(transform, 1.7 * TURN, 0.4)
    gradient, _ = energy.gradient(theta)
    assert float(energy.value(theta)) < 1e-20 and float(gradient.abs().max()) < 1e-9


def test_a_mirror_image_costs() -> None:
    source = rod()
    transform = transform_of(source)
    mirror = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
    assert float(Rigidity.of(transform, source, None).value(parameters(transform, mirror))) > 0.1


def test_a_stretch_costs_the_square_of_the_strain() -> None:
    """On a line no rotation helps: E is the mean of (ratio / s - 1)^2 over how much longer each edge became."""
    source = torch.linspace(-1, 1, 41, dtype=torch.float64)[None, :, None] * torch.tensor([1.0, 0, 0])
    transform = Transform("nonrigid", source, torch.eye(41, dtype=torch.float64)[None])
    energy = Rigidity.of(transform, source, None)
    theta = transform.parameters.detach().clone()
    theta[:, 4:, 0] = 0.1 * source[..., 0].clamp(min=0)
    at = source[0, :, 0]
    ends = at[:, None], at[energy.neighbours[0]]
    ratio = 1 + 0.1 * (ends[1].clamp(min=0) - ends[0].clamp(min=0)) / (ends[1] - ends[0])  # (n, k)
    weight = energy.weights[0] * (ends[1] - ends[0]).square()
    scale = (weight * ratio**2).sum() / (weight * ratio).sum()
    expected = float((weight * (ratio / scale - 1) ** 2).sum())
    assert 1e-3 < expected < 3e-3
    assert float(energy.value(theta)) == pytest.approx(expected, rel=1e-9)


def test_a_limb_that_turns_costs_less_than_one_that_is_stretched() -> None:
    source = rod(400)
    transform = transform_of(source)
    energy = Rigidity.of(transform, source, None)
    outer = source[..., :1] > 0
    turned = torch.where(outer, source @ torch.from_numpy(Rotation.from_rotvec([0, 0, 0.65]).as_matrix()), source)
    stretched = torch.where(outer, source * torch.tensor([1.6, 1.0, 1.0], dtype=torch.float64), source)
    moved = (turned - source).norm(dim=-1).mean(), (stretched - source).norm(dim=-1).mean()
    assert moved[0] > moved[1]
    bent, longer = (float(energy.value(towards(transform, goals))) for goals in (turned, stretched))
    assert bent < 0.5 * longer


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_gradient_is_that_of_the_value(dimension: int) -> None:
    generator = torch.Generator().manual_seed(0)
    source = rod()[..., :dimension].contiguous()
    transform = transform_of(source)
    energy = Rigidity.of(transform, source, None)
    theta = transform.parameters.detach().double() + 0.1 * torch.randn(
        transform.parameters.shape, generator=generator, dtype=torch.float64
    )
    gradient, _ = energy.gradient(theta)
    for _ in range(5):
        way = torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        along = [float(energy.value(theta + step * way)) for step in (1e-6, -1e-6)]
        assert 2 * float((gradient * way).sum()) == pytest.approx((along[0] - along[1]) / 2e-6, rel=1e-4)


def test_problems_of_a_batch_know_nothing_of_each_other() -> None:
    both = torch.cat((rod(seed=0), rod(seed=1)))
    transform = transform_of(both)
    theta = transform.parameters.detach().double() + 0.05
    of_both = Rigidity.of(transform, both, None).value(theta)
    for k in range(2):
        part = Transform("nonrigid", both[k : k + 1], transform.basis[k : k + 1])  # type: ignore[index]
        assert float(Rigidity.of(part, both[k : k + 1], None).value(theta[k : k + 1])) == pytest.approx(
            float(of_both[k]), rel=1e-12
        )


def test_of_many_points_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    source = rod(600)
    transform = transform_of(source)
    theta = parameters(transform, torch.diag(torch.tensor([1.5, 1.0, 0.8], dtype=torch.float64)))
    whole = float(Rigidity.of(transform, source, None).value(theta))
    monkeypatch.setattr(rigidity, "NODES", 200)
    some = Rigidity.of(transform, source, None)
    assert some.design.shape[1] == 200
    assert float(some.value(theta)) == pytest.approx(whole, rel=0.2)


def test_repeated_places_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    source = rod(60).repeat(1, 3, 1)
    monkeypatch.setattr(rigidity, "NODES", 100)
    transform = transform_of(source)
    energy = Rigidity.of(transform, source, None)
    theta = parameters(transform, torch.diag(torch.tensor([1.5, 1.0, 0.8], dtype=torch.float64)))
    gradient, curvature = energy.gradient(theta)
    assert bool(gradient.isfinite().all()) and bool(curvature.isfinite().all()) and float(energy.value(theta)) > 0
