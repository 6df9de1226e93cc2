"""Draw the picture at the head of README, docs/before_and_after.png, from two finished runs.

    python run.py experiment=table_noise problem.outlier_ratio=2 trials=1 'method=[pwan,cpd,bcpd]' \
        logger=none output=outputs/head/bunny
    PWAN_DATA=/path/to/folder python run.py experiment=humans_complete shape.name=humans_30_31 \
        'method=[pwan_humans,cpd_humans,bcpd_humans]' logger=none output=outputs/head/bodies
    PYTHONPATH=src PWAN_DATA=/path/to/folder python scripts/make_head_picture.py outputs/head/bunny outputs/head/bodies

A row of pictures for each run: trial 0 before, and as each method left it. A percentage is the RMS distance of the
source from where it belongs, over the RMS radius of the shape. The bodies are 30 and 31 of SHREC'19 ("Matching humans
with different connectivity", Melzi et al., 2019), which users fetch themselves; the bunny is Stanford's.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from pwan.app.results import point_files, remade_problem, rows_of
from pwan.bench.pictures import registration
from pwan.report.registered import REFERENCE, SOURCE

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "before_and_after.png"
OUTLIER = "#d3d7de"
TURN, TILT = np.radians(25), np.radians(12)  # of the view, about the vertical axis and towards the reader
MARGIN = 0.06  # of a shape's width and height
WIDTH, WORDS = 12.0, 0.3  # inches: of the picture, and above each row of it
DOTS, COLOURS = 150, 64  # dots an inch, colours that are kept
NAMES = {"pwan": "PWAN", "cpd": "CPD", "bcpd": "BCPD"}


def main(folders: list[str]) -> None:
    rows = [pictures(Path(folder)) for folder in folders]
    limits = [extent([part for _, parts in row for part in parts]) for row in rows]
    sizes = [high - low for low, high in limits]
    heights = [WIDTH / len(row) * size[1] / size[0] for row, size in zip(rows, sizes, strict=True)]
    figure = Figure(figsize=(WIDTH, sum(heights) + WORDS * len(rows)), dpi=DOTS)
    FigureCanvasAgg(figure)
    strips = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=[h + WORDS for h in heights], hspace=0)
    for strip, row, (low, high), height in zip(strips[:, 0], rows, limits, heights, strict=True):
        every = strip.subplots(1, len(row), squeeze=False)
        strip.subplots_adjust(left=0, right=1, bottom=0, top=height / (height + WORDS), wspace=0.03)
        for axes, (words, sets) in zip(every[0], row, strict=True):
            draw(axes, sets)
            axes.set_title(words, fontsize=13, pad=4)
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
            axes.set_axis_off()
    drawn = io.BytesIO()
    figure.savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


def pictures(folder: Path) -> list[tuple[str, list[tuple[np.ndarray, str]]]]:
    """Words, and sets (N, 3) with their colours, of each picture of a run: before, then as each method left it."""
    kept = point_files(folder)
    rows = [row for row in rows_of(folder) if row["trial"] == 0]
    source, reference, truth = remade_problem(rows[0])
    radius = np.sqrt(((truth - truth.mean(0)) ** 2).sum(1).mean())
    inside = len(reference) - round(rows[0]["outlier_ratio"] * len(source))  # the outliers come last
    still = [(reference[inside:], OUTLIER), (reference[:inside], REFERENCE)]
    found = [("before", source)]
    for row in rows:
        name = NAMES[row["method"].partition("_")[0]]
        found.append((name, registration(row, kept[row["method"], row["settings"], 0]).transformed))
    shown = []
    for name, points in found:
        off = np.sqrt(((points - truth) ** 2).sum(1).mean()) / radius
        print(f"{folder.name}, {name}: {off:.1%} off")
        shown.append((f"{name}: {off:.0%} off", [*still, (points, SOURCE)]))
    return shown


def projected(points: np.ndarray) -> np.ndarray:
    """(N, 3) as (N, 3): to the right, up and towards the reader; y of the shapes points up."""
    about = np.array([[np.cos(TURN), 0, -np.sin(TURN)], [0, 1, 0], [np.sin(TURN), 0, np.cos(TURN)]])
    tilted = np.array([[1, 0, 0], [0, np.cos(TILT), np.sin(TILT)], [0, -np.sin(TILT), np.cos(TILT)]])
    return points @ about @ tilted


def extent(sets: list[tuple[np.ndarray, str]]) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest coordinates of the shapes in the picture, with a margin in which some outliers show."""
    flat = np.concatenate([projected(points)[:, :2] for points, colour in sets if colour != OUTLIER])
    low, high = flat.min(0), flat.max(0)
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


def draw(axes: Any, sets: list[tuple[np.ndarray, str]]) -> None:
    """The outliers, then both sets together from the back to the front, so that neither hides the other."""
    for together in (sets[:1], sets[1:]):
        points = projected(np.concatenate([part for part, _ in together]))
        colours = np.concatenate([[colour] * len(part) for part, colour in together])
        order = points[:, 2].argsort()
        size = float(np.clip(12_000 / max(len(points), 1), 1.0, 5.0))
        axes.scatter(*points[order, :2].T, c=colours[order], s=size, linewidths=0, alpha=0.8)


if __name__ == "__main__":
    main(sys.argv[1:])
