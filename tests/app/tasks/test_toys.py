from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.image import imread
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

from pwan.app import main
from pwan.app.tasks import toy_correspondence, toy_discrepancies, toy_potential
from pwan.randomness import numpy_generator
from pwan.transport import check_problem, exact
from pwan.transport.settings import NeuralSettings

CONF = Path(__file__).parents[3] / "conf"


def run(name, folder, *options):
    assert main([f"experiment={name}", f"output={folder}", *options], conf=CONF) == 0
    image = imread(folder / f"{name}.png")
    assert image[..., :3].std() > 0.01  # something is drawn
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert yaml.safe_load((folder / "config.yaml").read_text())["task"] == name
    return pd.read_csv(folder / "summary.csv")


# --- discrepancies -------------------------------------------------------------------------------------------------


def test_local_minima_of_known_curves():
    t = np.linspace(-2, 2, 401)
    (only,) = toy_discrepancies.local_minima(t, np.abs(t - 0.5))
    assert (only["t"], only["value"], only["depth"]) == pytest.approx((0.5, 0, 1.5))  # 1.5: up to the nearer end
    left, right = toy_discrepancies.local_minima(t, (t**2 - 1) ** 2 + 0.1 * t)
    assert left["t"] == pytest.approx(-1.01, abs=0.011) and right["t"] == pytest.approx(0.99, abs=0.011)
    assert right["depth"] < left["depth"]
    assert toy_discrepancies.local_minima(t, t) == []  # an end of the curve is no local minimum
    assert toy_discrepancies.local_minima(t, np.ones_like(t)) == []


def test_level_stretch_with_rounding_is_one_minimum():
    t = np.linspace(-2, 2, 401)
    noise = numpy_generator(0, "rounding").normal(size=401) * 1e-14
    (only,) = toy_discrepancies.local_minima(t, np.maximum(np.abs(t), 0.5) + noise)
    assert only["t"] == pytest.approx(0, abs=1e-9)


def test_sets_are_the_papers():
    data = np.linspace(0, 3, 10)[:, None]
    for count in (0, 1, 10):
        reference = toy_discrepancies.with_outliers(data, count, (7.8, 8.2))
        assert reference.shape == (10 + count, 1)
        outliers = reference[10:, 0]
        assert ((outliers >= 7.8) & (outliers <= 8.2)).all()
        assert count == 0 or outliers.mean() == pytest.approx(8.0)
    assert 0.0 in toy_discrepancies.translations(toy_discrepancies.Settings())


def test_partial_discrepancies_keep_the_right_minimum_and_the_others_lose_it(tmp_path):
    summary = run("toy_discrepancies", tmp_path, "options.step=0.05").set_index(["discrepancy", "outliers"])
    curves = pd.read_csv(tmp_path / "curves.csv")
    at = curves.set_index(["outliers", "t"])
    for count in (1, 10, 1000):
        # closed forms: to the left of the data each point is carried |t|; L_D,2 gains 2 a point at t = 0
        assert at.loc[(count, -0.5), "L_M,10"] == pytest.approx(5.0)
        for name, value in (("L_M,10", 0.0), ("L_D,2", -20.0)):
            line = summary.loc[(name, count)]
            assert (line["lowest_t"], line["right_t"]) == pytest.approx((0.0, 0.0), abs=1e-9)
            assert line["right_value"] == pytest.approx(value, abs=1e-9)
            assert np.isnan(line["outlier_value"]) or line["outlier_value"] > value + 5  # shallower
    for name in ("L2", "KL"):
        values = [summary.loc[(name, count), "lowest_t"] for count in (1, 10, 1000)]
        assert values[0] == pytest.approx(0, abs=0.051) and values[2] == pytest.approx(6.5, abs=0.051)
        assert summary.loc[(name, 1), "right_depth"] > summary.loc[(name, 10), "right_depth"]
        assert np.isnan(summary.loc[(name, 1000), "right_t"])
    # the equation as printed keeps the right minimum, unlike the paper's curves
    assert summary.loc[("KL as printed", 1000), "right_t"] == pytest.approx(0, abs=0.051)
    minima = pd.read_csv(tmp_path / "minima.csv")
    assert len(minima) == summary["minima"].sum()
    assert (minima["depth"] > 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"translations": (3.0, 1.0)}, "translations must be two numbers"),
        ({"modes": (1.0,)}, "modes must be two numbers"),
        ({"step": 0.0}, "step must be positive"),
        ({"outliers": ()}, "at least one number"),
        ({"outliers": (-1,)}, "outliers must be zero or positive"),
        ({"mass": 11.0}, "mass can be at most the 10 points"),
    ],
)
def test_wrong_settings_of_the_discrepancies(options, message):
    with pytest.raises(ValueError, match=message):
        toy_discrepancies.Settings(**options)


