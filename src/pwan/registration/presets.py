"""Settings that follow from what a registration is told or can see: the type, the mass, the sizes; never a cell's name."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pwan.normalisation import matches_whole_source
from pwan.problem import RegistrationProblem
from pwan.registration.refinement import SoftSettings
from pwan.registration.settings import PwanSettings
from pwan.transport.objective import Kind


def resolve_kind(problem: RegistrationProblem, settings: PwanSettings) -> tuple[Kind, RegistrationProblem]:
    """What the discrepancy limits, and the problem with just that limit.

    The mass type without a mass matches all of the smaller set; the distance type without a distance takes h = infinity,
    which is the same.

    Raises:
        ValueError: the type asks for one limit and the problem states only the other.
    """
    b, r, _ = problem.source.shape
    smaller = min(r, problem.reference.shape[1])
    kind = settings.type
    if kind == "auto":
        kind = "distance" if problem.distance is not None and problem.mass is None else "mass"
    if kind == "complete":
        return "complete", replace(problem, mass=None, distance=None)
    if kind == "distance":
        if problem.distance is None and problem.mass is not None and bool((problem.mass < smaller).any()):
            raise ValueError(
                "the distance type needs a distance (the paper's h), but the problem states only a mass; "
                "give distance, or take the mass type"
            )
        distance = problem.distance
        if distance is None:
            distance = torch.full((b,), torch.inf, dtype=torch.float64)
        return "distance", replace(problem, mass=None, distance=distance)
    if problem.mass is None and problem.distance is not None:
        raise ValueError(
            "the mass type needs a mass (the paper's m, in points), but the problem states only a distance; "
            "give mass, or take the distance type"
        )
    mass = problem.mass
    if mass is None:
        mass = torch.full((b,), float(smaller), dtype=torch.float64)
    return "mass", replace(problem, mass=mass, distance=None)


@dataclass(frozen=True)
class _Case:
    """Values for one case: steps and penalties of PWAN, and the soft refinement."""

    rate: float
    coherence: float
    affine_penalty: float
    soft: SoftSettings


_EQUAL = _Case(5e-3, 0.03, 0.1, SoftSettings(smoothness=50.0))
_OUTLIERS = _Case(5e-3, 0.01, 0.01, SoftSettings())
_PARTIAL_SOFT = SoftSettings(sigma_start=0.1, scalings=10, slack=0.78, smoothness=50.0, affine_ridge=1000.0)
_PARTIAL = _Case(3e-3, 0.1, 1.0, _PARTIAL_SOFT)
_DISTANCE = _Case(5e-3, 0.03, 1.0, _PARTIAL_SOFT)


def _case(problem: RegistrationProblem, kind: Kind) -> _Case:
    whole = kind == "complete" or matches_whole_source(problem)
    if kind == "distance":
        assert problem.distance is not None
        whole = bool(problem.distance.isinf().all())
        if not whole:
            return _DISTANCE
    if not whole:
        return _PARTIAL
    return _EQUAL if problem.source.shape[1] == problem.reference.shape[1] else _OUTLIERS


def resolve(
    settings: PwanSettings, problem: RegistrationProblem, kind: Kind
) -> tuple[PwanSettings, SoftSettings]:
    """The settings with every None filled in, and those of the soft refinement."""
    case = _case(problem, kind)
    filled = {
        name: getattr(case, name)
        for name in ("rate", "coherence", "affine_penalty")
        if getattr(settings, name) is None
    }
    return replace(settings, **filled), case.soft
