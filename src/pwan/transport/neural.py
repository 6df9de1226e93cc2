"""The Kantorovich-Rubinstein form of partial transport, maximised by a potential network (paper, Theorems 1 and 2).

The network's output o gives f = -min(max(o, 0), h). The mass type takes the best h for the network at hand instead of
a learned one (``objective``). All problems of a call run as one batch, each with its own network.

The paper bounds f by -|o|, whose fold at o = 0 can trap the ascent: two arcs with h = 0.4 stay 10% short, and one run
in eight on the fish 70%. With max(o, 0) at the reference points and o itself at the source points (where f > 0 only
loses), the objective is concave in the function o and has the same maximum: the same arcs end within 0.4%.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pwan.arrays import real_array
from pwan.randomness import numpy_generator
from pwan.surroundings import undisturbed
from pwan.transport import TransportProblem, TransportResult
from pwan.transport.objective import Kind, objective
from pwan.transport.potential import PotentialNetwork
from pwan.transport.settings import NeuralSettings

INITIAL_OUTPUT = 0.1  # of the network, in RMS radii: above 0 reference points have a slope at once; chosen by eye
# Share of the updates over which kappa rises, chosen by eye. A stiff penalty from the start triples the updates that
# are needed (benchmarks/README.md, "Precision of the partial Wasserstein values").
RISE = 0.7


@dataclass(frozen=True)
class _Batch:
    """B problems in coordinates of mean zero and unit RMS radius, and weights of which a mass of 1 is carried.

    The M problems of the mass type come first; then those of the distance type.
    """

    points: Tensor  # (B, q + r, D), reference first
    q: int
    reference_weights: Tensor  # (B, q)
    source_weights: Tensor  # (B, r)
    mass: Tensor  # (M,)
    distance: Tensor  # (B - M,)
    centre: Tensor  # (B, 1, D), in input units
    scale: Tensor  # (B,)
    carried: Tensor  # (B,)

    def to(self, dtype: torch.dtype) -> _Batch:
        tensors: dict[str, Any] = {k: v.to(dtype) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **tensors)

    def evaluate(self, output: Tensor, *, clip_reference: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Value (B,), its slopes with respect to the output (B, q + r), and the threshold h (B,).

        Clipping the reference at -h too gives the potential of the theorems and a value at least as high, but no slope
        at the reference points beyond h.
        """
        values, slopes, thresholds = [], [], []
        m = len(self.mass)
        parts: list[tuple[Kind, slice]] = [("mass", slice(0, m)), ("distance", slice(m, len(output)))]
        for kind, part in parts:
            x, y = output[part, : self.q], output[part, self.q :]
            if clip_reference:
                y = y.clamp(min=0.0)  # f <= 0; in training the slope goes straight through
            if not len(x):
                continue
            given: dict[str, Any] = {
                "mass": self.mass if kind == "mass" else None,
                "threshold": self.distance if kind == "distance" else None,
                "reference_weights": self.reference_weights[part],
                "source_weights": self.source_weights[part],
                "fold": False,
            }
            state = objective(x, y, kind, **given)
            if clip_reference:
                h = state.threshold[:, None]
                state = objective(x.minimum(h), y, kind, **given)
            values.append(state.value)
            slopes.append(torch.cat((state.reference_slope, state.source_slope), 1))
            thresholds.append(state.threshold)
        return torch.cat(values), torch.cat(slopes), torch.cat(thresholds)


