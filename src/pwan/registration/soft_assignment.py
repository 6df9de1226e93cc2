"""A soft assignment of two sets with slack, annealed: PWAN's refinement by default, and a method of its own.

It works on the parameters of a :class:`Transform`, in normalised coordinates, and needs no potential, so what it gains
is never to be credited to PWAN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.normals import TURN, Carried
from pwan.deformation.rigid import rigid_fit, rigid_parameters
from pwan.deformation.rigidity import Rigidity
from pwan.deformation.transform import Transform, take_rows
from pwan.randomness import numpy_generator
from pwan.registration.landmarks import Pull
from pwan.transport.objective import largest_share
from pwan.weights import weights_of_rows

Product = Callable[[Tensor], Tensor]

# The soft assignment holds a matrix of source by reference points. Of a larger source it takes samples of this size,
# and of the reference the same share: a mass of the sample would otherwise find fewer partners than it has points. What
# one sample gives is off by the chance that points of both sets have near partners; the mean over some of them is less.
# Only the last steps see points as near as that, so one sample takes the steps before for all, where it holds half of
# the points at least: of smaller samples each goes its own way, and their mean is the better (benchmarks/README.md).
SOFT_POINTS = 3000
SAMPLES = 4
SHARED = 0.85  # of the steps
SOFTER = 0.3  # of the stiffness of PWAN's steps: what is left to do is small
FEWEST = 100  # source points from which on what is next to nothing is left out, and float32 is enough
HELD = 1e-2 * 2.0**24  # squared length of a point, in sigmas, up to which float32 leaves an exponent right to 1e-2
LEAST = -80.0  # exponent: float32 holds smaller numbers too, but at a hundredth of the speed
# near pairs alone are held:
CUT = 5.0  # within so many sigmas
MANY = 2_000_000  # of so many pairs at least
SPARSE = 0.04  # where they are at most this share of all pairs
LOOKED_AT = 200  # source points by which the share is told
SOFT_REFERENCE = 12_000  # of the reference at most so many, whatever the share: a body in a whole street's scan


@dataclass(frozen=True)
class SoftSettings:
    """Settings of the soft assignment. Lengths in normalised units.

    Attributes:
        steps: annealing steps, over which sigma falls geometrically.
        sigma_start: its first value.
        sigma_end: its last one.
        scalings: alternating row and column scalings a step.
        slack: kernel value at which a point would rather stay unmatched.
        smoothness: ridge on the change of W from where it began, times sigma^2.
        affine_ridge: on that of A, times sigma^2.
    """

    steps: int = 40
    sigma_start: float = 0.1
    sigma_end: float = 0.03
    scalings: int = 4
    slack: float = 0.78
    smoothness: float = 60.0
    affine_ridge: float = 100.0

    @classmethod
    def for_case(cls, *, whole: bool, sampled: bool = False, spacing: float | None = None) -> SoftSettings:
        """Settings by what is to be matched, all of the source or a part of it, whether samples are, and, for the rigid
        energy, by the spacing of the reference's points: a wider kernel would draw limbs in, which no ridge keeps where
        PWAN left them."""
        chosen = cls() if whole else cls(steps=80, scalings=10, smoothness=150.0, affine_ridge=1000.0)
        if spacing is not None:
            return replace(chosen, steps=30, sigma_start=2 * spacing, sigma_end=spacing)
        # a sample is denser than the sets that the widths above are for, and PWAN has brought large sets nearer
        return replace(chosen, steps=40, sigma_start=0.05, sigma_end=0.02) if sampled else chosen


def soft_assignment(
    transform: Transform,
    initial: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    settings: SoftSettings,
    seeds: list[int],
    observer: Callable[[int, Tensor], None] | None = None,
    pull: Pull | None = None,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
    stiff: tuple[Rigidity, float] | None = None,
    carried: Carried | None = None,
) -> Tensor:
    """Anneal a two-sided soft assignment with slack, with a closed-form fit of A, t and W in each step.

    Rows and columns of the assignment sum to at most the weights of their points, the rest goes to the slack; of the
    mass type only the best matched source points that make up m keep their rows. Kin to TPS-RPM (Chui & Rangarajan),
    with the kernel's smooth modes.

    Args:
        transform: modes, affine or rigid, of all source points.
        initial: (B, P, D) its parameters to begin with.
        reference: (B, q, D) normalised; with attributes (B, q, D + A).
        mass: (B,) or None for all.
        settings: for the kind of problem.
        seeds: one for each problem, for the samples.
        observer: told after each step of its number, from 1, and of the parameters; not of rigid transforms.
        pull: of landmarks, which take part in each fit, whatever the sample and the mass.
        weights: (B, q) of the reference's points and (B, r) of the source's; None for 1 each.
        stiff: the rigid energy and its stiffness, in place of the ridge on W and A; None for the ridge.
        carried: the attributes of the source, with which the kernel is of the product of space and attributes; the fit
            is of space alone.

    Returns:
        (B, P, D) parameters; a problem whose fit is singular keeps the initial ones. Of a source that is too large for
        one matrix they are the mean over several samples of both sets, which share the first steps.
    """
    steps, shared = range(settings.steps), _shared(transform, settings)

    def annealed(sample: int, taken: range, begin: Tensor, before: int) -> Tensor:
        def observe(step: int, parameters: Tensor) -> None:
            if observer is not None:
                observer(before + step, parameters)

        return _anneal(
            *(transform, initial, begin, reference, mass, settings, seeds, sample, taken, observe),
            *(pull, weights, stiff, carried),
        )

    near = annealed(0, steps[:shared], initial, 0) if shared else initial
    mean = torch.zeros_like(initial)
    for sample in range(_samples(transform)):
        of_sample = annealed(sample, steps[shared:], near, sample * (settings.steps - shared))
        mean += (of_sample - mean) / (sample + 1)
    return mean


def steps_of(transform: Transform, settings: SoftSettings) -> int:
    """How many steps the soft assignment takes, those of all samples together."""
    shared = _shared(transform, settings)
    return shared + _samples(transform) * (settings.steps - shared)


def _shared(transform: Transform, settings: SoftSettings) -> int:
    """How many of the first steps one sample takes for all of them."""
    alike = _samples(transform) > 1 and transform.source.shape[1] <= 2 * SOFT_POINTS
    return min(round(SHARED * settings.steps), settings.steps - 1) if alike else 0


def _samples(transform: Transform) -> int:
    """How many samples of the source are taken; 1 for all of it, and where parameters have no mean."""
    return SAMPLES if transform.source.shape[1] > SOFT_POINTS and transform.kind != "rigid" else 1


def _anneal(
    transform: Transform,
    initial: Tensor,
    begin: Tensor,
    reference: Tensor,
    mass: Tensor | None,
    settings: SoftSettings,
    seeds: list[int],
    sample: int,
    steps: range,
    observer: Callable[[int, Tensor], None],
    pull: Pull | None = None,
    weights: tuple[Tensor | None, Tensor | None] = (None, None),
    stiff: tuple[Rigidity, float] | None = None,
    carried: Carried | None = None,
) -> Tensor:
    """Some steps of the soft assignment of one sample, from ``begin`` on; see :func:`soft_assignment`."""
    dtype, device = torch.float64, reference.device
    source, d = transform.source.to(dtype), transform.dimension
    r, q = source.shape[1], reference.shape[1]
    basis = transform.basis.to(dtype) if transform.kind == "nonrigid" and transform.basis is not None else None
    share = min(1.0, SOFT_POINTS / r)
    rows = _subsample(r, share, seeds, ("source", sample), device)
    picks = _subsample(q, min(share, SOFT_REFERENCE / q), seeds, ("reference", sample), device)
    y, x_in_product = _take(source, rows), _take(reference.to(dtype), picks)
    x, together = x_in_product[..., :d], _with_attributes(carried and carried.part(rows))
    a, b = (_masses(of, at, points) for of, at, points in zip(weights, (picks, rows), (x, y), strict=True))
    total = b.sum(1, keepdim=True)  # (B, 1, 1)
    ones, ones_of_x = torch.ones_like(y[..., :1]), torch.ones_like(x[..., :1])
    design = torch.cat((y, ones), -1) if basis is None else torch.cat((y, ones, _take(basis, rows)), -1)  # (B, n, p)
    fitted_y, fitted = y, design  # what the fit of a step goes over
    if pull is not None:
        fitted_y = torch.cat((y, pull.transform.source.to(dtype)), 1)
        fitted = torch.cat((design, pull.design().to(dtype)), 1)
    ridge = torch.full((design.shape[-1],), settings.smoothness, dtype=dtype, device=device)
    ridge[:d], ridge[d] = settings.affine_ridge, 0.0
    current = begin.to(dtype)
    if transform.kind == "rigid":
        current = torch.cat((transform.affine(initial), transform.translation(initial)), 1).to(dtype)
    kept_mass = None if mass is None else (mass.to(dtype) * share).minimum(total.flatten())
    rooms = [y.new_empty(0, dtype=torch.float32) for _ in y]
    for step in steps:
        annealed = step / max(1, settings.steps - 1)
        sigma = settings.sigma_start * (settings.sigma_end / settings.sigma_start) ** annealed
        moved = torch.bmm(design, current)
        to_source, to_reference = _kernel(together(moved, current, step), x_in_product, sigma, rooms)
        v = ones_of_x
        for _ in range(settings.scalings):
            u = 1.0 / (to_source(a * v) + settings.slack)  # (B, n, 1)
            v = 1.0 / (to_reference(b * u) + settings.slack)  # (B, q, 1)
        sent, image = (u * to_source(a * v * torch.cat((ones_of_x, x), -1))).tensor_split([1], -1)
        # sent (B, n, 1): how much of its mass each source point sends; image (B, n, D): where to, times that
        kept = b if kept_mass is None else largest_share(sent[..., 0], kept_mass, b[..., 0])[..., None]
        weight, image = sent * kept, image * kept
        if pull is not None:
            of_pairs = total * pull.strength * sigma * pull.weights.to(dtype)
            weight = torch.cat((weight, of_pairs), 1)
            image = torch.cat((image, of_pairs * pull.goals.to(dtype)), 1)
        if transform.kind == "rigid":
            current = rigid_fit(fitted_y, weight, image, current)
            continue
        normal = torch.bmm((fitted * weight).mT, fitted)  # (B, p, p)
        right = torch.bmm(fitted.mT, image)
        normal.diagonal(dim1=1, dim2=2).add_(1e-9 if stiff is not None else ridge * sigma**2 + 1e-9)
        if stiff is None:
            right += (ridge * sigma**2)[:, None] * initial.to(dtype)  # where PWAN, or what came before, left it
        else:
            rigidity, stiffness = stiff
            gradient, curvature = rigidity.gradient(current)
            strength = SOFTER * stiffness * sigma * total  # against each other as in PWAN's steps: see the landmarks
            normal += strength * curvature
            right += strength * (curvature @ current - gradient)
        current = _solved(normal, right, current)
        observer(step + 1, current.to(initial.dtype))
    return rigid_parameters(current, initial) if transform.kind == "rigid" else current.to(initial.dtype)


def _solved(normal: Tensor, right: Tensor, current: Tensor) -> Tensor:
    """The parameters (B, p, D) that solve the normal equations; a problem's current ones where they are singular."""
    solution, info = torch.linalg.solve_ex(normal, right)
    good = (info == 0) & solution.isfinite().all(-1).all(-1)
    return torch.where(good[:, None, None], solution, current)


