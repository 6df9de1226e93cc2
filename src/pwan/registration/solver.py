"""PWAN's alternating steps (Algorithm 1): u updates of the potential, then one of the transform, for B problems at
once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pwan.deformation.factors import draw_centres
from pwan.deformation.transform import Transform, take_rows
from pwan.devices.ranks import Place
from pwan.normalisation import matches_whole_source
from pwan.problem import RegistrationProblem
from pwan.registration.landmarks import Pull, begun
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import Draws, architecture, build, common_span, convert, reach
from pwan.registration.stopping import Stopping
from pwan.transport.objective import Kind, Objective, objective
from pwan.transport.potential import PotentialNetwork, points_at_once

SHAPE = 10  # points of either set that a smaller sample of the first stage does not fall short of
ESCAPE = 100.0  # a source point this many times farther out than any point was given means that the run diverged


class Solver:
    """The state of B registrations between two steps, on normalised problems.

    Where several ranks share the registration each holds the whole problem on the CPU and works
    on its own points of both sets; the network, the parameters of the transform and every decision are the same on all.
    What a step sends are the gradients of the network and of the transform's parameters, sums and largest values, and
    what the search for the exact threshold needs: none of it grows with the number of points.

    Everything that a step changes is in :meth:`state_dict`; a solver built from the same arguments and given that state
    goes on exactly as the first one would have (on the CPU, to the bit).

    Args:
        problem: normalised, float64.
        settings: resolved (no None left).
        kind: what the discrepancy limits: "mass", "distance" or "complete".
        seeds: one for each problem; the network and the landmarks are drawn from it.
        place: on which ranks and device the steps are computed, and in which precision; alone on the CPU if None.

    Raises:
        ValueError: more ranks than points, or several ranks for a free displacement.
    """

    def __init__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        kind: Kind,
        seeds: Sequence[int],
        place: Place | None = None,
    ) -> None:
        self.settings, self.kind, self.seeds, self.count = settings, kind, list(seeds), len(problem)
        place = place or Place()
        self.ranks, self.device, self.dtype = place.ranks, torch.device(place.device), place.dtype
        (_, self.q, _), (_, self.r, d) = problem.reference.shape, problem.source.shape  # of all ranks together
        modes = settings.transform == "nonrigid" and settings.parametrisation == "modes"
        if self.ranks.size > 1 and settings.transform == "nonrigid" and not modes:
            raise ValueError(
                f"parametrisation=free cannot be dealt out over {self.ranks.size} ranks, since its unknowns are as "
                "many as the points; take parametrisation=modes, or one device"
            )
        centres = draw_centres(self.r, settings.rank, seeds)
        self.whole = build(problem, settings, centres, self.dtype, self._as_on_first)
        source = self._own(self.whole.transform.source)
        self.reference = self._own(self.whole.reference)
        self.mass, self.distance = (
            None if limit is None else limit.to(self.device) for limit in (self.whole.mass, self.whole.distance)
        )
        self.coherence = self.whole.coherence and self.whole.coherence.part(self._own, self.device)
        self.transform = Transform(
            settings.transform, source, self.coherence.basis if modes and self.coherence else None
        )
        span = common_span(problem)
        self.span = None if span is None else span.to(self.device, self.dtype)
        self.identity = self.transform.parameters.detach().clone()
        self.pull = Pull.of(problem, self.whole.transform, self.whole.reference, settings.pull)
        first = self.pull if problem.guess is None else Pull.towards(self.whole.transform, problem.guess)
        if first is not None:
            self.transform.parameters.copy_(self._as_on_first(begun(first, self.whole, settings)))
        if self.pull is not None:  # the same on all ranks, whose energies' gradients are not summed
            self.pull = self.pull.placed(lambda tensor: self._as_on_first(tensor).to(self.device))
        self.network = PotentialNetwork(architecture(settings), d, seeds)
        convert(self.network, self.device, self.dtype)
        self.learned_threshold = torch.nn.Parameter(
            torch.full((self.count,), settings.threshold_start, device=self.device, dtype=self.dtype),
            requires_grad=False,
        )
        # where the whole source is matched nothing is clipped, and h would only grow
        partial = kind == "mass" and not bool(matches_whole_source(problem).all())
        learned = partial and settings.threshold == "learned"
        limited = kind == "mass" and not learned and settings.reach > 0 and settings.stages != 0
        distances = None
        if limited:
            distances = reach(problem.reference, settings.reach).to(self.device, self.dtype)  # (B,)
        self.schedule = Schedule(settings, self.distance, distances)
        self.trained = [self.network.parameters, *([self.learned_threshold] if learned else [])]
        # a captured step can hold neither messages, nor matrix exponentials, nor an RMSprop whose rate changes
        self.captured: torch.cuda.CUDAGraph | None = None
        self.may_capture = (
            self.device.type == "cuda"
            and self.ranks.size == 1
            and settings.transform != "rigid"
            and settings.optimiser == "adam"
        )
        on_device: dict[str, Any] = (
            {"fused": True, "capturable": True} if self.device.type == "cuda" else {"foreach": False}
        )
        self.network_optimiser = torch.optim.Adam(
            self.trained, lr=settings.network_rate, betas=_pair(settings.network_betas), **on_device
        )
        assert settings.rate is not None
        self.transform_optimiser: torch.optim.Optimizer
        if settings.optimiser == "adam":
            self.transform_optimiser = torch.optim.Adam(
                [self.transform.parameters],
                lr=torch.tensor(settings.rate, device=self.device) if self.may_capture else settings.rate,
                betas=_pair(settings.betas),
                **on_device,
            )
        else:
            self.transform_optimiser = torch.optim.RMSprop([self.transform.parameters], lr=settings.rate, foreach=False)
        self.network_gradient = torch.zeros_like(self.network.parameters)
        self.mean, self.mean_count = torch.zeros_like(self.transform.parameters), 0
        self.looked = 0  # how many points of the source a step looks at, of all ranks together
        self._look()
        self.limit = ESCAPE * max(
            float(self.whole.reference.abs().max()), float(self.whole.transform.source.abs().max())
        )
        self.diverged_at = torch.zeros(self.count, dtype=torch.int64, device=self.device)  # 0: all is well
        self.stopping = Stopping(settings.tolerance, self.transform, self.ranks, self.r)

    def _as_on_first(self, tensor: Tensor) -> Tensor:
        return self.ranks.of_first(tensor.to(self.device)).to(tensor.device)  # a group sends from the device alone

    def _own(self, of_all: Tensor) -> Tensor:
        """This rank's points of (B, n, ...), on the device."""
        return of_all[:, self.ranks.slice(of_all.shape[1])].to(self.device).contiguous()

    @property
    def steps_done(self) -> int:
        """Steps taken."""
        return self.schedule.done

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return self.schedule.total

    @property
    def finished(self) -> bool:
        """Whether all steps are taken or every problem has stopped or diverged."""
        return self.steps_done >= self.steps or bool(self.at_rest().all())

    def at_rest(self) -> Tensor:
        """(B,) whether a problem has stopped or diverged: its answer stands."""
        return (self.stopping.stopped_at > 0) | (self.diverged_at > 0)

    def threshold(self) -> Tensor | None:
        """The distance threshold in force (B,): annealed, fixed or learned; None where the exact one of the mass type
        is taken."""
        if self.kind == "distance":
            return self.schedule.distance
        if len(self.trained) > 1:
            return self.learned_threshold.abs()
        return None

    # --- one step ---------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(
        self, update_transform: Callable[[], Any] | None = None, lap: Callable[[str], Any] | None = None
    ) -> dict[str, Tensor]:
        """u network updates and one transform update; returns loss, threshold and gradient norm, each (B,).

        ``update_transform`` stands for the transform optimiser's step where a trainer wants to count it. ``lap`` is
        called with "network" and then "transform" when that part of the step is done, for who takes the time.
        """
        stage, within, length = self.schedule.stage()
        if stage > 0 and within == 0:
            self.transform.parameters.copy_(self.mean)  # each further stage starts from the mean of the one before
            self._look()
            self.points.copy_(self.sampled.points())
        if within == 0:
            self.mean.zero_()
            self.mean_count = 0
            for group in self.transform_optimiser.param_groups:
                rate = self.schedule.rate()
                group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate
        if self.share < 1.0:
            self._draw()
        if self.may_capture and self.steps_done > 0 and not (update_transform or lap):
            value, norm, threshold, far = self._replay()
        else:
            warmup = self.settings.warmup if self.steps_done == 0 else 0
            value, norm, threshold, far = self._advance(self.settings.updates + warmup, update_transform, lap)
        # copies: the next step writes into these tensors
        record = {"loss": value / self.sample_r, "threshold": threshold.clone(), "gradient_norm": norm.clone()}
        self.schedule.move_to(self.steps_done + 1)
        self._guard(far > 0)
        if within >= length - max(1, round(self.settings.average * length)):
            self.mean_count += 1
            self.mean += (self.transform.parameters - self.mean) / self.mean_count
        annealing = self.kind == "distance" and self.schedule.annealed() < 1.0
        self.stopping.look(self.steps_done, moving=annealing)
        if lap:
            lap("transform")
        return record

    def _advance(
        self,
        updates: int,
        update_transform: Callable[[], Any] | None = None,
        lap: Callable[[str], Any] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a step computes, in tensors that stay the same ones from step to step: the objective's value over all
        ranks before the last update of the network, the largest gradient norm, the threshold, and 1 where a point has
        left, each (B,)."""
        features = torch.cat((self.reference_features, self.network.features(self.points)), 1)
        norm = torch.zeros_like(self.learned_threshold)
        for k in range(updates):
            value, norms = self._update_network(features, self._takes_penalty(k))
            norm = norm if norms is None else norms.amax(1)
        if lap:
            lap("network")
        threshold, value = self._transform_gradient(features[:, self.reference_features.shape[1] :], value)
        (update_transform or self.transform_optimiser.step)()
        self.points.copy_(self.sampled.points())
        far = ~(self.points.abs().amax((1, 2)) < self.limit)  # (B,), true for NaN
        far_anywhere, norm, threshold = self.ranks.largest(far.to(self.dtype), norm, threshold)
        return value, norm, threshold, far_anywhere

    def _replay(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As :meth:`_advance`, as one recorded graph of the GPU: a small step is hundreds of kernels, whose launches
        take longer than their work."""
        if self.captured is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._outcome = self._advance(self.settings.updates)
            self.captured = graph
        self.captured.replay()
        return self._outcome

    def _look(self) -> None:
        """From the next step on, look at as many points of the source as its stage is to, and at the same share of the
        reference: all of this rank's, or a sample of them that each step draws anew."""
        s = self.settings
        assert s.sample is not None and s.sample_first is not None
        points = min(s.sample or self.r, self.r)
        if s.sample_first and self.schedule.stage()[0] == 0:
            # a far smaller reference still shows its shape
            points = min(points, max(s.sample_first, SHAPE * self.r // min(self.r, self.q)))
        if points == self.looked:
            return
        self.looked, self.share = points, points / self.r
        self.draws = [
            [Draws(of_set.shape[1], self.share, (seed, "sample", name, self.ranks.rank)) for seed in self.seeds]
            for name, of_set in (("source", self.transform.source), ("reference", self.reference))
        ]
        self.sample_r, self.sample_q = (  # of all ranks together
            sum(Draws.size_of(part, self.share) for part in self.ranks.parts(n)) for n in (self.r, self.q)
        )
        self.sampled, self.captured = self.transform, None
        if self.share == 1.0:
            self.reference_features = self.network.features(self.reference)
            self.points = self.transform.points()  # (B, n, D) where the source points that the step looks at are
        else:
            self._draw()

    def _draw(self) -> None:
        """The points that this step looks at, where it does not look at all; into the tensors of the draw before."""
        source, reference = (
            torch.stack([draw(self.steps_done) for draw in of_set]).to(self.device) for of_set in self.draws
        )
        sampled = self.transform.part(source)
        features = self.network.features(take_rows(self.reference, reference))
        if self.sampled is self.transform:
            self.sampled, self.reference_features, self.points = sampled, features, sampled.points()
            return
        self.sampled.copy_points(sampled)
        self.reference_features.copy_(features)
        self.points.copy_(sampled.points())

    def _takes_penalty(self, update: int) -> bool:
        every = self.settings.penalty_every
        return update == 0 if every == 0 else update % every == 0

    def _objective(self, reference_outputs: Tensor, source_outputs: Tensor, *, of_all: bool = False) -> Objective:
        """Of this rank's points, or its sample of them; sums over the ranks and the largest threshold make it that of
        all."""
        threshold, mass, totals = self.threshold(), self.mass, (self.q, self.r)
        if not of_all and self.share < 1.0:
            totals = self.sample_q, self.sample_r
            mass = None if mass is None else mass * (self.sample_r / self.r)
        if threshold is not None and mass is not None and self.ranks.rank > 0:
            mass = torch.zeros_like(mass)  # the term h m counts once
        return objective(
            reference_outputs,
            source_outputs,
            self.kind,
            mass=mass,
            threshold=threshold,
            reach=self.schedule.reach,
            fold=self.settings.bound == "fold",
            select=self.ranks.largest_share,
            totals=totals,
        )

    def _update_network(self, features: Tensor, penalised: bool) -> tuple[Tensor, Tensor | None]:
        """One update by the gradient over the points of all ranks; the objective (B,) before it and gradient norms
        (B, n), of the points of this one."""
        r, q, values = self.sample_r, self.reference_features.shape[1], []

        def slope_of_loss(outputs: Tensor) -> Tensor:
            found = self._objective(outputs[:, :q], outputs[:, q:])
            values.append(found.value)
            if found.threshold_slope is not None:
                self.learned_threshold.grad = -found.threshold_slope * self.learned_threshold.sign() / r
            return torch.cat((found.reference_slope, found.source_slope), 1).mul_(-1.0 / r)  # (B, q + r), ascent

        penalty = self._penalty_slope if penalised else None
        _, norms = self.network.accumulate_gradient(features, slope_of_loss, penalty, self.network_gradient)
        own = [self.network_gradient, *(p.grad for p in self.trained[1:] if p.grad is not None)]
        for parameter, gradient in zip(self.trained, self.ranks.sum(*own), strict=True):
            parameter.grad = gradient
        self.network_optimiser.step()
        return values[0], norms

    def _penalty_slope(self, norms: Tensor) -> Tensor:
        """From the gradient norms (B, n) to the derivative of the penalty with respect to each."""
        if self.settings.penalty == "mean":  # over the points of all ranks
            return (norms - 1.0).clamp_(min=0.0).mul_(2.0 * self.settings.kappa / (self.sample_q + self.sample_r))
        here, at = norms.max(1, keepdim=True)  # (B, 1)
        (largest,) = self.ranks.largest(here)
        # where several ranks have it, the first one's counts
        claim = torch.where(here == largest, float(self.ranks.size - self.ranks.rank), 0.0)
        (first,) = self.ranks.largest(claim)
        slope = 2.0 * self.settings.kappa * torch.where((largest > 1.0) & (claim == first), largest, 0.0)
        return torch.zeros_like(norms).scatter_(1, at, slope)

    def _transform_gradient(self, features: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Leave the gradient over the source points of all ranks with the transform; the threshold (B,) of those of
        this one, and the sum over all ranks of the ``value`` (B,) of each."""
        outputs, gradient = self.network.output_and_gradient(features)
        found = self._objective(outputs[:, :0], outputs)  # the reference does not move
        # dL/dT(y_j), Eqs. grad_mass and grad_dis, for point masses 1/r
        pull = found.source_slope[..., None] * gradient / self.sample_r  # (B, n, D)
        if self.span is not None:
            pull = torch.bmm(pull, self.span)
        total, value = self.ranks.sum(self.sampled.pull_back(pull), value)
        self._add_energy_gradient(total)
        if self.settings.clip:
            total.clamp_(-self.settings.clip, self.settings.clip)
        self.transform.parameters.grad = total
        return found.threshold, value

    def _add_energy_gradient(self, out: Tensor) -> None:
        s, d = self.settings, self.transform.dimension
        if self.pull is not None:
            out += self.pull.gradient(self.transform.parameters)
        assert s.coherence is not None and s.affine_penalty is not None
        if s.transform != "rigid" and s.affine_penalty:
            out[:, :d] += s.affine_penalty * (self.transform.parameters - self.identity)[:, :d]
        if self.coherence is None:
            return
        if self.transform.basis is not None:
            weight = s.coherence * self.coherence.spectrum / (self.coherence.spectrum + s.sigma)  # (B, k)
            out[:, d + 1 :] += weight[..., None] * self.transform.coefficients
        else:
            out[:, d + 1 :] += s.coherence * self.coherence.gradient(self.transform.coefficients, s.sigma)

    def _guard(self, far: Tensor) -> None:
        """Put a problem whose numbers left the finite, or whose points are ``far`` (B,) away from both sets, back to
        its start and keep it there."""
        network_good = self.network.parameters.isfinite().all(-1)  # (B,)
        fresh = (far | ~network_good) & (self.diverged_at == 0)
        self.diverged_at[fresh] = self.steps_done
        bad = self.diverged_at > 0
        if bool(bad.any()):
            self.network.parameters[~network_good] = 0.0
            self.transform.parameters[bad] = self.identity[bad]
            self.points[bad] = self.sampled.source[bad]

    # --- what comes out ---------------------------------------------------------------------------------------------

    def answer(self) -> Tensor:
        """The parameters (B, P, D) that stand as the answer now: the mean of the iterates, or the last one."""
        answer = self.transform.parameters if self.settings.average == 0 or self.mean_count == 0 else self.mean
        stopped = (self.stopping.stopped_at > 0)[:, None, None]
        answer = torch.where(stopped, self.stopping.stopped_answer, answer)
        return torch.where((self.diverged_at > 0)[:, None, None], self.identity, answer).detach().clone().cpu()

    @torch.no_grad()
    def evaluate(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Threshold in force and mass transported, each (B,) on the CPU, by the potential as it is now, for a transform
        with these parameters (B, P, D). All ranks must ask together."""
        points = self.transform.points(parameters.to(self.device))
        outputs = (  # chunk by chunk, since the features of all points together may be too large
            [self.network.output(self.network.features(chunk)) for chunk in of_set.split(points_at_once(of_set), 1)]
            for of_set in (self.reference, points)
        )
        found = self._objective(*(torch.cat(parts, 1) for parts in outputs), of_all=True)
        (threshold,) = self.ranks.largest(found.threshold)
        (transported,) = self.ranks.sum(found.source_share.sum(1))
        return threshold.cpu(), transported.cpu()

    def potential(self, k: int) -> PotentialNetwork:
        """The network of problem k as it is now, on the CPU."""
        one = self.network.only(k)
        convert(one, torch.device("cpu"), self.dtype)
        return one

    def state_dict(self) -> dict[str, Any]:
        """Everything that a step changes."""
        return {
            "network": self.network.parameters.detach().clone(),
            "learned_threshold": self.learned_threshold.detach().clone(),
            "transform": self.transform.parameters.detach().clone(),
            "network_optimiser": copy.deepcopy(self.network_optimiser.state_dict()),
            "transform_optimiser": copy.deepcopy(self.transform_optimiser.state_dict()),
            "mean": self.mean.clone(),
            "mean_count": self.mean_count,
            "diverged_at": self.diverged_at.clone(),
            "steps_done": self.steps_done,
            **self.stopping.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that :meth:`state_dict` of an equally built solver gave."""
        self.schedule.move_to(state["steps_done"])
        with torch.no_grad():
            self.network.parameters.copy_(state["network"])
            self.learned_threshold.copy_(state["learned_threshold"])
            self.transform.parameters.copy_(state["transform"])
            self._look()
            self.points.copy_(self.sampled.points())
        # load_state_dict keeps the tensors it is given
        self.network_optimiser.load_state_dict(copy.deepcopy(state["network_optimiser"]))
        self.transform_optimiser.load_state_dict(copy.deepcopy(state["transform_optimiser"]))
        self.stopping.load_state_dict(state)
        self.mean.copy_(state["mean"])
        self.diverged_at.copy_(state["diverged_at"])
        self.mean_count = state["mean_count"]
        self.captured = None  # the optimisers hold other tensors now


def of_problems(state: Any, rows: list[int]) -> Any:
    """What a state dict, of nested dicts and lists, says of some of its problems: rows of all its tensors."""
    if isinstance(state, Tensor):
        return state[rows] if state.ndim else state.clone()
    if isinstance(state, dict):
        return {key: of_problems(value, rows) for key, value in state.items()}
    return [of_problems(value, rows) for value in state] if isinstance(state, list) else state


def _pair(betas: tuple[float, ...]) -> tuple[float, float]:
    first, second = betas
    return first, second
