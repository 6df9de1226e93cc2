"""The numbers that the paper published, as data, to stand beside ours.

All are from Wang, Xue, Lei and Xia: Partial Wasserstein Adversarial Network for Non-rigid Point Set Registration, ICLR
2022. The medians of its accuracy figure were published as curves only, so they are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

PAPER = "Wang et al., ICLR 2022"


@dataclass(frozen=True)
class PublishedTable:
    """A table of mean squared errors.

    Attributes:
        source: where it stands.
        note: what kind of numbers these are, which decides what they may be compared with.
        axis: the setting of the problem that its lines vary.
        columns: the paper's names of the methods.
        lines: for each value of the axis the errors, in the order of the columns.
        methods: our name of a method -> the column that it is compared with.
    """

    source: str
    note: str
    axis: str
    columns: tuple[str, ...]
    lines: Mapping[float, tuple[float, ...]]
    methods: Mapping[str, str]

    def value(self, method: str, x: float) -> float | None:
        """The published error for our method at a value of the axis; None where there is none."""
        line = next((line for key, line in self.lines.items() if abs(key - x) < 1e-9), None)
        if line is None or method not in self.methods:
            return None
        return line[self.columns.index(self.methods[method])]

    def points(self, method: str) -> list[tuple[float, float]]:
        """All (axis value, published error) for our method; empty where there are none."""
        return [(x, y) for x in sorted(self.lines) if (y := self.value(method, x)) is not None]


_EXAMPLE = "one example each with N = 2000, not medians; the paper's text does not name the shape"
NOISE = PublishedTable(
    source=f"{PAPER}, appendix, table for registering sets with noise points",
    note=_EXAMPLE,
    axis="outlier_ratio",
    columns=("BCPD", "CPD", "GMM-REG", "TPS-RPM", "PWAN"),
    lines={
        0.2: (0.011, 0.0015, 0.018, 0.0032, 0.0031),
        0.6: (0.075, 0.083, 0.022, 0.0026, 0.0030),
        1.2: (0.12, 0.21, 0.042, 0.0033, 0.0030),
        2.0: (1.24, 0.289, 3.76, 2.354, 0.004),
    },
    methods={
        "bcpd": "BCPD",
        "cpd": "CPD",
        "gmmreg": "GMM-REG",
        "tpsrpm": "TPS-RPM",
        "pwan": "PWAN",
        "pwan_paper": "PWAN",
    },
)
PARTIAL = PublishedTable(
    source=f"{PAPER}, appendix, table for registering partially overlapping sets",
    note=f"overlaps 0.57, 0.75 and 1, which are keep ratios 0.7, 0.8 and 1; {_EXAMPLE}",
    axis="keep",
    columns=("BCPD", "CPD", "GMM-REG", "d-PWAN", "m-PWAN"),
    lines={  # the table names the overlap (2s - 1) / s; the keys are s
        0.7: (0.18, 0.92, 0.32, 0.017, 0.015),
        0.8: (0.028, 0.45, 0.043, 0.0044, 0.0090),
        1.0: (0.00072, 0.0025, 0.0078, 0.0037, 0.0038),
    },
    methods={
        "bcpd": "BCPD",
        "cpd": "CPD",
        "gmmreg": "GMM-REG",
        "pwan": "m-PWAN",
        "pwan_paper": "m-PWAN",
        "pwan_distance": "d-PWAN",
        "pwan_paper_distance": "d-PWAN",
    },
)
# Mean and standard deviation of the MSE on the space-time faces (23,728 points, pairs i and i + 20), in a unit that the
# paper does not name; beside ours over the mean squared radius, which are of the same size.
FACES_SOURCE = f"{PAPER}, appendix, table of the space-time faces; 20 pairs; it does not name their unit"
FACES = {"BCPD": (0.0017, 0.001), "CPD": (0.00049, 0.0002), "PWAN": (0.00032, 0.000089)}
FACES_METHODS = {
    "bcpd_scalability": "BCPD",
    "cpd_scalability": "CPD",
    "pwan": "PWAN",
    "pwan_faces": "PWAN",
    "pwan_paper_faces": "PWAN",
}
# True value (POT) and Kantorovich-Rubinstein form for the fish, divided by 78 (appendix, table of the precision of the
# estimated discrepancies).
PRECISION = {
    "L_M,25": (0.1354, 0.1352),
    "L_M,50": (0.4191, 0.4202),
    "L_M,78": (0.8955, 0.8994),
    "L_D,0.648": (-0.0722, -0.0724),
    "L_D,1.09": (-0.2795, -0.2791),
    "L_D,5": (-4.1044, -4.1004),
    "W1": (1.0835, 1.0893),
}
# How much faster a step is on two GPUs than on one, by the number of points (appendix, "More Details" of Sec. Exp_eff).
TWO_GPUS = {100_000: 1.3, 700_000: 1.9}


def table_for(rows: pd.DataFrame) -> PublishedTable | None:
    """The table whose kind of problem these rows have: outliers and no crop, or crops of both sets and no outliers.

    Both are of random deformations, and nothing is turned; recorded pairs have nothing there.
    """
    found = {name: set(rows[name]) for name in ("outlier_ratio", "keep", "deformation", "crop", "turn")}
    if found["deformation"] != {"random"} or found["turn"] != {0.0}:
        return None
    if found["keep"] == {1.0} and found["outlier_ratio"] != {0.0}:
        return NOISE
    if found["outlier_ratio"] == {0.0} and found["crop"] == {"both"}:
        return PARTIAL
    return None


def published_numbers(experiment: str) -> pd.DataFrame | None:
    """What the paper printed of an experiment, as a table; None where it printed pictures and curves only."""
    lines: list[dict[str, Any]] = []
    if experiment in ("table_noise", "table_partial"):
        table = NOISE if experiment == "table_noise" else PARTIAL
        lines = [{table.axis: x, **dict(zip(table.columns, line, strict=True))} for x, line in table.lines.items()]
    elif experiment == "faces":
        lines = [{"method": name, "mse_mean": mean, "mse_deviation": std} for name, (mean, std) in FACES.items()]
    elif experiment == "fish_precision":
        lines = [{"discrepancy": name, "true": true, "estimated": found} for name, (true, found) in PRECISION.items()]
    return pd.DataFrame(lines) if lines else None
