"""The report's tables of an experiment's rows: the summary, and ours beside the published numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pwan.app.results import varying_axes, with_infinite_failures
from pwan.bench.rows import Row
from pwan.bench.summary import STATISTICS, WITHOUT_UNIT, summarise
from pwan.problem import OK
from pwan.report.page import Table
from pwan.report.published import FACES, FACES_METHODS, FACES_SOURCE, PublishedTable


def summary_table(rows: list[Row], homes: dict[str, Path], folder: Path) -> pd.DataFrame:
    """The summary without the columns that do not vary, and with one more where the rest would not tell lines apart."""
    summary = summarise(rows)
    keys = [*varying_axes(summary), "method"]
    if summary.duplicated(keys).any() and summary["options"].nunique() > 1:
        keys.append("options")
    if summary.duplicated(keys).any():
        summary.insert(0, "folder", summary["settings"].map(lambda key: str(homes[key].relative_to(folder))))
        keys = ["folder", *keys]
    if summary.duplicated(keys).any():
        keys.append("settings")
    # packaged shapes, and what a random deformation makes of them, have a radius of 1
    unit = (summary["shape_source"] == "paper").any() or (summary["deformation"] == "partner").any()
    return summary.sort_values([key for key in varying_axes(summary) if key in keys], kind="stable")[
        [*keys, *STATISTICS, *(WITHOUT_UNIT if unit else [])]
    ]


def over_shapes(frame: pd.DataFrame) -> list[Table]:
    """Mean and deviation over shapes, where nothing else varies; for the faces beside the published ones."""
    if [axis for axis in varying_axes(frame) if axis != "shape"] or frame["shape"].nunique() < 2:
        return []
    errors = with_infinite_failures(frame)
    errors["normalised"] = errors["mse"] / errors["truth_radius"].astype(float) ** 2
    faces = frame["shape"].str.startswith("faces_").all()
    lines = []
    for method, group in errors.groupby("method", sort=False):
        line = {"method": method, "pairs": group["shape"].nunique(), "failed": int((group["status"] != OK).sum())}
        for name in ("mse", "normalised"):
            line |= {f"{name}_mean": group[name].mean(), f"{name}_deviation": group[name].std()}
        if faces and (column := FACES_METHODS.get(str(method))):
            line |= dict(zip(("published_mean", "published_deviation"), FACES[column], strict=True))
        lines.append(line)
    caption = f"Over the {frame['shape'].nunique()} shapes; normalised: over the truth's mean squared radius"
    return [Table(f"{caption} (published: {FACES_SOURCE})" if faces else caption, pd.DataFrame(lines))]


def beside_paper(frame: pd.DataFrame, table: PublishedTable) -> list[Table]:
    """Our medians beside the published numbers, where both exist."""
    keys = [table.axis, *(name for name in varying_axes(frame) if name not in ("seed", table.axis)), "method"]
    lines = []
    for key, group in with_infinite_failures(frame).groupby(keys, sort=False, dropna=False):
        line = dict(zip(keys, key, strict=True))
        published = table.value(line["method"], line[table.axis])
        if published is not None:
            ours = {"points": group["points"].iloc[0], "trials": len(group), "our_median_MSE": group["mse"].median()}
            lines.append({**line, **ours, "published_as": table.methods[line["method"]], "published_MSE": published})
    return [Table(f"Beside the paper ({table.source}: {table.note})", pd.DataFrame(lines))] if lines else []
