"""Register one file of points onto another: what a person with two scans calls.

register_files(settings) ──> read ──> start ──> mass ──> method ──> verdict ──> files in the output folder
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import KDTree

from pwan import methods
from pwan.problem import OK, Observer, RegistrationProblem, RegistrationResult
from pwan.randomness import derive_seed
from pwan.registration.alignment import Start, find_start
from pwan.registration.estimate import Limits, estimate_limits, spacing_of
from pwan.scans.output import Outcome, check_output, files, write_output
from pwan.scans.pair import Pair, doubtful_units, read_pair
from pwan.scans.settings import ScanSettings
from pwan.scans.verdict import Measured, judge, settled

__all__ = ["Outcome", "ScanSettings", "files", "register_files"]

Tell = Callable[[str], None]


def register_files(settings: ScanSettings, *, tell: Tell = print, observer: Observer | None = None) -> Outcome:
    """Register ``settings.source`` onto ``settings.reference`` and write the results.

    Args:
        tell: is given each sentence of what was decided. observer: called after each step of the method.

    Returns:
        What was found; :func:`files` says where it was written. Nothing is written before all is computed.

    Raises:
        OSError: a file cannot be read, or the output folder not be written.
        ValueError: wrong input, with what was expected, what came and what to do.
    """
    started = time.perf_counter()
    check_output(settings)
    pair = read_pair(settings)
    for note in pair.notes:
        tell(note)
    tell(f"{pair.source_file.path.name}: {len(pair.source_file.points)} points")
    tell(f"{pair.reference_file.path.name}: {len(pair.reference_file.points)} points")
    doubt = doubtful_units(pair.source, pair.reference)
    if doubt and not settings.scale:
        tell(f"warning: {doubt}")
    mass = _mass(settings, pair)
    if settings.init == "auto" or settings.scale:
        tell("looking for a start ...")
    start = _start(settings, pair, mass)
    if start is not None:
        tell(f"start: {start.reason}")
    moved = pair.source if start is None else start.apply(pair.source)
    limits = _limits(settings, moved, pair)
    if limits is not None:
        tell(f"mass: {limits.reason}")
    distance = settings.distance
    if limits is not None:
        kind = getattr(methods.settings(settings.method, settings.method_settings), "type", None)
        mass, distance = (None, limits.distance) if kind == "distance" else (limits.mass, None)
    result = _register(settings, moved, pair, mass, distance, observer)
    found = _outcome(settings, pair, start, limits, mass, distance, result, doubt)
    outcome = replace(found, seconds=time.perf_counter() - started)
    for note in write_output(settings, outcome):
        tell(note)
    return outcome


def _mass(settings: ScanSettings, pair: Pair) -> float | None:
    """The mass in registered points, where one is given; it is stated in points of the source's file.

    Raises:
        ValueError: more than can be matched; or all of the file is to be moved by a method that cannot.
    """
    chosen = methods.settings(settings.method, settings.method_settings)
    free = getattr(chosen, "parametrisation", "modes") == "free" and getattr(chosen, "transform", "") == "nonrigid"
    if not pair.whole and free:
        raise ValueError(
            f"with parametrisation=free only the points that are registered can be moved, but {pair.source_file.path} "
            "has more; take method.parametrisation=modes"
        )
    if settings.mass is None:
        return None
    registered, there = len(pair.source), len(pair.source_file.points)
    mass, most = settings.mass * registered / there, min(registered, len(pair.reference))
    if mass > most:
        raise ValueError(
            f"mass={settings.mass:g} of the {there} points of {pair.source_file.path} is more than can be matched; "
            f"expected at most {most * there / registered:g}"
        )
    return mass


def _start(settings: ScanSettings, pair: Pair, mass: float | None) -> Start | None:
    if settings.init == "none" and not settings.scale:
        return None
    rotation = settings.init == "auto"
    return find_start(
        pair.source, pair.reference, mass=mass, rotation=rotation, scale=settings.scale, seed=settings.seed
    )


def _limits(settings: ScanSettings, moved: np.ndarray, pair: Pair) -> Limits | None:
    if settings.mass is not None or settings.distance is not None:
        return None
    if getattr(methods.settings(settings.method, settings.method_settings), "type", None) == "complete":
        return None
    return estimate_limits(moved, pair.reference, seed=settings.seed)


def _register(
    settings: ScanSettings,
    moved: np.ndarray,
    pair: Pair,
    mass: float | None,
    distance: float | None,
    observer: Observer | None,
) -> RegistrationResult:
    one: Callable[[float | None], torch.Tensor | None] = lambda value: (  # noqa: E731
        None if value is None else torch.tensor([value], dtype=torch.float64)
    )
    problem = RegistrationProblem(
        torch.from_numpy(np.ascontiguousarray(moved))[None],
        torch.from_numpy(np.ascontiguousarray(pair.reference))[None],
        mass=one(mass),
        distance=one(distance),
    )
    seeds = [derive_seed(settings.seed, 0, "method")]
    return methods.run(settings.method, problem, settings.method_settings, seeds=seeds, observer=observer)


def _outcome(
    settings: ScanSettings,
    pair: Pair,
    start: Start | None,
    limits: Limits | None,
    mass: float | None,
    distance_limit: float | None,
    result: RegistrationResult,
    doubt: str,
) -> Outcome:
    transform = result.transform[0] if result.transform is not None else None
    registered, matched = result.transformed[0].numpy(), result.matched[0].numpy()
    points, all_matched, tree = registered, matched, KDTree(pair.reference)
    begun = pair.source_file.points if start is None else start.apply(pair.source_file.points)
    distances, nearest = tree.query(registered)
    if not pair.whole:
        if transform is None:
            raise ValueError(
                f"method {settings.method} moves only the points that it registers, but all of "
                f"{pair.source_file.path} are to be moved; take another method"
            )
        points = transform(begun)
        distances_of_all, nearest = tree.query(points)
        reach = distances[matched].max() if matched.any() else 0.0  # what counted as matched among the registered
        all_matched = distances_of_all <= reach
    distance = np.linalg.norm(points - pair.reference[nearest], axis=1)
    on_matched = distances[matched] if matched.any() else distances
    smaller = min(len(pair.source), len(pair.reference))
    history = result.history[0].get("loss", []) if result.history else []
    measured = Measured(
        failed="" if result.status[0] == OK else result.stop_reason[0],
        matched=float(matched.mean()),
        of_smaller=float(matched.sum()) / smaller,
        residual=float(np.median(on_matched)),
        tail=float(np.quantile(on_matched, 0.95)),
        spacing=spacing_of(pair.reference),
        folded=None if transform is None else transform.folded(begun[:: max(1, len(begun) // 20_000)]),
        settled=settled(history),
        at_bound=limits is not None and mass is not None and mass >= smaller,
    )
    return Outcome(
        pair=pair,
        start=start,
        limits=limits,
        mass=mass,
        distance_limit=distance_limit,
        result=result,
        begun=begun,
        points=points,
        matched=all_matched,
        partner=nearest,
        distance=distance,
        weight=_weights(matched, distance, mass) if pair.whole else all_matched.astype(np.float64),
        measured=measured,
        verdict=judge(measured),
        warnings=(doubt,) if doubt and not settings.scale else (),
        seconds=0.0,
    )


def _weights(matched: np.ndarray, distance: np.ndarray, mass: float | None) -> np.ndarray:
    """(N,) 1 for matched points, but what is left of the mass for the one farthest away; 0 for the others."""
    weight = matched.astype(np.float64)
    if mass is not None and 0 < weight.sum() - mass < 1:
        worst = np.flatnonzero(matched)[distance[matched].argmax()]
        weight[worst] -= weight.sum() - mass
    return weight
