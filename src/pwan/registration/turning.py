"""The attributes of a rank's source points while PWAN's steps go on: every tenth step the normals among them are turned
as the transform has them then, and held in between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwan.deformation.normals import TURN, Carried
from pwan.deformation.transform import Transform
from pwan.devices.ranks import Place
from pwan.registration.setup import Setup


class Turning:
    """Normals that turn.

    Args:
        carried: the attributes of the whole source, normals among them.
        whole: the transform of the whole source.
        transform: of this rank's points, whose attributes are written over.
        place: of this rank.
    """

    def __init__(self, carried: Carried, whole: Transform, transform: Transform, place: Place) -> None:
        b, r, _ = whole.source.shape
        rows = torch.arange(r, dtype=torch.int64, device="cpu")[place.ranks.slice(r)].expand(b, -1)
        self.carried, self.whole = carried.part(None if place.ranks.size == 1 else rows), whole
        assert transform.attributes is not None
        self.attributes = transform.attributes

    @classmethod
    def of(cls, setup: Setup, transform: Transform, place: Place) -> Turning | None:
        """Of a setup; None where it has no normals."""
        if setup.carried is None or not setup.carried.attributes.normals:
            return None
        return cls(setup.carried, setup.transform, transform, place)

    def due(self, step: int) -> bool:
        """Whether they turn before this step, counted from 0."""
        return step % TURN == 0

    def turn(self, parameters: Tensor) -> None:
        """Turn them as these parameters (B, P, D) do."""
        self.attributes.copy_(self.carried.under(self.whole, parameters))
