"""From two files to the results in a folder.

register_files(settings) ──> read ──> start ──> mass ──> method ──> verdict ──> files in the output folder
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree

from pwan import methods
from pwan.api import register
from pwan.attributes import NORMALS
from pwan.begin.alignment import SEARCH, find_start
from pwan.begin.estimate import Limits, estimate_limits, spacing_of
from pwan.begin.landmark_start import start_by_landmarks, start_towards
from pwan.begin.sliding import SlidingCheck, check_sliding
from pwan.begin.start import Start
from pwan.problem import OK, ROUNDED, Observer, RegistrationProblem
from pwan.registration.flexibility import CLEAR_SMOOTH, chosen_options, measure_fit
from pwan.scans.again import better
from pwan.scans.attributes import in_lengths
from pwan.scans.exporting import check_exports
from pwan.scans.folder import check_output
from pwan.scans.outcome import Outcome
from pwan.scans.output import write_output
from pwan.scans.pair import Pair, doubtful_units, read_pair
from pwan.scans.settings import ScanSettings
from pwan.trust.faces import face_faults
from pwan.trust.left import left_behind, where
from pwan.trust.measuring import measured
from pwan.trust.verdict import BOTH, SLID, judge

# |log| of lengths between neighbours up to which a registration of all of the smaller set may stand against an estimate
# that matches less: right ones of the packaged pairs that serve for tuning were below .52, two cropped shapes forced
# onto each other lie farther apart than ``CLEAR_SMOOTH`` says or stretch more
WHOLE_STRETCH = 0.55
MESH_DISTANCE = 3.0  # in place of that: the spacing of a mesh's vertices differs from place to place

Tell = Callable[[str], None]


def register_files(settings: ScanSettings, *, tell: Tell = print, observer: Observer | None = None) -> Outcome:
    """Register ``settings.source`` onto ``settings.reference`` and write the results.

    Args:
        settings: the two files, and how to register them.
        tell: called with each sentence of what was decided.
        observer: called after each step of the method.

    Returns:
        What was found; :func:`pwan.scans.files` says where it was written. Nothing is written before all is computed.

    Raises:
        OSError: a file cannot be read, or the output folder not be written.
        ValueError: wrong input, with what was expected, what came and what to do.
    """
    check_output(settings)
    pair = read_pair(settings)
    check_ready(settings, pair)
    for note in pair.notes:
        tell(note)
    outcome = register_pair(settings, pair, tell=tell, observer=observer)
    for note in write_output(settings, outcome):
        tell(note)
    return outcome


def register_pair(
    settings: ScanSettings,
    pair: Pair,
    *,
    guess: np.ndarray | None = None,
    tell: Tell = print,
    observer: Observer | None = None,
) -> Outcome:
    """As :func:`register_files`, of a pair that was read; writes nothing. With a ``guess`` (r, D), where the registered
    points of the source may belong, no start is searched: the registration begins there."""
    began = time.perf_counter()
    tell(f"{pair.source_file.path.name}: {len(pair.source_file.points)} points")
    tell(f"{pair.reference_file.path.name}: {len(pair.reference_file.points)} points")
    doubt = "" if settings.scale else doubtful_units(pair.source, pair.reference)
    if doubt:
        tell(f"warning: {doubt}")
    mass = registered_mass(settings, pair)
    if guess is None and (settings.init == "auto" or settings.scale):
        tell("looking for a start ...")
    start = _start(settings, pair, mass, guess)
    if start is not None:
        tell(f"start: {start.reason}")
    moved = pair.source if start is None else start.apply(pair.source)
    begun = moved if guess is None else guess
    limits = _limits(settings, begun, pair)
    if limits is not None:
        tell(f"mass: {limits.reason}")
    distance = settings.distance
    if limits is not None:
        by_distance = settings.type_of_method() == "distance"
        mass, distance = (None, limits.distance) if by_distance else (limits.mass, None)

    def run(source: np.ndarray, mass: float | None) -> Any:
        return _run(settings, pair, start, source, guess, mass, distance, observer)

    result, mass, limits = _match(settings, pair, moved, mass, limits, run, tell)
    check = _check_sliding(settings, pair, begun, result)
    led = guess is not None or pair.landmarks is not None
    if check is not None and check.ratio < SLID and settings.init == "auto" and not led:
        nearer = check.start
        tell(f"it has slid along the reference, so once more, {nearer.reason} ...")
        second_result = run(nearer.apply(moved), mass)
        second_check = _check_sliding(settings, pair, moved, second_result)
        if second_check is not None and second_check.ratio > check.ratio:
            start, result, check = nearer if start is None else start.then(nearer), second_result, second_check
    slide_ratio = None if check is None else check.ratio
    return _outcome(settings, pair, start, limits, mass, distance, result, doubt, slide_ratio, began)


def _run(
    settings: ScanSettings,
    pair: Pair,
    start: Start | None,
    source: np.ndarray,
    guess: np.ndarray | None,
    mass: float | None,
    distance: float | None,
    observer: Observer | None,
) -> Any:
    """One registration of the pair; ``source`` is where the start, and perhaps another one (without landmarks and
    attributes), has put it."""
    of_source, of_reference = (None, None) if pair.attributes is None else pair.attributes
    if start is not None and of_source is not None and NORMALS in of_source:
        of_source = {**of_source, NORMALS: of_source[NORMALS] @ start.rotation}
    return register(
        source,
        pair.reference,
        mass=mass,
        distance=distance,
        landmarks=None if pair.landmarks is None else pair.landmarks.for_register(start),
        pinned=settings.pinned,
        guess=guess,
        source_faces=pair.source_faces,
        reference_faces=pair.reference_faces,
        source_weights=pair.source_weights,
        reference_weights=pair.reference_weights,
        source_attributes=of_source,
        reference_attributes=of_reference,
        attribute_weight=settings.attribute_weight,
        method=settings.method,
        seed=settings.seed,
        observer=observer,
        **settings.method_options(),
    )


def _match(
    settings: ScanSettings,
    pair: Pair,
    moved: np.ndarray,
    mass: float | None,
    limits: Limits | None,
    run: Callable[[np.ndarray, float | None], Any],
    tell: Tell,
) -> tuple[Any, float | None, Limits | None]:
    """The registration, and the mass that it matched: all of the smaller set where an estimate says less and yet all of
    it fits, since a limb that moved far costs the estimate some."""
    smaller = min(len(pair.source), len(pair.reference))
    if limits is not None and mass is not None and mass < smaller and _may_bend(settings):
        tell("a limb that moved far may have cost the estimate some, so all is tried first ...")
        result = run(moved, None)
        weights = pair.source_weights, pair.reference_weights
        fit = measure_fit(pair.source, result.transformed, pair.reference, smaller, *weights)
        meshes = pair.source_faces is not None and pair.reference_faces is not None
        near = result.status == OK and fit.distance <= (MESH_DISTANCE if meshes else CLEAR_SMOOTH[0])
        part = None if near and fit.stretch <= WHOLE_STRETCH else run(moved, mass)
        if part is None or (near and _leaves_both(pair, part)):
            tell(f"mass: all {smaller} of the smaller set, which fit within {fit.distance:.2g} spacings")
            reason = f"{limits.reason}; but all {smaller} of the smaller set fit"
            return result, float(smaller), replace(limits, mass=float(smaller), reason=reason)
        return part, mass, limits
    return run(moved, mass), mass, limits


def _leaves_both(pair: Pair, result: Any) -> bool:
    """Whether much of both sets lies far from the other one, as where an estimate left the same part out of both."""
    left = left_behind(result.transformed, pair.reference, spacing_of(pair.reference))
    return min(one.share for one in left) >= BOTH


def _may_bend(settings: ScanSettings) -> bool:
    """Whether the method chooses the flexibility itself, and matches a mass."""
    return settings.method_options().get("flexibility") == "auto" and settings.type_of_method() != "distance"


def check_ready(settings: ScanSettings, pair: Pair) -> None:
    """Refuse before anything is computed what could not be registered, or not be written in the end.

    Raises:
        ValueError: a mass, a movement or an export that the pair or the method does not allow.
    """
    registered_mass(settings, pair)
    check_exports(settings, pair)


def registered_mass(settings: ScanSettings, pair: Pair) -> float | None:
    """The mass in registered points, where one is given; it is stated in points of the source's file.

    Raises:
        ValueError: more than can be matched; or all of the file, or landmarks, are to be moved by a method that cannot.
    """
    method = settings.chosen()
    free = getattr(method, "parametrisation", "modes") == "free" and getattr(method, "transform", "") == "nonrigid"
    if not pair.whole and free:
        raise ValueError(
            f"with parametrisation=free only the points that are registered can be moved, but {pair.source_file.path} "
            "has more; take method.parametrisation=modes"
        )
    if free and (settings.pinned or (pair.landmarks is not None and pair.landmarks.points is None)):
        raise ValueError(
            "with parametrisation=free the transform is known at the source's points alone, so that landmarks must be "
            "numbers of points and cannot be pinned; take method.parametrisation=modes"
        )
    if settings.mass is None:
        return None
    registered, in_file = len(pair.source), len(pair.source_file.points)
    mass, most = settings.mass * registered / in_file, min(registered, len(pair.reference))
    if mass > most:
        raise ValueError(
            f"mass={settings.mass:g} of the {in_file} points of {pair.source_file.path} is more than can be matched; "
            f"expected at most {most * in_file / registered:g}"
        )
    return mass


def _start(settings: ScanSettings, pair: Pair, mass: float | None, guess: np.ndarray | None) -> Start | None:
    if settings.init == "none" and not settings.scale:
        return None
    rotation, landmarks = settings.init == "auto", pair.landmarks
    if guess is not None:
        return start_towards(pair.source, guess, rotation=rotation, scale=settings.scale)
    if landmarks is not None:
        pairs = landmarks.for_register(None)
        start = start_by_landmarks(pair.source, pair.reference, pairs, rotation=rotation, scale=settings.scale)
        if start is not None:
            return start
    return find_start(
        pair.source,
        pair.reference,
        mass=mass,
        rotation=rotation,
        scale=settings.scale,
        seed=settings.seed,
        attributes=None
        if pair.attributes is None
        else in_lengths(settings, *pair.attributes, pair.source, pair.reference),
    )


def _limits(settings: ScanSettings, moved: np.ndarray, pair: Pair) -> Limits | None:
    if settings.mass is not None or settings.distance is not None:
        return None
    if settings.type_of_method() == "complete":
        return None
    return estimate_limits(
        moved,
        pair.reference,
        source_weights=pair.source_weights,
        reference_weights=pair.reference_weights,
        seed=settings.seed,
    )


def _outcome(
    settings: ScanSettings,
    pair: Pair,
    start: Start | None,
    limits: Limits | None,
    mass: float | None,
    distance_limit: float | None,
    result: Any,
    doubt: str,
    slide_ratio: float | None,
    began: float,
) -> Outcome:
    transform, matched, tree = result.transform, result.matched, KDTree(pair.reference)
    points, all_matched = result.transformed, matched
    at_start = pair.source_file.points if start is None else start.apply(pair.source_file.points)
    distance, nearest = tree.query(points)
    if not pair.whole:
        if transform is None:
            raise ValueError(
                f"method {settings.method} moves only the points that it registers, but all of "
                f"{pair.source_file.path} are to be moved; take another method"
            )
        reach = distance[matched].max() if matched.any() else 0.0  # what counted as matched among the registered
        points = transform(at_start)
        distance, nearest = tree.query(points)
        all_matched = distance <= reach
    smaller = min(len(pair.source), len(pair.reference))  # also where they are weighted, by weights of mean 1
    known = measured(
        pair.source,
        pair.reference,
        result,
        source_weights=pair.source_weights,
        reference_weights=pair.reference_weights,
        folds_at=at_start,
        turn_open=start is not None and start.changed and start.rival < SEARCH.tie,
        at_bound=limits is not None and mass is not None and mass >= smaller * ROUNDED,
        doubt=doubt,
        estimated=limits is not None,
        landmarks=pair.landmarks and pair.landmarks.ended(points, transform, start),
        slide_ratio=slide_ratio,
    )
    masses = np.ones(len(pair.source)) if pair.source_weights is None else pair.source_weights
    left, verdict = left_behind(result.transformed, pair.reference, known.spacing), judge(known)
    again, faces = None, None
    if not known.failed:
        if pair.source_file.triangles is not None and points.shape[1] == 3:
            faces = face_faults(pair.source_file.points, points, pair.source_file.triangles)
        of_faces = () if faces is None else (faces.sentence,)
        verdict = replace(verdict, sentences=(*verdict.sentences, *where(left), *of_faces))
        again = better(settings, pair, start, limits, mass, left, verdict.trusted)
    return Outcome(
        pair=pair,
        start=start,
        limits=limits,
        mass=mass,
        distance_limit=distance_limit,
        result=result,
        at_start=at_start,
        points=points,
        matched=all_matched,
        partner=nearest,
        distance=distance,
        weight=_weights(matched, distance, mass, masses) if pair.whole else all_matched.astype(np.float64),
        measured=known,
        verdict=verdict,
        left=left,
        faces=faces,
        again=again,
        method_settings=_used(settings, pair, mass, distance_limit, result.choice),
        seconds=time.perf_counter() - began,
    )


def _used(
    settings: ScanSettings, pair: Pair, mass: float | None, distance: float | None, choice: str | None
) -> dict[str, Any]:
    """The method's settings as the points were registered: what nobody has given is what the method took."""
    options = settings.method_options()
    y, x = (torch.from_numpy(np.asarray(points, dtype=np.float64))[None] for points in (pair.source, pair.reference))
    limits = (None if limit is None else y.new_tensor([limit]) for limit in (mass, distance))
    given: dict[str, Any] = dict(zip(("mass", "distance"), limits, strict=True))
    problem = RegistrationProblem(y, x, **given)
    return methods.resolved(settings.method, chosen_options(options, choice) if choice else options, problem)


def _check_sliding(settings: ScanSettings, pair: Pair, moved: np.ndarray, result: Any) -> SlidingCheck | None:
    """See :func:`pwan.begin.sliding.check_sliding`; None for a registration that failed, for one with attributes, which
    the quick registration does not see, and for a rigid or affine one: the quick one bends the source, and so comes
    nearer although nothing has slid."""
    stiff = getattr(settings.chosen(), "transform", "nonrigid") != "nonrigid"
    if stiff or pair.attributes is not None or result.status != OK or not result.matched.any():
        return None
    mass = float(result.matched.sum())
    return check_sliding(moved, pair.reference, result.transformed, mass=mass, seed=settings.seed)


def _weights(matched: np.ndarray, distance: np.ndarray, mass: float | None, masses: np.ndarray) -> np.ndarray:
    """(N,) 1 for matched points, but what is left of the mass for the one farthest away; 0 for the others."""
    weight = matched.astype(np.float64)
    if mass is not None and matched.any():
        worst = np.flatnonzero(matched)[distance[matched].argmax()]
        beyond = (masses[matched].sum() - mass) / masses[worst]
        weight[worst] -= beyond if 0 < beyond < 1 else 0.0
    return weight
