"""Single trials for the report: picked by their errors, made again, as interactive views and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pwan.app.results import Files, Results, cells_in_words, have_points, remade_problem, with_infinite_failures
from pwan.bench.pictures import registration
from pwan.bench.rows import Row
from pwan.report.example_figure import Example
from pwan.report.page import Link, Scene, Section, anchor, write_page
from pwan.report.registered import Registration
from pwan.report.scene import scene_json

WORST = "worst_trials.html"  # beside the figures: the views would make the page itself too large
KEPT = "whose points were kept"
NOT_REMADE = (ValueError, OSError, KeyError, TypeError)  # a page without a trial is better than none

# of single trials, by the settings and the number of the row that each was picked by
Views = Mapping[tuple[str, int], Link]


@dataclass(frozen=True)
class Trial:
    """One trial of a cell, and what each method made of it.

    Attributes:
        row: of the method by whose error it was picked.
        picked_from: says so where this was not from all trials of that method.
        source: (r, D).
        reference: (q, D).
        truth: (r, D).
        registrations: those of which points were kept.
    """

    row: Row
    picked_from: str
    source: np.ndarray
    reference: np.ndarray
    truth: np.ndarray
    registrations: list[Registration]

    def scene(self, words: str) -> Scene:
        """The trial as a view; the words say which one it is."""
        sizes = f"{len(self.source)} points of the source, {len(self.reference)} of the reference"
        caption = f"Trial {self.row['trial']}, {words}{self.picked_from}: {sizes}. Drag to turn."
        return Scene(caption, scene_json(self.source, self.reference, self.truth, self.registrations))

    def example(self, words: str, most: int | None = None) -> Example:
        """A line of pictures, of the first registrations where there are more than ``most``."""
        label = f"{words}\nMSE {self.row['mse_initial']:.3g}"
        return Example(label, self.source, self.reference, self.registrations[:most])


def having_points(rows: pd.DataFrame, files: Files) -> pd.DataFrame:
    """A cell's rows of which registered points were kept."""
    return rows[have_points(rows, files)]


def median_trial(rows: pd.DataFrame, having: pd.DataFrame) -> tuple[Row, str]:
    """The row with the first method's median error, of the trials that all methods have points of, if there are any.

    Args:
        rows: a cell's.
        having: those of them with points, at least one.

    Returns:
        The row, and the words of :func:`picked_from`.
    """
    common = set.intersection(*(set(group["trial"]) for _, group in having.groupby("method")))
    first = having[having["method"] == having["method"].iloc[0]]
    usable = by_error(first[first["trial"].isin(common)] if common else first)
    return usable.iloc[(len(usable) - 1) // 2].to_dict(), picked_from(usable, rows)


def picked_from(usable: pd.DataFrame, rows: pd.DataFrame) -> str:
    """How many trials of a method could be picked, as the end of a sentence; nothing where all of its rows could."""
    trials = int((rows["method"] == usable["method"].iloc[0]).sum())
    return "" if len(usable) == trials else f", of the {len(usable)} of its {trials} trials {KEPT}"


def by_error(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, the smallest error first and failures last."""
    return with_infinite_failures(rows).sort_values(["mse", "trial"])


def trial_of(row: Row, having: pd.DataFrame, files: Files, picked: str = "") -> Trial:
    """The row's trial, made again.

    Raises:
        Exception: one of ``NOT_REMADE``, where it cannot be.
    """
    others = having[having["trial"] == row["trial"]].to_dict("records")
    registrations = [registration(other, files[other["method"], other["settings"], row["trial"]]) for other in others]
    return Trial(row, picked, *remade_problem(row), registrations)


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
        row, ordered = having[ours].iloc[-1].to_dict(), pd.concat([having[ours], having[~ours]])
        try:
            found.append((words, trial_of(row, ordered, results.files, picked_from(having[ours], cell))))
        except NOT_REMADE:  # the page says it of the experiment's own view
            continue
    return found


def write_worst(found: Sequence[tuple[Results, Sequence[tuple[str, Trial]]]], figures: Path) -> Views:
    """Write the page of the worst trials of all cells, and give the link to each.

    Args:
        found: of each experiment, see :func:`worst_trials`.
        figures: the folder that the page is written into.
    """
    sections: list[Section] = []
    links: dict[tuple[str, int], Link] = {}
    for results, trials in found:
        for words, trial in trials:
            try:
                scene = trial.scene(f"the worst of {trial.row['method']} in this cell")
            except NOT_REMADE:
                continue
            key = trial.row["settings"], int(trial.row["trial"])
            links[key] = Link("view", f"{figures.name}/{WORST}", anchor(len(sections)))
            sections.append(Section(": ".join(filter(None, [results.name, words])), scenes=[scene]))
    if sections:
        figures.mkdir(exist_ok=True)
        write_page("pwan: the worst trial of each cell", sections, figures / WORST)
    return links


def first_trials(results: Results, drawn: pd.Series) -> list[Example]:
    """Trial 0 of all cells, where there are several, of those rows that are marked by ``drawn``."""
    first = results.frame[(results.frame["trial"] == 0) & drawn.astype(bool)]
    cells = list(cells_in_words(first))
    if len(cells) < 2:
        return []
    examples = []
    for words, cell in cells:
        having = having_points(cell, results.files)
        if having.empty:
            continue
        try:
            examples.append(trial_of(having.iloc[0].to_dict(), having, results.files).example(words))
        except NOT_REMADE:  # the view says why
            continue
    return examples
