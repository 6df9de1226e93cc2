"""The points of both sets that a step sees: all of them, or a sample that each step draws anew; and the parts of these
that one update of the potential after the other sees. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pwan.deformation.transform import Transform, take_rows
from pwan.devices.ranks import Place, Ranks
from pwan.problem import RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.registration.settings import PwanSettings
from pwan.transport.potential import PotentialNetwork
from pwan.weights import carrying, weights_of_rows

SHAPE = 10  # points of either set that a smaller sample of the first stage does not fall short of
LEAST_OF_PART = 50  # points of either set that an update of the potential sees at least, where there are as many
MOST_PARTS = 10  # more make the error before the refinement larger, and save no time (benchmarks/README.md)


class Sizes(NamedTuple):
    """How many points of the reference and of the source, of all ranks together."""

    q: int
    r: int


class Masses(NamedTuple):
    """Of the points of both sets: (B, q) and (B, r), None where each has a mass of 1."""

    reference: Tensor | None
    source: Tensor | None

    @classmethod
    def of(cls, problem: RegistrationProblem, dtype: torch.dtype) -> Masses:
        """As a problem states them."""
        return cls(*(None if weights is None else weights.to(dtype) for weights in problem.masses))

    def own(self, place: Place) -> Masses:
        """Those of this rank's points, on its device."""
        return Masses(*(None if weights is None else place.own(weights) for weights in self))

    def totals(self, sizes: Sizes, ranks: Ranks) -> tuple[float | Tensor, float | Tensor]:
        """Of each set over all ranks, a number or (B,); all ranks must ask together."""
        q, r = (
            size if weights is None else ranks.sum(weights.sum(1))[0] for size, weights in zip(sizes, self, strict=True)
        )
        return q, r


def spread(total: float | Tensor, values: Tensor) -> float | Tensor:
    """A number of each problem, (B,), so that it meets values (B, ...) of them; one of all problems as it is."""
    return total.to(values).view(-1, *(1,) * (values.ndim - 1)) if isinstance(total, Tensor) else total


@dataclass(frozen=True, eq=False)
class Seen:
    """Points of both sets that a loss is of: all, those of a step's sample, or a part of them.

    Attributes:
        sizes: of all ranks together.
        masses: of this rank's points.
        totals: of the masses of all ranks, the reference first; a number or (B,) each.
        q: how many of this rank's points are the reference's.
        rows: of a part, among this rank's points of the sample, the reference first and the source behind it; None
            where it is all of them.
    """

    sizes: Sizes
    masses: Masses
    totals: tuple[float | Tensor, float | Tensor]
    q: int
    rows: Tensor | None = None


