"""The Python front door: ``register`` for arrays of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pwan import methods
from pwan.arrays import (
    HasArray,
    Numbers,
    NumpyPoints,
    Points,
    faces_of,
    floating_type,
    points_of,
    real_array,
    to_numpy,
    to_points,
)
from pwan.attributes import attributes_of
from pwan.begin.estimate import estimate_limits
from pwan.extras import needs
from pwan.problem import Array, Observer, RegistrationProblem, RegistrationResult
from pwan.progress import progress_bar
from pwan.randomness import derive_seed
from pwan.registration.pinning import Pinning, check_pinned, pin
from pwan.registration.places import observed_without, with_landmarks, without_places
from pwan.registration.presets import resolve_kind
from pwan.settings import nearest
from pwan.trust.measuring import measured
from pwan.trust.verdict import Verdict, judge
from pwan.weights import to_weights

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OfEach: TypeAlias = HasArray | Sequence[Sequence[float]]
AttributesOf: TypeAlias = ArrayLike | Tensor | Mapping[str, ArrayLike | Tensor]
PairsOfOne: TypeAlias = OfEach | Sequence[OfEach]
Landmarks: TypeAlias = PairsOfOne | Sequence[PairsOfOne | None]


@dataclass(repr=False)
class Registered(RegistrationResult[Array], Generic[Array]):
    """A result with the sets that it is of.

    Its lists hold one entry for each problem of a batch; for a single problem the entry itself stands in their place.

    Attributes:
        source: the points as they were given, not a copy.
        reference: likewise.
        weights: of both sets as they were registered, (B, r) and (B, q), or None for each where its points count once.
        labels: of both sets, (B, r, L) and (B, q, L), true for the ones of L labels that a point has; None without any;
            for one problem without the leading B.
        pinned: what pinning the landmarks bent, a :class:`pwan.registration.pinning.Pinning`; None without.
    """

    status: Any
    stop_reason: Any
    steps: Any
    seconds: Any
    potential: Any = None
    transform: Any = None
    history: Any = None
    choice: Any = None
    source: Any = None
    reference: Any = None
    weights: tuple[Any, Any] = (None, None)
    labels: tuple[Any, Any] | None = None
    pinned: Any = None

    @property
    def confidence(self) -> Any:
        """The probability that the result is right, from 0 to 1, of one problem or of each; found when first asked for.

        It is that of :func:`pwan.trust.confidence.confidence`, fitted on registrations whose truth is known. A failed
        one has 0.
        """
        return self._of_each([judged.confidence for judged in self._verdicts])

    @property
    def warnings(self) -> Any:
        """Why the result is not to be trusted, in sentences, of one problem or of each. There are none where nothing
        speaks against it."""
        return self._of_each([judged.warnings for judged in self._verdicts])

    @cached_property
    def _verdicts(self) -> list[Verdict]:
        single = to_numpy(self.transformed).ndim == 2
        found = []
        for k in range(1 if single else len(self)):
            y, x, moved, matched, staying = self._drawn(k)
            names = ("status", "stop_reason", "transform", "history", "choice", "pinned")
            lists = {name: getattr(self, name) for name in names}
            if not single:
                lists = {name: values[k] if values else None for name, values in lists.items()}
            arrays: dict[str, Any] = {"transformed": moved, "matched": matched, "reference_matched": staying}
            one = replace(self, **arrays, **lists)
            if self.labels is not None:
                one.labels = self.labels if single else (self.labels[0][k], self.labels[1][k])
            weights = (None if of is None else of[min(k, len(of) - 1)] for of in self.weights)
            sides: dict[str, Any] = dict(zip(("source_weights", "reference_weights"), weights, strict=True))
            found.append(judge(measured(y.astype(np.float64), x.astype(np.float64), one, **sides)))
        return found

    def _of_each(self, values: list[Any]) -> Any:
        return values[0] if to_numpy(self.transformed).ndim == 2 else values

    def plot(self, problem: int = 0) -> Any:
        """A matplotlib figure of the sets before and after, of one problem; ``.savefig("a.png")`` keeps it."""
        with needs("scans", "plot()"):
            from pwan.report.registration_figure import registration_figure

        return registration_figure(*self._drawn(problem))

    def _repr_html_(self) -> str | None:
        """For a notebook: the lines of ``repr`` and a small picture of the first problem; None, which makes the
        notebook show the lines alone, without matplotlib.
        """
        try:
            from pwan.report.registration_figure import registration_html
        except ImportError:
            return None
        return registration_html(repr(self), *self._drawn(0))

    def _drawn(self, problem: int) -> list[np.ndarray]:
        """source, reference, transformed (N, D) each, matched and reference_matched (N,) of one problem."""
        sets = [real_array(name, getattr(self, name)) for name in ("source", "reference")]
        sets += [to_numpy(getattr(self, name)) for name in ("transformed", "matched", "reference_matched")]
        single = sets[-1].ndim == 1
        return [of if single else of[problem] for of in sets]


@overload
def register(
    source: Tensor,
    reference: Points,
    *,
    mass: Numbers | Literal["auto"] | None = ...,
    distance: Numbers | None = ...,
    landmarks: Landmarks | None = ...,
    pinned: bool = ...,
    guess: Points | None = ...,
    source_faces: ArrayLike | None = ...,
    reference_faces: ArrayLike | None = ...,
    source_weights: ArrayLike | Tensor | Literal["even"] | None = ...,
    reference_weights: ArrayLike | Tensor | Literal["even"] | None = ...,
    source_attributes: AttributesOf | None = ...,
    reference_attributes: AttributesOf | None = ...,
    attribute_weight: float | Mapping[str, float] | None = ...,
    method: str = ...,
    settings: DataclassInstance | None = ...,
    seed: int = ...,
    observer: Observer | None = ...,
    progress: bool = ...,
    devices: int = ...,
    **options: Any,
) -> Registered[Tensor]: ...


@overload
def register(
    source: NumpyPoints,
    reference: Points,
    *,
    mass: Numbers | Literal["auto"] | None = ...,
    distance: Numbers | None = ...,
    landmarks: Landmarks | None = ...,
    pinned: bool = ...,
    guess: Points | None = ...,
    source_faces: ArrayLike | None = ...,
    reference_faces: ArrayLike | None = ...,
    source_weights: ArrayLike | Tensor | Literal["even"] | None = ...,
    reference_weights: ArrayLike | Tensor | Literal["even"] | None = ...,
    source_attributes: AttributesOf | None = ...,
    reference_attributes: AttributesOf | None = ...,
    attribute_weight: float | Mapping[str, float] | None = ...,
    method: str = ...,
    settings: DataclassInstance | None = ...,
    seed: int = ...,
    observer: Observer | None = ...,
    progress: bool = ...,
    devices: int = ...,
    **options: Any,
) -> Registered[NDArray[Any]]: ...


def register(
    source: Points,
    reference: Points,
    *,
    mass: Numbers | Literal["auto"] | None = None,
    distance: Numbers | None = None,
    landmarks: Landmarks | None = None,
    pinned: bool = False,
    guess: Points | None = None,
    source_faces: ArrayLike | None = None,
    reference_faces: ArrayLike | None = None,
    source_weights: ArrayLike | Tensor | Literal["even"] | None = None,
    reference_weights: ArrayLike | Tensor | Literal["even"] | None = None,
    source_attributes: AttributesOf | None = None,
    reference_attributes: AttributesOf | None = None,
    attribute_weight: float | Mapping[str, float] | None = None,
    method: str = "pwan",
    settings: DataclassInstance | None = None,
    seed: int = 0,
    observer: Observer | None = None,
    progress: bool = False,
    devices: int = 1,
    **options: Any,
) -> Registered[Any]:
    """Move the source onto the reference, matching all of the smaller set, a given mass, or what is near enough.

    Args:
        source: points that move, a numpy array or a torch tensor of shape (r, D), or (B, r, D) for B problems of equal
            sizes solved at once; D is 2 or 3. Or an object with such points: a mesh's ``vertices`` (trimesh, Open3D) or
            a cloud's ``points`` (Open3D, :class:`pwan.PointFile`). Never changed.
        reference: points that stay, (q, D) or (B, q, D), or such an object.
        mass: how many points are to be matched (the paper's m), one number or one for each problem, at most the size of
            the smaller set, or with weights the total of the lighter one; with a fraction the point at the threshold
            counts in part. "auto" estimates it for sets that are roughly aligned
            (:func:`pwan.begin.estimate.estimate_limits`, which also gives its reasons).
        distance: how far a point may be matched (the paper's h), in the units of the points. At most one of mass and
            distance may be given; with neither, all of the smaller set is matched. PWAN's methods move the points by
            either, soft_assignment by the mass; of other results they only say which points are ``matched``.
        landmarks: known pairs, (L, 2) whole numbers: a row of the source and the row of the reference where it belongs,
            counted from 0; or (L, 2 D) positions, which need be no points of the sets: a place in the source (D) and
            where it belongs in the reference (D); either with the weight of each pair in one more column; or a pair of
            arrays (L, D), the places in both sets. For B problems a list of B of these, each of its own kind, or None.
            They pull softly, as strong as the setting ``pull`` says; PWAN's methods and soft_assignment take them. Sets
            far turned against each other are better turned back by the pairs first
            (:func:`pwan.begin.landmark_start.start_by_landmarks`).
        pinned: bring each pair together in the end, to 1e-6 of the radius, by a small smooth correction that
            ``result.transform`` includes; ``result.pinned`` (a :class:`pwan.registration.pinning.Pinning`) and
            ``result.warnings`` say what it bent. A rigid or affine result is then no longer one.
        guess: where the source's points may belong, as (r, D) or (B, r, D), for example where an earlier frame led.
            PWAN begins from there and measures its energy against the source as given; other methods leave it out.
        source_faces: (F, 3) rows of the source's points, the triangles of its mesh, or (B, F, 3); None for those of the
            object that was given as the source (``faces`` or ``triangles``), if any. The geodesic kernel
            (``kernel="geodesic"``) goes along their edges, else from neighbour to neighbour.
        reference_faces: the same of the reference.
        source_weights: how much each point counts (the paper's b_j), (r,) or (B, r), in points: a point of weight 2
            counts as two. "even" finds the weights, of mean 1, by which the points count as an even sample of their
            shape: a vertex by the areas of its faces where there are faces, else a point by the local density
            (:func:`pwan.weights.even_weights`). That helps a mesh much whose vertices are denser in places, and does
            next to nothing for points that are even already. PWAN's methods and soft_assignment take weights.
        reference_weights: the same of the reference (a_i).
        source_attributes: what the points carry beside their place and the match respects: numbers (r, A) or (r,), as
            colours, or labels (r,), whole numbers or text; with B in front for B problems. Or a mapping of names to
            such. Distances are then d((y, a), (x, b))^2 = |y - x|^2 + w^2 |a - b|^2, while the points move in space
            alone; two labels that differ are w apart. What is named "normals", (r, D), becomes unit vectors that turn
            with the transform. PWAN's methods and soft_assignment take attributes.
        reference_attributes: the same of the reference.
        attribute_weight: w, in units of length for a difference of 1, of all attributes or by their names. None: a
            spacing of the reference, by which numbers of one name then deviate, and three of labels; see
            :func:`pwan.attributes.attributes_of`. ``distance``, the result's ``potential``, which takes points with
            their attributes times their weights behind (N, D + A), and ``matched`` are of these distances.
        method: a name out of ``pwan.methods.names()``.
        seed: the same seed gives the same result.
        settings: of the method, an instance of its own class: ``PwanSettings(steps=200)`` for "pwan",
            ``pwan.methods.cpd.Settings(beta=1.0)`` for "cpd". The classes of all methods stand below.
        observer: called after each step with a :class:`pwan.problem.Progress`.
        progress: whether to show a bar of the steps; in a notebook it is a notebook's bar. It needs tqdm.
        devices: GPUs, or processes where there are fewer, over which PWAN's methods deal the points out.
        options: single settings by name, for example ``steps=200``, ``transform="rigid"`` or ``refinement="none"``.
            They are put over ``settings``, or over the method's defaults where there are none.

    Returns:
        A :class:`RegistrationResult` with a ``plot()``, in input coordinates, whose arrays are of the kind (numpy or
        torch) and device of the source, and of the finer floating type of both sets, at least float32; for one problem,
        without the leading B and the lists of B.
        ``transformed = source @ affine + translation + displacement``. ``result.transform(points)`` moves any points
        of the source's coordinates, (M, D) in float64, by the transform that was found (``result.transform[k]`` of a
        batch); it also has ``folded(points)``, ``jacobians(points)``, ``to_dict()`` and ``save(path)``, and is None for
        methods that know their displacement at the source points only.

    Raises:
        ValueError: for input that cannot be registered, an argument or setting that does not exist, or settings of
            another method's class; with what to do about it.
        ImportError: ``progress`` without tqdm, or a method without its own package.

    Example:
        >>> result = register(source, reference, mass=400)
        >>> result.transformed, result.matched, result.status
    """
    check_names(method, options)
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool):
        raise ValueError(f"seed must be a whole number, got {seed!r}")
    seed = int(seed)
    chosen = methods.settings(method, options, over=settings)
    faces = (faces_of("source", source, source_faces), faces_of("reference", reference, reference_faces))
    source, reference = points_of(source), points_of(reference)
    y, x = to_points("source", source), to_points("reference", reference)
    if y.ndim != x.ndim:
        raise ValueError(
            f"source and reference must both be (N, D) or both (B, N, D), got {tuple(y.shape)} and {tuple(x.shape)}"
        )
    single = y.ndim == 2
    y, x = (y[None], x[None]) if single else (y, x)
    y_faces, x_faces = (
        f if f is None or len(f) > 1 else f.expand(len(points), -1, -1) for f, points in zip(faces, (y, x), strict=True)
    )  # of one mesh for all problems; the problem refuses another number
    there = None if guess is None else to_points("guess", points_of(guess))
    there = there[None] if there is not None and there.ndim == 2 else there
    problem = RegistrationProblem(y, x, source_faces=y_faces, reference_faces=x_faces, guess=there)  # checks them
    problem = replace(
        problem,
        source_weights=to_weights("source_weights", source_weights, y, y_faces),
        reference_weights=to_weights("reference_weights", reference_weights, x, x_faces),
        attributes=attributes_of(source_attributes, reference_attributes, attribute_weight, y, x, single=single),
    )
    placed, extra = with_landmarks(problem, landmarks, single=single)
    _check_space(chosen, extra, pinned, placed)
    problem = _limited(problem, mass, distance, seed)
    if (mass is not None or distance is not None) and getattr(chosen, "type", None) == "complete":
        raise ValueError(f"method {method} matches all of both sets; leave mass and distance out")
    b, a = (None if of is None else of.numpy() for of in (problem.source_weights, problem.reference_weights))
    labels = None if problem.attributes is None else problem.attributes.one_hot
    problem = replace(placed, mass=problem.mass, distance=problem.distance)
    seeds = [derive_seed(seed, k, "method") for k in range(len(problem))]
    with progress_bar(observer) if progress else nullcontext(observer) as told:
        drive = partial(methods.run, method, problem, options, over=settings)
        if devices != 1:
            with needs("bench", f"devices={devices}", "pytorch_lightning"):
                from pwan.lightning import register as dealt_out
            drive = partial(dealt_out, problem, chosen, devices=devices)
        result = drive(seeds=seeds, observer=observed_without(told, extra))
    pinnings: list[Pinning | None] = [None] * len(problem)
    if pinned:
        kind, limited = resolve_kind(problem, getattr(chosen, "type", "auto"))
        result, pinnings = pin(result, limited, kind)
    registered = _like(source, reference, without_places(result, extra), single)
    registered.weights, registered.pinned = (b, a), pinnings[0] if single else pinnings
    registered.labels = (labels[0][0], labels[1][0]) if single and labels is not None else labels
    return registered


def _limited(problem: RegistrationProblem, mass: Any, distance: Any, seed: int) -> RegistrationProblem:
    """The problem with the limits of ``register``, its mass estimated where that is asked for.

    Raises:
        ValueError: as ``register``.
    """
    if mass is not None and distance is not None:
        raise ValueError("give mass (how many points are matched) or distance (how far), not both")
    count = len(problem)
    if isinstance(mass, str):
        if mass != "auto":
            raise ValueError(f'mass must be a number, one for each problem, or "auto", got {mass!r}')
        mass = [_estimated(problem.select([k]), seed) for k in range(count)]
    return replace(problem, mass=_numbers("mass", mass, count), distance=_numbers("distance", distance, count))


def _check_space(chosen: Any, extra: int, pinned: bool, problem: RegistrationProblem) -> None:
    """Refuse what needs a transform of all of space where there is none, and landmarks that cannot be pinned.

    Raises:
        ValueError: as ``register``.
    """
    free = getattr(chosen, "parametrisation", "") == "free" and chosen.transform == "nonrigid"
    if (extra or pinned) and free:
        raise ValueError(
            f"{'pinned=True' if pinned else 'a landmark at a position'} needs a transform of all of space, and that of "
            "parametrisation=free is known at the source's points alone; take parametrisation=modes, or landmarks that "
            "are rows, not pinned"
        )
    if pinned:
        check_pinned(problem)


def _estimated(problem: RegistrationProblem, seed: int) -> float:
    """The mass of one problem."""
    a, b = (None if weights is None else weights[0] for weights in problem.masses)
    y, x = (problem.source if problem.guess is None else problem.guess)[0], problem.reference[0]
    return estimate_limits(y, x, source_weights=b, reference_weights=a, seed=seed).mass


def check_names(method: str, options: Mapping[str, Any]) -> None:
    """Refuse a name that neither ``register`` nor the method's settings have, and name the nearest one of both.

    Raises:
        ValueError: such a name, or no such method.
    """
    own = [p.name for p in inspect.signature(register).parameters.values() if p.kind is p.KEYWORD_ONLY]
    fields = methods.setting_names(method)
    for key in options:
        if key not in (*own, *fields):
            raise ValueError(
                f"neither register nor method {method} has {key!r}{nearest(key, [*own, *fields])}; register takes "
                f"{', '.join(own)}, and the method {', '.join(fields)}"
            )


def _numbers(name: str, value: Any, count: int) -> Tensor | None:
    """One float64 number for each problem."""
    if value is None:
        return None
    try:
        numbers = torch.from_numpy(np.array(real_array(name, value), dtype=np.float64))
    except ValueError:
        raise ValueError(f"{name} must be a number or one number for each problem, got {value!r}") from None
    return numbers.expand(count).clone() if numbers.ndim == 0 else numbers


def _like(source: Any, reference: Any, result: RegistrationResult, single: bool) -> Registered:
    """The result with arrays of the source's kind, in a floating type that holds them, and without B for a single
    problem.
    """
    arrays = {f.name: value for f in fields(result) if isinstance(value := getattr(result, f.name), Tensor)}
    floating = floating_type(source, reference)
    largest = max(float(array.abs().max()) for array in arrays.values() if array.is_floating_point())
    if largest > torch.finfo(floating).max:
        floating = torch.float64

    def convert(values: Tensor) -> Any:
        values = values if values.dtype == torch.bool else values.to(floating)
        return values.to(source.device) if isinstance(source, Tensor) else values.numpy()

    lists = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in arrays}
    if single:
        arrays = {name: array[0] for name, array in arrays.items()}
        lists = {name: None if values is None else values[0] for name, values in lists.items()}
    found: dict[str, Any] = {name: convert(array) for name, array in arrays.items()}
    return Registered(**found, **lists, source=source, reference=reference)


# A list in the source would have to be edited for each new method.
register.__doc__ = (register.__doc__ or "") + "\n".join(
    ["Settings of each method (import the module, then help() of the class explains every field):"]
    + [f"        {name}: ``pwan.methods.{name}.Settings``" for name in methods.names()]
)
