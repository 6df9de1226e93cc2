from __future__ import annotations

import matplotlib.axes
import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from pwan.report import published
from pwan.report.accuracy_figure import draw_accuracy
from pwan.report.cells_figure import draw_cells
from pwan.report.error_curves import curves


def rows(errors, axis="outlier_ratio"):
    """Rows from {method: {x: [errors]}}; None: a failed trial."""
    return pd.DataFrame(
        [
            {axis: x, "method": method, "trial": i, "status": "failed" if mse is None else "ok", "mse": mse}
            for method, line in errors.items()
            for x, trials in line.items()
            for i, mse in enumerate(trials)
        ]
    )


def test_median_and_quartiles_by_hand():
    (one,) = curves(rows({"pwan": {0.6: [5.0, 1.0, 4.0, 2.0, 3.0], 0.2: [7.0]}}), "outlier_ratio")
    assert one.method == "pwan"
    assert one.x.tolist() == [0.2, 0.6]
    assert one.median.tolist() == [7.0, 3.0]
    assert one.lower.tolist() == [7.0, 2.0] and one.upper.tolist() == [7.0, 4.0]
    assert one.trials.tolist() == [1, 5]


def test_standard_deviation_is_over_the_trials_that_did_not_fail():
    (one,) = curves(rows({"cpd": {0.7: [1.0, 2.0, 3.0, None]}}, "keep"), "keep", "std")
    assert one.median.tolist() == [2.5]  # the failed trial is the largest of four
    assert one.upper - one.median == pytest.approx([1.0]) and one.median - one.lower == pytest.approx([1.0])


def test_a_median_of_failures_is_infinite_and_methods_keep_their_order():
    data = rows({"tpsrpm": {0.2: [0.1, None, None], 0.4: [0.1, 0.2, None]}, "cpd": {0.2: [0.3]}})
    first, second = curves(data, "outlier_ratio")
    assert [first.method, second.method] == ["tpsrpm", "cpd"]
    assert first.median.tolist() == [np.inf, 0.2]
    assert first.lower == pytest.approx([np.inf, 0.15]) and first.upper.tolist() == [np.inf, np.inf]


def test_wrong_input():
    data = rows({"pwan": {0.2: [1.0]}})
    with pytest.raises(ValueError, match="one of quartiles, std, got 'both'"):
        curves(data, "outlier_ratio", "both")
    with pytest.raises(ValueError, match=r"missing: \['keep'\]"):
        curves(data, "keep")
    with pytest.raises(ValueError, match="needs rows"):
        curves(data[:0], "outlier_ratio")


ERRORS = {
    "pwan": {0.2: [0.003, 0.004], 0.6: [0.003, 0.005], 1.2: [0.004, 0.006]},
    "a_$method_with_{maths": {0.2: [0.1, None], 0.6: [None, None], 1.2: [0.1, 0.2]},
}


@pytest.mark.parametrize("band", ["quartiles", "std"])
def test_files(tmp_path, band):
    files = draw_accuracy(
        rows(ERRORS), "outlier_ratio", "a $x^ title", tmp_path / "a.b.png", band=band, published=published.NOISE
    )
    assert [file.name for file in files] == ["a.b.png", "a.b.pdf"]
    assert files[1].read_bytes().startswith(b"%PDF")
    image = imread(files[0])[..., :3]
    orange = np.abs(image - np.array([0xD5, 0x5E, 0x00]) / 255).max(-1) < 0.05
    assert orange.sum() > 100  # the first method's line
    again = draw_accuracy(
        rows(ERRORS), "outlier_ratio", "a $x^ title", tmp_path / "again.png", band=band, published=published.NOISE
    )
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]


def test_everything_failed_is_still_a_figure(tmp_path):
    files = draw_accuracy(rows({"cpd": {0.2: [None], 0.4: [None]}}), "outlier_ratio", "failed", tmp_path / "f.png")
    assert imread(files[0]).std() > 0.01


def stars(monkeypatch, tmp_path, *arguments, **options):
    """The published numbers that a figure shows."""
    shown = []
    original = matplotlib.axes.Axes.plot

    def plot(self, *args, **more):
        if len(args) == 3 and args[2] == "*":
            shown.extend(zip(*(np.asarray(values).tolist() for values in args[:2]), strict=True))
        return original(self, *args, **more)

    monkeypatch.setattr(matplotlib.axes.Axes, "plot", plot)
    draw_accuracy(*arguments, "stars", tmp_path / "stars.png", **options)
    return shown


def test_published_numbers_are_drawn_where_they_apply(monkeypatch, tmp_path):
    data = rows({"pwan": {0.2: [0.1], 1.2: [0.1]}, "pwan_paper": {0.2: [0.1], 1.2: [0.1]}, "other": {0.2: [0.1]}})
    shown = stars(monkeypatch, tmp_path, data, "outlier_ratio", published=published.NOISE)
    assert shown == [(0.2, 0.0031), (0.6, 0.0030), (1.2, 0.0030)]  # once, and not beyond the range of the rows


def test_published_numbers_of_another_axis_are_not_drawn(monkeypatch, tmp_path):
    data = rows({"pwan": {0.2: [0.1], 1.2: [0.1]}})
    assert stars(monkeypatch, tmp_path, data, "outlier_ratio", published=published.PARTIAL) == []


def test_published_tables():
    assert published.NOISE.value("tpsrpm", 2.0) == 2.354
    assert published.NOISE.value("tpsrpm", 0.4) is None and published.NOISE.value("unknown", 2.0) is None
    assert published.PARTIAL.points("pwan_distance") == [(0.7, 0.017), (0.8, 0.0044), (1.0, 0.0037)]
    for table in (published.NOISE, published.PARTIAL):
        assert {len(line) for line in table.lines.values()} == {len(table.columns)}
        assert set(table.methods.values()) == set(table.columns)


