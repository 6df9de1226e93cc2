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
        name: "loop", a plain loop; "lightning", a PyTorch Lightning trainer around the same solver, with the same rows,
            which deals the points of each registration out over several devices, with rows that differ from those of
            one device as two training seeds do (see :class:`pwan.devices.ranks.Place`); "gpu", the trials of a cell
            dealt out over GPUs, each of which takes as many at once as surely fit: the same rows on one as on many.
        devices: of "lightning", on each machine, and of "gpu", which takes GPUs.
        num_nodes: machines, of "lightning"; torchrun or srun starts the processes on them.
        accelerator: of "lightning": "gpu"; "cpu", processes with one thread each; "auto", GPUs where several devices
            are asked for and as many are there.
        strategy: of "lightning", see :func:`pwan.lightning.processes.launch`.
        precision: of "lightning", the bits of a number.

    Raises:
        ValueError: several devices for a trainer that uses one, or another trainer's settings.
    """

    name: Literal["loop", "lightning", "gpu"] = "loop"
    devices: int = 1
    num_nodes: int = 1
    accelerator: Literal["auto", "gpu", "cpu"] = "auto"
    strategy: Literal["auto", "ddp_spawn"] = "auto"
    precision: Literal[32, 64] = 32

    def __post_init__(self) -> None:
        check_ranges(self, positive=("devices", "num_nodes"))
        if self.name == "loop" and self.devices > 1:
            raise ValueError(
                f"devices={self.devices} needs trainer=ddp, which deals out points, or trainer=gpu, which deals out "
                f"trials, but the trainer is {self.name}"
            )
        given = self.num_nodes, self.accelerator, self.strategy, self.precision
        if self.name != "lightning" and given != (1, "auto", "auto", 32):
            raise ValueError(
                "num_nodes, accelerator, strategy and precision are for trainer=lightning, but the trainer is "
                f"{self.name}; leave them out, or take trainer=lightning"
            )


LOOP = TrainerSettings()
