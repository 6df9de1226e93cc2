"""Thin-plate splines in 2-D and 3-D: null space of the affine part, and bending energy (Wahba 1990;
Bookstein 1989). float64 numpy; O(n^2) memory and O(n^3) time for n control points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwan.deformation.kernels import thin_plate_kernel


@dataclass(frozen=True)
class ThinPlateSpline:
    """Maps f(p) = [1, p] A + K(p, control) N C with N^T [1, control] = 0, in the basis in which bending is diagonal.

    Every method that solves with (N^T K N + lambda I) thereby needs one eigendecomposition for all its lambdas.

    Attributes:
        control: (n, D) control points.
        null: (n, n - D - 1), N: orthonormal columns, orthogonal to the affine functions of the control points, and
            eigenvectors of N^T K N.
        bending: (n - D - 1,) its eigenvalues, none negative, so that coefficients C (n - D - 1, D) have the bending
            energy trace(C^T N^T K N C) = sum(bending * |C|^2).
    """

    control: np.ndarray
    null: np.ndarray
    bending: np.ndarray

    def basis(self, points: np.ndarray) -> np.ndarray:
        """What coefficients [A; C] multiply at any points: (r, D) to (r, n), first the D + 1 affine columns."""
        return np.concatenate([homogeneous(points), thin_plate_kernel(points, self.control) @ self.null], 1)

    def energy(self, coefficients: np.ndarray) -> float:
        """Bending energy of a map with the coefficients [A; C] (n, D): zero if and only if it is affine."""
        bent = coefficients[len(coefficients) - len(self.bending) :]  # C
        return float(self.bending @ np.square(bent).sum(1))


def thin_plate_spline(control: np.ndarray) -> ThinPlateSpline:
    """The spline's basis for control points (n, D), n > D; points that repeat or lie in a plane are allowed."""
    affine = homogeneous(control)  # (n, D + 1)
    null = np.linalg.qr(affine, mode="complete")[0][:, affine.shape[1] :]  # (n, n - D - 1)
    bending, vectors = np.linalg.eigh(null.T @ thin_plate_kernel(control, control) @ null)
    return ThinPlateSpline(control, null @ vectors, np.maximum(bending, 0.0))  # below zero by rounding alone


def homogeneous(points: np.ndarray) -> np.ndarray:
    """[1, p]; (n, D) to (n, D + 1)."""
    return np.concatenate([np.ones((len(points), 1)), points], 1)