@dataclass(frozen=True, eq=False)
class Potential:
    """The potential f of one problem, a function on all of space: -h <= f <= 0, in input units.

    Attributes:
        network: of one problem, in float64.
        centre: (1, 1, D) in input units.
        scale: the RMS radius of both sets together, in input units.
        threshold: h in units of the scale.
    """

    network: PotentialNetwork
    centre: Tensor
    scale: float
    threshold: float

    @undisturbed()
    def __call__(self, points: ArrayLike | Tensor) -> np.ndarray:
        """f at (N, D) points in input coordinates, (N,)."""
        output = self.network.output(self._features(points))[0]
        return (output.clamp(0.0, self.threshold) * -self.scale).cpu().numpy()

    @undisturbed()
    def gradient(self, points: ArrayLike | Tensor) -> np.ndarray:
        """The gradient of f at (N, D) points, (N, D), without unit; 0 where f is at one of its bounds."""
        output, gradient = self.network.output_and_gradient(self._features(points))
        inside = (output > 0) & (output < self.threshold)  # (1, N)
        return (-gradient * inside[..., None])[0].cpu().numpy()

    def _features(self, points: ArrayLike | Tensor) -> Tensor:
        given = torch.from_numpy(np.array(real_array("points", points), dtype=np.float64)).to(self.centre)
        if given.ndim != 2 or given.shape[1] != self.centre.shape[2]:
            raise ValueError(f"points must have shape (N, {self.centre.shape[2]}), got {tuple(given.shape)}")
        return self.network.features((given[None] - self.centre) / self.scale)


@undisturbed()
def solve(
    problems: Sequence[TransportProblem],
    settings: NeuralSettings,
    observer: Callable[[int, int], None] | None = None,
) -> list[TransportResult]:
    """Maximise the Kantorovich-Rubinstein form of problems with equal numbers of points, as one batch.

    Args:
        problems: what ``check_problem`` made; masses, distances and weights may differ.
        settings: of the solver, the same for all.
        observer: called after each update with the number of updates done and of all.

    Returns:
        One result a problem, in their order: value, potential, lower bound and gradient norm. A problem solved alone
        and in a batch gives the same result to rounding.

    Raises:
        ValueError: the problems differ in the number of points.
        RuntimeError: the updates diverged.
    """
    sizes = {(len(p.reference), *p.source.shape) for p in problems}
    if len(sizes) != 1:
        raise ValueError(
            f"problems of one batch need the same numbers of points, got {sorted(sizes)}; solve them apart"
        )
    order = sorted(range(len(problems)), key=lambda i: problems[i].mass is None)
    batch = _standardise([problems[i] for i in order], torch.device(settings.device))
    network = _train(batch.to(torch.float32), settings, observer)
    results = _certify(batch, _in_double(network), settings)
    return [results[order.index(i)] for i in range(len(problems))]


def _standardise(problems: Sequence[TransportProblem], device: torch.device) -> _Batch:
    def stack(rows: Sequence[Any]) -> Tensor:
        return torch.from_numpy(np.array(rows, dtype=np.float64)).to(device)

    points = stack([np.concatenate((p.reference, p.source)) for p in problems])
    centre = points.mean(1, keepdim=True)
    scale = (points - centre).square().sum(-1).mean(-1).sqrt()  # (B,)
    scale = torch.where(scale > 0, scale, 1.0)
    carried = stack([p.mass or min(p.reference_weights.sum(), p.source_weights.sum()) for p in problems])
    mass = stack([p.mass for p in problems if p.mass is not None])
    distance = stack([p.distance for p in problems if p.distance is not None])
    return _Batch(
        points=(points - centre) / scale[:, None, None],
        q=len(problems[0].reference),
        reference_weights=stack([p.reference_weights for p in problems]) / carried[:, None],
        source_weights=stack([p.source_weights for p in problems]) / carried[:, None],
        mass=mass / carried[: len(mass)],
        distance=distance / scale[len(mass) :],
        centre=centre,
        scale=scale,
        carried=carried,
    )