class Sample:
    """What a step sees of the points of this rank.

    The tensors stay the same ones from draw to draw, as a captured step needs it; :meth:`resize` makes new ones.

    Args:
        transform: T_theta of all source points of this rank.
        reference: (B, q, D) all reference points of this rank, with their attributes behind where they have some.
        network: whose features of the reference are kept.
        masses: of all points of this rank.
        sizes: of all points.
        seeds: one for each problem.
        ranks: the processes that share the points.
        update_points: points of both sets together that an update of the potential sees, about; 0 for all.

    Attributes:
        everything: all points.
        seen: those of the sample.
        parts: of the sample, which the updates of the potential see one after the other.
        transform: T_theta of the source points in the sample, with the parameters of all.
        points: (B, n, D) where these are, as of the last :meth:`move`; with their attributes behind.
        reference_features: (B, m, F) the network's features of the reference points in the sample.
    """

    def __init__(
        self,
        transform: Transform,
        reference: Tensor,
        masses: Masses,
        network: PotentialNetwork,
        sizes: Sizes,
        seeds: Sequence[int],
        ranks: Ranks,
        update_points: int,
    ) -> None:
        self.all_points, self.reference, self.network = transform, reference, network
        self.seeds, self.ranks, self.update_points = seeds, ranks, update_points
        self.everything = Seen(sizes, masses, masses.totals(sizes, ranks), reference.shape[1])
        self.size = 0  # source points that are asked for, of all ranks together

    def resize(self, size: int, step: int) -> bool:
        """See this many source points, of all ranks together, and the same share of the reference.

        Args:
            size: number of source points.
            step: the next one.

        Returns:
            Whether that is another number than before.
        """
        if size == self.size:
            return False
        self.size, self.share = size, size / self.everything.sizes.r
        self.draws = [
            [Draws(of_set.shape[1], self.share, (seed, "sample", name, self.ranks.rank)) for seed in self.seeds]
            for name, of_set in (("source", self.all_points.source), ("reference", self.reference))
        ]
        self.transform, self.seen = self.all_points, self.everything
        if self.share == 1.0:
            self.reference_features, self.points = self.network.features(self.reference), self.transform.in_product()
        else:
            self.draw(step)
        self.parts = self._cut()
        return True

    def draw(self, step: int) -> None:
        """Take the points of this step, unless the sample is all points."""
        if self.share == 1.0:
            return
        source, reference = (
            torch.stack([draw(step) for draw in of_set]).to(self.reference.device) for of_set in self.draws
        )
        drawn = self.all_points.part(source)
        features = self.network.features(take_rows(self.reference, reference))
        masses = Masses(
            *(
                None if weights is None else weights_of_rows(weights, rows)
                for weights, rows in zip(self.everything.masses, (reference, source), strict=True)
            )
        )
        if self.transform is self.all_points:  # the first draw of this size
            self.transform, self.reference_features, self.points = drawn, features, drawn.in_product()
            whole = self.everything.sizes
            sizes = Sizes(*(sum(Draws.size_of(n, self.share) for n in self.ranks.parts(count)) for count in whole))
            totals = masses.totals(sizes, self.ranks)  # every draw carries as much
            self.seen = Seen(sizes, masses, totals, features.shape[1])
            return
        for kept, new in zip(self.seen.masses, masses, strict=True):
            if kept is not None and new is not None:
                kept.copy_(new)
        self.transform.copy_points(drawn)
        self.reference_features.copy_(features)
        self.move()
        if len(self.parts) > 1 and any(weights is not None for weights in masses):
            self.parts = self._cut()

    def _cut(self) -> list[Seen]:
        """The parts of the sample: each point in one of them, each of them all over both sets. Of all points they are
        the same ones however these are dealt out."""
        count = self._part_count()
        if count == 1:
            return [self.seen]
        own = self.reference_features.shape[1], self.points.shape[1]
        labels = [
            part_of_each(total, count)[self.ranks.slice(total)] if self.share == 1.0 else part_of_each(n, count)
            for total, n in zip(self.seen.sizes, own, strict=True)
        ]
        here = torch.from_numpy(np.array([np.bincount(of_set, minlength=count) for of_set in labels]))
        return [
            self._part([torch.from_numpy(np.flatnonzero(of_set == k)) for of_set in labels], Sizes(*sizes))
            for k, sizes in enumerate(self.ranks.sum(here)[0].T.tolist())
        ]

    def _part_count(self) -> int:
        sizes = self.seen.sizes
        if not self.update_points or self.reference.is_cuda:  # a GPU is as fast with all of them
            return 1
        return max(1, min(round(sum(sizes) / self.update_points), min(sizes) // LEAST_OF_PART, MOST_PARTS))

    def _part(self, rows: list[Tensor], sizes: Sizes) -> Seen:
        """Of rows of this rank's points; with masses so scaled that the part carries its share of all."""
        masses, totals = [], []
        for of_set, part, whole, weights, total in zip(
            rows, sizes, self.seen.sizes, self.seen.masses, self.seen.totals, strict=True
        ):
            totals.append(part / whole * total)
            if weights is not None:
                weights = weights[:, of_set]
                (there,) = self.ranks.sum(weights.sum(1))
                weights = carrying(weights, there, totals[-1], part)
            masses.append(weights)
        behind = self.reference_features.shape[1] + rows[1]
        return Seen(sizes, Masses(*masses), (totals[0], totals[1]), len(rows[0]), torch.cat((rows[0], behind)))

    def move(self) -> None:
        """Bring the source points to where the transform has them now."""
        self.points.copy_(self.transform.in_product())


def sample_size(settings: PwanSettings, sizes: Sizes, *, first_stage: bool) -> int:
    """How many source points a step sees, of all ranks together.

    Args:
        settings: resolved.
        sizes: of all points.
        first_stage: whether the step is one of the first stage.
    """
    assert settings.sample is not None and settings.sample_first is not None
    size = min(settings.sample or sizes.r, sizes.r)
    if settings.sample_first and first_stage:
        # a far smaller reference still shows its shape
        size = min(size, max(settings.sample_first, SHAPE * sizes.r // min(sizes)))
    return size


def part_of_each(n: int, count: int) -> np.ndarray:
    """Which of ``count`` parts each of n points belongs to, (n,). Of as many adjacent points each is in another part,
    drawn by chance: points are often in some order."""
    rounds = np.tile(np.arange(count), (-(-n // count), 1))
    return np.asarray(numpy_generator(0, "parts", n, count).permuted(rounds, axis=1).ravel()[:n])


class Draws:
    """Samples of n points in random order without replacement: each point once before one comes again.

    Step k's sample follows from the purpose and k alone, so that a run goes on from any step.

    Args:
        n: number of points.
        share: of the points that a sample holds.
        purpose: of the random numbers, the seed first.
    """

    def __init__(self, n: int, share: float, purpose: tuple[int | str, ...]) -> None:
        self.n, self.size, self.purpose = n, self.size_of(n, share), purpose
        self.round, self.order = -1, torch.empty(0, dtype=torch.int64, device="cpu")

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
