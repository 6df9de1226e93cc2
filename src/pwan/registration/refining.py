"""What follows PWAN's steps: the refinement that the settings name, on the parameters that the solver found."""

from __future__ import annotations

import torch
from torch import Tensor

from pwan.problem import RegistrationProblem
from pwan.registration.landmarks import Pull
from pwan.registration.refinement import NearestSettings, nearest_cost, nearest_point
from pwan.registration.soft_assignment import SoftSettings, soft_assignment
from pwan.registration.solver import Solver


def refine(
    solver: Solver,
    problem: RegistrationProblem,
    soft: SoftSettings,
    seeds: list[int],
    answer: Tensor,
    transported: Tensor,
    loss: Tensor | None,
) -> tuple[Tensor, list[str]]:
    """The refined parameters, and how each of the B problems ended, in words.

    Args:
        solver: that took the steps; by its settings.
        problem: normalised.
        soft: of the refinement by soft assignment.
        seeds: one for each problem.
        answer: (B, P, D) the solver's parameters.
        transported: (B,) the mass that PWAN matched, in which the distance type is refined.
        loss: (B,) the discrepancy of the last step, None where there was none.

    Returns:
        (B, P, D) parameters, those of the answer where the refinement or the solver diverged; and B sentences.
    """
    settings = solver.settings
    words = [
        f"converged at step {at}" if at else f"took all {solver.steps_done} steps"
        for at in solver.stopping.stopped_at.tolist()
    ]
    if settings.refinement == "none":
        return answer, words
    if settings.refinement == "nearest":
        refined, said = _nearest(solver, answer, loss)
        words = [f"{word}; nearest refinement: {after}" for word, after in zip(words, said, strict=True)]
    else:
        refined = _soft(solver, problem, soft, seeds, answer, transported)
    good = refined.isfinite().all(-1).all(-1) & (solver.diverged_at == 0).cpu()
    return torch.where(good[:, None, None], refined, answer), words


def _soft(
    solver: Solver,
    problem: RegistrationProblem,
    soft: SoftSettings,
    seeds: list[int],
    answer: Tensor,
    transported: Tensor,
) -> Tensor:
    setup, settings = solver.setup, solver.settings
    # of the distance type the refinement keeps as much of the source as PWAN matched
    mass = transported if setup.kind == "distance" else setup.mass
    alone = solver.ranks.size == 1  # then all points are on the device as well
    transform, reference = (solver.transform, solver.game.reference) if alone else (setup.transform, setup.reference)
    return soft_assignment(
        transform,
        answer.to(reference.device),
        reference,
        None if mass is None else mass.to(reference.device),
        soft,
        seeds,
        pull=Pull.of(problem, transform, reference, settings.pull),
        weights=problem.masses,
        stiff=None if setup.rigidity is None else (setup.rigidity.to(reference.device), settings.stiffness),
        carried=setup.carried,
    ).cpu()


def _nearest(solver: Solver, answer: Tensor, loss: Tensor | None) -> tuple[Tensor, list[str]]:
    """The parameters (B, P, D) of the nearest refinement, and how it ended for each problem."""
    setup, settings = solver.setup, solver.settings
    distance = setup.distance if setup.kind == "distance" else None
    whole, carried = setup.transform, setup.carried
    whole.attributes = None if carried is None else carried.under(whole, answer)
    refined, said = nearest_point(
        whole,
        setup.coherence,
        answer,
        setup.reference,
        setup.mass,
        distance,
        NearestSettings.of_pwan(settings),
        setup.landmarks,
        setup.masses,
    )
    if settings.nearest_rule == "released" and loss is not None:
        moved = whole.in_product(answer)
        least = nearest_cost(moved, setup.reference, setup.mass, distance, setup.masses)
        found = loss + (0.0 if distance is None else distance)
        for k in torch.nonzero(least < found).flatten().tolist():
            refined[k] = answer[k]
            said[k] = (
                f"none: judged failed, as the released code does: the potential gives a discrepancy of "
                f"{float(found[k]):.3g}, more than the {float(least[k]):.3g} of the nearest points"
            )
    return refined, said
