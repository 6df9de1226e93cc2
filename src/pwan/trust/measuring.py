"""What can be measured of a finished registration without a truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from pwan.begin.estimate import spacing_of
from pwan.problem import OK
from pwan.registration.flexibility import measure_fit
from pwan.trust.confidence import confidence
from pwan.trust.signs import signs
from pwan.trust.verdict import BEYOND, Measured, settled, unevenness

FOLDED_POINTS = 20_000  # about so many points of the source are checked for folds of the map; chosen by eye


def measured(
    source: np.ndarray,
    reference: np.ndarray,
    result: Any,
    *,
    source_weights: np.ndarray | None = None,
    reference_weights: np.ndarray | None = None,
    folds_at: np.ndarray | None = None,
    **known: Any,
) -> Measured:
    """The measures of one registration.

    Args:
        source: (r, D) the points that were registered, where the method began with them.
        reference: (q, D).
        result: of this one problem in numpy, as :func:`pwan.register` gives it.
        source_weights: (r,), where they have some.
        reference_weights: (q,).
        folds_at: (n, D) where the map is looked at for folds; the source's points by default.
        known: further fields of :class:`pwan.trust.verdict.Measured`, which the sets do not show.
    """
    moved, matched, transform = result.transformed, result.matched, result.transform
    distance, to_source = KDTree(reference).query(moved)[0], KDTree(moved).query(reference)[0]
    on_matched = distance[matched] if matched.any() else distance
    staying = result.reference_matched
    masses, others = (
        np.ones(len(points)) if weights is None else weights
        for points, weights in ((source, source_weights), (reference, reference_weights))
    )
    # within h a point may have several partners: the sets then tell different masses, and the smaller one is of both
    mass = float(masses[matched].sum())
    both = min(mass, float(others[staying].sum()))
    of_smaller = both / min(float(masses.sum()), float(others.sum()))
    spacing = spacing_of(reference)
    fit = measure_fit(source, moved, reference, (mass, both), source_weights, reference_weights)
    beyond = tuple(float((lengths > BEYOND * spacing).mean()) for lengths in (distance, to_source))
    found = signs(source, moved, reference, matched, staying, fit)
    at = source if folds_at is None else folds_at
    fields: dict[str, Any] = {
        "failed": "" if result.status == OK else result.stop_reason,
        "matched": float(np.average(matched, weights=masses)),
        "of_smaller": of_smaller,
        "residual": float(np.median(on_matched)),
        "tail": float(np.quantile(on_matched, 0.95)),
        "spacing": spacing,
        "folded": None if transform is None else transform.folded(at[:: max(1, len(at) // FOLDED_POINTS)]),
        "settled": settled((result.history or {}).get("loss", [])),
        "at_bound": False,
        "unevenness": unevenness(
            source, moved, reference, matched, (source_weights is not None, reference_weights is not None)
        ),
        "fit": fit,
        "beyond": beyond,
        "choice": result.choice,
        "mislabelled": _mislabelled(reference, result),
        "pinned": getattr(result, "pinned", None),
        "signs": found,
        "confidence": confidence(found),
    }
    return Measured(**{**fields, **known})


def _mislabelled(reference: np.ndarray, result: Any) -> float | None:
    """Which share of the matched source points has another label than the nearest point of the reference (q, D)."""
    labels = getattr(result, "labels", None)  # a result without the sets has none
    if labels is None or not result.matched.any():
        return None
    partner = KDTree(reference).query(result.transformed[result.matched])[1]
    return float((labels[0][result.matched] != labels[1][partner]).any(-1).mean())
