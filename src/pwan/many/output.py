"""What a study leaves in its folder, beside the folders of its registrations: all of it or nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pwan
from pwan.extras import needs
from pwan.files import digest, naming, unfinished_in
from pwan.many.folder import CORRESPONDED, MODEL, MODES, PAGE, POINTS, SCANS, SCORES, SHAPES, mesh_name
from pwan.many.model import ShapeModel
from pwan.many.normals import turned_fields
from pwan.many.settings import StudySettings
from pwan.pointfiles import PointFile, write_points
from pwan.scans.folder import STUDY

with needs("scans", "a study"):
    import pandas as pd

    from pwan.many.page import write_study_page

DEVIATIONS = (-2.0, 2.0)  # at which modes are written as meshes
WRITTEN = 5  # modes that are, at most


@dataclass(frozen=True)
class Placed:
    """One scan's registration.

    Attributes:
        points: (N, D) where the template's points lie on the scan.
        told: what its result.json says.
    """

    points: NDArray[np.float64]
    told: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Study:
    """A finished study.

    Attributes:
        settings: of it.
        files: the scans' files, by the scans' names.
        template: as it was read.
        registered: what was found, by the names of the scans whose registration did not fail.
        failed: the reason, by the names of the others.
        model: mean and modes, the mean turned as the template is; None for fewer than two registered scans.
        rounds: how often all scans were registered.
        kept: whether nothing was written, since all scans failed where an earlier study's results lie.
    """

    settings: StudySettings
    files: Mapping[str, str]
    template: PointFile
    registered: Mapping[str, Placed]
    failed: Mapping[str, str]
    model: ShapeModel | None
    rounds: int
    kept: bool = False

    @property
    def doubtful(self) -> list[str]:
        """The names of the registered scans whose result is not to be trusted."""
        return [name for name, one in self.registered.items() if not one.told["trusted"]]

    @property
    def folder(self) -> Path:
        """Of the results."""
        return Path(self.settings.output)

    @property
    def middle(self) -> NDArray[np.float64]:
        """(D,) the template's centre, around which mean and modes are written."""
        return self.template.points.mean(0)

    @cached_property
    def scans(self) -> pd.DataFrame:
        """Of each scan what became of it, how near the sets lie, and where it stands among the shapes."""
        return pd.DataFrame([_row(self, name) for name in self.files])

    @cached_property
    def modes(self) -> pd.DataFrame:
        """Of each mode, counted from 1, its variance, standard deviation and shares."""
        assert self.model is not None
        variances, explained = self.model.variances, self.model.explained
        numbers = np.arange(1, len(variances) + 1)
        columns = {"mode": numbers, "variance": variances, "standard_deviation": np.sqrt(variances)}
        return pd.DataFrame({**columns, "explained": explained, "explained_so_far": explained.cumsum()})

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Of each shape its scores, in the units of the points."""
        assert self.model is not None
        columns = {f"mode_{k + 1}": column for k, column in enumerate(self.model.scores.T)}
        return pd.DataFrame({"name": list(self.model.names), **columns})

    def sentences(self) -> list[str]:
        """What to know of it."""
        good = len(self.registered) - len(self.doubtful)
        told = [f"{good} of {len(self.files)} registrations look good"]
        if self.doubtful:
            told.append(f"not to be trusted as they are: {', '.join(self.doubtful)} (each one's page says why)")
        told += [f"{name} failed: {reason}" for name, reason in self.failed.items()]
        if self.kept:
            return [*told, f"the results of the earlier run stay as they are in {self.folder}"]
        if self.rounds > 1:
            told.append(f"all were registered {self.rounds} times, from the second time on with the mean shape")
        if self.model is None:
            return [*told, "fewer than two shapes are left, which have no mean and no modes"]
        shares = ", ".join(f"{share:.0%}" for share in self.model.explained[:3])
        if len(self.model.explained):
            told.append(f"{self.model.most} of the shapes' variance; the first ones {shares}")
        told += [f"{name} lies apart from the other shapes: {reason}" for name, reason in self.model.outlying.items()]
        return told


def write_study(study: Study) -> None:
    """Write all files into a folder of their own inside the output folder, and then move them to their places.

    Raises:
        OSError: the folder cannot be written to; what was half written is removed.
        ValueError: the template's format cannot hold the points.
    """
    folder = study.folder
    with unfinished_in(folder) as half, naming(folder, half):
        study.scans.to_csv(half / SCANS, index=False)
        _meshes(study, half)
        if study.model is not None:
            study.modes.to_csv(half / MODES, index=False)
            study.scores.to_csv(half / SCORES, index=False)
            _model(study, half / MODEL)
        write_study_page(study, half / PAGE)
        (half / STUDY).write_text(json.dumps(_summary(study), indent=1), encoding="utf-8")
        old = half / "old"
        old.mkdir()
        for name in (SCANS, MODES, SCORES, POINTS, MODEL, CORRESPONDED, SHAPES, PAGE, STUDY):
            if os.path.lexists(folder / name):  # of an earlier run
                os.replace(folder / name, old / name)
            if (half / name).exists():
                os.replace(half / name, folder / name)
        shutil.rmtree(old)


def _row(study: Study, name: str) -> dict[str, Any]:
    model, one = study.model, study.registered.get(name)
    row: dict[str, Any] = {"name": name, "file": study.files[name], "status": "ok" if one else "failed"}
    if one is None:
        return {**row, "confidence": 0.0, "trusted": False, "warnings": study.failed[name]}
    told, residual = one.told, one.told["residual"]
    far = told["far_from_the_other_set"]
    row |= {"trusted": told["trusted"], "confidence": told["confidence"], "matched": told["matched"]["share"]}
    row |= {f"distance_{key}": residual[key] for key in ("median", "mean", "q95", "max")}
    row |= {"spacing": residual["spacing"]} | {f"{side}_far": far[side]["share"] for side in ("source", "reference")}
    if model is not None:
        place = model.names.index(name)
        row |= {"size": model.sizes[place], "distance_from_median_shape": model.distances[place]}
        row |= {"outlying": model.outlying.get(name, "")}
    return {**row, "seconds": told["seconds"], "warnings": "; ".join(told["warnings"])}


def _meshes(study: Study, folder: Path) -> None:
    """All shapes in the template's numbering: as arrays, and as files in its format."""
    names = list(study.registered)
    points = [study.registered[name].points for name in names]
    shape = (0, *study.template.points.shape)
    np.savez(folder / POINTS, points=np.stack(points) if points else np.empty(shape), names=np.array(names, dtype=str))
    shapes = {f"{CORRESPONDED}/{name}": one for name, one in zip(names, points, strict=True)}
    if study.model is not None:
        shapes[f"{SHAPES}/mean"] = study.model.mean + study.middle
        for mode in range(min(WRITTEN, len(study.model.modes))):
            for by in DEVIATIONS:
                word = "minus" if by < 0 else "plus"
                shapes[f"{SHAPES}/mode_{mode + 1}_{word}_{abs(by):g}"] = study.model.at(mode, by) + study.middle
    for name in (CORRESPONDED, SHAPES):
        (folder / name).mkdir()
    for place, moved in shapes.items():
        normals = turned_fields(study.template, moved)
        write_points(folder / mesh_name(study.settings, place), study.template, moved, fields=normals)


def _model(study: Study, path: Path) -> None:
    """The model as arrays, the mean where its mesh is."""
    model = study.model
    assert model is not None
    held = ("modes", "variances", "explained", "scores", "sizes", "centres", "rotations", "factors", "distances")
    arrays = {name: getattr(model, name) for name in held}
    np.savez(path, names=np.array(model.names), mean=model.mean + study.middle, **arrays)


def _summary(study: Study) -> dict[str, Any]:
    model = study.model
    return {
        "finished": True,
        "sentences": study.sentences(),
        "template": study.settings.template,
        "template_digest": digest(study.settings.template),
        "registered": list(study.registered),
        "not_trusted": study.doubtful,
        "failed": dict(study.failed),
        "outlying": {} if model is None else model.outlying,
        "explained": [] if model is None else model.explained.tolist(),
        "rounds": study.rounds,
        "settings": asdict(study.settings),
        "version": pwan.__version__,
    }
