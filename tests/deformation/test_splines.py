from __future__ import annotations

import math

import numpy as np
import pytest

from pwan.deformation.kernels import thin_plate_kernel
from pwan.deformation.splines import ThinPlateSpline, homogeneous, thin_plate_spline


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def coefficients_of(spline: ThinPlateSpline, values: np.ndarray) -> np.ndarray:
    """[A; C] of the spline that takes the values at its control points."""
    return np.linalg.solve(spline.basis(spline.control), values)


def test_kernel_is_the_formula() -> None:
    plane, space = thin_plate_kernel(points(3, 2), points(4, 2, 1)), thin_plate_kernel(points(3, 3), points(4, 3, 1))
    r2, r3 = (float(np.linalg.norm(points(3, d)[1] - points(4, d, 1)[2])) for d in (2, 3))
    assert plane[1, 2] == pytest.approx(r2**2 * math.log(r2), rel=1e-12)
    assert space[1, 2] == pytest.approx(-r3, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_kernel_is_zero_at_zero_distance(d: int) -> None:
    with np.errstate(all="raise", under="ignore"):
        assert not np.diag(thin_plate_kernel(points(5, d), points(5, d))).any()


@pytest.mark.parametrize("d", [2, 3])
def test_kernel_is_positive_only_where_affine_functions_are_excluded(d: int) -> None:
    """So the sign is right: of -K the bending energy would be negative."""
    y = points(40, d)
    kernel = thin_plate_kernel(y, y)
    assert np.linalg.eigvalsh(kernel)[0] < -0.1
    for seed in range(5):
        c = np.random.default_rng(seed).normal(size=40)
        basis = np.linalg.qr(homogeneous(y))[0]
        c -= basis @ (basis.T @ c)
        assert c @ kernel @ c > 0.01


@pytest.mark.parametrize("d", [2, 3])
def test_basis_of_the_null_space_makes_bending_diagonal(d: int) -> None:
    y = points(30, d)
    spline = thin_plate_spline(y)
    assert spline.null.shape == (30, 29 - d)
    np.testing.assert_allclose(spline.null.T @ spline.null, np.eye(29 - d), atol=1e-12)
    np.testing.assert_allclose(spline.null.T @ homogeneous(y), 0, atol=1e-12)
    bending = spline.null.T @ thin_plate_kernel(y, y) @ spline.null
    np.testing.assert_allclose(bending, np.diag(spline.bending), atol=1e-11)
    assert (spline.bending > 0).all()


@pytest.mark.parametrize("d", [2, 3])
def test_affine_maps_have_no_bending_energy_and_others_have(d: int) -> None:
    y = points(30, d)
    spline = thin_plate_spline(y)
    matrix, shift = points(d, d, 1), points(1, d, 2)
    affine = coefficients_of(spline, y @ matrix + shift)
    assert spline.energy(affine) == pytest.approx(0, abs=1e-20)
    np.testing.assert_allclose(affine[: d + 1], np.concatenate([shift, matrix]), atol=1e-10)
    bent = coefficients_of(spline, y + 0.1 * np.sin(y))
    assert spline.energy(bent) > 1e-4
    both = coefficients_of(spline, y + 0.1 * np.sin(y) + y @ matrix + shift)
    assert spline.energy(both) == pytest.approx(spline.energy(bent), rel=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_energy_is_the_quadratic_form_of_the_kernel(d: int) -> None:
    y, values = points(30, d), points(30, d, 1)
    spline = thin_plate_spline(y)
    c = spline.null @ coefficients_of(spline, values)[d + 1 :]  # (n, D)
    assert spline.energy(coefficients_of(spline, values)) == pytest.approx(
        float(np.trace(c.T @ thin_plate_kernel(y, y) @ c)), rel=1e-9
    )


def test_basis_holds_away_from_the_control_points() -> None:
    """In the plane r^2 log r is the Green's function of bending: far away the spline's bent part must die down to an
    affine function, the mark of coefficients orthogonal to affine functions.
    """
    spline = thin_plate_spline(points(10, 2))
    line = np.array([[1e4, 0.0], [2e4, 0.0], [3e4, 0.0]])
    second = np.diff(spline.basis(line)[:, 3:], 2, axis=0)
    assert np.abs(second).max() < 10 and np.abs(np.diff(thin_plate_kernel(line, spline.control), 2, axis=0)).min() > 1e8


@pytest.mark.parametrize("d", [2, 3])
def test_fewest_points_leave_affine_maps_alone(d: int) -> None:
    spline = thin_plate_spline(points(d + 1, d))
    assert spline.null.shape == (d + 1, 0)
    assert spline.energy(points(d + 1, d)) == 0
    np.testing.assert_allclose(spline.basis(points(4, d)), homogeneous(points(4, d)))


def test_flat_and_repeated_points_keep_a_basis() -> None:
    y = points(20, 3)
    y[:, 2], y[5] = 0.0, y[4]
    spline = thin_plate_spline(y)
    np.testing.assert_allclose(spline.null.T @ homogeneous(y), 0, atol=1e-12)
    assert (spline.bending >= 0).all() and spline.bending.max() > 0.1
