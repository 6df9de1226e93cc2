"""The report's first section: the paper's two figures of accuracy, and the worst trial of each of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from pwan.app.results import SOURCE_WORDS, Results, varying_axes, with_infinite_failures
from pwan.app.single_trials import Views
from pwan.app.tables import DIGITS
from pwan.choices import ACCURACY_SHAPES
from pwan.report.overview_figure import draw_overview
from pwan.report.page import Link, Picture, Section, Table, spelled
from pwan.report.published import NOISE, PARTIAL, PublishedTable, table_for

_TITLES = {"noise": "(a) Noise: outliers among the reference", "partial": "(b) Partial: both sets cropped by a plane"}
_TABLES = {"noise": NOISE, "partial": PARTIAL}
_SUFFIXES = {"paper": "", "packaged": "_packaged"}  # of the figure's name, by the source of the shapes


def overview_section(found: Sequence[Results], figures: Path, views: Views) -> list[Section]:
    """The section, drawn from the experiments named noise_<shape> and partial_<shape>; nothing where there are none.

    The paper's points and packaged ones have a figure each: accuracy_noise.png and accuracy_noise_packaged.png.

    Args:
        found: every experiment.
        figures: the folder that the figures are written into.
        views: of worst trials, see :func:`pwan.app.single_trials.write_worst`.
    """
    frames = [results.frame for results in found if results.rows]
    every = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"experiment": []})
    pictures, tables = [], []
    for kind, table in _TABLES.items():
        rows = every[every["experiment"].isin([f"{kind}_{shape}" for shape in ACCURACY_SHAPES])]
        for source, suffix in _SUFFIXES.items() if len(rows) else ():
            panels = _panels(rows[rows["shape_source"] == source], table)
            if not panels:
                continue
            sizes = sorted({int(points) for panel in panels.values() for points in panel["points"]})
            title = f"{_TITLES[kind]}; N = {', '.join(map(str, sizes))}, {SOURCE_WORDS[source]}"
            name = f"accuracy_{kind}{suffix}.png"
            figures.mkdir(exist_ok=True)
            pictures.append(Picture(title, draw_overview(panels, table, title, figures / name)[0]))
            tables.append(_worst_table(panels, table, title, views))
    return [Section("Accuracy at a glance", tables=tables, pictures=pictures, pictures_first=True)] if pictures else []


def _panels(rows: pd.DataFrame, table: PublishedTable) -> dict[str, pd.DataFrame]:
    """The rows of each shape that make curves: they are problems as the figure's, of which nothing but its axis varies,
    and each trial is there once."""
    panels = {}
    for shape in ACCURACY_SHAPES:
        panel = rows[rows["shape"] == shape]
        same = set(varying_axes(panel)) <= {table.axis, "seed"} and table_for(panel) is table
        if len(panel) and same and not panel.duplicated([table.axis, "seed", "method", "trial"]).any():
            panels[shape] = panel
    return panels


def _worst_table(panels: Mapping[str, pd.DataFrame], table: PublishedTable, title: str, views: Views) -> Table:
    """The largest error of the first method in each cell, a line for each shape, with the view that shows it."""
    method = next(iter(panels.values()))["method"].iloc[0]
    lines = []
    for shape, panel in panels.items():
        line: dict[str, object] = {"shape": shape}
        ours = with_infinite_failures(panel[panel["method"] == method])
        for x, cell in ours.groupby(ours[table.axis].astype(float)):
            worst = cell[cell["mse"] == cell["mse"].max()]
            shown = [views[key] for key in zip(worst["settings"], worst["trial"], strict=True) if key in views]
            text = spelled(cell["mse"].max(), DIGITS)
            line[f"{table.axis} {x:g}"] = Link(text, shown[0].path, shown[0].place) if shown else text
        lines.append(line)
    return Table(f"{title}: the largest MSE of {method}; links lead to 3-D views", pd.DataFrame(lines), digits=DIGITS)
