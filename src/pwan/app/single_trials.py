"""Single trials for the report: picked by their errors, made again, as interactive views and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pwan.app.results import Files, Results, have_points, remade_problem, varying_axes, with_infinite_failures
from pwan.bench.cell import AXES
from pwan.bench.pictures import registration
from pwan.bench.rows import Row
from pwan.report.example_figure import Example
from pwan.report.page import Link, Scene, Section, anchor, write_page
from pwan.report.registered import Registration
from pwan.report.scene import scene_json

WORST = "worst_trials.html"  # beside the figures: the views would make the page itself too large
NOT_REMADE = (ValueError, OSError, KeyError, TypeError)  # a page without a trial is better than none


@dataclass(frozen=True)
class Trial:
    """One trial of a cell, and what each method made of it.

    Attributes:
        row: of the method by whose error it was picked.
        source: (r, D).
        reference: (q, D).
        truth: (r, D).
        registrations: those of which points were kept.
    """

    row: Row
    source: np.ndarray
    reference: np.ndarray
    truth: np.ndarray
    registrations: list[Registration]

    def sizes(self) -> str:
        return f"{len(self.source)} points of the source, {len(self.reference)} of the reference"

    def scene(self, caption: str) -> Scene:
        return Scene(caption, scene_json(self.source, self.reference, self.truth, self.registrations))

    def example(self, words: str, most: int | None = None) -> Example:
        """A line of pictures, of the first registrations where there are more than ``most``."""
        label = f"{words}\nMSE {self.row['mse_initial']:.3g}"
        return Example(label, self.source, self.reference, self.registrations[:most])


def having_points(rows: pd.DataFrame, files: Files) -> pd.DataFrame:
    """A cell's rows, one a method and trial, of which registered points were kept."""
    last = rows.drop_duplicates(["method", "trial"], keep="last")
    return last[have_points(last, files)]


def median_row(having: pd.DataFrame) -> Row:
    """The row with the first method's median error, of the trials that all methods have points of, if there are any."""
    common = set.intersection(*(set(group["trial"]) for _, group in having.groupby("method")))
    first = having[having["method"] == having["method"].iloc[0]]
    usable = by_error(first[first["trial"].isin(common)] if common else first)
    return usable.iloc[(len(usable) - 1) // 2].to_dict()


def by_error(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, the smallest error first and failures last."""
    return with_infinite_failures(rows).sort_values(["mse", "trial"])


def trial_of(row: Row, having: pd.DataFrame, files: Files) -> Trial:
    """The row's trial, made again.

    Raises:
        Exception: one of ``NOT_REMADE``, where it cannot be.
    """
    others = having[having["trial"] == row["trial"]].to_dict("records")
    registrations = [registration(other, files[other["method"], other["settings"], row["trial"]]) for other in others]
    return Trial(row, *remade_problem(row), registrations)


def cells_in_words(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each cell's rows, and what tells it from the others; empty for a single cell."""
    axes = varying_axes(frame)
    for key, cell in frame.groupby(axes, sort=True, dropna=False) if axes else [((), frame)]:
        yield ", ".join(f"{axis} {value}" for axis, value in zip(axes, key, strict=True)), cell


def worst_trials(results: Results) -> list[tuple[str, Trial]]:
    """The trial of each cell in which its first method's error is the largest, of those with points; in words too.

    The registrations are that of the first method, then the others, the best one first.
    """
    if not results.rows:
        return []
    found = []
    for words, cell in cells_in_words(results.frame):
        having = by_error(having_points(cell, results.files))
        ours = having["method"] == cell["method"].iloc[0]
        if not ours.any():
            continue
        try:
            trial = trial_of(having[ours].iloc[-1].to_dict(), pd.concat([having[ours], having[~ours]]), results.files)
        except NOT_REMADE:  # the page says it of the experiment's own view
            continue
        found.append((words, trial))
    return found


def write_worst(found: Sequence[tuple[Results, Sequence[tuple[str, Trial]]]], figures: Path) -> dict[str, Link]:
    """Write the page of the worst trials of all cells; the link to each, by the settings of its row.

    Args:
        found: of each experiment, see :func:`worst_trials`.
        figures: the folder that the page is written into.
    """
    sections: list[Section] = []
    links: dict[str, Link] = {}
    for results, trials in found:
        for words, trial in trials:
            method, number = trial.row["method"], trial.row["trial"]
            caption = f"Trial {number}, the worst of {method} in this cell: {trial.sizes()}. Drag to turn."
            try:
                scene = trial.scene(caption)
            except NOT_REMADE:
                continue
            links[trial.row["settings"]] = Link("view", f"{figures.name}/{WORST}", anchor(len(sections)))
            sections.append(Section(": ".join(filter(None, [results.name, words])), scenes=[scene]))
    if sections:
        figures.mkdir(exist_ok=True)
        write_page("pwan: the worst trial of each cell", sections, figures / WORST)
    return links


def first_trials(results: Results, drawn: pd.Series) -> list[Example]:
    """Trial 0 of all cells, where there are several, of those rows that are marked by ``drawn``."""
    first = results.frame[(results.frame["trial"] == 0) & drawn.astype(bool)]
    if first.groupby(AXES, dropna=False).ngroups < 2:
        return []
    examples = []
    for words, cell in cells_in_words(first):
        having = having_points(cell, results.files)
        if having.empty:
            continue
        try:
            examples.append(trial_of(having.iloc[0].to_dict(), having, results.files).example(words))
        except NOT_REMADE:  # the view says why
            continue
    return examples
