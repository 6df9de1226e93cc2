from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pwan.report import scene
from pwan.report.page import MAX_LINES, Link, Picture, Scene, Section, Table, table_html, write_page
from pwan.report.registered import Registration
from pwan.report.scene import LIMIT, frames_json, middle_of, scene_json

EVIL = "</script><script>alert(1)</script>&\"'"


def clouds(r=12, q=20, d=3):
    generator = np.random.default_rng(0)
    return generator.normal(size=(r, d)), generator.normal(size=(q, d)), generator.normal(size=(r, d))


def registration(method="pwan", r=12, q=20, d=3):
    generator = np.random.default_rng(1)
    moved = generator.normal(size=(r, d))
    return Registration(method, "MSE 0.1", moved, np.arange(r) % 3 > 0, np.arange(q) % 2 > 0)


def make_picture(tmp_path):
    path = tmp_path / "picture.png"
    Image.fromarray(np.linspace(0, 255, 20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8)).save(path)
    return path


def test_a_menu_chooses_between_the_initial_sets_and_each_method():
    figure = json.loads(scene_json(*clouds(), [registration("pwan"), registration("cpd")]))
    buttons = figure["layout"]["updatemenus"][0]["buttons"]
    assert [button["label"] for button in buttons] == ["initial sets", "pwan: MSE 0.1", "cpd: MSE 0.1"]
    names = [trace["name"] for trace in figure["data"]]
    shown = [
        [name for name, on in zip(names, button["args"][0]["visible"], strict=True) if on is True] for button in buttons
    ]
    registered = [
        "reference, not matched",
        "reference, matched",
        "truth",
        "registered, not matched",
        "registered, matched",
    ]
    assert shown == [["reference", "source"], registered, registered]
    assert [trace["visible"] for trace in figure["data"]] == buttons[1]["args"][0]["visible"]
    for button in buttons:  # nothing of one method is shown with another
        assert len(button["args"][0]["visible"]) == len(names) == 13


def test_a_potential_is_shown_where_it_was_evaluated():
    one = registration()
    unrefined = one.transformed + 1.0
    values = {"potential": -np.arange(12.0), "reference_potential": -np.ones(20), "unrefined": unrefined}
    figure = json.loads(scene_json(*clouds(), [replace(one, **values)]))
    labels = [button["label"] for button in figure["layout"]["updatemenus"][0]["buttons"]]
    assert labels == ["initial sets", "pwan: MSE 0.1", "pwan: potential, before refinement"]
    trace = next(trace for trace in figure["data"] if trace["name"] == "before refinement, potential")
    x = np.frombuffer(base64.b64decode(trace["x"]["bdata"]), trace["x"]["dtype"])
    assert x == pytest.approx((unrefined - middle_of(np.concatenate(clouds())))[:, 0], abs=1e-6)
    assert (trace["marker"]["cmin"], trace["marker"]["cmax"]) == (-11.0, 0.0)


def with_distances(d=3, **faces):
    return replace(registration(d=d), distance=np.arange(12.0), reference_distance=np.arange(20.0) / 4, **faces)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_both_sets_are_shown_by_their_distances_on_one_scale(d, first):
    figure = json.loads(scene_json(*clouds(d=d), [with_distances(d)], distance_first=first))
    menu = figure["layout"]["updatemenus"][0]
    assert menu["buttons"][2]["label"] == "pwan: distance to the other set" and menu["active"] == 1 + first
    shown = [trace for trace, on in zip(figure["data"], menu["buttons"][2]["args"][0]["visible"], strict=True) if on]
    assert [(trace["name"], trace["marker"]["coloraxis"]) for trace in shown] == [
        ("reference", "coloraxis"),
        ("registered", "coloraxis"),
    ]
    assert all(trace["visible"] is first for trace in shown)
    axis = figure["layout"]["coloraxis"]
    assert (axis["cmin"], axis["cmax"], axis["colorbar"]["title"]["text"]) == (0, 6, "spacings")
    assert 3 in axis["colorbar"]["tickvals"] and [at for at, _ in axis["colorscale"][1:3]] == [0.5, 0.5]


