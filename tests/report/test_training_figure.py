from __future__ import annotations

import numpy as np
import pytest

from pwan.report import training_figure
from pwan.report.training_figure import SLOPE, Training, draw_training


@pytest.mark.parametrize("dimension", [2, 3])
def test_panels_and_the_mark_at_slope_1(monkeypatch, tmp_path, dimension):
    drawn = []
    monkeypatch.setattr(training_figure, "save_both", lambda figure, path: drawn.append(figure) or [path])
    rng, steps = np.random.default_rng(0), np.arange(1, 6)
    source, reference = rng.normal(size=(7, dimension)), rng.normal(size=(9, dimension))
    curves = {"MSE": (steps, 1.0 / steps), SLOPE: (steps, np.linspace(0.5, 1.4, 5))}
    training = Training(reference, [("start", source), ("end", source)], np.zeros(16), np.ones(16), curves)
    draw_training(training, "one", tmp_path / "one.png")
    panels = {axes.get_title().replace("\n", " "): axes for axes in drawn[0].axes if axes.get_title()}
    assert list(panels) == [
        *("start", "end", "potential f at the points, at the end", "|∇f| at the points, at the end"),
        *curves,
    ]
    curve, mark = panels[SLOPE].get_lines()
    assert curve.get_ydata() == pytest.approx(np.linspace(0.5, 1.4, 5))
    assert list(mark.get_ydata()) == [1.0, 1.0] and panels[SLOPE].get_ylim()[0] == 0.0
    assert len(panels["MSE"].get_lines()) == 1 and panels["MSE"].get_yscale() == "log"
