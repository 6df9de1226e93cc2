"""Every experiment is run with tiny settings, its sweep is composed, and every method's YAML is checked."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hydra import compose, initialize_config_dir

from pwan import methods, shapes
from pwan.app import main
from pwan.app.catalogue import TASKS
from pwan.app.config import NOT_SETTINGS, check, register_schema
from pwan.bench import pictures
from pwan.bench.rows import read_rows
from pwan.bench.tracking import SUMMARY_METRICS
from pwan.methods._baseline import is_small
from pwan.report.example_figure import draw_examples
from pwan.report.training_figure import draw_training
from pwan.report.trial_figure import draw_trials
from tests.bench.test_tracking import logged_summary

CONF = Path(__file__).parents[1] / "conf"
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
# settings that make a method or a task quick, by name, as far as it has them; another task may add its own
SMALL = {"steps": 2, "warmup": 1, "updates": 2, "rank": 20, "stages": 0, "nearest_steps": 5}
SMALL_OPTIONS = {"updates": 3, "paper_steps": 1, "sizes": "[60]", "repeats": 1, "step": 0.1}
# what no setting makes quick
SMALL_TASKS = {
    "scalability": ["method=[cpd_accelerated]"],  # each method starts a process
    "multi_gpu": ["options.steps=2", "options.devices=[1]"],
}


def experiment(name):
    return yaml.safe_load((CONF / "experiment" / f"{name}.yaml").read_text())


def task(name):
    return experiment(name).get("task", "benchmark")


def needs_paper(name):
    """Whether the experiment's shape is one of the paper's, to which no packaged one answers."""
    chosen = experiment(name)
    group = next(
        (entry["override /shape"] for entry in chosen.get("defaults", []) if "override /shape" in entry), "bunny"
    )
    shape = {"name": group, "source": "packaged", **chosen.get("shape", {})}
    return shape["source"] == "paper" and shape["name"] not in shapes.names()


def marked(name):
    """The name as a parameter, skipped where the folder that its experiment needs is not named."""
    missing = needs_paper(name) and "PWAN_DATA" not in os.environ
    reason = "PWAN_DATA does not name a folder with the paper's point sets"
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=reason))


BENCHMARKS = [name for name in EXPERIMENTS if task(name) == "benchmark"]
OTHERS = [name for name in EXPERIMENTS if task(name) not in ("benchmark", "paper")]  # the last runs all others


def method_list(name):
    """The methods that the experiment names; that of conf/config.yaml where it names none."""
    listed = (
        entry["override /method"] for entry in experiment(name).get("defaults", []) if "override /method" in entry
    )
    return next(listed, ["pwan"])


def method_file(method):
    """The method behind an entry of the list of methods, which may be a variant's name."""
    return node(method).get("method", method)


def node(method):
    return yaml.safe_load((CONF / "method" / f"{method}.yaml").read_text())[method] or {}


def small(name):
    """Overrides that make the experiment quick."""
    overrides = ["trials=1", "workers=1", "problem.points=60"]
    if not needs_paper(name):
        overrides += ["shape.source=packaged"]
    overrides += SMALL_TASKS.get(task(name), [])
    options = vars(TASKS.find(task(name)).Settings())
    overrides += [f"options.{key}={value}" for key, value in SMALL_OPTIONS.items() if key in options]
    if any(override.startswith("method=") for override in overrides):
        return overrides
    for method in method_list(name):
        settings = vars(methods.settings(method_file(method)))
        overrides += [f"method.{method}.{key}={value}" for key, value in SMALL.items() if key in settings]
        if node(method).get("coarse_steps"):
            overrides.append(f"method.{method}.coarse_steps=3")
    return overrides


def first_of(draw):
    """Draws as ``draw`` the first time, and then copies that picture."""
    drawn = []

    def draw_or_copy(shown, title, path):
        if drawn:
            shutil.copy(drawn[0], path)
        else:
            draw(shown, title, path)
            drawn.append(path)

    return draw_or_copy


