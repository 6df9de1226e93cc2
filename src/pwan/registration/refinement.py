"""Refinements of a registration that is nearly there. Both work on the parameters of a :class:`Transform`, in
normalised coordinates; neither needs the potential, so what they gain is never to be credited to PWAN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor

from pwan.randomness import numpy_generator
from pwan.registration.transform import Coherence, Transform, take_rows
from pwan.transport.objective import largest_share

if TYPE_CHECKING:  # pairs imports this module
    from pwan.registration.pairs import Pull

Product = Callable[[Tensor], Tensor]

# The soft assignment holds a matrix of source by reference points. Of a larger source it takes samples of this size,
# and of the reference the same share: a mass of the sample would otherwise find fewer partners than it has points. What
# one sample gives is off by the chance that points of both sets have near partners; the mean over some of them is less.
SOFT_POINTS, SAMPLES = 3000, 4
# sigmas within which a kernel is held, where that is less than this share of all pairs, and not of fewer points
CUT, SPARSE, DENSE = 5.0, 0.1, 100
SOFT_REFERENCE = 12_000  # of the reference at most so many, whatever the share: a body in a whole street's scan


@dataclass(frozen=True)
class SoftSettings:
    """Settings of the soft assignment. Lengths in normalised units.

    Attributes:
        steps: annealing steps; sigma falls geometrically from ``sigma_start`` to ``sigma_end``.
        scalings: alternating row and column scalings a step.
        slack: kernel value at which a point would rather stay unmatched.
        smoothness: ridge on the change of W from the start, times sigma^2. affine_ridge: on that of A, times sigma^2.
    """

    steps: int = 40
    sigma_start: float = 0.1
    sigma_end: float = 0.03
    scalings: int = 4
    slack: float = 0.78
    smoothness: float = 60.0
    affine_ridge: float = 100.0

    @classmethod
    def for_case(cls, *, whole: bool, sampled: bool = False) -> SoftSettings:
        """Settings by what is to be matched, all of the source or a part of it, and whether samples are."""
        chosen = cls() if whole else cls(steps=80, scalings=10, smoothness=150.0, affine_ridge=1000.0)
        # a sample is denser than the sets that the widths above are for, and PWAN has brought large sets nearer
        return replace(chosen, steps=40, sigma_start=0.05, sigma_end=0.02) if sampled else chosen


def soft_assignment(
    transform: Transform,
    start: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    settings: SoftSettings,
    seeds: list[int],
    observer: Callable[[int, Tensor], None] | None = None,
    pull: Pull | None = None,
) -> Tensor:
    """Anneal a two-sided soft assignment with slack, with a closed-form fit of A, t and W in each step.

    Rows and columns of the assignment sum to at most 1, the rest goes to the slack; of the mass type only the m best
    matched source points keep their rows. Kin to TPS-RPM (Chui & Rangarajan), with the kernel's smooth modes.

    Args:
        start: (B, P, D) parameters of the transform (modes, affine or rigid).
        reference: (B, q, D) normalised. mass: (B,) or None for all.
        observer: told after each step of its number, from 1, and of the parameters; not of rigid transforms.
        pull: of known pairs, which take part in each fit, whatever the sample and the mass.

    Returns:
        (B, P, D) parameters; a problem whose fit is singular keeps its start. Of a source that is too large for one
        matrix they are the mean over several samples of both sets.
    """
    found = torch.zeros_like(start)
    for sample in range(samples(transform)):

        def told(step: int, parameters: Tensor, before: int = sample) -> None:
            if observer is not None:
                observer(before * settings.steps + step, parameters)

        one = _anneal(transform, start, reference, mass, settings, seeds, sample, told, pull)
        found += (one - found) / (sample + 1)
    return found


def samples(transform: Transform) -> int:
    """How many samples of the source the soft assignment takes; 1 for all of it, and where parameters have no mean."""
    return SAMPLES if transform.source.shape[1] > SOFT_POINTS and transform.kind != "rigid" else 1


def _anneal(
    transform: Transform,
    start: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    settings: SoftSettings,
    seeds: list[int],
    sample: int,
    observer: Callable[[int, Tensor], None],
    pull: Pull | None = None,
) -> Tensor:
    """The soft assignment of one sample; see :func:`soft_assignment`."""
    dtype, device = torch.float64, reference.device
    source, d = transform.source.to(dtype), transform.dimension
    r = source.shape[1]
    basis = transform.basis.to(dtype) if transform.kind == "nonrigid" and transform.basis is not None else None
    share = min(1.0, SOFT_POINTS / r)
    q = reference.shape[1]
    rows = _subsample(r, share, seeds, ("source", sample), device)
    picks = _subsample(q, min(share, SOFT_REFERENCE / q), seeds, ("reference", sample), device)
    y, x = _take(source, rows), _take(reference.to(dtype), picks)
    ones = torch.ones_like(y[..., :1])
    design = torch.cat((y, ones), -1) if basis is None else torch.cat((y, ones, _take(basis, rows)), -1)  # (B, n, p)
    fitted_y, fitted = y, design  # what the fit of a step goes over
    if pull is not None:
        fitted_y = torch.cat((y, pull.transform.source.to(dtype)), 1)
        fitted = torch.cat((design, pull.design().to(dtype)), 1)
    prior = start.to(dtype)  # where PWAN, or whatever came before, left it
    ridge = torch.full((design.shape[-1],), settings.smoothness, dtype=dtype, device=device)
    ridge[:d], ridge[d] = settings.affine_ridge, 0.0
    current = start.to(dtype)
    if transform.kind == "rigid":
        current = torch.cat((transform.affine(start), transform.translation(start)), 1).to(dtype)
    kept_mass = None if mass is None else (mass.to(dtype) * share).clamp(max=y.shape[1])
    for step in range(settings.steps):
        annealed = step / max(1, settings.steps - 1)
        sigma = settings.sigma_start * (settings.sigma_end / settings.sigma_start) ** annealed
        moved = torch.bmm(design, current)
        to_source, to_reference = _kernel(moved, x, sigma)
        v = torch.ones_like(x[..., :1])
        for _ in range(settings.scalings):
            u = 1.0 / (to_source(v) + settings.slack)  # (B, n, 1)
            v = 1.0 / (to_reference(u) + settings.slack)  # (B, q, 1)
        weight = u * to_source(v)  # (B, n, 1) what each source point sends
        image = u * to_source(v * x)  # (B, n, D), times the weight
        if kept_mass is not None:
            rank = weight[..., 0].argsort(dim=1, descending=True, stable=True).argsort(dim=1)
            keep = (kept_mass[:, None] - rank).clamp(0.0, 1.0)[..., None]  # the point at the threshold in part
            weight, image = weight * keep, image * keep
        if pull is not None:
            of_pairs = y.shape[1] * pull.strength * sigma * pull.weights.to(dtype)
            weight = torch.cat((weight, of_pairs), 1)
            image = torch.cat((image, of_pairs * pull.goals.to(dtype)), 1)
        if transform.kind == "rigid":
            current = rigid_fit(fitted_y, weight, image, current)
            continue
        normal = torch.bmm((fitted * weight).mT, fitted)  # (B, p, p)
        normal.diagonal(dim1=1, dim2=2).add_(ridge * sigma**2 + 1e-9)
        right = torch.bmm(fitted.mT, image) + (ridge * sigma**2)[:, None] * prior
        solution, info = torch.linalg.solve_ex(normal, right)
        good = (info == 0) & solution.isfinite().all(-1).all(-1)
        current = torch.where(good[:, None, None], solution, current)
        observer(step + 1, current.to(start.dtype))
    if transform.kind == "rigid":
        return rigid_parameters(current, start)
    return current.to(start.dtype)


def _kernel(moved: Tensor, x: Tensor, sigma: float) -> tuple[Product, Product]:
    """The products with exp(-d^2 / (2 sigma^2)) between points (B, n, D) and (B, q, D), and with its transpose: from
    (B, q, k) to (B, n, k), and back. On the CPU only near pairs are held where that saves most of the work, which each
    problem decides for itself."""
    if moved.device.type != "cpu":
        return _all_pairs(moved, x, sigma)
    each = [
        _near_pairs(y, there, sigma) or _all_pairs(y[None], there[None], sigma)
        for y, there in zip(moved, x, strict=True)
    ]

    def product(side: int, values: Tensor) -> Tensor:
        return torch.cat([one[side](values[k : k + 1]) for k, one in enumerate(each)])

    return partial(product, 0), partial(product, 1)


def _all_pairs(moved: Tensor, x: Tensor, sigma: float) -> tuple[Product, Product]:
    kernel = torch.cdist(moved, x, compute_mode="donot_use_mm_for_euclid_dist").square_()
    kernel.mul_(-0.5 / sigma**2).exp_()  # (B, n, q)
    return partial(torch.bmm, kernel), partial(torch.bmm, kernel.mT)


def _near_pairs(y: Tensor, x: Tensor, sigma: float) -> tuple[Product, Product] | None:
    """The same of one problem, (n, D) and (q, D), without the pairs whose value is next to nothing; None where too many
    are left, or none at all, or points have left the finite, or are so few that a fit rests on what is next to
    nothing."""
    if len(y) < DENSE or not bool(y.isfinite().all()):
        return None
    here, there = KDTree(y.numpy()), KDTree(x.numpy())
    if not 0 < here.count_neighbors(there, CUT * sigma) <= SPARSE * len(y) * len(x):
        return None
    kernel = csr_array(here.sparse_distance_matrix(there, CUT * sigma, output_type="coo_matrix"))  # keeps zeros
    kernel.data = np.exp(kernel.data**2 * (-0.5 / sigma**2))

    def product(matrix: csr_array, values: Tensor) -> Tensor:
        return torch.from_numpy(matrix @ values[0].numpy())[None]

    return partial(product, kernel), partial(product, kernel.T)


def _subsample(n: int, share: float, seeds: list[int], purpose: tuple[str, int], device: torch.device) -> Tensor | None:
    """Row numbers (B, share n) of a share of n points, None for all of them."""
    if share >= 1.0:
        return None
    size = max(1, round(share * n))
    rows = [numpy_generator(seed, "refinement", *purpose).choice(n, size, replace=False) for seed in seeds]
    return torch.stack([torch.from_numpy(row) for row in rows]).to(device)


def _take(values: Tensor, rows: Tensor | None) -> Tensor:
    return values if rows is None else take_rows(values, rows)


def rigid_fit(y: Tensor, weight: Tensor, image: Tensor, current: Tensor) -> Tensor:
    """Weighted Procrustes: the rotation and translation that bring y onto image / weight."""
    d, total = y.shape[-1], weight.sum(1, keepdim=True).clamp(min=1e-12)
    y_mean, x_mean = (weight * y).sum(1, keepdim=True) / total, image.sum(1, keepdim=True) / total
    covariance = torch.bmm((y - y_mean).mT, image - weight * x_mean)  # (B, D, D)
    left, _, right = torch.linalg.svd(covariance.nan_to_num(0.0, 0.0, 0.0))  # a diverged start has no covariance
    sign = torch.ones_like(covariance[:, 0])
    sign[:, -1] = torch.linalg.det(left @ right)
    rotation = (left * sign[:, None]) @ right
    out = current.clone()
    out[:, :d], out[:, d : d + 1] = rotation, x_mean - y_mean @ rotation
    return out


def rigid_parameters(current: Tensor, start: Tensor) -> Tensor:
    """The rotation vector of each rotation, in the strict upper triangle as :func:`rotation_matrix` wants it."""
    d = current.shape[-1]
    out = start.clone()
    out[:, :d], out[:, d] = 0.0, current[:, d].to(out.dtype)
    for k, rotation in enumerate(current[:, :d].cpu()):
        out[k, :d] = rotation_logarithm(rotation).triu(1).to(out.dtype)
    return out


def rotation_logarithm(rotation: Tensor) -> Tensor:
    """The skew matrix whose exponential is the rotation (D, D), D 2 or 3."""
    from scipy.spatial.transform import Rotation

    d = rotation.shape[-1]
    full = torch.eye(3, dtype=torch.float64)
    full[:d, :d] = rotation
    x, y, z = Rotation.from_matrix(full.numpy()).as_rotvec().tolist()
    return torch.tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]], dtype=torch.float64)[:d, :d]


@dataclass(frozen=True)
class NearestSettings:
    """Settings of the nearest-point refinement.

    Attributes:
        steps: at most this many. rate: of RMSprop.
        of: "reference": each reference point is matched to its nearest source point, and the m nearest reference points
            count (the paper's formula). "source": each source point to its nearest reference point (released code).
        coherence, sigma, affine_penalty: of the energy, as in PWAN itself.
    """

    steps: int
    rate: float
    of: Literal["reference", "source"]
    coherence: float
    sigma: float
    affine_penalty: float


def nearest_point(
    transform: Transform,
    coherence: Coherence | None,
    start: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    distance: Tensor | None,
    settings: NearestSettings,
    pull: Pull | None = None,
) -> tuple[Tensor, list[str]]:
    """The paper's refinement (appendix "Refinement"): squared distances to nearest points, by gradient descent.

    Of the mass type the mean is over the m smallest squared distances, of the distance type over all of them, each
    clamped at h^2 (released code), so that points out of reach do not pull. Each problem keeps its best
    state and stops at its first increase. ``pull`` of known pairs adds its energy.

    Returns:
        (B, P, D) parameters, and for each problem what happened, in words.
    """
    parameters = torch.nn.Parameter(start.detach().clone(), requires_grad=False)
    optimiser = torch.optim.RMSprop([parameters], lr=settings.rate, foreach=False)
    b, d = len(start), transform.dimension
    best, best_loss = start.detach().clone(), torch.full((b,), torch.inf)
    running, words = torch.ones(b, dtype=torch.bool), [f"took all {settings.steps} steps"] * b
    identity = torch.eye(d, dtype=start.dtype)
    for step in range(settings.steps + 1):
        moved = transform.points(parameters)  # (B, r, D)
        residual, squared = _nearest_residual(moved, reference, mass, distance, settings.of)
        coefficients = parameters[:, d + 1 :]
        energy = torch.zeros_like(coefficients)
        if coherence is not None:
            if transform.basis is not None:
                energy = (coherence.spectrum / (coherence.spectrum + settings.sigma))[..., None] * coefficients
            else:
                energy = coherence.gradient(coefficients, settings.sigma)
        loss = squared + 0.5 * settings.coherence * (energy * coefficients).sum((1, 2))
        if settings.affine_penalty and transform.kind != "rigid":
            loss = loss + 0.5 * settings.affine_penalty * (parameters[:, :d] - identity).square().sum((1, 2))
        if pull is not None:
            loss = loss + pull.energy(parameters)
        better = running & (loss < best_loss)
        for k in torch.nonzero(running & ~better).flatten().tolist():
            words[k] = (
                f"stopped at step {step}: no further decrease"
                if bool(loss[k].isfinite())
                else f"left the finite at step {step}"
            )
        running = better
        best = torch.where(better[:, None, None], parameters, best)
        best_loss = torch.where(better, loss, best_loss)
        if step == settings.steps or not bool(running.any()):
            break
        total = transform.pull_back(residual, parameters)
        total[:, d + 1 :] += settings.coherence * energy
        if settings.affine_penalty and transform.kind != "rigid":
            total[:, :d] += settings.affine_penalty * (parameters[:, :d] - identity)
        if pull is not None:
            total += pull.gradient(parameters)
        parameters.grad = total
        optimiser.step()
    return best, words


def _nearest_residual(
    moved: Tensor, reference: Tensor, mass: Tensor | None, distance: Tensor | None, of: str
) -> tuple[Tensor, Tensor]:
    """Gradient with respect to the moved points (B, r, D) and value (B,) of the mean squared nearest distance; the
    value is NaN where a point is not finite."""
    gradient, values = torch.zeros_like(moved), torch.full((len(moved),), torch.nan, dtype=moved.dtype)
    for k, (y, x) in enumerate(zip(moved, reference, strict=True)):
        if not bool(y.isfinite().all()):
            continue
        asked, offered = (x, y) if of == "reference" else (y, x)
        lengths, nearest = KDTree(offered.numpy()).query(asked.numpy())
        squared, index = torch.from_numpy(lengths).square().to(moved.dtype), torch.from_numpy(nearest)
        if distance is not None:
            weight = (squared <= distance[k] ** 2).to(moved.dtype) / len(squared)
            values[k] = squared.clamp(max=float(distance[k]) ** 2).mean()
        else:
            count = (
                torch.tensor(float(len(squared)), dtype=moved.dtype)
                if mass is None
                else mass[k].clamp(max=len(squared))
            )
            weight = largest_share(-squared[None], count[None], torch.ones_like(squared)[None])[0] / count
            values[k] = (weight * squared).sum()
        rows = torch.arange(len(asked))
        y_rows, x_rows = (index, rows) if of == "reference" else (rows, index)
        difference = y[y_rows] - x[x_rows]  # (n, D)
        gradient[k].index_add_(0, y_rows, 2.0 * weight[:, None] * difference)
    return gradient, values
