"""Landmarks as a caller gives them: rows of both sets, or positions, which need not be points of either set.

A landmark at a position takes part in a registration as a point without mass at each of its places: it moves with the
transform as any point does, the discrepancy does not see it, and the pull of landmarks acts on where it goes. Of a
kernel's modes that is the kernel itself at the position (Nystrom), so that it ends where the result's transform leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.arrays import real_array
from pwan.deformation.transform import take_rows
from pwan.problem import Observer, Progress, RegistrationProblem, RegistrationResult

SIDES = ("source", "reference")


@dataclass(frozen=True)
class Known:
    """The landmarks of one problem.

    Attributes:
        rows: (L, 2) of the source and of the reference; None where they are positions.
        places: (L, 2, D) positions in the source and in the reference; None where they are rows.
        weights: (L,)
    """

    rows: np.ndarray | None
    places: np.ndarray | None
    weights: np.ndarray


def with_landmarks(problem: RegistrationProblem, given: Any, *, single: bool) -> tuple[RegistrationProblem, int]:
    """The problem with landmarks as :func:`pwan.register` takes them, and how many points without mass each set got
    behind its own: as many as the problem with most positions has.

    Raises:
        ValueError: no array of such a shape, rows that are not whole numbers, or positions that are not finite or far
            from their set.
    """
    if given is None:
        return problem, 0
    count, d = len(problem), problem.source.shape[2]
    each = [given] if single or not np.iterable(given) else list(given)
    if len(each) != count:
        raise ValueError(f"landmarks must hold pairs, or None, for each of the {count} problems, got {len(each)}")
    known = [Known(np.empty((0, 2)), None, np.empty(0)) if one is None else known_landmarks(one, d) for one in each]
    longest = max(len(one.weights) for one in known)
    if not longest:
        return problem, 0
    rows, weights = np.zeros((count, longest, 2), dtype=np.int64), np.zeros((count, longest))
    extra = max(0 if one.places is None else len(one.places) for one in known)
    added = [points[:, :1].expand(-1, extra, -1).clone() for points in (problem.source, problem.reference)]
    for k, one in enumerate(known):
        weights[k, : len(one.weights)] = one.weights
        if one.rows is not None:
            rows[k, : len(one.rows)] = one.rows
            continue
        assert one.places is not None
        for side, points in enumerate((problem.source, problem.reference)):
            check_near(f"landmarks{f' of problem {k}' if count > 1 else ''}", points[k], one.places, side)
            added[side][k, : len(one.places)] = torch.from_numpy(one.places[:, side])
            rows[k, : len(one.places), side] = points.shape[1] + np.arange(len(one.places))
    landmarks: dict[str, Any] = {"landmarks": torch.from_numpy(rows), "landmark_weights": torch.from_numpy(weights)}
    return replace(_with_points(problem, added) if extra else problem, **landmarks), extra


def check_near(
    what: str, points: Any, places: np.ndarray, side: int, names: Sequence[str] | None = None, set_name: str = ""
) -> None:
    """Refuse positions (L, 2, D) of which one lies farther from the points (N, D) of its side than these extend.

    Raises:
        ValueError: such a position, by its name or its number.
    """
    points = np.asarray(points)
    diameter = float(np.linalg.norm(np.ptp(points, axis=0)))
    lengths = KDTree(points).query(places[:, side])[0]
    worst = int(lengths.argmax())
    if lengths[worst] > diameter:
        name = f"number {worst}" if names is None else repr(names[worst])
        of_set = set_name or f"the {SIDES[side]}"
        raise ValueError(
            f"{what}: expected positions on or near {of_set}, whose extent is {diameter:.4g}, but "
            f"{name} at ({', '.join(f'{x:.6g}' for x in places[worst, side])}) lies {lengths[worst]:.4g} from its "
            "nearest point; are both in the same coordinate system (signs of x and y in LPS and RAS) and in the same "
            "units?"
        )


def without_places(result: RegistrationResult, extra: int) -> RegistrationResult:
    """The result without the last ``extra`` points of each set, which stood for positions."""
    if not extra:
        return result
    per_point = ("transformed", "transformed_unrefined", "displacement", "matched", "reference_matched")
    cut: dict[str, Any] = {name: getattr(result, name)[:, :-extra] for name in per_point}
    return replace(result, **cut)


def observed_without(observer: Observer | None, extra: int) -> Observer | None:
    """An observer of the problem without the last ``extra`` points of its source."""
    if observer is None or not extra:
        return observer
    return lambda progress: observer(_cut(progress, extra))


def _cut(progress: Progress, extra: int) -> Progress:
    return replace(progress, transformed=lambda: progress.transformed()[:, :-extra])


def _with_points(problem: RegistrationProblem, added: Sequence[Tensor]) -> RegistrationProblem:
    """The problem with points without mass behind those of the source and of the reference."""
    changed: dict[str, Any] = {}
    if problem.guess is not None:  # of a place as of the nearest point
        rows = [KDTree(y).query(places)[1] for y, places in zip(problem.source.numpy(), added[0].numpy(), strict=True)]
        moved = take_rows(problem.guess - problem.source, torch.from_numpy(np.stack(rows)))
        changed["guess"] = torch.cat((problem.guess, added[0] + moved), 1)
    for side, points in zip(SIDES, added, strict=True):
        own = getattr(problem, side)
        masses = getattr(problem, f"{side}_weights")
        masses = own.new_ones(own.shape[:2]) if masses is None else masses
        changed[side] = torch.cat((own, points), 1)
        changed[f"{side}_weights"] = torch.cat((masses, masses.new_zeros(points.shape[:2])), 1)
    if problem.attributes is not None:  # of a point without mass they do not matter
        changed["attributes"] = problem.attributes.followed(changed["source"].shape[1] - problem.source.shape[1])
    return replace(problem, **changed)


def known_landmarks(given: Any, d: int) -> Known:
    """The landmarks of one problem in D dimensions, as :func:`pwan.register` takes them.

    Raises:
        ValueError: no array of such a shape, rows that are not whole numbers, or positions that are not finite.
    """
    try:
        array = real_array("landmarks", given)
    except ValueError:  # rows of different lengths, masked or other than numbers
        _check_lengths(given)
        array = np.empty(0)
    if array.ndim == 3 and array.shape[0] == 2 and array.shape[2] == d:  # the places in each of both sets
        array = np.concatenate((array[0], array[1]), 1)
    if array.ndim != 2 or array.shape[1] not in (2, 3, 2 * d, 2 * d + 1):
        came = f"an array of {array.dtype} and shape {array.shape}" if array.size else repr(given)
        raise ValueError(
            "landmarks must be an array (L, 2) of whole numbers, a row of the source and one of the reference each, or "
            f"(L, {2 * d}) of positions, the {d} coordinates in the source before those in the reference, either with "
            f"weights in one more column; or a pair of arrays (L, {d}), positions in the source and in the reference; "
            f"got {came}"
        )
    array = array.astype(np.float64)
    columns = array.shape[1] // 2 * 2
    weights = array[:, columns] if array.shape[1] > columns else np.ones(len(array))
    array = array[:, :columns]
    if columns == 2:
        if not (array % 1 == 0).all():
            raise ValueError("landmarks must hold whole numbers, rows counted from 0, in the first two columns")
        return Known(array.astype(np.int64), None, weights)
    bad = np.flatnonzero(~np.isfinite(array).all(1))
    if len(bad):
        raise ValueError(
            f"landmarks must be finite positions, but {len(bad)} of {len(array)} are not (the first is number "
            f"{bad[0]}); leave them out"
        )
    return Known(None, array.reshape(len(array), 2, d), weights)


def _check_lengths(given: Any) -> None:
    """Refuse a pair of arrays of different lengths.

    Raises:
        ValueError: such a pair.
    """
    try:
        both = [real_array("landmarks", one) for one in given]
    except (TypeError, ValueError):  # no such pair
        return
    if [one.ndim for one in both] == [2, 2] and len(both[0]) != len(both[1]):
        raise ValueError(
            f"landmarks must be a pair of arrays (L, {both[0].shape[1]}), positions in the source and in the "
            f"reference, of one length, but the two differ in length: {len(both[0])} and {len(both[1])}; row k of one "
            "belongs to row k of the other"
        )