def _with_attributes(carried: Carried | None) -> Callable[[Tensor, Tensor, int], Tensor]:
    """From moved points (B, n, D), the fit that has moved them and the number of the step to points (B, n, D + A) of
    the product of space and attributes; without these as they are."""
    last: Tensor | None = None

    def together(moved: Tensor, fit: Tensor, step: int) -> Tensor:
        nonlocal last
        if carried is None:
            return moved
        if last is None or step % TURN == 0:
            d = moved.shape[2]
            last = carried.at(fit[:, :d], fit[:, d + 1 :]).to(moved)
        return torch.cat((moved, last), -1)

    return together


def _kernel(moved: Tensor, x: Tensor, sigma: float, rooms: Sequence[Tensor]) -> tuple[Product, Product]:
    """The products with exp(-d^2 / (2 sigma^2)) between points (B, n, D) and (B, q, D), and with its transpose: from
    (B, q, k) to (B, n, k), and back. On the CPU only near pairs are held where that saves most of the work, which each
    problem decides for itself; all pairs lie in its room, a float32 tensor that is kept from step to step, since new
    memory costs more than what is computed there."""
    if moved.device.type != "cpu":
        return _all_pairs(moved, x, sigma, None)
    each = [
        _near_pairs(of_source, of_reference, sigma) or _all_pairs(of_source[None], of_reference[None], sigma, room)
        for of_source, of_reference, room in zip(moved, x, rooms, strict=True)
    ]

    def product(side: int, values: Tensor) -> Tensor:
        return torch.cat([products[side](values[k : k + 1]) for k, products in enumerate(each)])

    return partial(product, 0), partial(product, 1)


