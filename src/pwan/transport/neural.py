"""The Kantorovich-Rubinstein form of partial transport, maximised by a potential network (paper, Theorems 1 and 2).

The network's output o gives f = -min(max(o, 0), h). The mass type takes the best h for the network at hand instead of
a learned one (``objective``). All problems of a call run as one batch, each with its own network.

The paper bounds f by -|o|, whose fold at o = 0 can trap the ascent: two arcs with h = 0.4 stay 10% short, and one run
in eight on the fish 70%. With max(o, 0) at the reference points and o itself at the source points (where f > 0 only
loses), the objective is concave in the function o and has the same maximum over all 1-Lipschitz o: the same arcs end
within 0.4%.
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
from pwan.transport.adam import adam
from pwan.transport.duality import feasible, nearest_points, sampled_rows, steepest_pairs
from pwan.transport.objective import Kind, objective
from pwan.transport.potential import PotentialNetwork
from pwan.transport.settings import NeuralSettings

INITIAL_OUTPUT = 0.1  # of the network, in RMS radii: above 0 reference points have a slope at once; chosen by eye
# Share of the updates over which kappa rises, chosen by eye. A stiff penalty from the start triples the updates that
# are needed (benchmarks/README.md, "Precision of the partial Wasserstein values").
RISE = 0.7
# Of the segments, these shares lie between near neighbours and between the pairs that were last found the steepest: an
# isolated pair that no random segment hits would otherwise be as steep as the objective likes.
NEAR, STEEP = 0.25, 0.25
LOOK = 50  # updates from one search for the steepest pairs to the next
LOOKED = 2**20  # pairs of each problem that a search looks at
DOUBT = 0.1  # value and lower bound are of one opinion if they differ by less than this share of the larger


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
    ordered = [problems[i] for i in order]
    batch = _standardise(ordered, torch.device(settings.device))
    network = _train(batch.to(torch.float32), settings, observer)
    results = _certify(ordered, batch, _in_double(network), settings)
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
    optimiser = adam([network.parameters], settings.step_size, (0.9, 0.99))
    segments = _Segments(batch, numpy_generator(settings.seed, "segments"))
    features = network.features(batch.points)  # (B, q + r, F)
    no_slope = features.new_zeros(b, settings.segment_points)
    output = network.output(features)
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

        if update % LOOK == 0:
            segments.look(output[:, :n], settings.segment_points)
        between = network.features(segments.draw(settings.segment_points))  # (B, s, F)
        output, _ = network.accumulate_gradient(
            torch.cat((features, between), 1), slope_of_loss, slope_of_penalty, gradient
        )
        optimiser.step()
        if observer:
            observer(update + 1, settings.updates)
    return network


class _Segments:
    """Random points of segments between the sets: any two points, near neighbours, and the steepest pairs."""

    def __init__(self, batch: _Batch, generator: np.random.Generator) -> None:
        self.batch, self.generator = batch, generator
        self.x, self.y = batch.points[:, : batch.q], batch.points[:, batch.q :]
        near = []
        for x, y in zip(self.x, self.y, strict=True):
            of_x, of_y = nearest_points(x, y)[1], nearest_points(y, x)[1]
            own_x, own_y = (torch.arange(len(side), dtype=torch.int64, device=side.device) for side in (x, y))
            near.append(torch.stack((torch.cat((own_x, of_y)), torch.cat((of_x, own_y)))))
        self.near = torch.stack(near)  # (B, 2, q + r) rows of the reference and of the source
        self.steep = self.near

    def look(self, output: Tensor, count: int) -> None:
        """Find the pairs between which f, by this output (B, q + r), is now the steepest."""
        q = self.batch.q
        rows = sampled_rows(q, self.y.shape[1], LOOKED, self.generator).to(output.device)
        f, steep = -output.clamp(min=0.0), []
        for k, (x, y) in enumerate(zip(self.x[:, rows], self.y, strict=True)):
            pairs = steepest_pairs(x, y, f[k, rows], f[k, q:], count)
            steep.append(torch.stack((rows[pairs[0]], pairs[1])))
        self.steep = torch.stack(steep)  # (B, 2, count)

    def draw(self, count: int) -> Tensor:
        """(B, count, D); the same draws in every problem."""
        shares = [round(count * NEAR), round(count * STEEP)]
        ends = [self._any(count - sum(shares))]
        for pairs, size in zip((self.near, self.steep), shares, strict=True):
            ends.append(pairs[..., torch.from_numpy(self.generator.integers(pairs.shape[2], size=size))])
        start, end = torch.cat(ends, 2)[..., None].expand(-1, -1, -1, self.x.shape[2]).unbind(1)
        at = torch.from_numpy(self.generator.random(count)).to(self.x)[:, None]
        return torch.lerp(self.x.gather(1, start), self.y.gather(1, end), at)

    def _any(self, count: int) -> Tensor:
        ends = [torch.from_numpy(self.generator.integers(side.shape[1], size=count)) for side in (self.x, self.y)]
        return torch.stack(ends).to(self.near).expand(len(self.x), -1, -1)


def _in_double(network: PotentialNetwork) -> PotentialNetwork:
    double = copy.copy(network)
    double.parameters = torch.nn.Parameter(network.parameters.double(), requires_grad=False)
    double.frequencies = None if network.frequencies is None else network.frequencies.double()
    return double


def _certify(
    problems: Sequence[TransportProblem], batch: _Batch, network: PotentialNetwork, settings: NeuralSettings
) -> list[TransportResult]:
    """Values, gradient norms and lower bounds in float64, in input units."""
    n, generator = batch.points.shape[1], numpy_generator(settings.seed, "certificate")
    segments = _Segments(batch, generator)
    features = network.features(batch.points)
    segments.look(network.output(features), settings.certificate_points)
    between = network.features(segments.draw(settings.certificate_points))
    output, gradient = network.output_and_gradient(torch.cat((features, between), 1))
    norm = gradient.norm(dim=-1).amax(1)  # (B,); |grad f| is |grad o|, or 0 where f is clipped
    value, _, threshold = batch.evaluate(output[:, :n], clip_reference=True)
    if not bool(torch.isfinite(value).all()):
        raise RuntimeError(f"the updates of the potential diverged; lower step_size (it is {settings.step_size})")
    f = output[:, : batch.q].clamp(min=0.0).minimum(threshold[:, None]).neg()
    bound, checked = _lower_bound(problems, batch, f, settings.certificate_pairs, generator)
    unit, m = batch.carried * batch.scale, len(batch.mass)
    value, bound = (  # what the theorems promise, where rounding leaves a last digit
        torch.cat((values[:m].clamp(min=0.0), values[m:].clamp(max=0.0))) for values in (value, bound)
    )
    return [
        TransportResult(
            value=float(value[i] * unit[i]),
            potential=Potential(network.only(i), batch.centre[i : i + 1], float(batch.scale[i]), float(threshold[i])),
            lower_bound=float(bound[i] * unit[i]),
            checked_pairs=checked,
            gradient_norm=float(norm[i]),
            doubt=_doubt(float(value[i] * unit[i]), float(bound[i] * unit[i])),
        )
        for i in range(len(value))
    ]


def _doubt(value: float, bound: float) -> str | None:
    if abs(value - bound) <= DOUBT * max(abs(value), abs(bound)):
        return None
    why = (
        "the potential has not learned what is proved: more updates may help, if the distances are not far smaller "
        "than the sets"
        if value < bound
        else "the potential may be steeper than 1 somewhere: raise kappa, segment_points or updates"
    )
    return f"the value is {value:.4g}, but {bound:.4g} is the lower bound; {why}; solver='exact' settles it"


def _lower_bound(
    problems: Sequence[TransportProblem], batch: _Batch, f: Tensor, pairs: int, generator: np.random.Generator
) -> tuple[Tensor, float]:
    """(B,) the objective at feasible values made of the potential f (B, q) at the reference and, if that is more, of
    f = 0 (every point goes to its nearest one); and the share of the pairs that was looked at.

    Lengths are taken between the points as they were given: centred, those of a set with a far outlier lose digits.
    """
    candidates, checked = [], 1.0
    for problem, scale, own in zip(problems, batch.scale, f, strict=True):
        x, y = (torch.from_numpy(points).to(f) for points in (problem.reference, problem.source))
        start = torch.stack((own * scale, torch.zeros_like(own)))
        *values, checked = feasible(x, y, start, pairs, generator)
        candidates.append(torch.cat(values, 1) / -scale)
    weight = batch.reference_weights.sum(1) + batch.source_weights.sum(1)
    bounds = []
    for outputs in torch.stack(candidates).unbind(1):
        value, _, threshold = batch.evaluate(outputs, clip_reference=True)
        # rounding is not to lift the bound above the exact value
        bounds.append(value - 8 * torch.finfo(f.dtype).eps * weight * threshold)
    return bounds[0].maximum(bounds[1]), checked
