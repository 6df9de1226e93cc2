"""Every experiment is run in this process with tiny settings, and every method's YAML is checked."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from pwan import methods
from pwan.app import main
from pwan.app.config import NOT_SETTINGS
from pwan.bench.rows import read_rows
from pwan.bench.tracking import SUMMARY_METRICS
from tests.bench.test_tracking import logged_summary

CONF = Path(__file__).parents[1] / "conf"
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
BENCHMARKS = [name for name in EXPERIMENTS if name != "fish_precision"]
SMALL = {"steps": 2, "warmup": 1, "updates": 2, "rank": 20, "stages": 0, "nearest_steps": 5}


def experiment(name):
    return yaml.safe_load((CONF / "experiment" / f"{name}.yaml").read_text())


def method_list(name):
    return next(entry["override /method"] for entry in experiment(name)["defaults"] if "override /method" in entry)


def small(name):
    """Overrides that make every method of the experiment quick, as far as the method has the setting."""
    overrides = ["trials=1", "workers=1", "problem.points=60"]
    for method in method_list(name):
        settings = vars(methods.settings(method))
        overrides += [f"method.{method}.{key}={value}" for key, value in SMALL.items() if key in settings]
    return overrides


@pytest.mark.parametrize("name", BENCHMARKS)
def test_experiment_runs(name, tmp_path):
    assert main([f"experiment={name}", f"output={tmp_path}", "logger=none", *small(name)], conf=CONF) == 0
    rows = read_rows(tmp_path)
    assert [row["method"] for row in rows] == method_list(name)
    nodes = yaml.safe_load((tmp_path / "config.yaml").read_text())["method"]
    assert list(nodes) == method_list(name)
    for node in (nodes[name] for name in nodes if name.startswith("pwan")):
        assert {"steps", "rate", "coherence", "affine_penalty", "soft"} <= {
            key for key in node if node[key] is not None
        }
    assert {row["status"] for row in rows} == {"ok"}
    assert len({row["problem"] for row in rows}) == 1, "all methods must get the same points"
    assert {row["threads"] for row in rows} == {1}
    for file in ("config.yaml", "summary.csv", *(f"trials_{method}.png" for method in method_list(name))):
        assert (tmp_path / file).stat().st_size > 0


def test_precision_experiment_runs_on_the_packaged_fish(tmp_path):
    arguments = ["experiment=fish_precision", f"output={tmp_path}", "shape.source=packaged", "options.updates=3"]
    assert main(arguments, conf=CONF) == 0
    assert pd.read_csv(tmp_path / "summary.csv")["exact"].notna().all()
    assert (tmp_path / "precision.png").stat().st_size > 0
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert (written["task"], written["options"]["updates"], written["method"]) == ("precision", 3, {})


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