def _all_pairs(moved: Tensor, x: Tensor, sigma: float, room: Tensor | None) -> tuple[Product, Product]:
    if room is not None and moved.shape[1] >= FEWEST and _near_enough(moved, x, sigma):
        kernel = _in_single(moved / sigma, x / sigma, room)
    else:
        kernel = torch.cdist(moved, x, compute_mode="donot_use_mm_for_euclid_dist").square_()
        kernel.mul_(-0.5 / sigma**2).exp_()  # (B, n, q)

    def product(matrix: Tensor, values: Tensor) -> Tensor:
        return torch.bmm(matrix, values.to(matrix)).to(values)

    return partial(product, kernel), partial(product, kernel.mT)


def _near_enough(moved: Tensor, x: Tensor, sigma: float) -> bool:
    """Whether float32 holds the exponents of :func:`_in_single`: they are differences of numbers of this size."""
    largest = max(float(points.square().sum(-1).max()) for points in (moved, x))
    return largest <= HELD * sigma**2  # false for NaN


def _in_single(y: Tensor, x: Tensor, room: Tensor) -> Tensor:
    """exp(-d^2 / 2) in float32, written into ``room``, with the exponent <y, x> - |y|^2 / 2 - |x|^2 / 2 as one product.
    Its error is some 1e-4, which the sum over many pairs hides; it grows with the lengths, up to 1e-2 at ``HELD``."""
    y_half, x_half = (-0.5 * of_set.square().sum(-1, keepdim=True) for of_set in (y, x))
    left = torch.cat((y, y_half, torch.ones_like(y_half)), -1).float()
    right = torch.cat((x, torch.ones_like(x_half), x_half), -1).float()
    return torch.bmm(left, right.mT, out=room).clamp_(LEAST, 0.0).exp_()


