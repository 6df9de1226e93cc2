"""The page of a study: its scans with links, its mean and modes, scores and confidences."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pwan.many.folder import registrations
from pwan.report.model_scene import confidence_json, mode_json, scores_json
from pwan.report.page import Link, Scene, Section, Table, write_page
from pwan.scans.folder import PAGE as REGISTRATION_PAGE
from pwan.trust.verdict import SURE

if TYPE_CHECKING:
    from pwan.many.model import ShapeModel
    from pwan.many.output import Study

SHOWN = 3  # modes with a view of their own, at most
STEPS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # standard deviations
COLUMNS = ("confidence", "matched", "distance_median", "distance_q95", "spacing", "source_far", "reference_far")
OF_MODEL = ("size", "distance_from_median_shape")


def write_study_page(study: Study, path: Path) -> None:
    """Write the page in one move."""
    tables = [Table("What was found", pd.DataFrame({"what was found": study.sentences()})), _scans(study)]
    scenes = []
    if study.model is not None:
        scenes = [*_modes(study, study.model), *_scores(study.model)]
        tables.append(Table("Modes", study.modes, folded=True))
        tables.append(Table("Scores, in the units of the points", study.scores.iloc[:, : 1 + 2 * SHOWN], folded=True))
    names, sure = list(study.files), study.scans["confidence"].to_list()
    caption = f"Confidence of each registration; one from {SURE:g} on and without warnings looks good."
    scenes.append(Scene(caption, confidence_json(names, sure, SURE)))
    moving = "the template onto each scan" if study.settings.moves == "template" else "each scan onto the template"
    made = [
        ("Template", str(study.template.path)),
        ("Registered", moving if study.rounds == 1 else f"{moving}, {study.rounds} times"),
    ]
    made.append(("Sizes", "removed" if study.settings.remove_size else "kept"))
    files = [("settings", json.dumps(asdict(study.settings), indent=1))]
    section = Section("Study", made, tables, scenes=scenes, files=files)
    write_page(f"pwan: {len(study.files)} scans in the numbering of {study.template.path.name}", [section], path)


def _scans(study: Study) -> Table:
    """Each scan with a link to its registration's page, those that are not to be trusted first."""
    frame, folder = study.scans, registrations(study.settings, study.rounds)
    shown = frame.reindex(columns=[name for name in (*COLUMNS, *OF_MODEL) if name in frame])
    links = [
        Link(name, f"{folder.name}/{name}/{REGISTRATION_PAGE}") if name in study.registered else name
        for name in study.files
    ]
    shown.insert(0, "scan", pd.Series(links, dtype=object))
    words = {**dict.fromkeys(study.files, "good"), **dict.fromkeys(study.doubtful, "doubtful")}
    shown.insert(1, "verdict", list({**words, **dict.fromkeys(study.failed, "failed")}.values()))
    if study.model is not None:
        shown["lies_apart"] = ["yes" if name in study.model.outlying else "" for name in study.files]
    order = np.argsort(shown["confidence"].to_numpy(), kind="stable")
    return Table("Scans, the least sure first; each name leads to its registration", shown.iloc[order])


def _modes(study: Study, model: ShapeModel) -> list[Scene]:
    faces, shift = study.template.triangles, study.middle
    return [
        Scene(
            f"Mode {mode + 1} of {len(model.modes)}, {model.explained[mode]:.0%} of the variance: move the slider from "
            "-2 standard deviations by the mean (0) to +2; drag to turn. Colours: how far each point is from the mean.",
            mode_json(model.mean + shift, [model.at(mode, by) + shift for by in STEPS], STEPS, faces),
        )
        for mode in range(min(SHOWN, len(model.modes)))
    ]


def _scores(model: ShapeModel) -> list[Scene]:
    if not len(model.modes):
        return []
    caption = "Scores of the first two modes; a point's name comes up where the pointer is."
    return [Scene(caption, scores_json(model.names, model.scores, model.explained, model.outlying))]
