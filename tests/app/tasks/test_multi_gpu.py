from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from pwan.app import main
from pwan.app.tasks import multi_gpu
from pwan.bench.cell import Cell
from pwan.bench.rows import read_rows
from pwan.devices.ranks import Ranks
from pwan.registration.settings import PwanSettings
from pwan.report import multi_gpu_figure
from pwan.report.multi_gpu_figure import draw_multi_gpu
from pwan.synthesis import SynthesisSettings

CONF = Path(__file__).parents[3] / "conf"
SMALL = {
    "steps": 3,
    "stages": 0,
    "warmup": 1,
    "updates": 2,
    "width": 8,
    "features": 8,
    "rank": 10,
    "refinement": "none",
}
CELL = Cell("here", "torus", "packaged", SynthesisSettings(points=60), 0)


def run(folder, *overrides):
    small = [f"method.pwan.{key}={value}" for key, value in SMALL.items()]
    common = ["experiment=multi_gpu", f"output={folder}", "logger=none", "options.steps=2", "options.kind=cpu"]
    return main([*common, *(overrides or ()), *([] if any("method=" in o for o in overrides) else small)], conf=CONF)


def row(points, devices, network, transform, waits=0.0):
    seconds = {"seconds_network": network, "seconds_transform": transform, "seconds_communication": waits}
    about = {"points": points, "devices": devices, "kind": "cpu", "device": "cpu"}
    return {**about, **seconds, "bytes": 100 * (devices - 1), "mse_initial": 1.0, "mse": 0.5}


def test_two_ranks_are_measured_once_and_another_size_is_added(tmp_path, capsys, monkeypatch):
    assert run(tmp_path, "options.sizes=[60]", "options.devices=[2]") == 0
    (first,) = read_rows(tmp_path)
    assert (first["points"], first["devices"], first["kind"], first["device"]) == (60, 2, "cpu", "cpu")
    assert 0 < first["seconds_communication"] < first["seconds_network"] + first["seconds_transform"]
    assert first["bytes"] > 0 and 0 < first["mse"] != first["mse_initial"]

    asked = []

    def launch(work, devices, *arguments):
        asked.append(devices)
        return work(Ranks(), devices[0], *arguments)

    monkeypatch.setattr(multi_gpu, "launch", launch)  # without the processes
    assert run(tmp_path, "options.sizes=[80,60]", "options.devices=[2,1]") == 0
    assert asked == [["cpu"], ["cpu"], ["cpu", "cpu"]]  # 60 on two ranks is there
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert list(zip(summary["points"], summary["devices"], strict=True)) == [(60, 1), (60, 2), (80, 1), (80, 2)]
    assert summary["bytes_a_step"].tolist()[:2] == [0, first["bytes"]]
    assert summary["speed_up"][0] == summary["speed_up"][2] == 1.0
    assert "CPU ranks of one thread each" in capsys.readouterr().out
    for kind in ("png", "pdf"):
        assert (tmp_path / f"multi_gpu.{kind}").stat().st_size > 0


def test_all_steps_but_the_first_are_timed_in_two_parts():
    settings = PwanSettings(**SMALL | {"warmup": 60})
    found = multi_gpu.measure(Ranks(), "cpu", CELL, settings, 2)
    assert found["seconds_network"] > 0 and found["seconds_transform"] > 0
    assert found["bytes"] == found["seconds_communication"] == 0


def test_speed_up_is_over_the_fewest_devices_and_shares_are_of_both_parts():
    summary = multi_gpu._summary([row(80, 2, 1.0, 1.0, 0.5), row(60, 2, 3.0, 1.0, 1.0), row(80, 1, 2.0, 1.0)], 7)
    assert summary["points"].tolist() == [60, 80, 80] and summary["devices"].tolist() == [2, 1, 2]
    assert summary["speed_up"].tolist() == [1.0, 1.0, 1.5]
    assert summary["communication_share"].tolist() == [0.25, 0.0, 0.25]
    assert summary["bytes_a_step"].tolist() == [100, 0, 100] and summary["steps"].eq(7).all()


def colour_share(path, test):
    red, green, blue = np.moveaxis(imread(path)[..., :3], -1, 0)
    return float(test(red, green, blue).mean())


def test_the_figure_shows_both_parts_in_their_proportion(tmp_path):
    def share(network, transform):
        lines = multi_gpu._summary([row(60, 1, network, transform), row(60, 2, network / 2, transform / 2)], 1)
        files = draw_multi_gpu(lines, "a shape", tmp_path / "figure.png")
        assert [file.suffix for file in files] == [".png", ".pdf"] and all(file.stat().st_size for file in files)
        network_pixels = colour_share(files[0], lambda r, g, b: (b > 0.6) & (r < 0.1))
        return network_pixels / colour_share(files[0], lambda r, g, b: (r > 0.8) & (b < 0.1))

    assert share(3.0, 1.0) == pytest.approx(3, rel=0.1)
    assert share(1.0, 1.0) == pytest.approx(1, rel=0.1)


def test_a_panel_states_the_papers_two_gpus_where_it_names_them(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(multi_gpu_figure, "save_both", lambda figure, path: drawn.append(figure))
    lines = multi_gpu._summary([row(points, 1, 3.0, 1.0) for points in (60, 100_000, 700_000)], 1)
    draw_multi_gpu(lines, "a shape", tmp_path / "figure.png")
    titles = [axes.get_title().splitlines() for axes in drawn[0].axes]
    wanted = ("paper, two GPUs: × 1.3", "paper, two GPUs: × 1.9")
    assert titles == [["60 points"], ["100,000 points", wanted[0]], ["700,000 points", wanted[1]]]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["options.sizes=[]"], "sizes is empty"),
        (["options.devices=[0]"], "devices must be positive"),
        (["method=[pwan,cpd]"], "times one method, a PWAN, but got pwan, cpd"),
        (["options.devices=[1,200]", "options.kind=gpu"], "kind=gpu needs 200 GPUs"),
        (["method=[pwan_paper]"], "parametrisation=free"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_written(overrides, said, tmp_path, capsys):
    assert run(tmp_path, *overrides) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "rows.jsonl").exists()