def _near_pairs(y: Tensor, x: Tensor, sigma: float) -> tuple[Product, Product] | None:
    """The same of one problem, (n, D) and (q, D), without the pairs whose value is next to nothing; None where all of
    them are few, too many are left, or none at all, or points have left the finite."""
    if len(y) < FEWEST or len(y) * len(x) < MANY or not bool(y.isfinite().all()):
        return None
    reference_tree, some = KDTree(x.numpy()), y[:: max(1, len(y) // LOOKED_AT)].numpy()
    near = KDTree(some).count_neighbors(reference_tree, CUT * sigma)
    if not 0 < near <= SPARSE * len(some) * len(x):
        return None
    lengths = KDTree(y.numpy()).sparse_distance_matrix(reference_tree, CUT * sigma, output_type="coo_matrix")
    kernel = csr_array(lengths)  # keeps zeros
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


def _masses(weights: Tensor | None, rows: Tensor | None, points: Tensor) -> Tensor:
    """(B, n, 1) of the points (B, n, D) of a sample, whose rows these are."""
    if weights is None:
        return torch.ones_like(points[..., :1])
    weights = weights.to(points)
    return (weights if rows is None else weights_of_rows(weights, rows))[..., None]


def _take(values: Tensor, rows: Tensor | None) -> Tensor:
    return values if rows is None else take_rows(values, rows)
