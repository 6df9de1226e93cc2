"""The points of both sets that a step sees: all of them, or a sample that each step draws anew. Not in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pwan.deformation.transform import Transform, take_rows
from pwan.devices.ranks import Place, Ranks
from pwan.problem import RegistrationProblem
from pwan.randomness import numpy_generator
from pwan.registration.settings import PwanSettings
from pwan.transport.potential import PotentialNetwork
from pwan.weights import weights_of_rows

SHAPE = 10  # points of either set that a smaller sample of the first stage does not fall short of


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


class Sample:
    """What a step sees of the points of this rank.

    The tensors stay the same ones from draw to draw, as a captured step needs it; :meth:`resize` makes new ones.

    Args:
        transform: T_theta of all source points of this rank.
        reference: (B, q, D) all reference points of this rank.
        network: whose features of the reference are kept.
        masses: of all points of this rank.
        sizes: of all points.
        seeds: one for each problem.
        ranks: the processes that share the points.

    Attributes:
        sizes: of the sample.
        masses: of its points of this rank. totals: of its masses, of all ranks, the reference first.
        all_totals: the same of all points.
        transform: T_theta of the source points in the sample, with the parameters of all.
        points: (B, n, D) where these are, as of the last :meth:`move`.
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
    ) -> None:
        self.all_points, self.reference, self.network = transform, reference, network
        self.all_sizes, self.all_masses, self.seeds, self.ranks = sizes, masses, seeds, ranks
        self.all_totals = masses.totals(sizes, ranks)
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
        self.size, self.share = size, size / self.all_sizes.r
        self.draws = [
            [Draws(of_set.shape[1], self.share, (seed, "sample", name, self.ranks.rank)) for seed in self.seeds]
            for name, of_set in (("source", self.all_points.source), ("reference", self.reference))
        ]
        self.sizes = Sizes(*(sum(Draws.size_of(n, self.share) for n in self.ranks.parts(n)) for n in self.all_sizes))
        self.transform, self.masses, self.totals = self.all_points, self.all_masses, self.all_totals
        if self.share == 1.0:
            self.reference_features, self.points = self.network.features(self.reference), self.transform.points()
        else:
            self.draw(step)
            self.totals = self.masses.totals(self.sizes, self.ranks)  # every draw carries as much
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
                for weights, rows in zip(self.all_masses, (reference, source), strict=True)
            )
        )
        if self.transform is self.all_points:  # the first draw of this size
            self.transform, self.reference_features, self.points = drawn, features, drawn.points()
            self.masses = masses
            return
        for kept, new in zip(self.masses, masses, strict=True):
            if kept is not None and new is not None:
                kept.copy_(new)
        self.transform.copy_points(drawn)
        self.reference_features.copy_(features)
        self.move()

    def move(self) -> None:
        """Bring the source points to where the transform has them now."""
        self.points.copy_(self.transform.points())


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
