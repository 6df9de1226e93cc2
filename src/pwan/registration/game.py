"""Algorithm 1: the game of the potential f_w, which ascends the loss L, and the transform T_theta, which descends
L + C, for B problems at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pwan.devices.ranks import Place
from pwan.registration.energy import Energy
from pwan.registration.loss import Loss
from pwan.registration.optimisers import network_optimiser, transform_optimiser
from pwan.registration.sample import Sample, Seen, spread
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import Setup, architecture, move_network
from pwan.transport.objective import Objective
from pwan.transport.potential import PotentialNetwork

ESCAPE = 100.0  # a source point this many times farther out than any point was given means that the run diverged


class Outcome(NamedTuple):
    """What a turn has computed of each problem, over all ranks; each (B,)."""

    loss: Tensor  # before the last update of the potential (of each part), in units of mass times length
    gradient_norm: Tensor  # the largest one of the potential, where the last update took a penalty
    threshold: Tensor  # the distance threshold in force
    left: Tensor  # 1 where a source point has left the surroundings of both sets or is not finite, else 0


class Game:
    """Both players, what they play for, and a turn of the loop.

    Args:
        setup: of the problems.
        settings: resolved.
        seeds: one for each problem.
        schedule: what is in force at the current step.
        place: on which ranks and device, and in which precision.
        capturable: whether a graph of the GPU may hold a turn.

    Attributes:
        transform: T_theta of all source points of this rank.
        reference: (B, q, D) all reference points of this rank, with their attributes behind where they have some.
        network: of the potential f_w, which sees the attributes as well.
        sample: the points that the next turn sees; to be given a size.
        loss: L, of alpha (the reference) and beta_theta (the transformed source).
        energy: C.
        trained: w, or w and h where h is learned.
    """

    def __init__(
        self,
        setup: Setup,
        settings: PwanSettings,
        seeds: Sequence[int],
        schedule: Schedule,
        place: Place,
        *,
        capturable: bool,
    ) -> None:
        self.settings, self.ranks, device = settings, place.ranks, torch.device(place.device)
        self.reference = place.own(setup.reference)
        self.span = None if setup.span is None else setup.span.to(device, place.dtype)
        self.transform, coherence = setup.part(place)
        identity = self.transform.parameters.detach().clone()
        if setup.initial is not None:
            self.transform.parameters.copy_(place.as_on_first(setup.initial))
        landmarks = setup.landmarks and setup.landmarks.placed(lambda tensor: place.as_on_first(tensor).to(device))
        rigidity = setup.rigidity and setup.rigidity.to(device)
        self.energy = Energy(settings, self.transform, identity, coherence, rigidity, schedule, landmarks)
        self.network = PotentialNetwork(architecture(settings), self.reference.shape[2], seeds)
        move_network(self.network, device, place.dtype)
        masses = setup.masses.own(place)
        self.sample = Sample(
            self.transform,
            self.reference,
            masses,
            self.network,
            setup.sizes,
            seeds,
            place.ranks,
            settings.update_points,
        )
        self.loss = Loss(setup, settings, schedule, self.sample, place)
        self.trained = [self.network.parameters, *([self.loss.h] if setup.learned else [])]
        self.network_optimiser = network_optimiser(self.trained, settings)
        self.transform_optimiser = transform_optimiser(
            self.transform.parameters, settings, self.energy, capturable=capturable
        )
        self.network_gradient = torch.zeros_like(self.network.parameters)
        places = setup.reference[..., : self.transform.dimension], setup.transform.source  # without attributes
        self.limit = ESCAPE * max(float(p.abs().max()) for p in places)

    def turn(
        self,
        u: int,
        before: int,
        update_transform: Callable[[], Any] | None = None,
        on_part: Callable[[str], Any] | None = None,
    ) -> Outcome:
        """A turn of the loop of Algorithm 1 over the points of all ranks.

        Its tensors stay the same ones from turn to turn, as a captured turn needs it.

        Args:
            u: updates of the potential.
            before: those of the turns before, by which each sees another part of the points.
            update_transform: see :meth:`pwan.registration.solver.Solver.step`.
            on_part: the same; called with "network" alone.
        """
        sample, theta = self.sample, self.transform.parameters
        alpha, beta = sample.reference_features, self.network.features(sample.points)  # as the network sees them
        both = torch.cat((alpha, beta), 1)
        losses, gradient_norm = [], torch.zeros_like(self.loss.h)
        for k in range(u):  # potential learning
            part = sample.parts[(before + k) % len(sample.parts)]
            features = both if part.rows is None else both.index_select(1, part.rows)
            loss, norms = self.update_potential(features, part, self.loss.takes_penalty(k))
            losses.append(loss * spread(sample.seen.totals[1] / part.totals[1], loss))
            gradient_norm = gradient_norm if norms is None else norms.amax(1)
        loss = torch.stack(losses[-len(sample.parts) :]).mean(0)  # of each part once
        if on_part:
            on_part("network")
        gradient, threshold = self.loss_gradient(both[:, alpha.shape[1] :])  # dL / dtheta
        theta.grad, loss = self.ranks.sum(gradient, loss)  # one message
        self.energy.add_gradient(theta.grad)  # d(L + C) / dtheta
        if self.settings.clip:
            theta.grad.clamp_(-self.settings.clip, self.settings.clip)
        (update_transform or self.transform_optimiser.step)()  # registration: descend
        sample.move()
        left = ~(sample.points[..., : theta.shape[2]].abs().amax((1, 2)) < self.limit)  # (B,), true for NaN
        return Outcome(loss, *self.ranks.largest(gradient_norm, threshold, left.to(theta.dtype)))

    def update_potential(self, features: Tensor, seen: Seen, penalised: bool) -> tuple[Tensor, Tensor | None]:
        """Update w (or w and h) by ascending the gradient of L less the penalty.

        Args:
            features: (B, q + r, F) of this rank's points of ``seen``, the reference first.
            seen: a part of the sample.
            penalised: whether the penalty is taken.

        Returns:
            L (B,) of these points before the update, and with the penalty the gradient norms (B, q + r).
        """
        q, total = seen.q, seen.totals[1]
        found: Objective

        def slope_of_loss(output: Tensor) -> Tensor:
            nonlocal found
            found = self.loss(output[:, :q], output[:, q:], seen)
            slope = torch.cat((found.reference_slope, found.source_slope), 1)  # (B, q + r)
            return slope.mul_(spread(-1.0 / total, slope))  # ascent

        def slope_of_penalty(norms: Tensor) -> Tensor:
            return self.loss.penalty_slope(norms, seen, found.source_share)

        penalty = slope_of_penalty if penalised else None
        _, norms = self.network.accumulate_gradient(features, slope_of_loss, penalty, self.network_gradient)
        gradients = [self.network_gradient]
        if found.threshold_slope is not None:
            gradients.append(-found.threshold_slope * self.loss.h.sign() / spread(total, self.loss.h))
        for parameter, gradient in zip(self.trained, self.ranks.sum(*gradients), strict=True):
            parameter.grad = gradient
        self.network_optimiser.step()
        return found.value, norms

    def loss_gradient(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """dL / dtheta (B, P, D) and the threshold (B,) of the source points that this rank sees; features (B, r, F)."""
        output, slope = self.network.output_and_gradient(features)
        seen = self.sample.seen
        found = self.loss(output[:, :0], output, seen)  # the reference does not move
        # dL/dT(y_j), Eqs. grad_mass and grad_dis, for point masses that sum to 1: 1/r each, if they are equal
        slope = slope[..., : self.transform.dimension]  # the attributes stay
        at_points = found.source_slope[..., None] * slope / spread(seen.totals[1], slope)  # (B, n, D)
        if self.span is not None:
            at_points = torch.bmm(at_points, self.span)
        return self.sample.transform.parameter_gradient(at_points), found.threshold
