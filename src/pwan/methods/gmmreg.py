"""GMM-REG (Jian & Vemuri 2011, "Robust point set registration using Gaussian mixture models"), with thin-plate splines:
the L2 distance of two Gaussian mixtures is minimised in stages from wide to narrow Gaussians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize

from pwan.deformation.kernels import KernelSum
from pwan.deformation.splines import ThinPlateSpline, thin_plate_spline
from pwan.methods._baseline import Fit, RegistrationFailedError, Report, register_each
from pwan.methods._settings.gmmreg import Settings
from pwan.problem import Observer, RegistrationProblem, RegistrationResult

FLOOR = -600.0  # exp of it is nothing next to 1 and still a normal number; denormal ones take ten times as long
COLLAPSED = 1e-3  # RMS radius of the moved source over that of the source; chosen by eye


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


def gaussians(z: np.ndarray, x: np.ndarray, squared_width: float) -> np.ndarray:
    """exp(-|z_i - x_j|^2 / squared_width), nowhere below exp(-600); (r, D) and (q, D) to (r, q)."""
    # one matrix product makes the exponents: a third of the time of the distances by differences, which the points'
    # size of about one allows; torch's exp takes a third of numpy's
    left = np.column_stack([2.0 * z, -np.square(z).sum(1), np.ones(len(z))]) / squared_width  # (r, D + 2)
    right = np.column_stack([x, np.ones(len(x)), -np.square(x).sum(1)])  # (q, D + 2)
    exponents = left @ right.T
    np.maximum(exponents, FLOOR, out=exponents)
    torch.exp_(torch.from_numpy(exponents))
    return exponents


def overlap(z: np.ndarray, x: np.ndarray, width: float) -> tuple[float, np.ndarray]:
    """F(Z, X) = mean over all pairs of exp(-|z_i - x_j|^2 / width^2), and its gradient (r, D) by z.

    F(Z, Z) has twice the gradient that is returned for x = z, since there both arguments move.
    """
    near = gaussians(z, x, width**2)
    rows = near.sum(1)
    gradient = (-2.0 / (width**2 * near.size)) * (rows[:, None] * z - near @ x)  # (r, D)
    return float(rows.sum() / near.size), gradient


@dataclass(frozen=True)
class Objective:
    """F(Z, Z) - 2 F(Z, X) + smoothness * bending energy, of the spline's coefficients, with Z = basis @ coefficients:
    the paper's regularised L2 distance of the mixtures, less its term of X alone.

    Attributes:
        spline: of n control points.
        basis: (r, n) at the source points.
        reference: (q, D).
        width: of the stage's Gaussians.
        smoothness: of the stage.
    """

    spline: ThinPlateSpline
    basis: np.ndarray
    reference: np.ndarray
    width: float
    smoothness: float

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient (n * D,) at coefficients (n * D,)."""
        coefficients = flat.reshape(-1, self.reference.shape[1])
        moved = self.basis @ coefficients
        own, own_gradient = overlap(moved, moved, self.width)
        common, common_gradient = overlap(moved, self.reference, self.width)
        value = own - 2.0 * common + self.smoothness * self.spline.energy(coefficients)
        gradient = 2.0 * self.basis.T @ (own_gradient - common_gradient)  # (n, D)
        bending = slice(len(coefficients) - len(self.spline.bending), None)
        gradient[bending] += 2.0 * self.smoothness * self.spline.bending[:, None] * coefficients[bending]
        return value, gradient.ravel()


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    d = source.shape[1]
    spline = thin_plate_spline(_control_points(source, settings.control_grid))
    basis = spline.basis(source)  # (r, n)
    coefficients = np.zeros((basis.shape[1], d))
    coefficients[1 : d + 1] = np.eye(d)  # the identity
    history: dict[str, list[float]] = {"loss": [], "width": []}
    ends = []

    def callback(intermediate_result: OptimizeResult) -> None:  # scipy looks at the name of the argument
        history["loss"].append(float(intermediate_result.fun))
        history["width"].append(width)
        report(len(history["loss"]), sum(settings.evaluations), basis @ intermediate_result.x.reshape(-1, d))

    for stage, evaluations in enumerate(settings.evaluations):
        width = settings.widths[stage]
        stage_end = minimize(
            Objective(spline, basis, reference, width, settings.smoothness[stage]),
            coefficients.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxfun": evaluations, "maxiter": evaluations, "gtol": settings.tolerance, "ftol": 0.0},
        )
        coefficients = stage_end.x.reshape(-1, d)
        ends.append(f"width {width:g}: {_ending(stage_end)}")
    moved = basis @ coefficients
    check_not_collapsed(source, moved)
    affine, translation = coefficients[1 : d + 1], coefficients[0]
    displacement = basis[:, d + 1 :] @ coefficients[d + 1 :]  # (r, D)
    return Fit(
        affine,
        translation,
        displacement,
        len(history["loss"]),
        "; ".join(ends),
        history,
        lambda: KernelSum.of_arrays(spline.control, spline.null @ coefficients[d + 1 :], "thin_plate"),
    )


def _control_points(source: np.ndarray, grid: int | None) -> np.ndarray:
    if grid is None:
        return source
    axes = [np.linspace(low, high, grid) for low, high in zip(source.min(0), source.max(0), strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))  # (grid^D, D)


def _ending(result: OptimizeResult) -> str:
    if result.status == 1:
        return f"took all {result.nfev} evaluations"
    if result.success:
        return f"converged after {result.nfev} evaluations"
    return f"no better point along the gradient after {result.nfev} evaluations"


def check_not_collapsed(source: np.ndarray, moved: np.ndarray) -> None:
    """Refuse a source that shrank onto a point.

    Raises:
        RegistrationFailedError: the moved points' RMS radius is below a thousandth of the source's.
    """
    before, after = (float(np.sqrt(np.square(p - p.mean(0)).sum(1).mean())) for p in (source, moved))
    if after < COLLAPSED * before:
        raise RegistrationFailedError(
            f"the source collapsed: its RMS radius went from {before:.3g} to {after:.3g} radii of the reference"
        )
