from __future__ import annotations

import pytest
import torch

from pwan.deformation.factors import nystrom
from pwan.deformation.kernels import gaussian_kernel


def random_points(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_kernel_is_the_formula() -> None:
    x, y = random_points(2, 4, 3), random_points(2, 5, 3) + 0.5
    expected = torch.exp(-(x[1, 2] - y[1, 3]).square().sum() / (2 * 0.7**2))
    assert gaussian_kernel(x, y, 0.7)[1, 2, 3] == pytest.approx(float(expected), rel=1e-12)


def test_all_points_as_landmarks_give_the_dense_kernel() -> None:
    points = random_points(2, 60, 3)
    indices = torch.stack([torch.arange(60), torch.arange(60).flip(0)])
    basis = nystrom(points, indices, 2.0).basis(points)
    torch.testing.assert_close(basis @ basis.mT, gaussian_kernel(points, points, 2.0), rtol=0, atol=1e-7)


def test_out_of_sample_equals_in_sample_and_approximates_the_kernel() -> None:
    points, others = random_points(1, 200, 3).tanh(), random_points(1, 50, 3).mul(0.5).tanh()
    factor = nystrom(points, torch.arange(80).unsqueeze(0), 2.0)
    mixed = factor.basis(torch.cat([others, points], 1))
    torch.testing.assert_close(mixed[:, 50:], factor.basis(points))
    approximate = mixed[:, :50] @ mixed[:, 50:].mT
    torch.testing.assert_close(approximate, gaussian_kernel(others, points, 2.0), rtol=0, atol=1e-4)


def test_weights_of_the_landmarks_give_the_same_function() -> None:
    points, others, coefficients = random_points(2, 60, 3), random_points(2, 20, 3) + 1.0, random_points(2, 25, 2)
    factor = nystrom(points, torch.arange(25).expand(2, -1), 1.0)
    direct = gaussian_kernel(others, factor.centres, 1.0) @ factor.weights(coefficients)
    torch.testing.assert_close(direct, factor.basis(others) @ coefficients)


def test_float32_stays_finite_where_unguarded_roots_would_not() -> None:
    points = random_points(1, 500, 3).float()
    indices = torch.arange(500).unsqueeze(0)
    factor = nystrom(points, indices, 2.0)
    basis = factor.basis(points)
    assert basis.dtype == torch.float32
    assert bool(torch.isfinite(basis).all())
    assert bool((factor.whitening[0].abs().amax(0) == 0).any())  # some eigenvalues are dropped
    torch.testing.assert_close(basis @ basis.mT, gaussian_kernel(points, points, 2.0), rtol=0, atol=1e-3)


def test_repeated_landmarks_are_harmless() -> None:
    points = random_points(1, 10, 2).repeat(1, 2, 1)
    basis = nystrom(points, torch.arange(20).unsqueeze(0), 1.0).basis(points)
    torch.testing.assert_close(basis @ basis.mT, gaussian_kernel(points, points, 1.0), rtol=0, atol=1e-7)


def test_a_batch_equals_its_problems() -> None:
    points, indices = random_points(3, 30, 2), torch.arange(12).expand(3, -1)
    together = nystrom(points, indices, 1.0).basis(points)
    alone = nystrom(points[1:2], indices[1:2], 1.0).basis(points[1:2])
    # eigenvectors are free up to rotation, the kernel is not
    torch.testing.assert_close((together @ together.mT)[1:2], alone @ alone.mT, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("indices", "beta", "said"),
    [
        (torch.zeros(1, 0, dtype=torch.int64), 1.0, "centre indices must have shape"),
        (torch.zeros(2, 3, dtype=torch.int64), 1.0, "centre indices must have shape"),
        (torch.zeros(1, 3, dtype=torch.int64), 0.0, "must be positive"),
    ],
)
def test_bad_input_is_named(indices: torch.Tensor, beta: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        nystrom(random_points(1, 5, 3), indices, beta)
