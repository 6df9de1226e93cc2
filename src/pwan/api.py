"""The Python front door: ``register`` for arrays of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pwan import methods
from pwan.begin.estimate import estimate_limits
from pwan.extras import needs
from pwan.problem import Observer, RegistrationProblem, RegistrationResult
from pwan.randomness import derive_seed
from pwan.weights import even_weights


@dataclass
class Registered(RegistrationResult):
    """A result with the sets that it is of.

    Attributes:
        source, reference: the points as they were given, not copies.
    """

    source: Any = None
    reference: Any = None

    def plot(self, problem: int = 0) -> Any:
        """A matplotlib figure of the sets before and after, of one problem; ``.savefig("a.png")`` keeps it."""
        with needs("scans", "plot()"):
            from pwan.report.registration_figure import registration_figure

        names = ("source", "reference", "transformed", "matched", "reference_matched")
        arrays = [np.asarray(torch.as_tensor(getattr(self, name)).cpu()) for name in names]
        return registration_figure(
            *(
                array if array.ndim == base else array[problem]
                for array, base in zip(arrays, (2, 2, 2, 1, 1), strict=True)
            )
        )


def register(
    source: Any,
    reference: Any,
    *,
    mass: float | Sequence[float] | Literal["auto"] | Any | None = None,
    distance: float | Sequence[float] | Any | None = None,
    landmarks: Any | None = None,
    source_weights: Any | Literal["even"] | None = None,
    reference_weights: Any | Literal["even"] | None = None,
    method: str = "pwan",
    seed: int = 0,
    observer: Observer | None = None,
    **options: Any,
) -> Registered:
    """Move the source onto the reference, matching all of the smaller set, a given mass, or what is near enough.

    Args:
        source: points that move, a numpy array or a torch tensor of shape (r, D), or (B, r, D) for B problems of equal
            sizes solved at once; D is 2 or 3. Or an object with such points: a mesh's ``vertices`` (trimesh, Open3D) or
            a cloud's ``points`` (Open3D, :class:`pwan.PointFile`). Never changed.
        reference: points that stay, (q, D) or (B, q, D), or such an object.
        mass: how many points are to be matched (the paper's m), one number or one for each problem, at most the size of
            the smaller set; with a fraction the point at the threshold counts in part. Of weighted points it is the
            weight that is to be matched, at most all of the lighter set. "auto" estimates it for sets that are roughly
            aligned (:func:`pwan.begin.estimate.estimate_limits`, which also gives its reasons).
        distance: how far a point may be matched (the paper's h), in the units of the points. At most one of mass and
            distance may be given; with neither, all of the smaller set is matched.
        landmarks: known pairs, (L, 2) whole numbers: a row of the source and the row of the reference where it belongs,
            counted from 0; or (L, 3) with a weight of each pair beside the others. For B problems (B, L, 2 or 3), or a
            list of B such arrays or None. They pull softly, as strong as the setting ``pull`` says; PWAN's methods and
            soft_assignment take them. Sets far turned against each other are better turned back by the pairs first
            (:func:`pwan.begin.landmark_start.start_by_landmarks`).
        source_weights, reference_weights: how much each point counts (the paper's b_j and a_i), (r,) and (q,) or with a
            leading B, in points: a point of weight 2 counts as two. "even" finds the weights, of mean 1, by which the
            points count as an even sample of their shape: a vertex by the areas of its faces where the set is an object
            with ``faces`` or ``triangles``, else a point by the local density
            (:func:`pwan.weights.even_weights`). Good for a mesh whose vertices are denser in places; it does nothing
            for points that are even already. PWAN's methods and soft_assignment take weights.
        method: a name out of ``pwan.methods.names()``.
        seed: the same seed gives the same result.
        observer: called after each step with a :class:`pwan.problem.Progress`.
        options: settings of the method, by the names of its ``Settings``, for example ``steps=200``,
            ``transform="rigid"`` or ``refinement="none"``.

    Returns:
        A :class:`RegistrationResult` with a ``plot()``, in input coordinates, whose arrays are of the kind (numpy or
        torch), device and floating type of the source; for one problem, without the leading B and the lists of B.
        ``transformed = source @ affine + translation + displacement``. ``result.transform(points)`` moves any points
        of the source's coordinates, (M, D) in float64, by the transform that was found (``result.transform[k]`` of a
        batch); it also has ``folded(points)``, ``jacobians(points)``, ``to_dict()`` and ``save(path)``, and is None for
        methods that know their displacement at the source points only.

    Raises:
        ValueError: for input that cannot be registered or an option that does not exist, with what to do about it.

    Example:
        >>> result = register(source, reference, mass=400)
        >>> result.transformed, result.matched, result.status
    """
    if mass is not None and distance is not None:
        raise ValueError("give mass (how many points are matched) or distance (how far), not both")
    faces = _faces_of(source), _faces_of(reference)
    source, reference = _points_of(source), _points_of(reference)
    y, x = _points("source", source), _points("reference", reference)
    if _ndim(source) != _ndim(reference):
        raise ValueError(
            f"source and reference must both be (N, D) or both (B, N, D), got {_shape(source)} and {_shape(reference)}"
        )
    single = _ndim(source) == 2
    y, x = (y[None], x[None]) if single else (y, x)
    count = y.shape[0]
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool):
        raise ValueError(f"seed must be a whole number, got {seed!r}")
    pairs, landmark_weights = _pairs(landmarks, count, single)
    problem = RegistrationProblem(y, x, landmarks=pairs, landmark_weights=landmark_weights)  # checks them
    problem = replace(
        problem,
        source_weights=_weights("source_weights", source_weights, y, faces[0]),
        reference_weights=_weights("reference_weights", reference_weights, x, faces[1]),
    )
    if isinstance(mass, str):
        if mass != "auto":
            raise ValueError(f'mass must be a number, one for each problem, or "auto", got {mass!r}')
        mass = [_estimated(problem.select([k]), seed) for k in range(count)]
    problem = replace(problem, mass=_numbers("mass", mass, count), distance=_numbers("distance", distance, count))
    limited = mass is not None or distance is not None
    if limited and getattr(methods.settings(method, options), "type", None) == "complete":
        raise ValueError(f"method {method} matches all of both sets; leave mass and distance out")
    seeds = [derive_seed(seed, k, "method") for k in range(count)]
    result = methods.run(method, problem, options, seeds=seeds, observer=observer)
    return _like(source, reference, result, single)


def _points_of(given: Any) -> Any:
    """The points of an object that has some; arrays, tensors and lists as they are."""
    if hasattr(given, "shape"):
        return given
    found = getattr(given, "vertices", getattr(given, "points", None))
    return given if found is None else np.asarray(found)


def _faces_of(given: Any) -> np.ndarray | None:
    """The triangles of an object that has some, (F, 3) whole numbers."""
    if hasattr(given, "shape"):
        return None
    for name in ("triangles", "faces"):  # trimesh's triangles are corners, not numbers
        found = getattr(given, name, None)
        array: np.ndarray = np.asarray([] if found is None else found)
        if array.ndim == 2 and array.shape[1] == 3 and array.dtype.kind in "iu" and len(array):
            return array
    return None


def _ndim(points: Any) -> int:
    return len(_shape(points))


def _shape(points: Any) -> tuple[int, ...]:
    return tuple(points.shape) if hasattr(points, "shape") else np.shape(points)


def _points(name: str, points: Any) -> Tensor:
    """The points as a float64 CPU tensor of their own; the caller's array is neither kept nor changed."""
    shape = _shape(points)
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


def _weights(name: str, given: Any, points: Tensor, faces: np.ndarray | None) -> Tensor | None:
    """The weights (B, N) float64 of points (B, N, D), which are finite."""
    if given is None:
        return None
    if isinstance(given, str):
        if given != "even":
            raise ValueError(f'{name} must be an array with one weight for each point, or "even", got {given!r}')
        return torch.from_numpy(np.stack([even_weights(each.numpy(), faces) for each in points]))
    plain = given.detach().cpu().numpy() if isinstance(given, Tensor) else given
    try:
        array = np.asarray(plain)
        if array.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f'{name} must be an array with one weight for each point, or "even", got {given!r}') from None
    b, n, _ = points.shape
    if array.shape not in ((n,), (b, n)):
        raise ValueError(
            f"{name} must have shape ({n},){f' or ({b}, {n})' if b > 1 else ''}, one weight for each point; got "
            f"{array.shape}"
        )
    return torch.from_numpy(np.array(np.broadcast_to(array, (b, n)), dtype=np.float64))


def _estimated(problem: RegistrationProblem, seed: int) -> float:
    """The mass of one problem."""
    a, b = (None if weights is None else weights[0] for weights in problem.masses)
    y, x = problem.source[0], problem.reference[0]
    return estimate_limits(y, x, source_weights=b, reference_weights=a, seed=seed).mass


def _numbers(name: str, value: Any, count: int) -> Tensor | None:
    """One float64 number for each problem."""
    if value is None:
        return None
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        plain = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        numbers = torch.as_tensor(np.array(plain, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or one number for each problem, got {value!r}") from None
    return numbers.expand(count).clone() if numbers.ndim == 0 else numbers


def _pairs(landmarks: Any, count: int, single: bool) -> tuple[Tensor | None, Tensor | None]:
    """The pairs (B, L, 2) and their weights (B, L), of problems with fewer pairs filled up with weight 0."""
    if landmarks is None:
        return None, None
    each = [landmarks] if single else list(landmarks)
    if len(each) != count:
        raise ValueError(f"landmarks must hold pairs, or None, for each of the {count} problems, got {len(each)}")
    arrays = [np.empty((0, 2)) if one is None else _array_of_pairs(one) for one in each]
    longest = max(len(array) for array in arrays)
    if not longest:
        return None, None
    pairs, weights = np.zeros((count, longest, 2), dtype=np.int64), np.zeros((count, longest))
    for k, array in enumerate(arrays):
        pairs[k, : len(array)] = array[:, :2]
        weights[k, : len(array)] = array[:, 2] if array.shape[1] == 3 else 1.0
    return torch.from_numpy(pairs), torch.from_numpy(weights)


def _array_of_pairs(given: Any) -> np.ndarray:
    """(L, 2) or (L, 3) float64, whole in its first two columns."""
    plain = given.detach().cpu().numpy() if isinstance(given, Tensor) else given
    try:
        array = np.asarray(plain)
    except ValueError:  # rows of different lengths
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] not in (2, 3) or array.dtype.kind not in "iuf":
        came = f"an array of {array.dtype} and shape {array.shape}" if array.size else repr(given)
        raise ValueError(
            "landmarks must be an array (L, 2) of whole numbers, a row of the source and one of the reference each, or "
            f"(L, 3) with weights; got {came}"
        )
    array = array.astype(np.float64)
    if not (array[:, :2] % 1 == 0).all():
        raise ValueError("landmarks must hold whole numbers, rows counted from 0, in the first two columns")
    return array


def _like(source: Any, reference: Any, result: RegistrationResult, single: bool) -> Registered:
    """The result with arrays of the source's kind and floating type, and without B for a single problem."""

    def convert(values: Tensor) -> Any:
        values = values[0] if single else values
        if isinstance(source, Tensor):
            floating = source.dtype if source.is_floating_point() else torch.float64
            return values.to(source.device, values.dtype if values.dtype == torch.bool else floating)
        if values.dtype == torch.bool:
            return values.numpy()
        given = np.asarray(source).dtype
        return values.numpy().astype(given.newbyteorder("=") if given.kind == "f" else np.float64)

    def first(values: list[Any] | None) -> Any:
        return values[0] if single and values is not None else values

    def potential(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        def on_points(points: Any) -> Any:
            given = _points("points", points)
            if given.ndim != 2 or given.shape[1] != dimension:
                raise ValueError(f"points must have shape (N, {dimension}), got {tuple(given.shape)}")
            values = function(given)
            return values.to(points.device) if isinstance(points, Tensor) else values.numpy()

        return on_points

    dimension = result.transformed.shape[-1]
    arrays = ("transformed", "transformed_unrefined", "affine", "translation", "displacement", "matched")
    changed: dict[str, Any] = {name: convert(getattr(result, name)) for name in (*arrays, "reference_matched")}
    if result.potential is not None:
        changed["potential"] = first([potential(f) for f in result.potential])
    for name in ("status", "stop_reason", "steps", "seconds", "history", "transform"):
        changed[name] = first(getattr(result, name))
    return Registered(**changed, source=source, reference=reference)
