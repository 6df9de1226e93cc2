from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from pwan.report.example_figure import Example, draw_examples
from pwan.report.registered import Registration
from pwan.report.training_figure import Training, draw_training


def cloud(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def registration(method, r, q, d=3):
    return Registration(method, "MSE 0.1", cloud(r, d, 1), np.arange(r) % 3 > 0, np.arange(q) % 2 > 0)


@pytest.fixture
def figures(monkeypatch):
    """The figures that are written, in their order."""
    seen = []
    plain = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (seen.append(self), plain(self, *a, **k))[1])
    return seen


def titles(figure):
    return [axes.get_title() for axes in figure.get_axes() if axes.get_title()]


def test_a_line_for_each_example_and_a_picture_for_each_method(tmp_path, figures):
    examples = [
        Example(f"ratio {ratio}", cloud(9), cloud(q), [registration("pwan", 9, q), registration("cpd", 9, q)])
        for ratio, q in ((0.2, 12), (2.0, 27))
    ]
    files = draw_examples(examples, "two cells", tmp_path / "examples.png")
    assert [file.name for file in files] == ["examples.png", "examples.pdf"]
    assert imread(files[0]).std() > 0 and files[1].read_bytes().startswith(b"%PDF")
    assert titles(figures[0]) == [
        *("ratio 0.2", "pwan\nMSE 0.1", "cpd\nMSE 0.1"),
        *("ratio 2.0", "pwan\nMSE 0.1", "cpd\nMSE 0.1"),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["examples.pdf", "examples.png"]  # no halves


def test_flat_sets_and_no_example(tmp_path):
    files = draw_examples(
        [Example("flat", cloud(5, 2), cloud(6, 2), [registration("cpd", 5, 6, 2)])], "", tmp_path / "e.png"
    )
    assert imread(files[0]).std() > 0
    with pytest.raises(ValueError, match="at least one example"):
        draw_examples([], "", tmp_path / "none.png")


@pytest.mark.parametrize("d", [2, 3])
def test_the_course_of_a_registration(tmp_path, figures, d):
    r, q, steps = 8, 11, np.arange(1, 6)
    training = Training(
        cloud(q, d),
        [("start", cloud(r, d)), ("step 2", cloud(r, d, 1)), ("end", cloud(r, d, 2))],
        -np.linspace(0, 1, q + r),
        np.linspace(0, 1.5, q + r),
        {"discrepancy": (steps, 1 / steps), "MSE": (steps, 0.1 / steps)},
    )
    files = draw_training(training, "one run", tmp_path / "training.png")
    assert imread(files[0]).std() > 0 and files[1].exists()
    assert titles(figures[0])[:3] == ["start", "step 2", "end"]
    assert titles(figures[0])[-2:] == ["discrepancy", "MSE"]
    drawn = [
        a
        for axes in figures[0].get_axes()
        for a in axes.collections
        if a.get_array() is not None and len(a.get_offsets())
    ]
    assert sorted(a.get_clim() for a in drawn)[0] == (-1.0, 0.0)  # the potential's own range
    assert sorted(a.get_clim() for a in drawn)[-1] == (0.0, 1.1)  # 1 is what the gradient may be
