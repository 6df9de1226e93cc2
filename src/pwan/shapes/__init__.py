"""The catalogue of shapes: the point sets that problems are made from.

One file adds a shape, nothing else is edited: ``data/<name>.npz`` (beside it ``data/<name>.md`` with its origin and
terms), or ``analytic/<name>.py`` for a surface given by a formula. An npz file holds

- ``vertices`` (v, 3) and ``faces`` (f, 3) of a triangle mesh, and ``count``, the size of the default set, which is
  drawn from the surface with a fixed seed; without ``count`` the vertices themselves are the default set;
- or, for a shape without a surface, ``points`` (n, D) and perhaps ``partner`` (p, D).

A family of pairs is one file too: ``data/pairs/<family>.npz`` (beside it its .md) holds ``faces`` (f, 3), ``unit`` in m
and, for each shape, an array named after it, (2, v, 3) whole numbers in that unit: the vertices of a mesh, and where
they are in the partner, which has the same faces.

Packaged and analytic shapes are scaled so that their default set has mean zero and a mean squared radius of 1. The
paper's own point sets (``source="paper"``) keep the coordinates of their files, from which the paper's figures come.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pwan.randomness import numpy_generator
from pwan.settings import nearest
from pwan.shapes import analytic, paper
from pwan.shapes.shape import Shape
from pwan.shapes.surface import sample_surface

__all__ = ["SOURCES", "Shape", "families", "load", "names"]

SOURCES = ("packaged", "paper")
_DATA = Path(__file__).parent / "data"


def names(source: str = "packaged") -> list[str]:
    """The names of all shapes of a source, sorted.

    Raises:
        ValueError: a source other than "packaged" and "paper".
    """
    if source not in SOURCES:
        raise ValueError(f"unknown source {source!r} of shapes{nearest(source, SOURCES)}; it is one of {SOURCES}")
    if source == "paper":
        return sorted(paper.SETS)
    pairs = [name for members in families().values() for name in members]
    return sorted([path.stem for path in _DATA.glob("*.npz")] + _analytic_names() + pairs)


@functools.cache
def families() -> dict[str, list[str]]:
    """The packaged families of pairs and the names of their shapes, in the order of the file."""
    found = {}
    for path in sorted((_DATA / "pairs").glob("*.npz")):
        with np.load(path) as arrays:
            found[path.stem] = [key for key in arrays.files if key not in ("faces", "unit")]
    return found


def load(name: str, source: str = "packaged") -> Shape:
    """A shape of the catalogue.

    Args:
        name: one of ``names(source)``.
        source: "packaged" (the default; needs no network), or "paper" for the paper's own point sets, read from the
            folder that the environment variable PWAN_DATA names, else downloaded once.

    Raises:
        ValueError: no such shape or source (names the nearest one), or a file with a wrong checksum.
        FileNotFoundError: the folder named by PWAN_DATA lacks the file.
        ConnectionError: the download failed.
    """
    known = names(source)
    if name not in known:
        raise ValueError(f"unknown shape {name!r} of source {source}{nearest(name, known)}; it has {', '.join(known)}")
    return paper.load(name) if source == "paper" else _load_packaged(name)


@functools.cache
def _load_packaged(name: str) -> Shape:
    if name in _analytic_names():
        module = importlib.import_module(f"{analytic.__name__}.{name}")
        vertices, faces = module.surface()
        return _normalised(name, "analytic", {"vertices": vertices, "faces": faces, "count": module.COUNT})
    for family, members in families().items():
        if name in members:
            with np.load(_DATA / "pairs" / f"{family}.npz") as arrays:
                vertices, partner = arrays[name] * arrays["unit"]
                faces = arrays["faces"].astype(np.int64)
            return _normalised(name, "packaged", {"vertices": vertices, "faces": faces, "partner": partner})
    with np.load(_DATA / f"{name}.npz") as arrays:
        return _normalised(name, "packaged", arrays)


def _analytic_names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(analytic.__path__)]


def _normalised(name: str, source: str, arrays: Mapping[str, Any]) -> Shape:
    """The shape scaled by its default set, so that the scale does not depend on how many points are drawn later."""
    if "count" in arrays:
        generator = numpy_generator(0, "shape", name)  # a fixed seed: the default set is part of the shape
        points = sample_surface(arrays["vertices"], arrays["faces"], int(arrays["count"]), generator)
    else:
        points = arrays["points" if "points" in arrays else "vertices"].astype(np.float64)
    centre = points.mean(0)
    scale = np.sqrt(((points - centre) ** 2).sum(1).mean())
    moved = {key: (arrays[key].astype(np.float64) - centre) / scale for key in ("partner", "vertices") if key in arrays}
    faces = arrays.get("faces")
    return Shape(name, source, (points - centre) / scale, faces=faces, **moved)
