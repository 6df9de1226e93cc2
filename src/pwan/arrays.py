"""Arrays of all kinds at the front doors: what counts as points, and how they become tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor


class HasArray(Protocol):
    """What numpy can read: its own arrays, pandas' frames and others."""

    def __array__(self, *args: Any, **more: Any) -> Any: ...


class HasPoints(Protocol):
    """A cloud: Open3D's, or a :class:`pwan.PointFile`."""

    @property
    def points(self) -> Any: ...


class HasVertices(Protocol):
    """A mesh: trimesh's or Open3D's."""

    @property
    def vertices(self) -> Any: ...


Lists: TypeAlias = Sequence[HasArray] | Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
NumpyPoints: TypeAlias = HasArray | Lists | HasPoints | HasVertices  # what comes back for them is of numpy
Points: TypeAlias = NumpyPoints | Tensor
Numbers: TypeAlias = float | Sequence[float] | HasArray  # a tensor is such too


def points_of(given: Any) -> Any:
    """The points of an object that has some; arrays, tensors and lists as they are."""
    if hasattr(given, "shape"):
        return given
    found = getattr(given, "vertices", getattr(given, "points", None))
    return given if found is None else np.asarray(found)


def shape_of(points: Any) -> tuple[int, ...]:
    """The shape of an array, a tensor or nested lists."""
    return tuple(points.shape) if hasattr(points, "shape") else np.shape(points)


def to_points(name: str, points: Any) -> Tensor:
    """The points (N, D) or (B, N, D) as a float64 CPU tensor of their own; the caller's array is neither kept nor
    changed.

    Raises:
        ValueError: another shape, or no real numbers.
    """
    shape = shape_of(points)
    if len(shape) not in (2, 3) or shape[-1] not in (2, 3):
        raise ValueError(f"{name} must have shape (N, D) or (B, N, D) with D 2 or 3, got {shape}")
    if isinstance(points, Tensor):
        if points.is_complex():
            raise ValueError(f"{name} must hold real numbers, got {points.dtype}")
        return points.detach().to("cpu", torch.float64, copy=True)
    array = np.asarray(points)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got an array of {array.dtype}")
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def to_numpy(values: Any) -> np.ndarray:
    """A tensor of any device, or an array, as a numpy array."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
