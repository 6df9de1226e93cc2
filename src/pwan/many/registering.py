"""The Python front door for many scans: ``register_many``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from pwan.api import Registered, check_names, register
from pwan.arrays import faces_of, points_of, real_array, to_points
from pwan.begin.alignment import find_start
from pwan.begin.landmark_start import start_by_landmarks
from pwan.begin.start import Start
from pwan.deformation.space import SpaceTransform
from pwan.extras import needs
from pwan.many.model import ShapeModel, shape_model
from pwan.many.settings import Moves, Onto, check_shared
from pwan.pool import Failure, Report, choose_workers, run_tasks
from pwan.problem import OK
from pwan.progress import counting_bar

ROUNDS = 6  # of the groupwise registration, at most
STAYS = 0.01  # change of the mean, RMS over its points, in its RMS radius, from which on it stays; chosen by eye

Init = Literal["auto", "none"]


@dataclass(frozen=True, eq=False)
class Corresponded:
    """S scans in the numbering of a template of N points.

    Attributes:
        names: of the scans.
        points: (S, N, D) where each point of the template lies on each scan, in the scan's own coordinates; NaN for a
            scan whose registration failed.
        results: what :func:`pwan.register` gave for each scan, in the last round; None where it raised an error. Its
            ``source`` is the set that moved, from where it started: turned and shifted by ``init``, or the mean.
        transforms: for each scan the whole way, from any points (M, D) of the template's coordinates to where they are
            on the scan (with ``moves="scans"``: of the scan's, to where they end); None for a failed one, for methods
            without transforms, and where the mean was moved in the template's place.
        failed: the reason, by the name of each scan whose registration failed.
        model: mean and modes of the others; None where fewer than two are left.
        rounds: how often all scans were registered.
    """

    names: tuple[str, ...]
    points: NDArray[np.float64]
    results: tuple[Registered[Any] | None, ...]
    transforms: tuple[SpaceTransform | None, ...]
    failed: dict[str, str]
    model: ShapeModel | None
    rounds: int

    @property
    def confidence(self) -> NDArray[np.float64]:
        """(S,) the probability that each registration is right, found when first asked for; 0 for a failed one."""
        return np.array([0.0 if result is None else result.confidence for result in self.results])

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Why a registration is not to be trusted, by the names of those scans."""
        told = {
            name: [self.failed[name]] if result is None else list(result.warnings)
            for name, result in zip(self.names, self.results, strict=True)
        }
        return {name: sentences for name, sentences in told.items() if sentences}

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        lines = [f"Corresponded: {len(self.names)} scans{failed}, {self.points.shape[1]} points each"]
        return "\n  ".join(lines if self.model is None else [*lines, repr(self.model)])


@dataclass(frozen=True)
class _Set:
    """Points (N, D) and, if there, the triangles (F, 3) of their mesh."""

    points: np.ndarray
    faces: np.ndarray | None

    @classmethod
    def of(cls, name: str, given: Any) -> _Set:
        faces = faces_of(name, given, None)
        points = to_points(name, points_of(given)).numpy()
        if points.ndim != 2:
            raise ValueError(f"{name} must be one set of points (N, D), got {points.shape}")
        return cls(points, None if faces is None else faces[0].numpy())


class _Found(NamedTuple):
    """What a registration gave, and what moved its source before."""

    result: Registered[Any]
    start: Start | None

    @property
    def transform(self) -> SpaceTransform | None:
        """From where the source was given; None where the registration failed or has none."""
        whole = self.result.transform if self.result.status == OK else None
        if whole is None or self.start is None:
            return whole
        return whole.after(self.start.scale, self.start.rotation, self.start.translation)


@dataclass(frozen=True)
class _Task:
    """One registration, for a worker."""

    source: _Set
    reference: _Set
    landmarks: np.ndarray | None
    init: Init
    options: Mapping[str, Any]


def register_many(
    template: Any,
    scans: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    to: Onto = "template",
    moves: Moves = "template",
    init: Init = "auto",
    remove_size: bool = False,
    landmarks: Sequence[Any] | None = None,
    workers: int | Literal["auto"] = 1,
    progress: bool = False,
    **options: Any,
) -> Corresponded:
    """Bring many scans into the numbering of one template, and find the mean and the modes of their shapes.

    Args:
        template: (N, D) points, D 2 or 3, or an object with such points and perhaps faces, as :func:`pwan.register`
            takes them.
        scans: two or more of the same kind, each with its own number of points.
        names: of the scans; their numbers from 0 without.
        to: "template" registers with the template alone. "mean" then registers with the mean shape that was found, and
            with the next one, until it stays (six rounds at most): the result leans less towards the template then.
        moves: "template" moves the template onto each scan. "scans" moves each scan onto the template, and each
            template point then takes the place that the nearest point of the moved scan had before.
        init: "auto" looks for a rotation and a shift to start from, or takes those of the landmarks; "none" starts
            from the sets as they are.
        remove_size: take out the sizes of the shapes, beside positions and turns, before mean and modes.
        landmarks: for each scan its known pairs, (L, 2) or (L, 3) with weights, or None: a row of the template and the
            row of the scan where it belongs.
        workers: over so many processes the registrations are dealt; "auto" for one for each core. A script that starts
            them needs ``if __name__ == "__main__":`` around its own commands.
        progress: whether to show a bar of the registrations; it needs tqdm.
        options: all else that :func:`pwan.register` takes, for each registration: ``mass=``, ``distance=``,
            ``method=``, ``seed=``, ``flexibility="auto"``, ``source_weights="even"``. The source is what moves. What
            belongs to the points of one scan (attributes, and weights or faces of the scans as arrays) is refused.

    Returns:
        The points of all scans in the template's numbering, each registration's result, and the shape model.

    Raises:
        ValueError: sets that cannot be registered together or settings that do not exist, with what to do about it;
            or no registration succeeded.
        ImportError: scikit-learn is not installed, or tqdm with ``progress``.

    Example:
        >>> found = register_many(template, scans, flexibility="auto")
        >>> found.points, found.confidence, found.model.explained, found.model.outlying
    """
    with needs("scans", "register_many"):  # of the model, which comes last: not to fail after all the work
        import sklearn.decomposition  # noqa: F401
    check_names(options.get("method", "pwan"), options)
    staying = _Set.of("template", template)
    sets = [_Set.of(f"scans[{k}]", scan) for k, scan in enumerate(scans)]
    called = tuple(map(str, range(len(sets)) if names is None else names))
    for name, given, choices in (("to", to, Onto), ("moves", moves, Moves), ("init", init, Init)):
        if given not in get_args(choices):
            raise ValueError(f"{name} must be {' or '.join(map(repr, get_args(choices)))}, got {given!r}")
    check_shared(options, "reference" if moves == "template" else "source", "register_many")
    _check(staying, sets, called, landmarks, [f"scan {name}" for name in called] if names is None else called)
    each = [None] * len(sets) if landmarks is None else list(landmarks)
    processes = choose_workers(workers, len(sets))
    last: list[Any] = []

    def match(model: ShapeModel | None) -> list[NDArray[np.float64] | None]:
        tasks = [
            _task(staying, one, pairs, model, called, k, moves, init, options)
            for k, (one, pairs) in enumerate(zip(sets, each, strict=True))
        ]
        last[:] = _run(tasks, processes, progress)
        return [_places(scan, one, moves) for scan, one in zip(sets, last, strict=True)]

    points, model, rounds = in_rounds(match, called, to, remove_size)
    failed = {name: why for name, one in zip(called, last, strict=True) if (why := _why(one))}
    if len(failed) == len(called):
        raise ValueError(f"no scan could be registered; {called[0]}: {failed[called[0]]}")
    missing = np.full_like(staying.points, np.nan)
    stacked = np.stack([missing if one is None else one for one in points])
    results, transforms = _parted(last, of_the_mean=moves == "template" and rounds > 1)
    return Corresponded(called, stacked, results, transforms, failed, model, rounds)


def in_rounds(
    match: Callable[[ShapeModel | None], list[NDArray[np.float64] | None]],
    names: Sequence[str],
    to: Onto,
    remove_size: bool,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[list[NDArray[np.float64] | None], ShapeModel | None, int]:
    """Match all scans with the template, and with the mean until that stays where it is to be so.

    Args:
        match: gives for each scan the places (N, D) of the template's points, None where that failed; with the template
            itself for None, else with the mean of this model, which is of the scans that did not fail.
        names: of the scans.
        to: "template" is done after one round.
        remove_size: see :func:`pwan.many.shape_model`.
        tell: called with a sentence on each round after the first.

    Returns:
        The places of the last round, their model (None for fewer than two shapes), and the number of rounds.
    """
    points = match(None)
    model = _model(points, names, remove_size)
    for done in range(1, ROUNDS):
        if to == "template" or model is None:
            return points, model, done
        before, points = model, match(model)
        model = _model(points, names, remove_size)
        if model is None:
            return points, None, done + 1
        change = moved_by(before.mean, model.mean)
        tell(f"round {done + 1}: the mean has moved by {change:.2%} of its radius")
        if change <= STAYS:
            return points, model, done + 1
    return points, model, ROUNDS


def moved_by(before: np.ndarray, after: np.ndarray) -> float:
    """How far a mean shape (N, D) has moved, RMS over its points and in its RMS radius, but for turns and shifts."""
    pair = shape_model(np.stack((before, after))).aligned
    return float(np.sqrt(((pair[1] - pair[0]) ** 2).sum() / (pair[0] ** 2).sum()))


def nearest_places(template: np.ndarray, moved: np.ndarray, original: np.ndarray) -> NDArray[np.float64]:
    """Where the template's points (N, D) lie on a scan (n, D) that was moved onto it: each takes the place that the
    nearest moved point had in the original scan. Several may take the same one."""
    places: NDArray[np.float64] = original[KDTree(moved).query(template)[1]]
    return places


def _model(points: Sequence[np.ndarray | None], names: Sequence[str], remove_size: bool) -> ShapeModel | None:
    there = {name: one for name, one in zip(names, points, strict=True) if one is not None}
    return shape_model(np.stack(list(there.values())), list(there), remove_size) if len(there) > 1 else None


def _check(
    template: _Set, scans: Sequence[_Set], names: Sequence[str], landmarks: Sequence[Any] | None, words: Sequence[str]
) -> None:
    """Refuse what cannot be registered together; ``words`` are what errors call the scans."""
    if len(scans) < 2:
        raise ValueError(f"expected two scans or more, got {len(scans)}; pwan.register is for one")
    if len(names) != len(scans) or len(set(names)) < len(names):
        raise ValueError(f"names must be {len(scans)} different ones, one for each scan, got {', '.join(names)}")
    if landmarks is not None and len(landmarks) != len(scans):
        raise ValueError(
            f"landmarks must hold pairs, or None, for each of the {len(scans)} scans, got {len(landmarks)}"
        )
    d = template.points.shape[1]
    other = [name for name, scan in zip(words, scans, strict=True) if scan.points.shape[1] != d]
    if other:
        raise ValueError(f"the template is in {d}-D, but not {', '.join(other)}; expected as many coordinates in all")


def _task(
    template: _Set,
    scan: _Set,
    pairs: Any,
    model: ShapeModel | None,
    names: Sequence[str],
    k: int,
    moves: Moves,
    init: Init,
    options: Mapping[str, Any],
) -> _Task:
    """The registration of one scan: with the template, or with the mean, which lies where the scan was seen last, or
    else as the template."""
    if model is not None:
        if names[k] in model.names:
            template, init = _Set(model.mean_on(model.names.index(names[k])), template.faces), "none"
        else:
            template = _Set(model.mean_near(template.points), template.faces)
    landmarks = None if pairs is None else real_array("landmarks", pairs)
    if landmarks is not None and not (landmarks.ndim == 2 and landmarks.shape[1] in (2, 3)):
        raise ValueError(
            "landmarks of a scan must be (L, 2), rows of the template and of the scan, or (L, 3) with weights, got an "
            f"array of shape {landmarks.shape}"
        )
    if moves == "template":
        return _Task(template, scan, landmarks, init, options)
    if landmarks is not None:
        landmarks = landmarks[:, [1, 0, *range(2, landmarks.shape[1])]]
    return _Task(scan, template, landmarks, init, options)


def _run(tasks: Sequence[_Task], workers: int, progress: bool) -> list[Any]:
    """The results in the order of the tasks, or why there is none."""
    found: list[Any] = [None] * len(tasks)
    finished = count(1)
    with counting_bar("scan") if progress else nullcontext(lambda done, count: None) as show:
        show(0, len(tasks))

        def on_done(number: int, result: Any) -> None:
            found[number] = result
            show(next(finished), len(tasks))

        run_tasks(_registered, tasks, workers=workers, on_done=on_done)
    return found


def _registered(task: _Task, report: Report) -> _Found:
    source, reference, landmarks, start = task.source.points, task.reference.points, task.landmarks, None
    if task.init == "auto":
        if landmarks is not None:
            start = start_by_landmarks(source, reference, landmarks)
        start = find_start(source, reference) if start is None else start
        source = start.apply(source)
    faces = {"source_faces": task.source.faces, "reference_faces": task.reference.faces}
    return _Found(register(source, reference, landmarks=landmarks, **{**faces, **task.options}), start)


def _places(scan: _Set, found: _Found | Failure, moves: Moves) -> NDArray[np.float64] | None:
    """Where the template's points lie on a scan."""
    if isinstance(found, Failure) or found.result.status != OK:
        return None
    result = found.result
    if moves == "template":
        return np.asarray(result.transformed, dtype=np.float64)
    return nearest_places(np.asarray(result.reference), np.asarray(result.transformed), scan.points)


def _parted(
    last: Sequence[_Found | Failure], *, of_the_mean: bool
) -> tuple[tuple[Registered[Any] | None, ...], tuple[SpaceTransform | None, ...]]:
    """The results and the transforms of ``Corresponded``; those of a mean lead from where nobody has points."""
    found = [None if isinstance(one, Failure) else one for one in last]
    results = tuple(None if one is None else one.result for one in found)
    return results, tuple(None if one is None or of_the_mean else one.transform for one in found)


def _why(found: _Found | Failure) -> str:
    """Why there are no places; empty where there are."""
    if isinstance(found, Failure):
        return found.reason
    return "" if found.result.status == OK else str(found.result.stop_reason)
