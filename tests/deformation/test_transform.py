"""The transform and the coherence energy against dense formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import nystrom
from pwan.deformation.kernels import gaussian_kernel
from pwan.deformation.rigid import orthogonal_rotation, rotation_logarithm, rotation_matrix
from pwan.deformation.transform import Transform


@pytest.fixture
def source() -> Tensor:
    return torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def everything(source: Tensor) -> Tensor:
    return torch.arange(source.shape[1]).expand(len(source), -1)


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_coherence_gradient_equals_the_dense_formula(source: Tensor, sigma: float) -> None:
    beta = 0.5
    coherence = Coherence(source, nystrom(source, everything(source), beta))
    v = torch.randn(source.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    dense = torch.linalg.solve(gaussian_kernel(source, source, beta) + sigma * torch.eye(40), v)
    torch.testing.assert_close(coherence.gradient(v, sigma), dense, atol=1e-8, rtol=1e-6)


def test_energy_of_the_modes_equals_the_energy_of_their_displacement(source: Tensor) -> None:
    sigma, coherence = 0.1, Coherence(source, nystrom(source, everything(source), 0.5))
    w = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    v = coherence.basis @ w
    dense = (v * torch.linalg.solve(gaussian_kernel(source, source, 0.5) + sigma * torch.eye(40), v)).sum((1, 2))
    weight = coherence.spectrum / (coherence.spectrum + sigma)
    torch.testing.assert_close((weight[..., None] * w.square()).sum((1, 2)), dense, rtol=1e-6, atol=1e-8)


def test_a_large_set_needs_no_square_matrix() -> None:
    points = torch.rand(1, 50_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coherence = Coherence(points, nystrom(points, torch.arange(20)[None], 0.5))  # r x r would be 20 GB
    assert coherence.basis.shape == (1, 50_000, 20)
    assert bool(coherence.gradient(points, 0.1).isfinite().all())


@pytest.mark.parametrize("kind", ["nonrigid", "affine", "rigid"])
@pytest.mark.parametrize("modes", [True, False])
def test_the_gradient_of_the_parameters_is_the_derivative(source: Tensor, kind: str, modes: bool) -> None:
    basis = Coherence(source, nystrom(source, everything(source), 0.5)).basis if modes else None
    transform = Transform(kind, source, basis)  # type: ignore[arg-type]
    parameters = transform.parameters
    parameters.data += 0.3 * torch.randn(parameters.shape, generator=torch.Generator().manual_seed(2))
    gradient = torch.randn(source.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    free = parameters.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad((transform.points(free) * gradient).sum(), free)
    torch.testing.assert_close(transform.parameter_gradient(gradient), expected)


@pytest.mark.parametrize("dimension", [2, 3])
def test_rotations_stay_rotations_and_have_a_logarithm(dimension: int) -> None:
    rows = torch.randn(5, dimension, dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotation = rotation_matrix(3 * rows)
    eye = torch.eye(dimension, dtype=torch.float64).expand(5, -1, -1)
    torch.testing.assert_close(rotation @ rotation.mT, eye)
    torch.testing.assert_close(torch.linalg.det(rotation), torch.ones(5, dtype=torch.float64))
    again = rotation_matrix(torch.stack([rotation_logarithm(r) for r in rotation]))
    torch.testing.assert_close(again, rotation)


def test_a_quarter_turn() -> None:
    rows = torch.zeros(1, 2, 2, dtype=torch.float64)
    rows[0, 0, 1] = math.pi / 2
    turned = torch.tensor([[1.0, 0.0]], dtype=torch.float64) @ rotation_matrix(rows)
    torch.testing.assert_close(turned, torch.tensor([[[0.0, 1.0]]], dtype=torch.float64))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("angle", [1e-9, 0.048, 0.3, 3.0, 40.0])
def test_a_results_rotation_is_the_same_and_orthogonal_to_the_last_digit(d: int, angle: float) -> None:
    rows = angle * torch.randn(50, d, d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rotation, unit = orthogonal_rotation(rows.float()), torch.eye(d, dtype=torch.float64).expand(50, d, d)
    torch.testing.assert_close(rotation @ rotation.mT, unit, atol=2e-15, rtol=0)
    torch.testing.assert_close(torch.linalg.det(rotation), unit[:, 0, 0], atol=2e-15, rtol=0)
    torch.testing.assert_close(rotation, rotation_matrix(rows.float().double()), atol=1e-9, rtol=0)
