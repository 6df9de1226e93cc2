"""The loss L of the points that a step sees, over all ranks: Loss_M,m (Eq. loss_m), Loss_D,h (Eq. loss_d) or that of
complete transport; and the gradient penalty of the potential.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwan.devices.ranks import Place
from pwan.registration.sample import Sample, Seen, spread
from pwan.registration.schedule import Schedule
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import Setup
from pwan.transport.objective import Objective, objective


class Loss:
    """L as a function of the network's output, and where its threshold comes from.

    Args:
        setup: of the problems.
        settings: resolved.
        schedule: what is in force at the current step.
        sample: the points that a step sees, of which a loss may see a part.
        place: on which ranks and device.

    Attributes:
        h: (B,) the threshold that is learned with the network where ``setup.learned`` says so; else unused.
    """

    def __init__(self, setup: Setup, settings: PwanSettings, schedule: Schedule, sample: Sample, place: Place) -> None:
        self.kind, self.learned, self.settings = setup.kind, setup.learned, settings
        self.mass = None if setup.mass is None else setup.mass.to(place.device)
        self.schedule, self.sample, self.ranks = schedule, sample, place.ranks
        h = torch.full((len(setup.reference),), settings.threshold_start, device=place.device, dtype=place.dtype)
        self.h = torch.nn.Parameter(h, requires_grad=False)

    def threshold(self) -> Tensor | None:
        """The distance threshold in force (B,): annealed, fixed or learned; None where the exact one of the mass type
        is taken."""
        if self.kind == "distance":
            return self.schedule.distance
        return self.h.abs() if self.learned else None

    def __call__(self, reference_output: Tensor, source_output: Tensor, seen: Seen) -> Objective:
        """L of this rank's points: the sums over the ranks and the largest threshold make it that of all ranks.

        Args:
            reference_output: (B, q).
            source_output: (B, r).
            seen: which points these are.
        """
        masses, totals, whole = seen.masses, seen.totals, self.sample.everything.totals
        threshold, mass = self.threshold(), self.mass
        if mass is not None:
            mass = mass * spread(totals[1] / whole[1], mass)
        if threshold is not None and mass is not None and self.ranks.rank > 0:
            mass = torch.zeros_like(mass)  # the term h m counts once
        return objective(
            reference_output,
            source_output,
            self.kind,
            mass=mass,
            threshold=threshold,
            # in the transform's turn there are no reference points
            reference_weights=1.0 if masses.reference is None else masses.reference[:, : reference_output.shape[1]],
            source_weights=1.0 if masses.source is None else masses.source,
            reach=self.schedule.reach,
            fold=self.settings.bound == "fold",
            select=self.ranks.largest_share,
            totals=(spread(totals[0], reference_output), spread(totals[1], reference_output)),
        )

    def takes_penalty(self, update: int) -> bool:
        """Whether this update of a step, counted from 0, takes the gradient penalty."""
        every = self.settings.penalty_every
        return update == 0 if every == 0 else update % every == 0

    def penalty_slope(self, norms: Tensor, seen: Seen, source_share: Tensor) -> Tensor:
        """From the gradient norms (B, n) of this rank's points, which are those of ``seen``, to the penalty's
        derivative with respect to each; ``source_share`` (B, r) as in the objective, 0 where f is clipped."""
        kappa = self.settings.kappa
        if self.settings.penalised == "potential":
            norms = torch.cat((norms[:, : seen.q], norms[:, seen.q :] * (source_share > 0)), 1)
        if self.settings.penalty == "mean":  # over the points of all ranks
            return (norms - 1.0).clamp_(min=0.0).mul_(2.0 * kappa / sum(seen.sizes))
        largest_here, at = norms.max(1, keepdim=True)  # (B, 1)
        (largest,) = self.ranks.largest(largest_here)
        # where several ranks have it, the first one's counts
        claim = torch.where(largest_here == largest, float(self.ranks.size - self.ranks.rank), 0.0)
        (first,) = self.ranks.largest(claim)
        slope = 2.0 * kappa * torch.where((largest > 1.0) & (claim == first), largest, 0.0)
        return torch.zeros_like(norms).scatter_(1, at, slope)
