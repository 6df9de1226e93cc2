from __future__ import annotations

import matplotlib.axes
import matplotlib.figure
import pytest

from pwan.report import overview_figure, published
from pwan.report.overview_figure import draw_overview
from tests.report.test_accuracy_figure import rows


def refined(errors, axis):
    """Rows as of the other figure, where PWAN's refinement halves the error."""
    plain = rows(errors, axis)
    return plain.assign(mse_unrefined=plain["mse"].where(plain["method"] != "pwan", 2 * plain["mse"]))


def drawn(monkeypatch, name):
    """The calls of a method of matplotlib's axes from here on: (panel, arguments)."""
    found = []
    plain = getattr(matplotlib.axes.Axes, name)

    def call(self, *arguments, **options):
        found.append((self.get_subplotspec().colspan.start, arguments))
        return plain(self, *arguments, **options)

    monkeypatch.setattr(matplotlib.axes.Axes, name, call)
    return found


def test_a_panel_for_each_shape_on_one_scale_with_the_deviation_above_the_median(tmp_path, monkeypatch):
    bands, lines, ticks = (drawn(monkeypatch, name) for name in ("fill_between", "plot", "set_xticks"))
    legends = []
    plain = matplotlib.figure.Figure.legend
    monkeypatch.setattr(
        matplotlib.figure.Figure, "legend", lambda self, **k: (legends.append(k["handles"]), plain(self, **k))[1]
    )
    panels = {
        "bunny": refined({"pwan": {0.7: [0.01, 0.02, 0.03], 1.0: [0.001]}, "cpd": {0.7: [0.1]}}, "keep"),
        "monkey": refined({"pwan": {0.7: [0.5], 0.8: [0.2]}}, "keep"),
    }
    files = draw_overview(panels, published.PARTIAL, "a $x^ title", tmp_path / "a.png")
    assert [file.name for file in files] == ["a.png", "a.pdf"]
    assert [panel for panel, _ in bands] == [0, 0, 1]
    x, lower, upper = bands[0][1]
    assert (list(x), list(lower), list(upper)) == ([0.7, 1.0], [0.02, 0.001], pytest.approx([0.03, 0.001]))
    stars = [(panel, list(xy[0])) for panel, xy in lines if len(xy) == 3 and xy[2] == "*"]
    assert stars == [(0, [0.7, 0.8, 1.0]), (0, [0.7, 0.8, 1.0]), (1, [0.7, 0.8])]  # where each panel's curves reach
    assert ticks[0][1] == ([0.7, 0.8, 1.0], ["0.7\n(0.57)", "0.8\n(0.75)", "1\n(1.00)"])
    words = ["PWAN", "CPD", "before the refinement", "published (one example, N = 2000)"]
    assert [handle.get_label() for handle in legends[0]] == words


def test_the_limits_hold_all_panels(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(overview_figure, "save_both", lambda figure, path: [path])
    plain = matplotlib.axes.Axes.set
    monkeypatch.setattr(
        matplotlib.axes.Axes, "set", lambda self, **k: (seen.append(k.get("ylim")), plain(self, **k))[1]
    )
    panels = {
        "bunny": rows({"cpd": {0.4: [0.001]}}, "outlier_ratio"),
        "monkey": rows({"cpd": {0.4: [3.0]}}, "outlier_ratio"),
    }
    draw_overview(panels, published.NOISE, "t", tmp_path / "a.png")
    ((bottom, top),) = [pair for pair in seen if pair]
    assert bottom < 0.001 and top > 3.0


def test_an_overview_needs_a_panel(tmp_path):
    with pytest.raises(ValueError, match="at least one shape"):
        draw_overview({}, published.NOISE, "t", tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
