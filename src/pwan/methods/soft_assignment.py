"""The soft assignment with which PWAN ends, begun from the identity instead: no potential, no adversary. What PWAN's
network is worth is what PWAN does better than this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from pwan.deformation.coherence import coherence_of
from pwan.deformation.normals import Carried, in_product
from pwan.deformation.transform import Transform
from pwan.methods._baseline import unrefined_result
from pwan.methods._settings.soft_assignment import Settings
from pwan.normalisation import matches_whole_source, normalise
from pwan.problem import FAILED, OK, Observer, Progress, RegistrationProblem, RegistrationResult, check_seeds
from pwan.registration.landmarks import Pull
from pwan.registration.presets import resolve_kind
from pwan.registration.soft_assignment import soft_assignment, steps_of


def resolved(problem: RegistrationProblem, settings: Settings) -> dict[str, Any]:
    """Every setting as it is used for the problem."""
    kernel = settings.coherence_kernel
    used = {**asdict(settings), "beta": kernel.beta, "rank": kernel.rank}
    return {**used, **asdict(settings.for_case(whole=bool(matches_whole_source(problem).all())))}


def register(
    problem: RegistrationProblem, settings: Settings, *, seeds: Sequence[int], observer: Observer | None = None
) -> RegistrationResult:
    """Register a batch of problems at once; the mass type keeps the m best matched source points in each step."""
    check_seeds(problem, seeds)
    started = time.perf_counter()
    _, limited = resolve_kind(problem, "auto")
    soft = settings.for_case(whole=bool(matches_whole_source(limited).all()))
    normalised, frame = normalise(limited, settings.normalisation)
    source = normalised.source
    coherence = coherence_of(source, limited.source_faces, settings.coherence_kernel, seeds)
    transform, carried = Transform("nonrigid", source, coherence.basis), Carried.of(normalised, coherence)
    begin = identity = transform.parameters.detach()
    pull = Pull.of(normalised, transform, normalised.reference, settings.pull)
    if pull is not None:  # where the first fit would go with the landmarks alone
        ridge = identity.new_full(identity.shape[1:2], soft.smoothness)
        ridge[: source.shape[2]], ridge[source.shape[2]] = soft.affine_ridge, 0.0
        begin = pull.settled(identity, ridge * soft.sigma_start / normalised.source_total[:, None])

    def parts(p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return transform.affine(p), transform.translation(p), transform.displacement(p)

    steps = steps_of(transform, soft)

    def after_step(step: int, p: Tensor) -> None:
        if observer is not None:
            observer(Progress(step, steps, lambda: frame.apply(limited.source, *parts(p))))

    fitted = soft_assignment(
        transform,
        begin,
        in_product(normalised)[1],
        normalised.mass,
        soft,
        list(seeds),
        after_step,
        pull,
        weights=normalised.masses,
        carried=carried,
    )
    good = fitted.isfinite().all(-1).all(-1)  # (B,)
    fitted = torch.where(good[:, None, None], fitted, identity)
    b = len(problem)
    return unrefined_result(
        limited,
        frame,
        *parts(fitted),
        coherence.on_space(fitted[:, source.shape[2] + 1 :], transform.affine(fitted)),
        status=[OK if fine else FAILED for fine in good.tolist()],
        stop_reason=[
            f"took all {steps} steps"
            if fine
            else "the transform became infinite or NaN; the source is given back where it started"
            for fine in good.tolist()
        ],
        steps=[steps] * b,
        seconds=[(time.perf_counter() - started) / b] * b,
        history=[{} for _ in range(b)],
    )