@pytest.mark.parametrize("name", [marked(name) for name in BENCHMARKS])
def test_experiment_runs(name, tmp_path, monkeypatch):
    # they take most of the time: of equal panels one, and of the pictures of a kind the first, for all methods
    def draw_one_each(examples, *rest):
        draw_examples([replace(one, registrations=one.registrations[:1]) for one in examples], *rest)

    monkeypatch.setattr(pictures, "draw_examples", draw_one_each)
    monkeypatch.setattr(pictures, "draw_trials", first_of(lambda panels, *rest: draw_trials(panels[:1], *rest)))
    monkeypatch.setattr(pictures, "draw_training", first_of(draw_training))
    assert main([f"experiment={name}", f"output={tmp_path}", "logger=none", *small(name)], conf=CONF) == 0
    rows = read_rows(tmp_path)
    assert [row["method"] for row in rows] == method_list(name)
    nodes = yaml.safe_load((tmp_path / "config.yaml").read_text())["method"]
    assert list(nodes) == method_list(name)
    for node in (nodes[name] for name in nodes if name.startswith("pwan")):
        told = {"steps", "rate", "coherence", "affine_penalty", *(["soft"] if node["refinement"] == "soft" else [])}
        assert told <= {key for key in node if node[key] is not None}
    assert {row["status"] for row in rows} == {"ok"}
    assert len({row["problem"] for row in rows}) == 1, "all methods must get the same points"
    assert {row["threads"] for row in rows} == {1}
    for file in ("config.yaml", "summary.csv", *(f"trials_{method}.png" for method in method_list(name))):
        assert (tmp_path / file).stat().st_size > 0


@pytest.mark.parametrize("name", OTHERS)
def test_experiment_of_another_task_runs(name, tmp_path):
    assert main([f"experiment={name}", f"output={tmp_path}", "logger=none", *small(name)], conf=CONF) == 0
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert (written["task"], written["name"]) == (task(name), name)
    assert set(written["options"]) == set(vars(TASKS.find(task(name)).Settings()))
    made = {path.suffix for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 0}
    assert {".csv", ".png"} <= made


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "hydra" in experiment(name)])
def test_every_cell_of_the_sweep_is_a_valid_configuration(name):
    register_schema()
    params = experiment(name)["hydra"]["sweeper"]["params"]
    assert params
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        for key, values in params.items():
            cells = [check(compose("config", [f"experiment={name}", f"{key}={value}"])) for value in values.split(",")]
            seen = {repr((cell.cell, cell.entries)) for cell in cells}
            assert len(seen) == len(cells) > 1, "each value must make another cell"


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name.startswith(("noise_", "partial_", "table_"))])
def test_cpd_and_bcpd_are_exact_in_the_papers_figures_and_tables(name):
    """In their largest cell, by the numbers of its points: nothing is registered here."""
    register_schema()
    ((key, values),) = experiment(name)["hydra"]["sweeper"]["params"].items()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        checked = check(compose("config", [f"experiment={name}", f"{key}={max(values.split(','), key=float)}"]))
    drawn, outliers = checked.cell.synthesis.points, checked.cell.synthesis.outlier_ratio
    source, reference = np.empty((drawn, 3)), np.empty((round(drawn * (1 + outliers)), 3))
    for entry in (entry for entry in checked.entries if entry.method in ("cpd", "bcpd")):
        settings = methods.settings(entry.method, entry.options)
        limit = settings.exact_points if entry.method == "cpd" else settings.full_points
        assert is_small(limit, source, reference), entry.name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_is_named_after_its_file_and_begins_with_its_command(name):
    first, second = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()[:2]
    assert first == "# @package _global_"  # Hydra wants it before any other line
    assert second.startswith(f"# python run.py experiment={name}")
    assert experiment(name)["name"] == name


def test_wandb_holds_the_numbers_of_the_summary(tmp_path):
    name = "noise_bunny"
    only = ["method=[pwan]", *(o for o in small(name) if not o.startswith("method.") or o.startswith("method.pwan."))]
    assert main([f"experiment={name}", f"output={tmp_path}", *only, "trials=2"], conf=CONF) == 0
    line = next(line for line in pd.read_csv(tmp_path / "summary.csv").to_dict("records") if line["method"] == "pwan")
    logged = logged_summary(tmp_path)
    assert {key: logged[key] for key in SUMMARY_METRICS} == {key: pytest.approx(line[key]) for key in SUMMARY_METRICS}
    assert logged["worst_median_best/_type"] == "image-file"


@pytest.mark.parametrize("path", sorted((CONF / "method").glob("*.yaml")), ids=lambda path: path.stem)
def test_method_file_has_its_name_as_key_a_bound_and_known_settings(path):
    content = yaml.safe_load(path.read_text())
    assert list(content) == [path.stem]
    node = content[path.stem]
    assert node["contract_mse"] is None or node["contract_mse"] > 0
    options = {key: value for key, value in node.items() if key not in NOT_SETTINGS}
    methods.settings(node.get("method", path.stem), options)


def test_every_method_has_a_configuration():
    configured = {
        node.get("method", name)
        for path in (CONF / "method").glob("*.yaml")
        for name, node in yaml.safe_load(path.read_text()).items()
    }
    assert configured == set(methods.names())