# --- potential -----------------------------------------------------------------------------------------------------


def line_problem(seed, q=8, r=6, **threshold):
    generator = numpy_generator(seed, "test_toys")
    return check_problem(generator.random((q, 1)) * 5, generator.random((r, 1)) * 5 + 2, **threshold)


def test_maximiser_of_two_points():
    x, y = np.zeros((1, 1)), np.ones((1, 1))
    line, lowest, highest = toy_potential.maximiser(check_problem(x, y, distance=3.0))
    assert (lowest, highest, line.threshold) == (3.0, 3.0, 3.0)
    f = line(np.array([0.0, 0.25, 1.0]))
    assert f[0] - f == pytest.approx([0, 0.25, 1])
    assert toy_potential.dual_value(check_problem(x, y, distance=3.0), line, 3.0) == pytest.approx(-2.0)
    # too far to be carried: f is at both of its bounds
    line, _, _ = toy_potential.maximiser(check_problem(x, y, distance=0.4))
    assert line(np.array([0.0, 1.0])) == pytest.approx([0.0, -0.4])


@pytest.mark.parametrize("threshold", [{"mass": 1.0}, {"mass": 3.0}, {"mass": 6.0}, {"distance": 0.7}, {"distance": 9}])
def test_maximiser_reaches_the_primal_value_and_the_corollaries_hold(threshold):
    for seed in range(3):
        problem = line_problem(seed, **threshold)
        value, plan = exact.solve(problem, exact.ExactSettings())
        line, lowest, highest = toy_potential.maximiser(problem)
        assert toy_potential.dual_value(problem, line, line.threshold) == pytest.approx(value, abs=1e-7)
        assert lowest - 1e-9 <= line.threshold <= highest + 1e-9
        slopes = np.diff(line.values) / np.diff(line.nodes)
        for row in toy_potential._checks(problem, plan, line, line.threshold, slopes):
            assert toy_potential._judge("", "exact", row)["holds"], row


def test_equal_masses_give_the_wasserstein_distance():
    problem = line_problem(0, q=6, r=6, mass=6.0)
    line, _, _ = toy_potential.maximiser(problem)
    w1 = wasserstein_distance(problem.reference[:, 0], problem.source[:, 0])
    assert toy_potential.dual_value(problem, line, line.threshold) == pytest.approx(6 * w1)


def test_the_checks_refuse_a_potential_that_is_no_maximiser():
    problem = line_problem(1, mass=2.0)
    _, plan = exact.solve(problem, exact.ExactSettings())
    wrong = toy_potential._checks(problem, plan, lambda x: -0.1 - 0.1 * np.cos(x), 0.2, np.array([1.5]))
    held = {row["check"].split(" (")[0]: toy_potential._judge("", "exact", row)["holds"] for row in wrong}
    assert not held["|f'| at most 1"] and not held["f falls by 1 a length between carried pairs"]
    assert not held["f = 0 at reference points with mass left"]
    assert not held["f = -h at source points with mass left"]


def test_potential_task(tmp_path):
    frame = run("toy_potential", tmp_path, "options.updates=400")
    assert list(frame.columns) == [
        "discrepancy", "potential", "check", "points", "expected", "found", "tolerance", "holds",
    ]  # fmt: skip
    assert set(frame["discrepancy"]) == {"L_M,3", "L_D,2"}
    assert frame[frame["potential"] == "exact"]["holds"].all()
    # the default sets are such that every corollary has points to concern
    assert (frame["points"] > 0).all()
    # already after few updates the learned potential is level on most of what is discarded
    curves = pd.read_csv(tmp_path / "potentials.csv")
    assert len(curves) == 2 * toy_potential.GRID
    level = curves["gradient"] == 0
    assert 0.2 < level.mean() < 0.95
    at_bound = curves["learned"].groupby(curves["discrepancy"]).transform(lambda f: (f == 0) | (f == f.min()))
    assert at_bound[level].all()


def test_points_that_are_all_carried_and_coincide():
    x = np.array([[0.0], [1.0]])
    problem = check_problem(x, x, mass=2.0)
    _, plan = exact.solve(problem, exact.ExactSettings())
    line, _, _ = toy_potential.maximiser(problem)
    rows = toy_potential._checks(problem, plan, line, line.threshold, np.zeros(1))
    assert [row["points"] for row in rows] == [1, 0, 0, 0, 0, 0]
    assert all(toy_potential._judge("", "exact", row)["holds"] for row in rows)