def kind(**changed):
    rows = {"outlier_ratio": [0.0], "keep": [1.0], "deformation": ["random"], "crop": ["both"], "turn": [0.0]} | changed
    length = max(map(len, rows.values()))
    return published.table_for(pd.DataFrame({name: (list(one) * length)[:length] for name, one in rows.items()}))


def test_table_for_a_kind_of_problem():
    assert kind(outlier_ratio=[0.2, 0.4]) is published.NOISE
    assert kind(keep=[0.7, 1.0]) is published.PARTIAL
    assert kind(outlier_ratio=[0.5], keep=[0.7]) is None
    # the paper crops both sets and turns none
    assert kind(keep=[0.7], crop=["source"]) is kind(outlier_ratio=[0.2], turn=[30.0]) is None
    # recorded pairs
    assert kind(deformation=["partner"]) is None


def test_seconds_stand_below_where_they_are_wanted(tmp_path, monkeypatch):
    data = rows({"pwan": {1.0: [0.2, 0.1], 5.0: [0.1, 0.1]}}, "updates").assign(seconds=[1.0, 3.0, 8.0, 10.0])
    drawn = []
    plain = matplotlib.axes.Axes.plot
    monkeypatch.setattr(
        matplotlib.axes.Axes, "plot", lambda self, *xy, **k: (drawn.append(list(xy[1])), plain(self, *xy, **k))[1]
    )
    draw_accuracy(data, "updates", "u", tmp_path / "u.png", seconds=True)
    assert [2.0, 9.0] in drawn
    drawn.clear()
    draw_accuracy(data, "updates", "u", tmp_path / "u.png")
    assert [2.0, 9.0] not in drawn


def test_the_error_before_a_refinement_has_a_line_of_its_own(tmp_path, monkeypatch):
    data = rows({"pwan": {0.2: [0.1, 0.3], 0.4: [0.1, None]}, "cpd": {0.2: [0.4], 0.4: [0.5]}})
    data["mse_unrefined"] = data["mse"].astype(float) * np.where(data["method"] == "pwan", 2.0, 1.0)
    drawn = {}
    plain = matplotlib.axes.Axes.plot
    monkeypatch.setattr(
        matplotlib.axes.Axes,
        "plot",
        lambda self, *xy, **k: (drawn.update({k.get("label"): list(xy[1])}), plain(self, *xy, **k))[1],
    )
    draw_accuracy(data, "outlier_ratio", "two", tmp_path / "two.png")
    assert drawn["pwan, unrefined"][0] == pytest.approx(0.4) and np.isnan(drawn["pwan, unrefined"][1])
    assert "cpd, unrefined" not in drawn


def test_the_error_before_a_refinement_is_within_the_axes(tmp_path, monkeypatch):
    data = rows({"pwan": {0.2: [0.001], 0.4: [0.001]}}).assign(mse_unrefined=0.05)
    seen = []
    plain = matplotlib.axes.Axes.set
    monkeypatch.setattr(
        matplotlib.axes.Axes, "set", lambda self, **k: (seen.append(k.get("ylim")), plain(self, **k))[1]
    )
    draw_accuracy(data, "outlier_ratio", "one", tmp_path / "one.png")
    bottom, top = next(limits for limits in seen if limits)
    assert bottom < 0.001 and top > 0.05


def test_an_axis_over_decades_is_logarithmic_and_names_its_values(tmp_path, monkeypatch):
    scales = []
    plain = matplotlib.axes.Axes.set_xscale
    monkeypatch.setattr(
        matplotlib.axes.Axes, "set_xscale", lambda self, name, **more: (scales.append(name), plain(self, name, **more))
    )
    few = {"pwan": {0.1: [1.0], 0.4: [2.0]}}
    draw_accuracy(rows(few, "distance"), "distance", "t", tmp_path / "few.png")
    assert scales == []
    draw_accuracy(rows({"pwan": {0.0125: [1.0], 0.8: [2.0]}}, "distance"), "distance", "t", tmp_path / "wide.png")
    assert scales == ["log"]


def test_cells_without_an_order_stand_beside_each_other(tmp_path, monkeypatch):
    drawn = []
    plain = matplotlib.axes.Axes.plot
    monkeypatch.setattr(
        matplotlib.axes.Axes,
        "plot",
        lambda self, x, y, *more, **kinds: (drawn.append((x, y, more)), plain(self, x, y, *more, **kinds))[1],
    )
    data = pd.concat(
        [
            rows({"pwan": {0: [1.0, 3.0, 2.0]}, "cpd": {0: [5.0, None, None]}}).assign(cell="noise"),
            rows({"pwan": {0: [0.5, 0.5, 0.5]}}).assign(cell="partial"),
        ]
    )
    data["mse_unrefined"] = data["mse"] * 2
    files = draw_cells(data.assign(mse_initial=9.0), "both", tmp_path / "cells.png")
    assert [file.suffix for file in files] == [".png", ".pdf"] and all(file.stat().st_size > 5000 for file in files)
    marks = [(round(float(x), 3), y, more[0]) for x, y, more in drawn if more]
    assert marks == [
        (-0.175, 2.0, "o"),
        (-0.175, 4.0, "o"),  # before refinement
        (0.825, 0.5, "o"),
        (0.825, 1.0, "o"),
        (0.175, 0.98, "x"),  # most trials failed
    ]
