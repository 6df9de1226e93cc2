"""TPS-RPM (Chui & Rangarajan 2003, "A new point matching algorithm for non-rigid registration"): soft correspondences
and a thin-plate spline in turn, while a temperature falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist

from pwan.deformation.kernels import KernelSum
from pwan.deformation.splines import ThinPlateSpline, homogeneous, thin_plate_spline
from pwan.methods._baseline import Fit, RegistrationFailedError, Report, register_each
from pwan.methods._settings.tpsrpm import Settings
from pwan.methods.gmmreg import check_not_collapsed, gaussians
from pwan.problem import Observer, RegistrationProblem, RegistrationResult

SWEEPS = 10  # of the double normalisation, at most, as published
SWEEP_TOLERANCE = 0.05  # RMS excess of its sums over 1, as published
LOST = 1e-200  # a source point whose whole weight is below this is too far from everything for exp


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    return register_each(
        problem, partial(_solve, settings), normalisation=settings.normalisation, seeds=seeds, observer=observer
    )


@dataclass(frozen=True)
class SplineFit:
    """The spline that minimises |vy - f(y)|^2 + lambda1 * bending energy, its affine part then drawn towards the
    identity by lambda2: at any lambdas from one decomposition, two products with an (n, n) matrix each.

    Attributes:
        spline: of the source points y (n, D).
        rotation: (n, D + 1) Q1, of the QR factors of [1, y].
        triangle: (D + 1, D + 1) R.
        cross: Q1^T K N (D + 1, n - D - 1), so that K N = Q1 cross + N diag(bending).
    """

    spline: ThinPlateSpline
    rotation: np.ndarray
    triangle: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, source: np.ndarray) -> SplineFit:
        spline = thin_plate_spline(source)
        rotation, triangle = np.linalg.qr(homogeneous(source))
        return cls(spline, rotation, triangle, rotation.T @ spline.basis(source)[:, len(triangle) :])

    def solve(self, aims: np.ndarray, smoothness: float, affine_smoothness: float) -> np.ndarray:
        """The spline's coefficients [A; C] (n, D) for aims vy (n, D); lambda1 and lambda2 as in the published code."""
        bent = (self.spline.null.T @ aims) / (self.spline.bending + smoothness)[:, None]  # C (n - D - 1, D)
        gram = self.triangle.T @ self.triangle  # (D + 1, D + 1), singular for a flat source
        rest = self.triangle.T @ (self.rotation.T @ aims - self.cross @ bent) - gram[:, 1:]  # (D + 1, D)
        identity = np.eye(len(gram))
        affine = identity[:, 1:] + np.linalg.solve(gram + affine_smoothness * identity, rest)
        return np.concatenate([affine, bent])

    def moved(self, coefficients: np.ndarray) -> np.ndarray:
        """The source moved by the spline; (n, D) to (n, D)."""
        affine, bent = np.split(coefficients, [len(self.triangle)])
        within = self.rotation @ (self.triangle @ affine + self.cross @ bent)  # (n, D)
        return within + self.spline.null @ (self.spline.bending[:, None] * bent)


def aims_mixture(moved: np.ndarray, reference: np.ndarray, temperature: float, outlier: float) -> np.ndarray:
    """vy (r, D): for each moved source point the mean of the reference points, weighted with
    exp(-|v - x|^2 / T) / sqrt(T) after each reference point's weights and ``outlier`` were scaled to add up to 1.
    """
    near = gaussians(moved, reference, temperature)
    shares = 1.0 / (near.sum(0) + outlier * math.sqrt(temperature))  # (q,)
    return _weighted_means(near, shares, moved, reference, temperature)


