"""Rotations: as the exponential of a skew matrix and back, and the rigid map that fits weighted points best."""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor


def rotation_matrix(rows: Tensor) -> Tensor:
    """exp of the skew matrix held in the strict upper triangle of (B, D, D): a rotation for any numbers."""
    upper = rows.triu(1)
    return torch.linalg.matrix_exp(upper - upper.mT)


def orthogonal_rotation(rows: Tensor) -> Tensor:
    """The same rotations in float64 and orthogonal to the last digit: ``matrix_exp`` errs by 1e-11 even in float64."""
    d = rows.shape[-1]
    vectors = rows.new_zeros(len(rows), 3, dtype=torch.float64)
    vectors[:, 2] = -rows[:, 0, 1]
    if d == 3:
        vectors[:, 0], vectors[:, 1] = -rows[:, 1, 2], rows[:, 0, 2]
    return torch.from_numpy(Rotation.from_rotvec(vectors.cpu().numpy()).as_matrix()[:, :d, :d]).to(vectors)


def nearest_rotation(covariance: np.ndarray) -> np.ndarray:
    """The rotation R that takes centred points p nearest to their goals g as p R, in least squares (Kabsch 1976).

    Args:
        covariance: (..., D, D), the weighted sum of p^T g over the points; p and g are rows.

    Returns:
        (..., D, D), never a mirror image.
    """
    left, _, right = np.linalg.svd(covariance)
    left[..., -1] *= np.sign(np.linalg.det(left @ right))[..., None]
    return left @ right


def best_rotation(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`nearest_rotation`, of tensors (..., D, D); and the singular values (..., D), the last one with the sign
    that makes it a rotation."""
    left, values, right = torch.linalg.svd(covariance)
    sign = torch.ones_like(values)
    sign[..., -1] = torch.linalg.det(left @ right).sign()
    return (left * sign[..., None, :]) @ right, sign * values


def rigid_fit(y: Tensor, weight: Tensor, image: Tensor, current: Tensor) -> Tensor:
    """The rotation and translation that bring y onto image / weight, by weighted least squares (Procrustes).

    Args:
        y: (B, r, D).
        weight: (B, r, 1).
        image: (B, r, D), the goals times their weights.
        current: (B, P, D) parameters; rows below these two are kept.

    Returns:
        (B, P, D), a rotation matrix above a translation.
    """
    d, total = y.shape[-1], weight.sum(1, keepdim=True).clamp(min=1e-12)
    y_mean, x_mean = (weight * y).sum(1, keepdim=True) / total, image.sum(1, keepdim=True) / total
    covariance = torch.bmm((y - y_mean).mT, image - weight * x_mean)  # (B, D, D)
    rotation, _ = best_rotation(covariance.nan_to_num(0.0, 0.0, 0.0))  # a diverged start has no covariance
    out = current.clone()
    out[:, :d], out[:, d : d + 1] = rotation, x_mean - y_mean @ rotation
    return out


def rigid_parameters(current: Tensor, like: Tensor) -> Tensor:
    """Rotations and translations as a rigid transform's parameters.

    Args:
        current: (B, D + 1, D), a rotation matrix above a translation.
        like: (B, P, D) parameters whose dtype is kept.

    Returns:
        (B, P, D), the rotation vector in the strict upper triangle as :func:`rotation_matrix` takes it, above the
        translation.
    """
    d = current.shape[-1]
    out = like.clone()
    out[:, :d], out[:, d] = 0.0, current[:, d].to(out.dtype)
    for k, rotation in enumerate(current[:, :d].cpu()):
        out[k, :d] = rotation_logarithm(rotation).triu(1).to(out.dtype)
    return out


def rotation_logarithm(rotation: Tensor) -> Tensor:
    """The skew matrix whose exponential is the rotation (D, D), D 2 or 3."""
    d = rotation.shape[-1]
    full = torch.eye(3, dtype=torch.float64, device=rotation.device)
    full[:d, :d] = rotation
    x, y, z = Rotation.from_matrix(full.numpy()).as_rotvec().tolist()
    return full.new_tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])[:d, :d]
