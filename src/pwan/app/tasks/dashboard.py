"""The task ``dashboard``: the paper's two figures of accuracy, and what lies behind them, as a workspace in W&B."""

from __future__ import annotations

import contextlib
import json
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pwan.app.checked import Checked
from pwan.app.tasks._settings.dashboard import Settings
from pwan.bench.curves import CURVES, STEP
from pwan.bench.tracking import (
    FIGURES_GROUP,
    TRIALS_TABLE,
    WORST_MEDIAN_BEST,
    accuracy_table,
    save_workspace,
    track_figures,
)
from pwan.choices import ACCURACY_SHAPES
from pwan.files import save_text

_WORDS = {"outlier_ratio": "outliers for each point", "keep": "share of each set kept", "points": "points of a set"}
_METHOD = "JobType"  # W&B's word for what ``track`` gives as job_type
_MANY = 100  # runs in a chart, the most that W&B's grouped charts take: fewer than both figures with all methods have


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    entity = settings.entity or checked.tracking.entity
    project = settings.project or checked.tracking.project
    if settings.file is None and not entity:
        raise ValueError(
            "a dashboard needs the name of your user or team in W&B, options.entity=..., and a login (wandb login); "
            "options.file=dashboard.json writes it to a file without either"
        )
    figures: dict[str, Path] = {}
    if settings.figures is not None:
        drawn = Path(settings.figures).resolve()
        figures = _figures(drawn)
        track_figures(drawn.parent, replace(checked.tracking, entity=entity, project=project), figures)
    workspace = make_workspace(entity or "", project, settings.experiments, tuple(figures))
    with contextlib.suppress(OSError):
        folder.rmdir()  # Hydra's folder for this run: nothing is written into it, and it goes only if it is empty
    if settings.file is None:
        print(f"dashboard: {save_workspace(workspace)}")
        return 0
    path = Path(settings.file).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps(specification(workspace), indent=1) + "\n")
    print(f"dashboard: {path}")
    return 0


def _figures(folder: Path) -> dict[str, Path]:
    """The report's figures of accuracy by their names.

    Raises:
        ValueError: there are none.
    """
    found = {path.stem: path for path in sorted(folder.glob("accuracy_*.png"))}
    if not found:
        raise ValueError(
            f"options.figures must name a folder with the figures of task=report, but {folder} holds no "
            "accuracy_*.png; run task=report over experiments named noise_<shape> or partial_<shape> first"
        )
    return found


def make_workspace(entity: str, project: str, experiments: tuple[str, ...], figures: tuple[str, ...] = ()) -> Any:
    """The workspace, not saved yet; it opens with the figures of these names, where there are any.

    Its runs are not grouped: W&B draws a group of runs as one point of a scatter plot. Charts that are to have a line
    or bar for each method group for themselves.
    """
    ws, wr = _packages()
    groups = [*experiments, *([FIGURES_GROUP] if figures else [])]
    return ws.Workspace(
        entity=entity,
        project=project,
        name="pwan accuracy",
        sections=[
            *([_section("The paper's figures", [_pictures("as drawn", figures, 1)], columns=1)] if figures else []),
            _accuracy("Accuracy against outliers", "outlier_ratio"),
            _accuracy("Accuracy against the kept share", "keep"),
            _section("Training curves (median over the cells shown)", [_curve(name) for name in CURVES]),
            _section(
                "Timings and failures",
                [
                    _bars("seconds_median", "median seconds of a trial", "median"),
                    _scatter("seconds_median", "points"),
                    _bars("failed", "failed trials", "sum"),
                ],
            ),
            _section(
                "Worst, median and best trial",
                [_pictures("of each run", (WORST_MEDIAN_BEST,), 2)],
                columns=1,
            ),
            _section("Trials", [wr.WeavePanelSummaryTable(table_name=TRIALS_TABLE)], columns=1),
        ],
        settings=ws.WorkspaceSettings(max_runs=_MANY),
        runset_settings=ws.RunsetSettings(
            filters=ws.And(ws.Metric("Group").isin(groups)) if experiments else "",
            order=[ws.Ordering(ws.Metric("Group")), ws.Ordering(ws.Metric(_METHOD))],
            pinned_columns=["run:displayName", "run:jobType", "summary:mse_median", "summary:trials", "summary:failed"],
        ),
    )


def specification(workspace: Any) -> dict[str, Any]:
    """What W&B is sent for a workspace, as plain values; its panels have new random identifiers each time."""
    view = workspace._to_model()  # the package has no public way to its JSON
    return {
        "entity": view.entity,
        "project": view.project,
        "displayName": view.display_name,
        "spec": view.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _accuracy(name: str, axis: str) -> Any:
    """The figure: a panel for each shape with a line for each method, and one with each run as a point.

    W&B's line charts over runs have neither log axes nor bands; the points stand on a log axis.
    """
    _, wr = _packages()
    lines = [
        wr.CustomChart(
            query={"summaryTable": {"tableKey": accuracy_table(axis, shape)}},
            chart_name="wandb/lineseries/v0",  # W&B's own: a colour for each name of a run, a dash for each lineKey
            chart_fields={"step": axis, "lineKey": "method", "lineVal": "mse_median"},
            chart_strings={"title": f"{shape}: median MSE", "xname": _WORDS[axis]},
        )
        for shape in ACCURACY_SHAPES
    ]
    return _section(name, [*lines, _scatter("mse_median", axis)])


def _pictures(title: str, names: tuple[str, ...], columns: int) -> Any:
    _, wr = _packages()
    return wr.MediaBrowser(title=title, media_keys=list(names), num_columns=columns)


def _scatter(metric: str, axis: str) -> Any:
    _, wr = _packages()
    return wr.ScatterPlot(
        title=f"{metric} against {_WORDS[axis]}, each run",
        x=wr.Config(f"problem.{axis}"),
        y=wr.SummaryMetric(metric),
        log_y=True,
        legend_template="${run:displayName}",
    )


def _curve(metric: str) -> Any:
    _, wr = _packages()
    return wr.LinePlot(
        title=metric.replace("_", " "),
        x=STEP,
        y=[metric],
        log_y=metric == "mse",  # the loss of the distance type is negative
        groupby=wr.Metric(_METHOD),
        groupby_aggfunc="median",
        groupby_rangefunc="minmax",
        max_runs_to_show=_MANY,
    )


def _bars(metric: str, title: str, how: str) -> Any:
    _, wr = _packages()
    return wr.BarPlot(
        title=f"{title}, {how} over the cells shown",
        metrics=[metric],
        groupby=wr.Metric(_METHOD),
        groupby_aggfunc=how,
        max_runs_to_show=_MANY,
    )


def _section(name: str, panels: list[Any], columns: int = 3) -> Any:
    ws, _ = _packages()
    layout = ws.SectionLayoutSettings(columns=columns, rows=-(-len(panels) // columns))
    return ws.Section(name=name, panels=panels, is_open=True, layout_settings=layout)


def _packages() -> tuple[ModuleType, ModuleType]:
    """The package's halves for workspaces and for panels, which take a second to import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own use of pydantic
        import wandb_workspaces.reports.v2 as wr
        import wandb_workspaces.workspaces as ws
    return ws, wr
