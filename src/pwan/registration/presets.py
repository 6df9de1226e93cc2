"""Settings that follow from what a registration is told or can see: the type, the mass, the sizes; never a cell's
name.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwan.choices import Kind, Wanted
from pwan.normalisation import matches_whole_source
from pwan.problem import ROUNDED, RegistrationProblem
from pwan.registration.settings import PwanSettings
from pwan.registration.soft_assignment import SOFT_POINTS, SoftSettings
from pwan.weights import median_spacing


def resolve_kind(problem: RegistrationProblem, wanted: Wanted) -> tuple[Kind, RegistrationProblem]:
    """What the discrepancy limits, and the problem with just that limit; see ``PwanSettings.type`` for the words.

    The mass type without a mass matches all of the lighter set, and so does the distance type without a distance (the
    paper: "m-PWAN with m = 500 (equivalently d-PWAN with h = +infinity)").

    Raises:
        ValueError: the type asks for one limit and the problem states only the other.
    """
    everything = problem.lighter
    alike = matches_whole_source(problem) & weigh_the_same(problem)
    if wanted == "released" and problem.distance is None and bool(alike.all()):
        wanted = "complete"
    kind: Kind
    if wanted == "auto" or wanted == "released":
        kind = "distance" if problem.distance is not None and problem.mass is None else "mass"
    else:
        kind = wanted
    if kind == "complete":
        return "complete", replace(problem, mass=None, distance=None)
    if kind == "distance":
        if problem.distance is not None:
            return "distance", replace(problem, mass=None)
        if problem.mass is not None and bool((problem.mass < everything * ROUNDED).any()):
            raise ValueError(
                "the distance type needs a distance (the paper's h), but the problem states only a mass; "
                "give distance, or take the mass type"
            )
        return "mass", replace(problem, mass=everything)
    if problem.mass is None and problem.distance is not None:
        raise ValueError(
            "the mass type needs a mass (the paper's m, in points), but the problem states only a distance; "
            "give mass, or take the distance type"
        )
    return "mass", replace(
        problem, mass=everything if problem.mass is None else problem.mass.minimum(everything), distance=None
    )


def resolve(settings: PwanSettings, problem: RegistrationProblem, kind: Kind) -> tuple[PwanSettings, SoftSettings]:
    """The settings with every None filled in, and those of the soft refinement."""
    whole = kind == "complete" or bool(matches_whole_source(problem).all())
    points = problem.source.shape[1]
    spacing = _spacing(problem) if settings.energy == "rigid" else None
    soft = SoftSettings.for_case(whole=whole, sampled=points > SOFT_POINTS, spacing=spacing)
    equal = bool(weigh_the_same(problem).all())
    return settings.for_case(kind, whole=whole, equal=equal, points=points), soft


def weigh_the_same(problem: RegistrationProblem) -> Tensor:
    """Whether both sets weigh the same; bool (B,)."""
    return torch.isclose(problem.source_total, problem.reference_total, rtol=1 - ROUNDED, atol=0.0)


def _spacing(problem: RegistrationProblem) -> float:
    """Of the references' points that the soft assignment takes and that have a weight, over the RMS radius; the mean of
    a batch."""
    each = []
    for k, x in enumerate(problem.reference.numpy()):
        if problem.reference_weights is not None:
            x = x[problem.reference_weights[k].numpy() > 0]
        radius = float(np.sqrt(np.square(x - x.mean(0)).sum(1).mean()))
        each.append(median_spacing(x) / radius if radius > 0 else 1.0)
    taken = min(1.0, SOFT_POINTS / problem.source.shape[1])
    return float(np.mean(each)) / taken**0.5


def resolved(problem: RegistrationProblem, settings: PwanSettings) -> dict[str, Any]:
    """Every setting as it is used for the problem, the soft refinement's included: what makes two runs comparable."""
    kind, limited = resolve_kind(problem, settings.type)
    used, soft = resolve(settings, limited, kind)
    return {**asdict(used), "kind": kind, "soft": asdict(soft) if used.refinement == "soft" else None}
