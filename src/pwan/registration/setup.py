"""What the solver is built from: the points in single precision, the coherence basis, the limits of the discrepancy,
and where the transform begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwan.choices import Kind
from pwan.deformation.coherence import Coherence, coherence_of
from pwan.deformation.normals import Carried, in_product
from pwan.deformation.rigidity import Rigidity
from pwan.deformation.transform import Transform
from pwan.devices.ranks import Place
from pwan.problem import RegistrationProblem
from pwan.registration.landmarks import Pull, equilibrium
from pwan.registration.sample import Masses, Sizes
from pwan.registration.settings import PwanSettings
from pwan.transport.potential import PotentialNetwork
from pwan.transport.settings import Architecture
from pwan.weights import median_spacing


@dataclass(frozen=True)
class Setup:
    """All the points of the B problems and what follows from them, on the CPU, whatever part of them this process works
    on.

    Attributes:
        kind: what the discrepancy limits.
        reference: (B, q, D); with attributes (B, q, D + A).
        masses: of both sets' points.
        transform: of the whole source; its own parameters stay those of the identity.
        coherence: with the basis at all source points; None where V = 0.
        rigidity: of the rigid energy; None for the other one.
        mass: (B,) or None.
        distance: (B,) the paper's h, or None.
        learned: whether h is trained with the network.
        reach: (B,) see :func:`reach`; None where it is off.
        span: (B, D, D) see :func:`common_span`; None where that is all of space.
        landmarks: their pull, or None.
        initial: (B, P, D) the parameters to begin with; None for those of the identity.
        carried: the attributes of the source, float64; None without any.
    """

    kind: Kind
    reference: Tensor
    masses: Masses
    transform: Transform
    coherence: Coherence | None
    rigidity: Rigidity | None
    mass: Tensor | None
    distance: Tensor | None
    learned: bool
    reach: Tensor | None
    span: Tensor | None
    landmarks: Pull | None
    initial: Tensor | None
    carried: Carried | None

    @property
    def sizes(self) -> Sizes:
        """Of all points of both sets."""
        return Sizes(self.reference.shape[1], self.transform.source.shape[1])

    def part(self, place: Place) -> tuple[Transform, Coherence | None]:
        """The transform and the coherence of this rank's points, on its device."""
        coherence = self.coherence and self.coherence.part(place.own, torch.device(place.device))
        basis = coherence.basis if coherence is not None and self.transform.basis is not None else None
        attributes = None if self.transform.attributes is None else place.own(self.transform.attributes)
        return Transform(self.transform.kind, place.own(self.transform.source), basis, attributes), coherence


def set_up(
    problem: RegistrationProblem, settings: PwanSettings, kind: Kind, seeds: Sequence[int], place: Place
) -> Setup:
    """The setup of a solver. All ranks must call it together.

    Args:
        problem: normalised, float64.
        settings: resolved.
        kind: what the discrepancy limits.
        seeds: one for each problem.
        place: whose ranks get the same matrices, and whose precision all takes.

    Raises:
        ValueError: see :func:`check_ranks` and :func:`check_normals`.
    """
    check_ranks(problem, settings, place.ranks.size)
    check_normals(problem, settings)
    sets = (problem.source, problem.source_weights), (problem.reference, problem.reference_weights)
    source, reference = (quantise(*one).to(place.dtype) for one in sets)
    coherence, basis = None, None
    if settings.transform == "nonrigid":
        modes = settings.parametrisation == "modes"
        coherence = coherence_of(
            source.double(), problem.source_faces, settings.coherence_kernel, seeds, place.as_on_first
        )
        coherence.to(place.dtype)
        basis = coherence.basis if modes else None
    carried = Carried.of(problem, coherence)
    attributes = None
    if carried is not None:
        attributes = carried.attributes.source.to(place.dtype, copy=True)  # which turns
        reference = torch.cat((reference, carried.attributes.reference.to(place.dtype)), -1)
    transform = Transform(settings.transform, source, basis, attributes)
    rigidity = None
    if settings.energy == "rigid":
        rigidity = Rigidity.of(transform, source.double(), problem.source_faces, settings.neighbours)
    landmarks = Pull.of(problem, transform, reference, settings.pull)
    to_begin = landmarks if problem.guess is None else Pull.towards(transform, problem.guess)
    learned = kind == "mass" and settings.threshold == "learned"
    limited = kind == "mass" and not learned and settings.reach > 0 and settings.stages != 0
    return Setup(
        kind=kind,
        reference=reference,
        masses=Masses.of(problem, place.dtype),
        transform=transform,
        coherence=coherence,
        rigidity=rigidity,
        mass=None if problem.mass is None else problem.mass.to(place.dtype),
        distance=None if problem.distance is None else problem.distance.to(place.dtype),
        learned=learned,
        reach=reach(in_product(problem)[1], settings.reach, problem.reference_weights) if limited else None,
        span=common_span(problem),
        landmarks=landmarks,
        initial=None if to_begin is None else equilibrium(to_begin, transform, coherence, settings),
        carried=carried,
    )


