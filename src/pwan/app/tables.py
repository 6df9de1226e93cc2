"""The report's tables of an experiment's rows: the summary, and ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from pwan.app.results import Results, varying_axes, with_infinite_failures, with_settings_columns
from pwan.app.single_trials import Views
from pwan.bench.pictures import Shown
from pwan.bench.summary import STATISTICS, WITHOUT_UNIT, compare, summarise
from pwan.problem import OK
from pwan.report.page import Link, Table, spelled
from pwan.report.published import FACES, FACES_METHODS, FACES_SOURCE, PublishedTable

DIGITS = 3  # of errors and times; the files have them all


def summary_table(results: Results, root: Path, views: Views) -> pd.DataFrame:
    """The summary without the columns that do not vary, and with one more where the rest would not tell lines apart.

    A line's largest error leads to the picture of its method's trials, "view" to the interactive view of its worst one.

    Args:
        results: the experiment's.
        root: the page's folder.
        views: of worst trials.
    """
    summary = summarise(results.rows)
    keys = [*varying_axes(summary), "method"]
    if summary.duplicated(keys).any() and summary["options"].nunique() > 1:
        keys.append("options")
    if summary.duplicated(keys).any():
        places = summary["settings"].map(lambda key: str(results.homes[key].relative_to(results.folder)))
        summary.insert(0, "folder", places)
        keys = ["folder", *keys]
    if summary.duplicated(keys).any():
        keys.append("settings")
    # packaged shapes, and what a random deformation makes of them, have a radius of 1
    unit = (summary["shape_source"] == "paper").any() or (summary["deformation"] == "partner").any()
    numbers = [*STATISTICS, *(WITHOUT_UNIT if unit else [])]
    summary["mse_max"] = [_worst(line, results.homes[line["settings"]], root) for line in summary.to_dict("records")]
    shown = {settings: link for (settings, _), link in views.items()}
    for name, cells in (("view", shown), won_by_first(results.frame)):
        if set(cells) & set(summary["settings"]):
            summary[name] = [cells.get(key) for key in summary["settings"]]
            numbers.insert(numbers.index("mse_max") + 1, name)
    return summary.sort_values([key for key in varying_axes(summary) if key in keys], kind="stable")[[*keys, *numbers]]


def won_by_first(frame: pd.DataFrame) -> tuple[str, dict[str, str]]:
    """The share of trials that the first method won against each other one, with its interval; by their settings.

    Not where it has several settings itself in the cell, and so several shares, which ``paired.csv`` has.
    """
    first = frame["method"].iloc[0]
    paired = compare(frame.to_dict("records"))
    ours = paired[(paired["error"] == "mse") & (paired["method"] == first)]
    lines = ours.drop_duplicates("other_settings", keep=False).to_dict("records")
    won = {line["other_settings"]: "{won:.0%} ({won_low:.0%} to {won_high:.0%})".format(**line) for line in lines}
    return f"won by {first} (95% interval)", won


def _worst(line: dict[str, Any], home: Path, root: Path) -> Link | float:
    """The largest error, as a link to the picture that shows it, where one shows these settings."""
    name, worst = f"trials_{line['method']}.png", float(line["mse_max"])
    if Shown(home).shown.get(name) != line["settings"] or not (home / name).exists():
        return worst
    return Link(spelled(worst, DIGITS), str((home / name).relative_to(root)))


def over_shapes(frame: pd.DataFrame) -> list[Table]:
    """Mean and deviation over shapes, where nothing else varies; for the faces beside the published ones."""
    if [axis for axis in varying_axes(frame) if axis != "shape"] or frame["shape"].nunique() < 2:
        return []
    errors, columns = with_settings_columns(with_infinite_failures(frame))
    errors["normalised"] = errors["mse"] / errors["truth_radius"].astype(float) ** 2
    faces = frame["shape"].str.startswith("faces_").all()
    lines = []
    for key, group in errors.groupby(["method", *columns], sort=False, dropna=False):
        line = dict(zip(["method", *columns], key, strict=True))
        line |= {"pairs": group["shape"].nunique(), "failed": int((group["status"] != OK).sum())}
        for name in ("mse", "normalised"):
            line |= {f"{name}_mean": group[name].mean(), f"{name}_deviation": group[name].std()}
        if faces and (column := FACES_METHODS.get(str(line["method"]))):
            line |= dict(zip(("published_mean", "published_deviation"), FACES[column], strict=True))
        lines.append(line)
    caption = f"Over the {frame['shape'].nunique()} shapes; normalised: over the truth's mean squared radius"
    caption = f"{caption} (published: {FACES_SOURCE})" if faces else caption
    return [Table(caption, pd.DataFrame(lines), digits=DIGITS)]


def beside_paper(frame: pd.DataFrame, table: PublishedTable) -> list[Table]:
    """Our medians beside the published numbers, where both exist, a line for each settings; seeds are pooled."""
    errors, columns = with_settings_columns(with_infinite_failures(frame))
    axes = [name for name in varying_axes(frame) if name not in ("seed", table.axis)]
    keys = [table.axis, *axes, "method", *columns]
    lines = []
    for key, group in errors.groupby(keys, sort=False, dropna=False):
        line = dict(zip(keys, key, strict=True))
        published = table.value(line["method"], line[table.axis])
        if published is not None:
            ours = {"points": group["points"].iloc[0], "trials": len(group), "our_median_MSE": group["mse"].median()}
            lines.append({**line, **ours, "published_as": table.methods[line["method"]], "published_MSE": published})
    caption = f"Beside the paper ({table.source}: {table.note})"
    return [Table(caption, pd.DataFrame(lines), digits=DIGITS)] if lines else []
