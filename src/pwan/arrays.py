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
    if isinstance(given, Tensor) or hasattr(given, "shape"):
        return given
    found = getattr(given, "vertices", getattr(given, "points", None))
    if found is None:
        return given
    return found if isinstance(found, (Tensor, np.ndarray)) else np.asarray(found)


def to_points(name: str, points: Any) -> Tensor:
    """The points (N, D) or (B, N, D) as a float64 CPU tensor of their own; the caller's array is neither kept nor
    changed.

    Raises:
        ValueError: another shape, no real numbers, or masked ones.
    """
    array = real_array(name, points)
    _check_shape(name, array)
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))


def faces_of(name: str, given: Any, faces: Any) -> Tensor | None:
    """The triangles of one set (1 or B, F, 3), told or those of the object that was given for its points.

    Raises:
        ValueError: no array of whole numbers of that shape.
    """
    of_object = False
    if faces is None and not isinstance(given, (Tensor, np.ndarray)):
        both = [found for name in ("faces", "triangles") if (found := getattr(given, name, None)) is not None]
        # of a PointFile the faces may have more corners; of trimesh the triangles are the corners' coordinates
        faces = next((found for found in both if np.ndim(found) == 2 and np.shape(found)[1] == 3), (*both, None)[0])
        of_object = faces is not None
    if faces is None:
        return None
    array = real_array(f"{name}_faces", faces)
    if array.ndim not in (2, 3) or array.shape[-1] != 3 or not (array % 1 == 0).all():
        whose = f"the faces of the {name} that was given" if of_object else f"{name}_faces"
        hint = f"; give its points alone, or triangles as {name}_faces=" if of_object else ""
        raise ValueError(
            f"{whose} must be whole numbers (F, 3), rows of its points, got {array.dtype} of shape {array.shape}{hint}"
        )
    rows = torch.from_numpy(array.astype(np.int64))
    return None if not rows.numel() else rows if rows.ndim == 3 else rows[None]


def real_array(name: str, values: Any, kinds: str = "iuf") -> np.ndarray:
    """Real numbers of any kind and shape as a numpy array: the array itself, or the numbers of a tensor or of lists.

    Args:
        name: of the argument, for what is said.
        values: an array, a tensor, or lists of numbers.
        kinds: of numpy's types, those that count as real numbers.

    Raises:
        ValueError: rows of different lengths, masked numbers, or no real numbers.
    """
    if isinstance(values, Tensor):
        values = _numpy_of(name, values)
    parts = values if isinstance(values, (list, tuple)) else [values]
    if any(np.ma.is_masked(part) for part in parts):
        raise ValueError(
            f"{name} holds masked numbers, whose values nobody knows; leave these rows out, for example with "
            "np.ma.compress_rows"
        )
    if parts is values:
        values = [_numpy_of(name, part) if isinstance(part, Tensor) else part for part in parts]
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of real numbers, but {_ragged(values)}") from None
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} must be an array of real numbers, got one of {array.dtype} and shape {array.shape}")
    return array


def floating_type(*sets: Any) -> torch.dtype:
    """The floating type of a result in the coordinates of these sets: the finest of them, and at least float32, since
    half precision cannot hold what is far away."""
    out = torch.float32
    for points in sets:
        if isinstance(points, Tensor):
            coarse = points.is_floating_point() and points.dtype.itemsize <= 4
        else:
            kind = real_array("points", points).dtype
            coarse = kind.kind == "f" and kind.itemsize <= 4
        out = out if coarse else torch.float64
    return out


def to_numpy(values: Any) -> np.ndarray:
    """A tensor of any device, or an array, as a numpy array."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _numpy_of(name: str, values: Tensor) -> np.ndarray:
    """The numbers of a tensor; of a floating type that numpy has not (bfloat16), as float64."""
    odd = values.is_nested or values.is_quantized or values.layout != torch.strided
    if odd or isinstance(values, torch.masked.MaskedTensor):
        raise ValueError(
            f"{name} must be an ordinary dense tensor, got a {type(values).__name__} of {values.dtype} and "
            f"{values.layout}; give one that is neither masked, nested, sparse nor quantised"
        )
    values = values.detach().cpu().resolve_neg()
    known = not values.is_floating_point() or values.dtype in (torch.float16, torch.float32, torch.float64)
    return (values if known else values.double()).numpy()


def _check_shape(name: str, points: np.ndarray) -> None:
    """Only (N, D) and (B, N, D) are points; what is often given instead gets advice of its own."""
    shape, last = points.shape, points.shape[-1] if points.ndim else 0
    advice = ""
    if points.ndim == 3 and shape[1] == 1 and last in (2, 3):
        advice = f": {shape[0]} sets of one point each; for one set, as of a contour, give {name}[:, 0]"
    elif points.ndim == 3 and points.dtype == np.uint8 and last in (3, 4):
        advice = " of bytes: an image; give the places of its pixels, for example np.argwhere of a mask"
    elif points.ndim in (2, 3) and last in (2, 3):
        return
    elif points.ndim == 2 and shape[0] in (2, 3) and last > 3:
        advice = f": a point is a row, so give {name}.T"
    elif points.ndim in (2, 3) and 3 < last < 10:
        advice = f"; if the first three columns are the coordinates give {name}[..., :3]"
    elif points.ndim == 2:
        advice = "; of an image give the places of its pixels, for example np.argwhere of a mask"
    elif points.ndim > 3 and last in (2, 3):
        advice = f"; if all are one set give {name}.reshape(-1, {last})"
    raise ValueError(f"{name} must have shape (N, D) or (B, N, D) with D 2 or 3, got {shape}{advice}")


def _ragged(values: Sequence[Any]) -> str:
    """What is wrong with nested lists from which numpy makes no array."""
    while True:
        if not all(hasattr(part, "__len__") for part in values):
            return "it holds single numbers beside rows; give each point as a row of its coordinates"
        lengths = sorted({len(part) for part in values})
        within = [inner for part in values for inner in part]
        if len(lengths) > 1:
            break
        values = within
    span = f"{lengths[0]} to {lengths[-1]}"
    if any(hasattr(inner, "__len__") for inner in within):
        return f"it holds sets of {span} points; a batch needs sets of equal sizes, so register unequal ones one by one"
    return f"it holds rows of {span} numbers; give each point as many coordinates as the others"
