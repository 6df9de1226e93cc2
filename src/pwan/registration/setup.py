"""What the solver starts from: the points in single precision, the coherence basis, the network's architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.coherence import Coherence
from pwan.deformation.transform import Transform
from pwan.problem import RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.registration.settings import PwanSettings
from pwan.transport.potential import Architecture, PotentialNetwork

LOOKED_AT = 2000  # points of the reference by which its spacing is told


@dataclass(frozen=True)
class Whole:
    """All the points of the B problems, on the CPU, whatever part of them this process works on.

    Attributes:
        reference: (B, q, D). transform: of the whole source; its own parameters stay those of the identity.
        coherence: with the basis at all source points, or None. mass, distance: (B,) or None.
    """

    reference: Tensor
    transform: Transform
    coherence: Coherence | None
    mass: Tensor | None
    distance: Tensor | None


def build(
    problem: RegistrationProblem,
    settings: PwanSettings,
    centres: Tensor,
    dtype: torch.dtype,
    agree: Callable[[Tensor], Tensor],
) -> Whole:
    """The whole problem as a solver wants it.

    Args:
        problem: normalised, float64. settings: resolved. centres: (B, k) indices of source points.
        agree: makes a matrix the same in all processes that build this problem; see :class:`Coherence`.
    """
    source, coherence, basis = quantise(problem.source).to(dtype), None, None
    if settings.transform == "nonrigid":
        coherence = Coherence(source.double(), centres, settings.beta, agree)
        coherence.to(dtype)
        basis = coherence.basis if settings.parametrisation == "modes" else None
    return Whole(
        reference=quantise(problem.reference).to(dtype),
        transform=Transform(settings.transform, source, basis),
        coherence=coherence,
        mass=None if problem.mass is None else problem.mass.to(dtype),
        distance=None if problem.distance is None else problem.distance.to(dtype),
    )


def convert(network: PotentialNetwork, device: torch.device, dtype: torch.dtype) -> None:
    """Move a network, in place."""
    network.parameters = torch.nn.Parameter(network.parameters.to(device, dtype), requires_grad=False)
    if network.frequencies is not None:
        network.frequencies = network.frequencies.to(device, dtype)


def quantise(points: Tensor) -> Tensor:
    """Centred coordinates in float32, rounded to multiples of about 2^-16 of the RMS radius.

    The game amplifies the last bit of its input, and a far origin or another unit changes just that; this far below
    any spacing the rounding hides it.
    """
    radius = points.square().sum(-1).mean(1).sqrt()  # (B,)
    grid = 2.0 ** (radius.log2().round() - 16)[:, None, None]
    return (points / grid).round().mul(grid).float()


def common_span(problem: RegistrationProblem) -> Tensor | None:
    """Projectors (B, D, D) onto the directions in which both sets together extend, or None where that is all of space.

    Two sets in one plane (or on one line) stay in it: the network knows nothing of the plane and would lift them out.
    """
    points = torch.cat((problem.source, problem.reference), 1)
    centred = points - points.mean(1, keepdim=True)
    variances, axes = torch.linalg.eigh(torch.bmm(centred.mT, centred))  # (B, D), (B, D, D)
    kept = variances > 1e-12 * variances[:, -1:]
    return None if bool(kept.all()) else torch.bmm(axes * kept[:, None], axes.mT)


def architecture(settings: PwanSettings) -> Architecture:
    """The potential network that the settings name."""
    if settings.potential == "paper":
        return Architecture(slope=settings.activation_slope)
    return Architecture(
        widths=(settings.width,) * settings.layers,
        features=settings.features,
        frequency=settings.frequency,
        slope=settings.activation_slope,
        init="kaiming",
    )


def reach(reference: Tensor, least: float) -> Tensor:
    """(B,) two spacings of the reference (B, q, D) on the CPU, but at least so much; see ``PwanSettings.reach``."""
    spacings = []
    for points in reference.numpy():
        some = points[:: max(1, len(points) // LOOKED_AT)]
        spacings.append(float(np.median(KDTree(points).query(some, 2)[0][:, 1])))
    return 2.0 * torch.tensor(spacings, dtype=torch.float64).clamp(min=least / 2.0)


class Draws:
    """Samples of n points in random order without replacement: each point once before one comes again.

    Step k's sample follows from the purpose and k alone, so that a run goes on from any step.

    Args:
        share: of the points that a sample holds. purpose: of the random numbers, the seed first.
    """

    def __init__(self, n: int, share: float, purpose: tuple[int | str, ...]) -> None:
        self.n, self.size, self.purpose = n, self.size_of(n, share), purpose
        self.round, self.order = -1, torch.empty(0, dtype=torch.int64)

    @staticmethod
    def size_of(n: int, share: float) -> int:
        """How many of n points a sample holds."""
        return max(1, round(share * n))

    def __call__(self, step: int) -> Tensor:
        """The numbers of the points of this step, (size,) int64."""
        this_round, place = divmod(step, self.n // self.size)
        if this_round != self.round:
            seed, *path = self.purpose
            self.order = torch.from_numpy(numpy_generator(int(seed), *path, this_round).permutation(self.n))
            self.round = this_round
        return self.order[place * self.size : (place + 1) * self.size]
