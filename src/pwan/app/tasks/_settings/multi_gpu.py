"""Settings of the task ``multi_gpu``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pwan.settings import check_ranges


@dataclass(frozen=True)
class Settings:
    """What is measured (appendix "More Details of Sec. Exp_eff" of the paper).

    Attributes:
        sizes: numbers of points of each set.
        devices: over how many devices the points are dealt out.
        steps: that are timed, after a first one that holds the network's warm-up.
        kind: "gpu", a rank on each GPU; "cpu", ranks of one thread each; "auto": GPUs where there are enough of them.
    """

    sizes: tuple[int, ...] = (100_000, 700_000)
    devices: tuple[int, ...] = (1, 2)
    steps: int = 100
    kind: Literal["auto", "gpu", "cpu"] = "auto"

    def __post_init__(self) -> None:
        check_ranges(self, positive=("sizes", "devices", "steps"))
        for name in ("sizes", "devices"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; name at least one number, for example {name}=[2]")
