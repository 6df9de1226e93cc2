"""The paper's bar chart of the time a step takes on one and on several devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pwan.report.files import save_both
from pwan.report.published import TWO_GPUS

# Okabe and Ito's colours
NETWORK = "#0072b2"
TRANSFORM = "#e69f00"


def draw_multi_gpu(summary: pd.DataFrame, title: str, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF beside each other.

    There is a panel for each size, and in it a bar for each number of devices. The bar is stacked of the network's and
    the transform's update; the part of both that is communication is hatched, from the foot. Where the paper states how
    much faster two GPUs are at that size, its panel says so.

    Args:
        summary: a line for each size and number of devices with the columns points, devices, seconds_network,
            seconds_transform (a step), communication_share (of both together) and speed_up.
        title: above the figure.
        path: of the PNG.

    Returns:
        The two files.
    """
    sizes = sorted(summary["points"].unique())
    figure = Figure(figsize=(2.4 + 2.3 * len(sizes), 4.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=9, parse_math=False)
    # sizes differ by orders of magnitude, so each has an axis of its own
    panels: Any = figure.subplots(1, len(sizes), squeeze=False)[0]
    for axes, points in zip(panels, sizes, strict=True):
        lines = summary[summary["points"] == points].sort_values("devices")
        names = [f"{count}" for count in lines["devices"]]
        network, transform = lines["seconds_network"].to_numpy(float), lines["seconds_transform"].to_numpy(float)
        total = network + transform
        axes.bar(names, network, width=0.6, color=NETWORK, label="network update")
        axes.bar(names, transform, width=0.6, bottom=network, color=TRANSFORM, label="transform update")
        waits = total * lines["communication_share"].to_numpy(float)
        axes.bar(
            names, waits, width=0.6, color="none", edgecolor="white", hatch="///", linewidth=0, label="_communication"
        )
        for x, (height, faster) in enumerate(zip(total, lines["speed_up"], strict=True)):
            axes.text(x, height, f"{height:.3g} s\n× {faster:.2f}", ha="center", va="bottom", fontsize=8)
        published = f"\npaper, two GPUs: × {TWO_GPUS[points]}" if points in TWO_GPUS else ""
        axes.set(title=f"{points:,} points{published}", xlabel="devices", ylim=(0, 1.25 * total.max()))
        axes.set_xlim(-0.7, len(names) - 0.3)
        axes.title.set_fontsize(9)
        axes.grid(True, axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("seconds a step, mean")
    handles, labels = panels[0].get_legend_handles_labels()
    hatched = Patch(facecolor="#999999", edgecolor="white", hatch="///", linewidth=0)
    figure.legend(
        [*handles, hatched],
        [*labels, "of both: communication and waiting"],
        loc="outside lower center",
        ncols=min(3, 1 + len(sizes)),
        fontsize=8,
    )
    return save_both(figure, path)