def _train(batch: _Batch, settings: NeuralSettings, observer: Callable[[int, int], None] | None) -> PotentialNetwork:
    b, n, dimension = batch.points.shape
    network = PotentialNetwork(settings.architecture(), dimension, [settings.seed] * b, batch.points.device)
    network.parameters[:, -1] = INITIAL_OUTPUT
    network.parameters.grad = gradient = torch.zeros_like(network.parameters)
    optimiser = torch.optim.Adam([network.parameters], lr=settings.step_size, betas=(0.9, 0.99), fused=True)
    generator = numpy_generator(settings.seed, "segments")
    features = network.features(batch.points)  # (B, q + r, F)
    no_slope = features.new_zeros(b, settings.segment_points)
    for update in range(settings.updates):
        done = update / settings.updates
        cosine = 0.5 + 0.5 * math.cos(math.pi * done)
        optimiser.param_groups[0]["lr"] = settings.step_size * (
            settings.final_step_size + (1 - settings.final_step_size) * cosine
        )
        kappa = settings.start_kappa * (settings.kappa / settings.start_kappa) ** min(1.0, done / RISE)

        def slope_of_loss(output: Tensor) -> Tensor:
            return torch.cat((batch.evaluate(output[:, :n])[1].neg_(), no_slope), 1)

        def slope_of_penalty(norms: Tensor, kappa: float = kappa) -> Tensor:
            return (norms - 1).clamp_(min=0.0).mul_(2 * kappa / norms.shape[1])

        segments = network.features(_segments(batch, settings.segment_points, generator))  # (B, s, F)
        network.accumulate_gradient(torch.cat((features, segments), 1), slope_of_loss, slope_of_penalty, gradient)
        optimiser.step()
        if observer:
            observer(update + 1, settings.updates)
    return network


def _segments(batch: _Batch, count: int, generator: np.random.Generator) -> Tensor:
    """Random points of random segments between the sets, (B, count, D); the same draws in every problem."""
    r = batch.points.shape[1] - batch.q
    start = torch.from_numpy(generator.integers(batch.q, size=count))
    end = torch.from_numpy(generator.integers(r, size=count)) + batch.q
    at = torch.from_numpy(generator.random(count)).to(batch.points)[:, None]
    return torch.lerp(batch.points[:, start], batch.points[:, end], at)


def _in_double(network: PotentialNetwork) -> PotentialNetwork:
    double = copy.copy(network)
    double.parameters = torch.nn.Parameter(network.parameters.double(), requires_grad=False)
    double.frequencies = None if network.frequencies is None else network.frequencies.double()
    return double


def _certify(batch: _Batch, network: PotentialNetwork, settings: NeuralSettings) -> list[TransportResult]:
    """Values, gradient norms and lower bounds in float64, in input units."""
    segments = _segments(batch, settings.certificate_points, numpy_generator(settings.seed, "certificate"))
    n = batch.points.shape[1]
    output, gradient = network.output_and_gradient(network.features(torch.cat((batch.points, segments), 1)))
    norm = gradient.norm(dim=-1).amax(1)  # (B,); |grad f| is |grad o|, or 0 where f is clipped
    unit = batch.carried * batch.scale
    value, _, threshold = batch.evaluate(output[:, :n], clip_reference=True)
    # f / |grad f| is 1-Lipschitz, so the objective there is at most the discrepancy; not value / norm, as h stays
    bound, _, _ = batch.evaluate(output[:, :n] / norm.clamp(min=1.0)[:, None], clip_reference=True)
    if not bool(torch.isfinite(value).all()):
        raise RuntimeError(f"the updates of the potential diverged; lower step_size (it is {settings.step_size})")
    m = len(batch.mass)
    value, bound = (  # what the theorems promise, where rounding leaves a last digit
        torch.cat((values[:m].clamp(min=0.0), values[m:].clamp(max=0.0))) for values in (value, bound)
    )
    return [
        TransportResult(
            value=float(value[i] * unit[i]),
            potential=Potential(network.only(i), batch.centre[i : i + 1], float(batch.scale[i]), float(threshold[i])),
            lower_bound=float(bound[i] * unit[i]),
            gradient_norm=float(norm[i]),
        )
        for i in range(len(value))
    ]
