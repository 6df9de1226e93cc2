"""The paper's refinement by nearest points (appendix "Refinement"), on the parameters of a transform, in normalised
coordinates. It needs no potential, so what it gains is never to be credited to PWAN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.transform import Transform
from pwan.registration.landmarks import Pull
from pwan.registration.settings import PwanSettings
from pwan.transport.objective import largest_share


@dataclass(frozen=True)
class NearestSettings:
    """Settings of the nearest-point refinement.

    Attributes:
        steps: at most this many.
        rate: of RMSprop.
        of: "reference": each reference point is matched to its nearest source point, and the m nearest reference points
            count (the paper's formula). "source": each source point to its nearest reference point (released code).
        rule: when it ends, see :func:`nearest_point`: "energy" or "released".
        coherence: of the energy, as in PWAN itself; so are the next two.
        sigma: of the energy.
        affine_penalty: of the energy.
    """

    steps: int
    rate: float
    of: Literal["reference", "source"]
    rule: Literal["energy", "released"]
    coherence: float
    sigma: float
    affine_penalty: float

    @classmethod
    def of_pwan(cls, settings: PwanSettings) -> NearestSettings:
        """From PWAN's settings, in which nothing is None any more."""
        assert settings.coherence is not None and settings.affine_penalty is not None
        return cls(
            steps=settings.nearest_steps,
            rate=settings.nearest_rate,
            of=settings.nearest_of,
            rule=settings.nearest_rule,
            coherence=settings.coherence,
            sigma=settings.sigma,
            affine_penalty=settings.affine_penalty,
        )


def nearest_point(
    transform: Transform,
    coherence: Coherence | None,
    initial: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    distance: Tensor | None,
    settings: NearestSettings,
    pull: Pull | None = None,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, list[str]]:
    """The paper's refinement (appendix "Refinement"): squared distances to nearest points, by gradient descent.

    Of the mass type the mean is over the m smallest squared distances, of the distance type over all of them, each
    clamped at h^2 (released code), so that those farther away count as h and move nothing.

    A problem stops at the first increase of data and energy together (rule "energy"), or of the data term alone, from
    the state after the first step on (rule "released"). The state before the increase is the answer: of it the released
    code gives the error, though the points that it saves are one step farther.

    Args:
        transform: of all source points.
        coherence: of the same points; None where V = 0.
        initial: (B, P, D) parameters to begin with.
        reference: (B, q, D); with attributes (B, q, D + A), in whose space distances are taken then.
        mass: (B,) of the mass type, or None for all points.
        distance: (B,) h of the distance type, or None.
        settings: of the refinement and of the energy.
        pull: of landmarks, whose energy is added, or None.
        weights: (B, q) of the reference's points and (B, r) of the source's, by which all means go; None for equal
            ones.

    Returns:
        (B, P, D) parameters, and for each problem what happened, in words.
    """
    parameters = torch.nn.Parameter(initial.detach().clone(), requires_grad=False)
    optimiser = torch.optim.RMSprop([parameters], lr=settings.rate, foreach=False)
    b, d = len(initial), transform.dimension
    best, best_loss = initial.detach().clone(), initial.new_full((b,), torch.inf)
    running, words = initial.new_ones(b, dtype=torch.bool), [f"took all {settings.steps} steps"] * b
    identity = torch.eye(d, dtype=initial.dtype, device=initial.device)
    for step in range(settings.steps + 1):
        moved = transform.in_product(parameters)  # (B, r, D), or with attributes (B, r, D + A)
        residual, squared = _nearest_residual(moved, reference, mass, distance, settings.of, weights)
        coefficients = parameters[:, d + 1 :]
        energy = torch.zeros_like(coefficients)
        if coherence is not None:
            energy = coherence.slope(coefficients, 1.0, settings.sigma, modes=transform.basis is not None)
        loss = squared
        if settings.rule == "energy":
            loss = loss + 0.5 * settings.coherence * (energy * coefficients).sum((1, 2))
            if settings.affine_penalty and transform.kind != "rigid":
                loss = loss + 0.5 * settings.affine_penalty * (parameters[:, :d] - identity).square().sum((1, 2))
            if pull is not None:
                loss = loss + pull.energy(parameters)
            better = running & (loss < best_loss)
        else:
            better = running & (loss.isfinite() if step < 2 else loss <= best_loss)
        for k in torch.nonzero(running & ~better).flatten().tolist():
            finite = bool(loss[k].isfinite())
            words[k] = f"stopped at step {step}: no further decrease" if finite else f"left the finite at step {step}"
        running = better
        best = torch.where(better[:, None, None], parameters, best)
        best_loss = torch.where(better, loss, best_loss)
        if step == settings.steps or not bool(running.any()):
            break
        total = transform.parameter_gradient(residual[..., :d], parameters)
        total[:, d + 1 :] += settings.coherence * energy
        if settings.affine_penalty and transform.kind != "rigid":
            total[:, :d] += settings.affine_penalty * (parameters[:, :d] - identity)
        if pull is not None:
            total += pull.gradient(parameters)
        parameters.grad = total
        optimiser.step()
    return best, words


def nearest_cost(
    moved: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    distance: Tensor | None,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Tensor:
    """The cost (B,) of moving each source point to its nearest reference point, whoever else goes there, for a source
    of total weight 1: of those m that are nearest, or with each distance clamped at h.

    It is at most the discrepancy, in which no reference point takes more than its own mass. The released code takes a
    potential that gives more than this for one that is too steep; a potential that comes near the maximum gives more
    as well, wherever partners are short.

    Args:
        moved: (B, r, D) the source.
        reference: (B, q, D).
        mass: (B,) m, or None for all points.
        distance: (B,) h, or None.
        weights: (B, q) of the reference's points and (B, r) of the source's; None for equal ones.
    """
    costs = moved.new_full((len(moved),), torch.nan)
    for k, (y, x) in enumerate(zip(moved, reference, strict=True)):
        if not bool(y.isfinite().all()):
            continue
        x = x[_with_mass(x, weights[0], k)]
        lengths = torch.from_numpy(KDTree(x.numpy()).query(y.numpy())[0]).to(moved.dtype)
        each = torch.ones_like(lengths) if weights[1] is None else weights[1][k].to(moved.dtype)
        total = each.sum()
        if distance is not None:
            lengths = lengths.clamp(max=float(distance[k]))
        count = total if mass is None else mass[k].to(total).minimum(total)
        costs[k] = (largest_share(-lengths[None], count[None], each[None])[0] * lengths).sum() / total
    return costs


def _with_mass(points: Tensor, weights: Tensor | None, k: int) -> Tensor:
    """The rows (n,) of problem k's points (N, D) that have mass: nothing is matched to one without."""
    if weights is None:
        return torch.arange(len(points), dtype=torch.int64, device=points.device)
    return torch.nonzero(weights[k] > 0).flatten()


def _nearest_residual(
    moved: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    distance: Tensor | None,
    of: str,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor]:
    """Gradient with respect to the moved points (B, r, D) and value (B,) of the mean squared nearest distance; the
    value is NaN where a point is not finite."""
    gradient, values = torch.zeros_like(moved), moved.new_full((len(moved),), torch.nan)
    given, others = weights if of == "reference" else (weights[1], weights[0])  # of those that ask for their nearest
    for k, (y, x) in enumerate(zip(moved, reference, strict=True)):
        if not bool(y.isfinite().all()):
            continue
        asked, offered = (x, y) if of == "reference" else (y, x)
        massive = _with_mass(offered, others, k)
        lengths, nearest = KDTree(offered[massive].numpy()).query(asked.numpy())
        squared, index = torch.from_numpy(lengths).square().to(moved.dtype), massive[torch.from_numpy(nearest)]
        each = torch.ones_like(squared) if given is None else given[k].to(moved.dtype)
        total = each.sum()
        if distance is not None:
            weight = each * (squared <= distance[k] ** 2) / total
            values[k] = (each * squared.clamp(max=float(distance[k]) ** 2)).sum() / total
        else:
            count = total if mass is None else mass[k].to(total).minimum(total)
            weight = largest_share(-squared[None], count[None], each[None])[0] / count
            values[k] = (weight * squared).sum()
        rows = torch.arange(len(asked), dtype=torch.int64, device=asked.device)
        y_rows, x_rows = (index, rows) if of == "reference" else (rows, index)
        difference = y[y_rows] - x[x_rows]  # (n, D)
        gradient[k].index_add_(0, y_rows, 2.0 * weight[:, None] * difference)
    return gradient, values
