from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from pwan import shapes
from pwan.app import main
from pwan.app.tasks.datasets import Settings
from pwan.report.dataset_figure import Cloud, draw_clouds

CONF = Path(__file__).parents[3] / "conf"
RED, BLUE = "#cc3311", "#4477aa"


def run(name, folder, *overrides):
    return main([f"experiment={name}", f"output={folder}", "logger=none", *overrides], conf=CONF)


def test_three_shapes_and_their_deformations(tmp_path):
    assert run("datasets", tmp_path, "problem.points=100") == 0
    frame = pd.read_csv(tmp_path / "summary.csv")
    assert list(frame["shape"]) == ["bunny", "armadillo", "monkey"]
    assert list(frame["points"]) == [len(shapes.load(name).points) for name in frame["shape"]]
    assert (frame["drawn"] == 100).all()
    assert frame["mse_initial"].between(0.01, 3).all()  # 3 / lambda on average
    for kind in ("png", "pdf"):
        assert (tmp_path / f"datasets.{kind}").stat().st_size > 0


def test_unknown_shape_is_named_before_anything_is_written(tmp_path, capsys):
    assert run("datasets", tmp_path / "out", "options.shapes=[bunni]") == 2
    error = capsys.readouterr().err
    assert "bunni" in error and "bunny" in error
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="shapes is empty"):
        Settings(shapes=())


def test_clouds_are_drawn_in_their_own_picture_and_colour(tmp_path):
    points = np.random.default_rng(0).normal(size=(400, 2))
    pictures = [("one", [Cloud(points, RED, "a")]), ("two", [Cloud(points, BLUE, "b")])]
    files = draw_clouds(pictures, "title", tmp_path / "clouds.png")
    assert files == [tmp_path / "clouds.png", tmp_path / "clouds.pdf"] and files[1].stat().st_size > 0
    image = imread(tmp_path / "clouds.png")[..., :3]
    image = image[: int(0.85 * len(image))]  # without the legend
    left, right = np.array_split(image, 2, axis=1)
    assert (left[..., 0] - left[..., 2] > 0.3).sum() > 500 and (left[..., 2] - left[..., 0] > 0.2).sum() == 0
    assert (right[..., 2] - right[..., 0] > 0.2).sum() > 500 and (right[..., 0] - right[..., 2] > 0.3).sum() == 0


def test_one_frame_gives_all_pictures_the_same_scale(tmp_path):
    square = np.stack(np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20)), -1).reshape(-1, 2)
    pictures = [("large", [Cloud(square, RED, "a")]), ("small", [Cloud(0.1 * square, BLUE, "b")])]

    def blue_width(**options):
        draw_clouds(pictures, "title", tmp_path / "clouds.png", **options)
        image = imread(tmp_path / "clouds.png")[..., :3]
        image = image[: int(0.85 * len(image))]
        return int(np.ptp(np.nonzero((image[..., 2] - image[..., 0] > 0.2).any(0))[0]))

    assert blue_width(one_frame=True) < 0.3 * blue_width(one_frame=False)


def test_matching_a_part_beats_matching_all_on_the_fish(tmp_path):
    assert run("dm_against_pdm", tmp_path) == 0
    frame = pd.read_csv(tmp_path / "summary.csv").set_index("method")
    assert list(frame.index) == ["bcpd", "wgan", "pwan"]
    assert (frame.loc["pwan", "mse"] < 0.2 * frame.loc[["bcpd", "wgan"], "mse"]).all()
    assert frame.loc["pwan", "mse"] < frame.loc["pwan", "mse_initial"]
    assert (frame.loc[["bcpd", "wgan"], "matched_fraction"] == 1).all()
    assert frame.loc["pwan", "matched_fraction"] == pytest.approx(0.57, abs=0.03)  # (2s - 1) / s
    with np.load(tmp_path / "points.npz") as arrays:
        error = ((arrays["pwan_transformed"] - arrays["truth"]) ** 2).sum(1).mean()
        assert error == pytest.approx(frame.loc["pwan", "mse"])
    for kind in ("png", "pdf"):
        assert (tmp_path / f"dm_against_pdm.{kind}").stat().st_size > 0
