"""The kernels of displacements, and a displacement as a sum of kernels: the one home of both.

The Gaussian G(x, y) = exp(-|x - y|^2 / (2 beta^2)) is the paper's coherence kernel. The released code's has 2 beta^2 as
its denominator; the paper's text calls it rho, so rho = 2 beta^2. The thin-plate kernel is that of GMM-REG and TPS-RPM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import xlogy
from torch import Tensor

KernelName = Literal["gaussian", "thin_plate"]


class Displacement(Protocol):
    """V on all of space, in normalised coordinates.

    Attributes:
        kind: its name in a file, and that of its kernel where it is a sum of kernels.
        width: of a Gaussian kernel, else None.
        centres: (k, D), the points that it is made from.
    """

    @property
    def kind(self) -> str: ...

    @property
    def width(self) -> float | None: ...

    @property
    def centres(self) -> Tensor: ...

    def __call__(self, points: Tensor) -> Tensor:
        """V at points (M, D): (M, D)."""
        ...

    def gradient(self, points: Tensor) -> Tensor:
        """d V_j / d x_i at points (M, D): (M, D, D)."""
        ...

    def arrays(self) -> dict[str, Tensor]:
        """All that it is made of, by the names of its fields."""
        ...

    def turned(self, rotation: Tensor) -> Displacement:
        """V of points that the rotation (D, D) takes to where V knows them: x -> V(x R)."""
        ...


def gaussian_kernel(x: Tensor, y: Tensor, beta: float) -> Tensor:
    """exp(-|x_i - y_j|^2 / (2 beta^2)); (B, n, D) and (B, k, D) to (B, n, k)."""
    # differences rather than |x|^2 + |y|^2 - 2 x.y: the latter loses all digits far from the origin
    distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return distance.square().mul_(-0.5 / beta**2).exp_()


def thin_plate_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The kernel whose sums bend least: r^2 log r in 2-D, -r in 3-D; (n, D) and (k, D) to (n, k).

    It is conditionally positive definite: c^T K c >= 0 where the coefficients c are orthogonal to every affine
    function of the points.
    """
    if x.shape[1] == 2:
        squared = cdist(x, y, "sqeuclidean")
        return 0.5 * xlogy(squared, squared)  # zero, not NaN, at r = 0
    return -cdist(x, y)


@dataclass(frozen=True, eq=False)
class KernelSum:
    """V(x) = sum_l K(x, c_l) w_l in normalised coordinates; with no centres it is zero.

    Attributes:
        centres: (k, D) c.
        weights: (k, D) w.
        kernel: "gaussian", exp(-d^2 / (2 beta^2)); or "thin_plate", d^2 log d in 2-D and -d in 3-D
            (:func:`thin_plate_kernel`).
        beta: the Gaussian's width.
    """

    centres: Tensor
    weights: Tensor
    kernel: KernelName = "gaussian"
    beta: float = 1.0

    @classmethod
    def zero(cls, dimension: int) -> KernelSum:
        """No displacement anywhere."""
        nothing = torch.zeros(0, dimension, dtype=torch.float64, device="cpu")
        return cls(nothing, nothing)

    @classmethod
    def of_arrays(cls, centres: np.ndarray, weights: np.ndarray, kernel: KernelName, beta: float = 1.0) -> KernelSum:
        """Of a method that computes with numpy: centres (k, D) and weights (k, D), normalised, copied."""
        return cls(torch.from_numpy(centres.copy()), torch.from_numpy(weights.copy()), kernel, beta)

    @property
    def kind(self) -> str:
        """The kernel's name."""
        return self.kernel

    @property
    def width(self) -> float | None:
        """The Gaussian's beta; None for another kernel."""
        return self.beta if self.kernel == "gaussian" else None

    def arrays(self) -> dict[str, Tensor]:
        """Centres and weights."""
        return {"centres": self.centres, "weights": self.weights}

    def turned(self, rotation: Tensor) -> KernelSum:
        """x -> V(x R): the kernels see distances alone."""
        return replace(self, centres=self.centres @ rotation.mT)

    def __call__(self, points: Tensor) -> Tensor:
        """V at points (M, D): (M, D), all at once."""
        return self._kernel(points) @ self.weights

    def gradient(self, points: Tensor) -> Tensor:
        """d V_j / d x_i at points (M, D): (M, D, D), all at once.

        A thin-plate kernel in 3-D has a kink at its centre; there the mean over all directions is given.
        """
        k, d = self.centres.shape
        slopes = self._slopes(points)  # (M, k), K'(x, c) = slope (x - c)
        outer = (self.centres[:, :, None] * self.weights[:, None, :]).reshape(k, d * d)
        sums = slopes @ torch.cat((self.weights, outer), 1)  # (M, D + D D), no (M, k, D) is held
        return points[:, :, None] * sums[:, None, :d] - sums[:, d:].reshape(-1, d, d)

    def __repr__(self) -> str:
        width = f" of width {self.beta:.4g}" if self.kernel == "gaussian" else ""
        return f"KernelSum: {self.kernel} kernel{width}, {len(self.centres)} centres in {self.centres.shape[1]}-D"

    def _kernel(self, points: Tensor) -> Tensor:
        if self.kernel == "gaussian":
            return gaussian_kernel(points[None], self.centres[None], self.beta)[0]
        return torch.from_numpy(thin_plate_kernel(points.numpy(), self.centres.numpy()))

    def _slopes(self, points: Tensor) -> Tensor:
        """The factor of (x - c) in each kernel's gradient by x, (M, k)."""
        if self.kernel == "gaussian":
            return self._kernel(points).mul_(-1.0 / self.beta**2)
        distance = torch.cdist(points, self.centres, compute_mode="donot_use_mm_for_euclid_dist")
        slopes = 2.0 * distance.log() + 1.0 if points.shape[1] == 2 else -1.0 / distance
        return torch.where(distance == 0, 0.0, slopes)
