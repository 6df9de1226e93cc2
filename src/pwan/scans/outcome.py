"""What a registration of two files has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pwan.begin.estimate import Limits
from pwan.begin.start import Start
from pwan.deformation.space import SpaceTransform
from pwan.scans.again import Again
from pwan.scans.pair import Pair
from pwan.trust.faces import FaceFaults
from pwan.trust.left import Left
from pwan.trust.verdict import Measured, Verdict


@dataclass(frozen=True)
class Outcome:
    """A finished registration of two files.

    Attributes:
        pair: what was read.
        start: None where the registration began from the files as they are.
        limits: the estimated ones; None where they were given.
        mass: that was matched, in registered points, or None.
        distance_limit: how far at most, in the reference's units, or None.
        result: as :func:`pwan.register` gives it for one problem in numpy, of the registered points from
            ``start.apply`` of them.
        at_start: (N, D) all points of the source, moved by the start.
        points: (N, D) all points of the source, registered.
        matched: (N,) bool, which of them are matched.
        partner: (N,) the row of ``pair.reference`` that is nearest to each.
        distance: (N,) how far that is, in the reference's units.
        weight: (N,) how much of each point counts, from 0 to 1.
        measured: what the verdict is based on.
        verdict: whether to trust the result.
        left: what of the registered source points and of the reference lies far from the other set.
        faces: flipped and crossing ones of the moved mesh; None without faces, in the plane, or where it failed.
        again: what may do better, if anything.
        method_settings: all of the method's, as the points were registered with them.
        seconds: of all of it.
    """

    pair: Pair
    start: Start | None
    limits: Limits | None
    mass: float | None
    distance_limit: float | None
    result: Any
    at_start: np.ndarray
    points: np.ndarray
    matched: np.ndarray
    partner: np.ndarray
    distance: np.ndarray
    weight: np.ndarray
    measured: Measured
    verdict: Verdict
    left: tuple[Left, Left]
    faces: FaceFaults | None
    again: Again | None
    method_settings: dict[str, Any]
    seconds: float

    @property
    def transform(self) -> SpaceTransform | None:
        """The whole way of any points in the source's coordinates, start included; None where the method has none."""
        transform, start = self.result.transform, self.start
        if transform is None or start is None:
            return transform
        return transform.after(start.scale, start.rotation, start.translation)

    def __repr__(self) -> str:
        files = f"{self.pair.source_file.path.name} onto {self.pair.reference_file.path.name}"
        trust = "looks good" if self.verdict.trusted else "not to be trusted as it is"
        return "\n  ".join((f"Outcome: {files}, {trust}, {self.seconds:.3g} s", *self.verdict.sentences))
