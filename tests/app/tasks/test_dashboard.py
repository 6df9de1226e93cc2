from __future__ import annotations

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir

from pwan.app import main
from pwan.app.config import check, register_schema
from pwan.app.tasks import dashboard
from pwan.app.tasks._settings.dashboard import FIGURES
from pwan.app.tasks.dashboard import make_workspace, specification
from tests.bench.test_tracking import call, logged_history, logged_summary, records, table

CONF = Path(__file__).parents[3] / "conf"
SECTIONS = [
    "Accuracy against outliers",
    "Accuracy against the kept share",
    "Training curves (median over the cells shown)",
    "Timings and failures",
    "Worst, median and best trial",
    "Trials",
]


def dashboard_file(folder, *arguments):
    path = folder / "sub" / "dashboard.json"
    code = main(["task=dashboard", f"output={folder / 'out'}", f"options.file={path}", *arguments], conf=CONF)
    assert code == 0
    return json.loads(path.read_text())


def sections(written):
    return {s["name"]: s for s in written["spec"]["section"]["panelBankConfig"]["sections"]}


def configs(section, view):
    return [panel["config"] for panel in section["panels"] if panel["viewType"] == view]


@pytest.fixture(scope="module")
def made():
    return sections(specification(make_workspace("me", "pwan", FIGURES)))


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """What the runs of a noise and of a partial cell hold: by the kind, the folder and the resolved configuration."""
    found = {}
    register_schema()
    for kind in ("noise", "partial"):
        folder = tmp_path_factory.mktemp(kind)
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            checked = check(compose("config", [f"experiment={kind}_bunny"]))
        picture = folder / "picture.png"
        matplotlib.image.imsave(picture, np.zeros((2, 2, 3)))
        curves = pd.DataFrame({name: [1.0] for name in ("step", "mse", "loss", "threshold", "gradient_norm")})
        axes = {"outlier_ratio": checked.cell.synthesis.outlier_ratio, "keep": checked.cell.synthesis.keep}
        figures = {"worst_median_best": picture}
        call(folder, curves=curves, figures=figures, config=checked.resolved, **axes)
        found[kind] = (folder, checked.resolved)
    return found


def test_the_file_holds_the_sections_in_order_and_needs_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(dashboard, "save_workspace", lambda workspace: 1 / 0)
    written = dashboard_file(tmp_path, "options.entity=me", "options.project=other")
    assert (written["entity"], written["project"]) == ("me", "other")
    assert list(sections(written)) == SECTIONS
    assert [len(section["panels"]) for section in sections(written).values()] == [4, 4, 4, 3, 1, 1]
    assert all(section["isOpen"] for section in sections(written).values())
    assert not (tmp_path / "out").exists()


def test_the_reports_figures_are_logged_and_come_first(tmp_path, capsys):
    drawn = tmp_path / "results" / "report_figures"
    drawn.mkdir(parents=True)
    folder = f"options.figures={drawn}"
    assert main(["task=dashboard", f"output={tmp_path / 'out'}", "options.file=x.json", folder], conf=CONF) == 2
    assert "holds no accuracy_*.png" in capsys.readouterr().err
    for name in ("accuracy_noise", "other"):
        matplotlib.image.imsave(drawn / f"{name}.png", np.zeros((2, 2, 3)))
    written = dashboard_file(tmp_path, folder, "logger.mode=offline")
    assert list(sections(written)) == ["The paper's figures", *SECTIONS]
    (pictures,) = configs(sections(written)["The paper's figures"], "Media Browser")
    assert pictures["mediaKeys"] == ["accuracy_noise"]
    (runs,) = written["spec"]["section"]["runSets"]
    (run,) = [record.run for record in records(tmp_path / "results") if record.HasField("run")]
    assert [*FIGURES, run.run_group] in [f.get("value") for f in runs["filters"]["filters"]]
    assert "accuracy_noise/_type" in logged_summary(tmp_path / "results")


def test_the_project_is_the_loggers_unless_another_is_named(tmp_path):
    written = dashboard_file(tmp_path, "logger.project=mine", "logger.entity=team")
    assert (written["entity"], written["project"]) == ("team", "mine")


def test_runs_are_those_of_the_two_figures_and_not_grouped(tmp_path):
    for name in FIGURES:
        assert (CONF / "experiment" / f"{name}.yaml").exists()
    (runs,) = dashboard_file(tmp_path)["spec"]["section"]["runSets"]
    filters = [f for f in runs["filters"]["filters"] if f.get("key")]
    assert [(f["key"]["section"], f["key"]["name"], f["op"], f["value"]) for f in filters] == [
        ("run", "group", "IN", list(FIGURES))
    ]
    assert runs["grouping"] == [], "a group would be one point of a scatter plot"


