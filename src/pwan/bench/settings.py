"""The groups ``logger`` and ``trainer`` of the configuration, and the kinds of pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.settings import check_ranges

PICTURES = ("trials", "example", "training")  # see :mod:`pwan.app.tasks.benchmark`


@dataclass(frozen=True)
class TrackingSettings:
    """The group ``logger``: whether and where to track.

    Attributes:
        wandb: write W&B runs at all.
        mode: "offline"; "online" and "auto" upload where the user is logged in, and are offline elsewhere.
        project: where the runs belong in W&B.
        entity: the user or team whose project it is; None for W&B's own default.
    """

    wandb: bool = True
    mode: Literal["offline", "online", "auto"] = "offline"
    project: str = "pwan"
    entity: str | None = None


@dataclass(frozen=True)
class TrainerSettings:
    """The group ``trainer``: who drives PWAN's steps. It does not concern other methods.

    Attributes:
        name: "loop", a plain loop; "lightning", a PyTorch Lightning trainer around the same solver, with the same rows;
            "ddp", the points of each registration dealt out over devices, with rows that differ from those of one
            device as two training seeds do (see :class:`pwan.devices.ranks.Place`); "gpu", the trials of a cell
            dealt out over GPUs, each of which takes as many at once as surely fit: the same rows on one as on many.
        devices: of "ddp": GPUs where there are as many, else processes with one thread each. Of "gpu": GPUs.

    Raises:
        ValueError: several devices for a trainer that uses one.
    """

    name: Literal["loop", "lightning", "ddp", "gpu"] = "loop"
    devices: int = 1

    def __post_init__(self) -> None:
        check_ranges(self, positive=("devices",))
        if self.name not in ("ddp", "gpu") and self.devices > 1:
            raise ValueError(
                f"devices={self.devices} needs trainer=ddp, which deals out points, or trainer=gpu, which deals out "
                f"trials, but the trainer is {self.name}"
            )


LOOP = TrainerSettings()