def aims_rpm(moved: np.ndarray, reference: np.ndarray, temperature: float, outlier: float) -> np.ndarray:
    """vy (r, D): as :func:`aims_mixture`, but weights exp(-|v - x|^2 / T) that with an outlier row and an outlier
    column, both ``outlier`` at first, were scaled in turn to rows and columns that add up to 1.
    """
    near = gaussians(moved, reference, temperature)
    rows, columns = np.ones(len(moved)), np.ones(len(reference))  # near becomes rows[:, None] * near * columns
    for _ in range(SWEEPS):
        old_rows, rows = rows, 1.0 / (near @ columns + outlier)
        old_columns, columns = columns, 1.0 / (rows @ near + outlier)
        excess = np.concatenate([old_rows / rows, old_columns / columns]) - 1.0  # of the sums before each scaling
        if np.square(excess).mean() < SWEEP_TOLERANCE**2:
            break
    return _weighted_means(near, columns, moved, reference, temperature)


def _weighted_means(
    near: np.ndarray, shares: np.ndarray, moved: np.ndarray, reference: np.ndarray, temperature: float
) -> np.ndarray:
    """Rows of near * shares, scaled to add up to 1, times the reference; (r, q) and (q,) to (r, D)."""
    sums = near @ (shares[:, None] * homogeneous(reference))  # (r, D + 1), the mass and the first moment
    lost = sums[:, 0] < LOST * shares.max()
    aims = sums[:, 1:] / np.where(lost, 1.0, sums[:, 0])[:, None]
    if lost.any():  # the same formula with each row's largest weight scaled to 1: such points go to the nearest one
        squared = cdist(moved[lost], reference, "sqeuclidean")
        weights = np.exp((squared.min(1, keepdims=True) - squared) / temperature) * shares
        aims[lost] = weights @ reference / weights.sum(1, keepdims=True)
    return aims


def _solve(settings: Settings, source: np.ndarray, reference: np.ndarray, seed: int, report: Report) -> Fit:
    y, x = source[:: settings.every], reference[:: settings.every]
    d = source.shape[1]
    if len(y) <= d or not len(x):
        raise RegistrationFailedError(f"every {settings.every}th point leaves {len(y)} source points, too few in {d}-D")
    fit = SplineFit.of(y)
    basis = fit.spline.basis(source)  # (r, n)
    aims_of, outlier = _correspondence(settings, y)
    cooled = math.log(settings.cooling) / -math.log(settings.rate)
    temperatures = settings.start_temperature * settings.rate ** np.arange(math.floor(cooled + 1e-9) + 1)
    history: dict[str, list[float]] = {"temperature": [], "bending": []}
    moved = y
    for step, temperature in enumerate(temperatures.tolist(), 1):
        weight = len(y) * temperature
        for _ in range(settings.inner_steps):
            aims = aims_of(moved, x, temperature, outlier)
            coefficients = fit.solve(aims, settings.smoothness * weight, settings.affine_smoothness * weight)
            moved = fit.moved(coefficients)
        history["temperature"].append(temperature)
        history["bending"].append(fit.spline.energy(coefficients))
        report(step, len(temperatures), basis @ coefficients)
    check_not_collapsed(y, moved)
    displacement = basis[:, d + 1 :] @ coefficients[d + 1 :]  # (r, D)
    reason = f"cooled from {temperatures[0]:.4g} to {temperatures[-1]:.4g} in {len(temperatures)} steps"
    return Fit(
        coefficients[1 : d + 1],
        coefficients[0],
        displacement,
        len(temperatures),
        reason,
        history,
        lambda: KernelSum.of_arrays(fit.spline.control, fit.spline.null @ coefficients[d + 1 :], "thin_plate"),
    )


def _correspondence(settings: Settings, source: np.ndarray) -> tuple[Callable[..., np.ndarray], float]:
    """The way to the aims, and the weight of its outlier class."""
    if settings.correspondence == "rpm":
        return aims_rpm, 0.1 / len(source)
    reach = abs(float(source[:, 0].max()))  # the published measure of the set's size
    if not reach:
        raise RegistrationFailedError("the outlier weight divides by the source's largest first coordinate, which is 0")
    return aims_mixture, math.exp(-1.0) / reach