def test_distances_are_shown_on_the_surface_where_faces_name_all_points(monkeypatch):
    y_faces, x_faces = (np.arange(-(-count // 3) * 3).reshape(-1, 3) % count for count in (12, 20))
    one = with_distances(faces=y_faces, reference_faces=x_faces)

    def kinds(one, d=3):
        figure = json.loads(scene_json(*clouds(d=d), [one]))
        view = figure["layout"]["updatemenus"][0]["buttons"][2]["args"][0]["visible"]
        return [trace["type"] for trace, on in zip(figure["data"], view, strict=True) if on]

    assert kinds(one) == ["mesh3d", "mesh3d"]
    assert kinds(replace(one, reference_faces=None)) == ["scatter3d", "mesh3d"]
    assert kinds(replace(one, reference_faces=x_faces[:-1])) == ["scatter3d", "mesh3d"]  # a point that no face names
    assert kinds(with_distances(2, faces=y_faces), d=2) == ["scatter", "scatter"]
    monkeypatch.setattr(scene, "MESH_LIMIT", 12)
    assert kinds(one) == ["scatter3d", "mesh3d"]


def test_without_distances_the_first_method_is_shown_first():
    figure = json.loads(scene_json(*clouds(), [registration()], distance_first=True))
    assert figure["layout"]["updatemenus"][0]["active"] == 1


def test_the_reference_stands_on_the_screen():
    source, reference, _ = clouds()
    figure = json.loads(scene_json(source, reference * [1, 0.1, 9], None, [registration()]))
    assert figure["layout"]["scene"]["camera"]["up"] == {"x": 0, "y": 0, "z": 1}


@pytest.mark.parametrize(("d", "kind"), [(2, "scatter"), (3, "scatter3d")])
def test_flat_and_solid(d, kind):
    figure = json.loads(scene_json(*clouds(d=d), [registration(d=d)]))
    assert {trace["type"] for trace in figure["data"]} == {kind}


def test_what_is_empty_is_left_out_of_the_legend():
    one = registration()
    complete = Registration("pwan", "MSE 0", one.transformed, np.ones(12, bool), np.ones(20, bool))
    names = [trace["name"] for trace in json.loads(scene_json(*clouds(), [complete]))["data"]]
    assert names == ["reference", "source", "truth", "reference, matched", "truth", "registered, matched"]


def test_large_sets_are_thinned():
    r, q = 2 * LIMIT + 1, 30
    figure = json.loads(scene_json(*clouds(r, q), [registration(r=r, q=q)]))
    sizes = {trace["name"]: len(trace["x"]["bdata"]) * 3 // 4 // 4 for trace in figure["data"]}  # base64 of float32
    assert LIMIT / 2 < sizes["source"] <= LIMIT and sizes["reference"] == 30


def test_scene_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="at least one registration"):
        scene_json(*clouds(), [])
    with pytest.raises(ValueError, match="the result of cpd has"):
        scene_json(*clouds(), [registration("cpd", r=11)])


def test_page_escapes_every_text(tmp_path):
    frame = pd.DataFrame({EVIL: [EVIL, 1.0], "x": [1.0, float("inf")]})
    section = Section(
        EVIL,
        made=[(EVIL, EVIL)],
        tables=[Table(EVIL, frame), Table(EVIL, frame, folded=True)],
        pictures=[Picture(EVIL, make_picture(tmp_path)), Picture(EVIL, make_picture(tmp_path), folded=True)],
        scenes=[Scene(EVIL, scene_json(*clouds(), [registration(EVIL)]))],
        notes=[EVIL],
        files=[(EVIL, EVIL)],
    )
    write_page(EVIL, [section], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "alert(1)</script>" not in text
    assert text.count("&lt;/script&gt;&lt;script&gt;alert(1)") >= 13


def test_page_holds_everything_and_plotly_once(tmp_path):
    scene = Scene("scene", scene_json(*clouds(), [registration()]))
    sections = [Section(f"part {i}", pictures=[Picture("p", make_picture(tmp_path))], scenes=[scene]) for i in range(3)]
    write_page("title", sections, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("plotly.js v") == 1
    assert 4e6 < len(text) < 6e6
    assert len(re.findall(r'<li><a href="#s\d">part \d</a></li>', text)) == 3
    assert not re.search(r'(src|href)="(?!#|data:)', text.replace(text[text.index("plotly.js v") :], ""))
    write_page("title", sections, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.html", "page.html", "picture.png"]


def test_page_without_a_scene_is_small(tmp_path):
    write_page("title", [Section("only text", notes=["a note"])], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 10_000


def test_page_needs_a_section(tmp_path):
    with pytest.raises(ValueError, match="at least one section"):
        write_page("title", [], tmp_path / "page.html")


def test_table_spells_numbers():
    frame = pd.DataFrame({"a_b": [0.123456, float("nan"), float("inf")], "n": [1, 20, 3], "t": ["x", None, "<"]})
    markup = table_html(frame)
    cells = re.findall(r"<t[dh](?: class=\"number\")?>(.*?)</t[dh]>", markup)
    assert cells == ["a b", "n", "t", "0.1235", "1", "x", "–", "20", "–", "∞", "3", "&lt;"]
    long = table_html(pd.DataFrame({"n": range(MAX_LINES + 7)}))
    assert "7 more lines" in long and long.count("<tr") == MAX_LINES + 1


def test_numbers_stand_right_and_words_left_and_whole():
    words = "It fits badly. " * 40
    markup = table_html(pd.DataFrame({"frame": [Link("a", "a.html")], "n": [1.5], "sd": ["1 ± 2"], "reason": [words]}))
    assert (
        f'<td><a href="a.html">a</a></td><td class="number">1.5</td><td class="number">1 ± 2</td><td>{words}' in markup
    )
    assert '<th>frame</th><th class="number">n</th><th class="number">sd</th><th>reason</th>' in markup


def test_a_slider_has_short_labels_and_the_legend_the_names():
    points = np.zeros((2, 4, 3))
    figure = json.loads(frames_json(points, list(points), ["long_name_0.ply", "<b>.ply"]))
    slider = figure["layout"]["sliders"][0]
    assert [step["label"] for step in slider["steps"]] == ["0", "1"] and slider["currentvalue"]["prefix"] == "frame "
    names = [trace["name"] for trace in figure["data"]]
    assert names == ["long_name_0.ply", "led there", "&lt;b&gt;.ply", "led there"]


def test_a_cell_may_lead_to_a_file():
    frame = pd.DataFrame({"scan": [Link("a <b>", "in one/a.html"), "plain"]})
    assert '<a href="in%20one/a.html">a &lt;b&gt;</a>' in table_html(frame)


def test_a_cell_may_lead_to_a_place_and_numbers_have_the_digits_asked_for():
    frame = pd.DataFrame({"worst": [Link("0.5", "one/a.html", "s3"), 0.25], "n": [1234.5, 0.12345]})
    markup = table_html(frame, digits=3)
    assert '<td class="number"><a href="one/a.html#s3">0.5</a></td><td class="number">1234</td>' in markup
    assert '<td class="number">0.123</td>' in markup


def test_pictures_may_come_first(tmp_path):
    parts = {
        "tables": [Table("the digits", pd.DataFrame({"x": [1.0]}))],
        "pictures": [Picture("p", make_picture(tmp_path))],
    }
    for first in (False, True):
        write_page("title", [Section("part", **parts, pictures_first=first)], tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text()
        assert (text.index("<img") < text.index("the digits")) is first


def test_scans_far_from_the_origin_keep_their_shape_on_the_page():
    far, (source, reference, truth) = np.array([5e5, 5.4e6, 100.0]), clouds()
    one = registration()
    views = [
        json.loads(
            scene_json(
                *(points + by for points in (source, reference, truth)),
                [replace(one, transformed=one.transformed + by)],
            )
        )
        for by in (0.0 * far, far)
    ]
    for near, there in zip(*(view["data"] for view in views), strict=True):
        for axis in "xyz":
            x, y = (np.frombuffer(base64.b64decode(one[axis]["bdata"]), one[axis]["dtype"]) for one in (near, there))
            np.testing.assert_allclose(x, y, atol=1e-6)
    frames = [json.loads(frames_json(np.stack([source + by]), [reference + by], ["one"])) for by in (0.0 * far, far)]
    for near, there in zip(*(figure["data"] for figure in frames), strict=True):
        x, y = (np.frombuffer(base64.b64decode(one["y"]["bdata"]), one["y"]["dtype"]) for one in (near, there))
        np.testing.assert_allclose(x, y, atol=1e-6)
