"""PWAN's steps (Algorithm 1) one by one, for B problems at once: stages, means of iterates, problems that stop or
diverge, and what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pwan.devices.ranks import Place
from pwan.problem import RegistrationProblem
from pwan.registration.captured import Captured, may_capture
from pwan.registration.game import Game, Outcome
from pwan.registration.optimisers import set_rate
from pwan.registration.sample import sample_size, spread
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import move_network, set_up
from pwan.registration.state import restore, snapshot
from pwan.registration.stopping import Stopping
from pwan.registration.turning import Turning
from pwan.transport.objective import Kind
from pwan.transport.potential import PotentialNetwork, points_at_once


class Solver:
    """The state of B registrations between two steps, on normalised problems.

    Where several ranks share the registration each holds the whole problem on the CPU and works on its own points of
    both sets; the network, the parameters of the transform and every decision are the same on all. What a step sends
    are the gradients of the network and of the transform's parameters, sums and largest values, and what the search for
    the exact threshold needs: none of it grows with the number of points.

    Everything that a step changes is in :meth:`state_dict`; a solver built from the same arguments and given that state
    goes on exactly as the first one would have (on the CPU, to the bit).

    Args:
        problem: normalised, float64.
        settings: resolved (no None left).
        kind: what the discrepancy limits: "mass", "distance" or "complete".
        seeds: one for each problem; the network and the kernel's centres are drawn from it.
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
        self.settings, self.place = settings, place or Place()
        self.ranks, device = self.place.ranks, torch.device(self.place.device)
        self.setup = set_up(problem, settings, kind, seeds, self.place)
        distance, reach = (
            None if limit is None else limit.to(device, self.place.dtype)
            for limit in (self.setup.distance, self.setup.reach)
        )
        self.schedule = Schedule(settings, distance, reach)
        self.may_capture = may_capture(settings, self.place)
        self.captured: Captured[Outcome] = Captured()
        self.game = Game(self.setup, settings, seeds, self.schedule, self.place, capturable=self.may_capture)
        self.network, self.transform = self.game.network, self.game.transform
        self.turning = Turning.of(self.setup, self.transform, self.place)
        self._resize_sample()
        self.mean, self.mean_count = torch.zeros_like(self.transform.parameters), 0  # of a stage's last iterates
        self.diverged_at = torch.zeros(len(problem), dtype=torch.int64, device=device)  # 0: all is well
        self.stopping = Stopping(settings.tolerance, self.transform, self.ranks, self.setup.sizes.r)

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

    @torch.no_grad()
    def step(
        self, update_transform: Callable[[], Any] | None = None, on_part: Callable[[str], Any] | None = None
    ) -> dict[str, Tensor]:
        """Take u network updates and one transform update.

        Args:
            update_transform: stands for the transform optimiser's step where a trainer wants to count it.
            on_part: is called with "network" and then "transform" when that part of the step is done, for who takes
                the time.

        Returns:
            loss, threshold and gradient_norm, each (B,); the loss is for a source whose masses sum to 1.
        """
        stage, within, length = self.schedule.stage()
        if self.turning is not None and self.turning.due(self.steps_done):
            self.turning.turn(self.transform.parameters)
            self.game.sample.move()
        if within == 0:
            self._begin_stage(stage)
        self.game.sample.draw(self.steps_done)
        first = self.steps_done == 0
        u, warmup = self.settings.updates, self.settings.warmup
        updates, before = (u + warmup, 0) if first else (u, warmup + self.steps_done * u)
        turn = partial(self.game.turn, updates, before, update_transform, on_part)
        captured = self.may_capture and not (first or update_transform or on_part)
        outcome = self.captured(turn) if captured else turn()
        record = {  # copies: the next step writes into these tensors
            "loss": outcome.loss / spread(self.game.sample.seen.totals[1], outcome.loss),
            "threshold": outcome.threshold.clone(),
            "gradient_norm": outcome.gradient_norm.clone(),
        }
        self.schedule.move_to(self.steps_done + 1)
        self._guard(outcome.left > 0)
        if within >= length - max(1, round(self.settings.average * length)):
            self.mean_count += 1
            self.mean += (self.transform.parameters - self.mean) / self.mean_count
        annealing = self.setup.kind == "distance" and self.schedule.annealed() < 1.0
        self.stopping.observe(self.steps_done, moving=annealing)
        if on_part:
            on_part("transform")
        return record

    def _begin_stage(self, stage: int) -> None:
        if stage > 0:
            self.transform.parameters.copy_(self.mean)  # each further stage starts from the mean of the one before
            self._resize_sample()
        self.mean.zero_()
        self.mean_count = 0
        set_rate(self.game.transform_optimiser, self.schedule.rate())

    def _resize_sample(self) -> None:
        """From the next step on, see as many points as its stage is to, where the transform has them now."""
        size = sample_size(self.settings, self.setup.sizes, first_stage=self.schedule.stage()[0] == 0)
        if self.game.sample.resize(size, self.steps_done):
            self.captured.forget()
        self.game.sample.move()

    def _guard(self, left: Tensor) -> None:
        """Put a problem whose numbers left the finite, or whose points ``left`` (B,) the surroundings of both sets,
        back to the identity and keep it there."""
        network_good = self.network.parameters.isfinite().all(-1)  # (B,)
        fresh = (left | ~network_good) & (self.diverged_at == 0)
        self.diverged_at[fresh] = self.steps_done
        bad = self.diverged_at > 0
        if bool(bad.any()):
            self.network.parameters[~network_good] = 0.0
            self.transform.parameters[bad] = self.game.energy.identity[bad]
            self.game.sample.points[..., : self.transform.dimension][bad] = self.game.sample.transform.source[bad]

    # --- what comes out ---------------------------------------------------------------------------------------------

    def answer(self) -> Tensor:
        """The parameters (B, P, D) that stand as the answer now: the mean of the iterates, or the last one."""
        answer = self.transform.parameters if self.settings.average == 0 or self.mean_count == 0 else self.mean
        stopped = (self.stopping.stopped_at > 0)[:, None, None]
        answer = torch.where(stopped, self.stopping.stopped_answer, answer)
        diverged = (self.diverged_at > 0)[:, None, None]
        return torch.where(diverged, self.game.energy.identity, answer).detach().clone().cpu()

    @torch.no_grad()
    def evaluate(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Threshold in force and mass transported, each (B,) on the CPU, by the potential as it is now, for a transform
        with these parameters (B, P, D). All ranks must ask together."""
        if self.turning is not None:
            self.turning.turn(parameters)
        points = self.transform.in_product(parameters.to(self.place.device))
        of_reference, of_source = (self._output(of_set) for of_set in (self.game.reference, points))
        found = self.game.loss(of_reference, of_source, self.game.sample.everything)
        (threshold,) = self.ranks.largest(found.threshold)
        (transported,) = self.ranks.sum(found.source_share.sum(1))
        return threshold.cpu(), transported.cpu()

    def _output(self, points: Tensor) -> Tensor:
        """Of the network at points (B, n, D): (B, n); chunk by chunk, since all features together may be too large."""
        chunks = points.split(points_at_once(points), 1)
        return torch.cat([self.network.output(self.network.features(chunk)) for chunk in chunks], 1)

    def potential(self, k: int) -> PotentialNetwork:
        """The network of problem k as it is now, on the CPU."""
        one = self.network.only(k)
        move_network(one, torch.device("cpu"), self.place.dtype)
        return one

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "network": self.network.parameters,
            "learned_threshold": self.game.loss.h,
            "transform": self.transform.parameters,
            "mean": self.mean,
            "diverged_at": self.diverged_at,
            **({} if self.turning is None else {"attributes": self.turning.attributes}),
        }

    def _optimisers(self) -> dict[str, Optimizer]:
        return {"network_optimiser": self.game.network_optimiser, "transform_optimiser": self.game.transform_optimiser}

    def state_dict(self) -> dict[str, Any]:
        """Everything that a step changes."""
        counts = {"mean_count": self.mean_count, "steps_done": self.steps_done}
        return {**snapshot(self._tensors(), self._optimisers()), **counts, **self.stopping.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state that :meth:`state_dict` of an equally built solver gave."""
        restore(state, self._tensors(), self._optimisers())
        self.mean_count = state["mean_count"]
        self.schedule.move_to(state["steps_done"])
        self.stopping.load_state_dict(state)
        with torch.no_grad():
            self._resize_sample()
        self.captured.forget()  # the optimisers hold other tensors now