def check_ranks(problem: RegistrationProblem, settings: PwanSettings, ranks: int) -> None:
    """Refuse what so many ranks cannot share.

    Raises:
        ValueError: more ranks than points, or several ranks for a free displacement.
    """
    fewest = min(problem.source.shape[1], problem.reference.shape[1])
    if fewest < ranks:
        raise ValueError(f"{fewest} points cannot be dealt out over {ranks} ranks; take fewer ranks")
    if ranks > 1 and settings.transform == "nonrigid" and settings.parametrisation == "free":
        raise ValueError(
            f"parametrisation=free cannot be dealt out over {ranks} ranks, since its unknowns are as many as the "
            "points; take parametrisation=modes, or one device"
        )


def check_normals(problem: RegistrationProblem, settings: PwanSettings) -> None:
    """Refuse normals that nothing turns.

    Raises:
        ValueError: a free displacement, which is known at the points alone.
    """
    normals = problem.attributes is not None and problem.attributes.normals
    if normals and settings.transform == "nonrigid" and settings.parametrisation == "free":
        raise ValueError(
            "parametrisation=free cannot turn normals, since it knows no slope of the displacement; take "
            "parametrisation=modes, or leave the normals out"
        )


def move_network(network: PotentialNetwork, device: torch.device, dtype: torch.dtype) -> None:
    """Move a network to a device and precision, in place."""
    network.parameters = torch.nn.Parameter(network.parameters.to(device, dtype), requires_grad=False)
    if network.frequencies is not None:
        network.frequencies = network.frequencies.to(device, dtype)


def quantise(points: Tensor, weights: Tensor | None = None) -> Tensor:
    """Centred coordinates in float32, rounded to multiples of about 2^-16 of the RMS radius.

    The game amplifies the last bit of its input, and a far origin or another unit changes just that; this far below
    any spacing the rounding hides it. Of weights (B, n) only whether they are 0 counts.
    """
    square = points.square().sum(-1)  # (B, n)
    if weights is None:
        radius = square.mean(1).sqrt()  # (B,)
    else:  # a far point of weight 0 is not to coarsen the others
        counted = (weights > 0).to(square)
        radius = ((counted * square).sum(1) / counted.sum(1)).sqrt()
    grid = 2.0 ** (radius.log2().round() - 16)[:, None, None]
    return (points / grid).round().mul(grid).float()


def common_span(problem: RegistrationProblem) -> Tensor | None:
    """Projectors (B, D, D) onto the span of both sets together, or None where that is all of space.

    The span is the directions in which the sets extend: two sets in one plane (or on one line) stay in it, while the
    network, which knows nothing of the plane, would lift them out.
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
    assert settings.frequency is not None
    return Architecture(
        widths=(settings.width,) * settings.layers,
        features=settings.features,
        frequency=settings.frequency,
        slope=settings.activation_slope,
        init="kaiming",
    )


def reach(reference: Tensor, least: float, weights: Tensor | None = None) -> Tensor:
    """(B,) how far a source point may be from its partner and still be moved: two spacings of the reference, or more.

    What it does to the objective: :func:`pwan.transport.objective.objective`; what for: ``PwanSettings.reach``.

    Args:
        reference: (B, q, D) on the CPU.
        least: the reach is at least this, in the units of the reference.
        weights: (B, q) of its points, whose median spacing counts; None for equal ones.
    """
    spacings = [
        median_spacing(points, None if weights is None else weights[k].numpy())
        for k, points in enumerate(reference.numpy())
    ]
    return 2.0 * reference.new_tensor(spacings).clamp(min=least / 2.0)
