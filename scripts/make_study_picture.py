"""Draw docs/study.png from a finished study of heads: its mean, and two deviations along each of the first modes.

PYTHONPATH=src python benchmarks/study.py heads --files heads --scans 12 --points 2000
pwan register heads/template.off heads/scans output=heads/study remove_size=true
PYTHONPATH=src python scripts/make_study_picture.py heads/study
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from PIL import Image

from pwan import read_points

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "study.png"
TURN = np.radians(35)  # of the view about the vertical axis
LIGHT = np.array([0.4, -0.8, 0.45])
SKIN, FAR = np.array([0.62, 0.76, 0.92]), np.array([0.93, 0.45, 0.2])  # where the mean is, and farthest from it
COLOURS, DOTS = 64, 100


def main(folder: Path) -> None:
    mean = read_points(next((folder / "shapes").glob("mean.*")))
    names = [[f"mode_{mode}_minus_2", "mean", f"mode_{mode}_plus_2"] for mode in (1, 2)]
    figure = Figure(figsize=(7.5, 5.2), dpi=DOTS)
    FigureCanvasAgg(figure)
    for row, places in zip(figure.subplots(2, 3), names, strict=True):
        for axes, name in zip(row, places, strict=True):
            points = read_points(next((folder / "shapes").glob(f"{name}.*"))).points
            draw(axes, points, mean.triangles, np.linalg.norm(points - mean.points, axis=1))
            axes.set_title(name.replace("_", " ").replace("minus ", "-").replace("plus ", "+"), fontsize=9, pad=2)
    figure.subplots_adjust(left=0, right=1, bottom=0, top=0.95, wspace=0, hspace=0.1)
    drawn = io.BytesIO()
    figure.savefig(drawn)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)


def draw(axes, points: np.ndarray, faces: np.ndarray, moved: np.ndarray) -> None:
    """The mesh as its triangles, the farthest first, with z up and seen from a little to the side of -y, coloured by
    how far its points (N,) have moved."""
    about = np.array([[np.cos(TURN), np.sin(TURN), 0], [-np.sin(TURN), np.cos(TURN), 0], [0, 0, 1]])
    corners = (points @ about.T)[faces]  # (F, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    bright = 0.5 + 0.5 * np.clip(normals @ LIGHT, 0, 1)[:, None]
    share = (moved / max(moved.max(), 1e-12))[faces].mean(1)[:, None]
    order = np.argsort(-corners[:, :, 1].mean(1))
    colours = np.clip(bright * (SKIN + share * (FAR - SKIN)) * 1.15, 0, 1)[order]
    axes.add_collection(PolyCollection(corners[order][:, :, [0, 2]], facecolors=colours, edgecolors=colours, lw=0.3))
    axes.set(xlim=(-1.9, 1.9), ylim=(-2, 1.9), aspect="equal")
    axes.set_axis_off()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