def test_wrong_settings_of_the_potential(tmp_path):
    with pytest.raises(ValueError, match="both empty"):
        toy_potential.Settings(masses=(), distances=())
    with pytest.raises(ValueError, match="updates"):
        toy_potential.Settings(updates=0)
    with pytest.raises(ValueError, match="lighter set"):
        toy_potential.problems(toy_potential.Settings(masses=(8.0,)))
    output = f"output={tmp_path / 'new'}"
    assert main(["experiment=toy_potential", output, "options.masses=[8]"], conf=CONF) == 2
    assert not (tmp_path / "new").exists()


def test_learned_potential_is_a_maximiser_after_enough_updates(tmp_path):
    settings = toy_potential.Settings(reference=(-2.0, -1.0, 0.0), source=(0.5, 3.0), masses=(1.0,), distances=())
    network = NeuralSettings(updates=1500, widths=(32, 32), features=16, frequency=1.0)
    frame = toy_potential.make_potentials(
        toy_potential.problems(settings), network, tmp_path, progress=lambda done, of: None
    )
    learned = frame[frame["potential"] == "learned"].set_index("check")
    assert learned.loc["value of the primal form", "found"] == pytest.approx(0.5, abs=0.03)
    assert learned.loc["f' = 0 at discarded points", "found"] == 0
    assert learned.loc["slope 1 at carried source points, towards the partner", "found"] == pytest.approx(1, abs=0.05)


# --- correspondence ------------------------------------------------------------------------------------------------


def test_correspondence_task(tmp_path):
    summary = run("toy_correspondence", tmp_path).set_index("discrepancy")
    pairs = pd.read_csv(tmp_path / "pairs.csv")
    by_mass, by_distance, dual = summary.index
    assert (by_mass, by_distance) == ("L_M,6", "L_D,0.9")
    assert summary.loc[by_mass, "carried"] == 6
    assert summary.loc[by_distance, "longest"] <= 0.9 <= summary.loc[by_distance, "shortest_left_out"]
    assert 0 < summary.loc[by_distance, "carried"] < 10
    # Lagrange duality: the same mass at the same cost
    h = float(dual.split(",")[1].split(" ")[0])
    assert summary.loc[dual, "carried"] == 6
    assert summary.loc[dual, "value"] == pytest.approx(summary.loc[by_mass, "value"] - 6 * h, abs=6 * 1e-3)
    same = [set(zip(*pairs[pairs["discrepancy"] == name][["reference", "source"]].T.values, strict=True))
            for name in (by_mass, dual)]  # fmt: skip
    assert same[0] == same[1]
    counts = pairs.groupby("discrepancy")["mass"].sum()
    assert counts.to_dict() == pytest.approx(summary["carried"].to_dict())
    assert not pairs.duplicated(["discrepancy", "reference"]).any()


def test_correspondence_against_all_matchings(tmp_path):
    settings = toy_correspondence.Settings(reference_points=4, source_points=3, mass=2.0, distance=1.5)
    reference, source = toy_correspondence.sets(settings, seed=5)
    cost = cdist(reference, source)
    values = {0: [0.0], 1: [], 2: [], 3: []}
    for k in (1, 2, 3):
        for rows in itertools.permutations(range(4), k):
            values[k] += [cost[list(rows), list(columns)].sum() for columns in itertools.combinations(range(3), k)]
    summary = toy_correspondence.make_correspondences(reference, source, settings, tmp_path).set_index("discrepancy")
    assert summary.loc["L_M,2", "value"] == pytest.approx(min(values[2]))
    assert summary.loc["L_D,1.5", "value"] == pytest.approx(min(min(v) - 1.5 * k for k, v in values.items()))


def test_nothing_near_enough_is_an_empty_correspondence(tmp_path):
    settings = toy_correspondence.Settings(distance=1e-3)
    reference, source = toy_correspondence.sets(settings, seed=0)
    summary = toy_correspondence.make_correspondences(reference, source, settings, tmp_path).set_index("discrepancy")
    assert summary.loc["L_D,0.001", ["value", "carried"]].tolist() == [0, 0]
    assert np.isnan(summary.loc["L_D,0.001", "longest"])


def test_sets_follow_the_seed():
    settings = toy_correspondence.Settings()
    again = toy_correspondence.sets(settings, 0)[0]
    np.testing.assert_array_equal(toy_correspondence.sets(settings, 0)[0], again)
    assert not np.array_equal(toy_correspondence.sets(settings, 1)[0], again)


def test_wrong_settings_of_the_correspondence(tmp_path):
    with pytest.raises(ValueError, match="source_points must be positive"):
        toy_correspondence.Settings(source_points=0)
    with pytest.raises(ValueError, match="shift must be two numbers"):
        toy_correspondence.Settings(shift=(1.0,))
    output = f"output={tmp_path / 'new'}"
    assert main(["experiment=toy_correspondence", output, "options.mass=11"], conf=CONF) == 2
    assert not (tmp_path / "new").exists()
