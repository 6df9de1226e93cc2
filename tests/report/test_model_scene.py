from __future__ import annotations

import json

import numpy as np
import pytest

from pwan.report.model_scene import confidence_json, mode_json, scores_json

MEAN = np.random.default_rng(0).standard_normal((12, 3))
FACES = np.arange(12).reshape(4, 3)


def test_a_mode_shows_one_shape_at_a_time_coloured_by_its_distance_from_the_mean():
    shapes = [MEAN + [0.1 * by, 0, 0] for by in (-2, 0, 2)]
    figure = json.loads(mode_json(MEAN, shapes, (-2.0, 0.0, 2.0), FACES))
    assert [trace["type"] for trace in figure["data"]] == ["mesh3d"] * 3
    assert [trace["visible"] for trace in figure["data"]] == [False, False, True]
    (slider,) = figure["layout"]["sliders"]
    assert [step["label"] for step in slider["steps"]] == ["-2", "0", "+2"]
    assert [step["args"][0]["visible"] for step in slider["steps"]] == np.eye(3, dtype=bool).tolist()
    assert figure["layout"]["coloraxis"]["cmax"] == pytest.approx(0.2)
    plane = json.loads(mode_json(MEAN[:, :2], [MEAN[:, :2]], (0.0,), None))
    assert plane["data"][0]["type"] == "scatter"


def test_scores_tell_outlying_shapes_apart_and_need_no_second_mode():
    figure = json.loads(scores_json(["a", "<b>"], np.array([[1.0], [-1.0]]), np.array([1.0]), {"<b>"}))
    told = [(trace["name"], trace["text"]) for trace in figure["data"]]
    assert told == [("shapes", ["a"]), ("outlying", ["&lt;b&gt;"])]
    assert figure["layout"]["xaxis"]["title"]["text"] == "mode 1 (100%)"
    assert figure["layout"]["yaxis"]["title"]["text"] == ""


def test_confidences_stand_beside_what_is_called_good():
    figure = json.loads(confidence_json(["a", "b"], [0.5, 1.0], 0.8))
    assert figure["data"][0]["x"] == ["a", "b"] and figure["layout"]["shapes"][0]["y0"] == 0.8
