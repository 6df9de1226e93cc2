"""What other programs read of a registration: displacement grids for 3D Slicer, ANTs and ITK, and the moved mesh in
another format.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pwan.deformation.grid import Direction, DisplacementGrid, check_nodes
from pwan.deformation.grid_files import Coordinates, write_grid
from pwan.pointfiles import PointFile, write_points
from pwan.pointfiles.anatomy import anatomical
from pwan.pointfiles.convert import laid_out
from pwan.pointfiles.mesh import glb
from pwan.pointfiles.mesh.materials import beside
from pwan.scans.outcome import Outcome
from pwan.scans.pair import Pair
from pwan.scans.settings import GRIDS, ScanSettings

SHARE = 0.01  # of the registration's error, that a grid may add
LEAST_ERROR = 0.1  # spacings of the reference: the registration's error is not taken to be less


def check_exports(settings: ScanSettings, pair: Pair) -> None:
    """Refuse before anything is computed what could not be exported in the end.

    Raises:
        ValueError: a mesh of points in the plane, a GLB without triangles, a grid of more nodes than memory holds, or
            one of a method without a map of space.
    """
    exports, file = settings.exports, pair.source_file
    meshes = [name for name in exports if name not in GRIDS]
    if meshes and file.points.shape[1] != 3:
        raise ValueError(
            f"export={meshes[0]} is for points in 3-D, and those of {file.path} are in 2-D; grids are for both"
        )
    if "glb" in exports and (file.triangles is None or not len(file.triangles)):
        raise ValueError(f"export=glb is for meshes, and {file.path} has no triangles; take export=ply")
    if _directions(exports) and getattr(settings.chosen(), "parametrisation", "") == "free":
        raise ValueError(
            "with parametrisation=free there is no map of space for a grid; take method.parametrisation=modes, or "
            "leave the grids out"
        )
    if settings.export_spacing is not None:
        for direction in _directions(exports):
            around = file.points if direction == "forward" else pair.reference_file.points
            check_nodes(around, settings.export_spacing, "export_spacing")


def write_exports(
    settings: ScanSettings, outcome: Outcome, fields: dict[str, np.ndarray], paths: dict[str, Path]
) -> tuple[dict[str, Any], list[str]]:
    """Write what is asked for to the paths, by its name.

    Args:
        settings: with the names.
        outcome: the registration.
        fields: the source's values of each point that were changed, as turned normals.
        paths: of all files of the run; "points" is written already.

    Returns:
        What result.json says of each grid, and what was decided, in sentences.
    """
    told: dict[str, Any] = {}
    notes: list[str] = []
    directions = _directions(settings.exports)
    if directions:
        told, notes = _grids(settings, outcome, directions, paths)
    file = outcome.pair.source_file
    moved = replace(file, points=outcome.points, fields=file.fields | fields, path=paths["points"])
    for format in ("ply", "obj"):
        if format in paths:
            like, said = (moved, []) if file.format == format else laid_out(moved, format)
            extra = {"matched": outcome.matched} if format == "ply" else {}
            said += write_points(paths[format], like, outcome.points, extra=extra).notes
            notes += [f"{paths[format].name}: {one}" for one in said]
    if "glb" in paths:
        with open(paths["glb"], "wb") as stream:
            notes += [f"{paths['glb'].name}: {one}" for one in glb.made_from(stream, moved)]
    return told, notes


def _directions(exports: tuple[str, ...]) -> list[Direction]:
    sought: tuple[Direction, ...] = ("forward", "back")
    return [one for one in sought if any(name.startswith(f"{one}.") for name in exports)]


def _grids(
    settings: ScanSettings, outcome: Outcome, directions: list[Direction], paths: dict[str, Path]
) -> tuple[dict[str, Any], list[str]]:
    transform, measured = outcome.transform, outcome.measured
    if measured.failed or transform is None:
        why = "the registration failed" if measured.failed else f"method {settings.method} moves only its own points"
        return {}, [f"no grid was written: {why}"]
    said = anatomical(outcome.pair.source_file)
    coordinates: Coordinates = said or "lps" if settings.export_coordinates == "auto" else settings.export_coordinates
    origin = "as the file says" if said and settings.export_coordinates == "auto" else "as they stand in the file"
    notes = [f"grids: the points were taken to be in {coordinates.upper()}, {origin}"]
    scale = max(measured.residual, LEAST_ERROR * measured.spacing)
    told: dict[str, Any] = {}
    for direction in directions:
        spacing = settings.export_spacing
        tolerance = None if spacing is not None else SHARE * scale
        points = outcome.pair.source_file.points
        grid = transform.to_grid(points, direction=direction, spacing=spacing, tolerance=tolerance)
        notes.append(_sentence(grid, scale))
        for name in settings.exports:
            if name.startswith(f"{direction}."):
                write_grid(grid, paths[name], coordinates=coordinates)
                told[name] = {
                    "spacing": grid.spacing,
                    "nodes": list(grid.shape),
                    "error": grid.error,
                    "largest_error": grid.largest_error,
                    "between": grid.between,
                    "share_of_registration": grid.error / scale,
                    "without_inverse": grid.missing,
                    "coordinates": coordinates,
                }
    return told, notes


def _sentence(grid: DisplacementGrid, scale: float) -> str:
    way = "source to reference" if grid.direction == "forward" else "reference to source, an approximate inverse"
    nodes = " x ".join(map(str, grid.shape))
    text = (
        f"grid {grid.direction}, {way}: {nodes} nodes, {grid.spacing:.3g} apart; it leads 95% of the points within "
        f"{grid.error / scale:.2%} of the registration's own error, and places between them within "
        f"{grid.between / scale:.2%}"
    )
    if grid.between > SHARE * scale:
        text += " (the map is known at the points alone, or memory holds no finer grid)"
    if grid.missing:
        text += f"; {grid.missing:.1%} of the nodes around the points have no inverse: the map folds there"
    return text


def copy_beside(file: PointFile, half: Path) -> list[Path]:
    """Copy the materials and pictures that a mesh names; their paths below its folder."""
    paths = beside(file)
    for path in paths:
        (half / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.path.parent / path, half / path)
    return paths


def taken(file: PointFile, paths: list[Path], folder: Path, overwrite: bool) -> list[Path]:
    """Those of the copies that go into the folder: what is there stays, unless it is to be written over."""
    there = {path: (folder / path).exists() for path in paths}
    own = {path: there[path] and (folder / path).samefile(file.path.parent / path) for path in paths}
    return [path for path in paths if not there[path] or (overwrite and not own[path])]