def test_other_experiments_or_all(tmp_path):
    (runs,) = dashboard_file(tmp_path, "options.experiments=[a,b]")["spec"]["section"]["runSets"]
    assert ["a", "b"] in [f.get("value") for f in runs["filters"]["filters"]]
    (runs,) = dashboard_file(tmp_path, "options.experiments=[]")["spec"]["section"]["runSets"]
    assert not [f for f in runs["filters"]["filters"] if f.get("key")]


@pytest.mark.parametrize(
    ("name", "kind", "axis"), [(SECTIONS[0], "noise", "outlier_ratio"), (SECTIONS[1], "partial", "keep")]
)
def test_accuracy_panels_take_columns_and_keys_that_a_run_holds(made, tracked, name, kind, axis):
    folder, _ = tracked[kind]
    each = configs(made[name], "Vega2")  # a panel for each shape, as in the paper; the run's is the bunny
    assert [lines["stringSettings"]["title"].split(":")[0] for lines in each] == ["bunny", "monkey", "armadillo"]
    lines = each[0]
    ((query,),) = [[field for field in q["fields"] if "args" in field] for q in lines["userQuery"]["queryFields"]]
    assert query["name"] == "summaryTable"
    there = table(folder, query["args"][0]["value"])
    assert lines["fieldSettings"] == {"step": axis, "lineKey": "method", "lineVal": "mse_median"}
    assert set(lines["fieldSettings"].values()) <= set(there["columns"])
    (points,) = configs(made[name], "Scatter Plot")
    assert (points["xAxis"], points["yAxis"]) == (f"config:problem.value.{axis}", "summary:mse_median")


def test_every_metric_of_a_panel_is_logged(made, tracked):
    folder, resolved = tracked["noise"]
    held = {"summary": set(logged_summary(folder)), "history": set().union(*logged_history(folder))}
    logged_config = _logged_config(folder)
    for section in made.values():
        for points in configs(section, "Scatter Plot"):
            place, _, key = points["xAxis"].removeprefix("config:").partition(".value.")
            assert json.loads(logged_config[place])[key] == resolved[place][key]
            assert points["yAxis"].removeprefix("summary:") in held["summary"]
        for curve in configs(section, "Run History Line Plot"):
            assert {curve["xAxis"], *curve["metrics"]} <= held["history"]
            assert curve["groupBy"] == "jobType"
        for bars in configs(section, "Bar Chart"):
            assert set(bars["metrics"]) <= held["summary"]
            assert bars["groupBy"] == "jobType"
        for pictures in configs(section, "Media Browser"):
            assert {f"{key}/_type" for key in pictures["mediaKeys"]} <= held["summary"]
        for weave in configs(section, "Weave"):
            name = weave["panel2Config"]["exp"]["fromOp"]["inputs"]["key"]["val"]
            assert logged_summary(folder)[f"{name}/_type"] == "table-file"


def test_each_metric_has_a_curve(made):
    curves = configs(made[SECTIONS[2]], "Run History Line Plot")
    assert [curve["metrics"] for curve in curves] == [["mse"], ["loss"], ["threshold"], ["gradient_norm"]]
    assert {curve["xAxis"] for curve in curves} == {"step"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "options.entity=..."),
        (["options.entity=me"], "wandb login"),
        (["options.entityy=me"], "did you mean 'entity'?"),
    ],
)
def test_offline_it_says_in_a_line_what_it_needs(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    assert main(["task=dashboard", f"output={tmp_path / 'out'}", *arguments], conf=CONF) == 2
    told = capsys.readouterr().err
    assert words in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_online_the_workspace_is_saved_and_its_address_told(tmp_path, monkeypatch, capsys):
    saved = []
    monkeypatch.setattr(dashboard, "save_workspace", lambda workspace: saved.append(workspace) or "https://there")
    assert main(["task=dashboard", f"output={tmp_path / 'out'}", "options.entity=me"], conf=CONF) == 0
    assert "dashboard: https://there" in capsys.readouterr().out
    assert [(workspace.entity, workspace.project) for workspace in saved] == [("me", "pwan")]


def _logged_config(folder):
    runs = [record.run for record in records(folder) if record.HasField("run")]
    return {update.key: update.value_json for run in runs for update in run.config.update}
