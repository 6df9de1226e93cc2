from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pwan.bench.cell import LATER
from pwan.bench.summary import PAIRED_COLUMNS, STATISTICS, compare, summarise, table, write_paired, write_summary


def rows(cell, errors, *, method="pwan", settings="a", origin="analytic"):
    return [
        {
            "experiment": "test",
            **cell.axes(),
            "method": method,
            "settings": settings,
            "shape_origin": origin,
            "trial": trial,
            "status": "failed" if mse is None else "ok",
            "mse_initial": 0.5,
            "mse": mse,
            "mse_unrefined": mse and 2 * mse,
            "matched_fraction": mse and 0.75,
            "seconds": mse and 3.0,
        }
        for trial, mse in enumerate(errors)
    ]


def test_medians_and_deviation(cell):
    line = summarise(rows(cell, [0.1, 0.4, 0.2])).iloc[0]
    assert line["trials"] == 3
    assert line["failed"] == 0
    assert (line["mse_median"], line["mse_unrefined_median"], line["mse_max"]) == (0.2, 0.4, 0.4)
    assert line["mse_std"] == np.std([0.1, 0.4, 0.2], ddof=1)
    assert (line["mse_initial_median"], line["seconds_median"], line["matched_fraction_median"]) == (0.5, 3.0, 0.75)


def test_a_failed_trial_counts_as_an_infinite_error(cell):
    line = summarise(rows(cell, [0.1, None, 0.2])).iloc[0]
    assert (line["trials"], line["failed"]) == (3, 1)
    assert line["mse_median"] == 0.2
    assert line["mse_max"] == math.inf
    assert summarise(rows(cell, [0.1, None, None])).iloc[0]["mse_median"] == math.inf


def test_errors_without_a_unit_and_the_options_of_a_method(cell):
    lines = [
        {**row, "truth_radius": radius, "options": "updates=3"}
        for row, radius in zip(rows(cell, [4.0, 1.0, None]), [2.0, 2.0, 1.0], strict=True)
    ]
    line = summarise(lines).iloc[0]
    assert (line["mse_normalised_median"], line["options"]) == (1.0, "updates=3")  # of 1, 0.25 and infinity
    measured = [
        {**row, "mse_partnered": 2 * row["mse"], "near": 0.9, "edge_stretch": 0.1} if row["mse"] else row
        for row in lines
    ]
    line = summarise(measured).iloc[0]
    assert (line["mse_unrefined_normalised_median"], line["mse_partnered_normalised_median"]) == (2.0, 2.0)
    assert (line["near_median"], line["edge_stretch_median"]) == (0.9, 0.1)  # of .9, .9 and 0; of .1, .1 and infinity
    old = summarise(rows(cell, [4.0])).iloc[0]
    assert all(math.isnan(old[name]) for name in ("near_median", "edge_stretch_median"))
    assert math.isnan(old["mse_normalised_median"]) and old["options"] == ""
    oldest = [{key: value for key, value in row.items() if key not in LATER} for row in rows(cell, [4.0, 1.0])]
    assert summarise(oldest).iloc[0]["crop"] == "both" and len(compare(oldest)) == 0
    mixed = summarise([lines[0], *rows(cell, [2.0], settings="b")])
    assert mixed["options"].tolist() == ["updates=3", ""]


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_quartiles_are_linear_between_the_values_beside_them(cell, count):
    errors = np.random.default_rng(count).random(count).tolist()
    line = summarise(rows(cell, errors)).iloc[0]
    expected = np.quantile(errors, [0.25, 0.5, 0.75])
    assert [line["mse_q25"], line["mse_median"], line["mse_q75"]] == pytest.approx(expected.tolist())


def test_quartiles_count_failures_as_infinite_errors(cell):
    line = summarise(rows(cell, [0.1, None, 0.2, 0.3, None])).iloc[0]
    assert (line["mse_q25"], line["mse_q75"]) == (0.2, math.inf)
    line = summarise(rows(cell, [0.1, 0.2, None, None])).iloc[0]
    assert (line["mse_q25"], line["mse_q75"]) == (pytest.approx(0.175), math.inf)


def test_one_line_a_cell_and_method_with_the_axes(cell, tmp_path):
    summary = write_summary(tmp_path, rows(cell, [0.1]) + rows(cell, [0.3], method="cpd", settings="b"))
    read = pd.read_csv(tmp_path / "summary.csv")
    assert read["method"].tolist() == ["pwan", "cpd"]
    assert {"experiment", "shape", "shape_source", "points", "outlier_ratio", "keep", "deformation_lambda"} <= set(read)
    assert set(STATISTICS) <= set(read)
    assert read["mse_median"].tolist() == summary["mse_median"].tolist() == [0.1, 0.3]
    assert [p.name for p in tmp_path.iterdir()] == ["summary.csv"]
    assert "cpd" in table(summary)


def test_the_origin_of_the_shape_is_carried_and_joined_where_it_is_mixed(cell):
    mixed = rows(cell, [0.1, 0.2], origin="paper:folder") + rows(cell, [0.3, 0.4], origin="paper:download")
    assert summarise(mixed)["shape_origin"].tolist() == ["paper:folder+paper:download"]
    assert summarise(rows(cell, [0.1, 0.2]))["shape_origin"].tolist() == ["analytic"]


def paired(cell, ours, theirs):
    both = rows(cell, ours) + rows(cell, theirs, method="cpd", settings="b")
    return compare(both).set_index("error")


def test_methods_are_compared_on_the_same_trials(cell):
    lines = paired(cell, [0.1, 0.5, 0.3, 0.2], [0.2, 0.4, 0.3])  # trial 3 has no partner
    for error, factor in (("mse", 1), ("mse_unrefined", 2)):
        line = lines.loc[error]
        assert (line["method"], line["settings"], line["other"], line["other_settings"]) == ("pwan", "a", "cpd", "b")
        assert (line["trials"], line["won"], line["tied"]) == (3, pytest.approx(1 / 3), pytest.approx(1 / 3))
        assert line["difference_median"] == 0
        assert line["difference_low"] == pytest.approx(-0.1 * factor)
        assert line["difference_high"] == pytest.approx(0.1 * factor)


def test_the_interval_is_that_of_the_median_and_seeded(cell):
    # the median of five draws out of five is the least with a chance of 5.8%, so both ends are the extremes
    line = paired(cell, [0.5, 0.1, 0.3, 0.2, 0.4], 5 * [0.0]).loc["mse"]
    assert (line["difference_low"], line["difference_median"], line["difference_high"]) == (0.1, 0.3, 0.5)
    # of many, the interval shrinks to a few order statistics around the median: 1.96 sqrt(n) / 2 of them at each side
    many = [(i + 1) / 400 for i in range(400)]
    line = paired(cell, many, 400 * [0.0]).loc["mse"]
    assert line["difference_median"] == pytest.approx(401 / 800)
    assert 0.5 - line["difference_low"] == pytest.approx(0.98 * 20 / 400, abs=0.01)
    assert line["difference_high"] - 0.5 == pytest.approx(0.98 * 20 / 400, abs=0.01)
    assert paired(cell, many, 400 * [0.0]).loc["mse"].equals(line)


def test_the_share_won_has_wilsons_interval(cell):
    line = paired(cell, 10 * [0.1], 9 * [0.2] + [0.0]).loc["mse"]
    z, share, n = 1.959964, 0.9, 10
    middle, half = share + z**2 / (2 * n), z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    expected = [(middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)]
    assert line["won"] == share and [line["won_low"], line["won_high"]] == pytest.approx(expected)
    line = paired(cell, 10 * [0.1], 10 * [0.2]).loc["mse"]
    assert (line["won_high"], line["won_low"]) == (1, pytest.approx(1 / (1 + z**2 / n)))


@pytest.mark.parametrize(
    ("ours", "theirs", "won", "tied", "median"),
    [
        ([None, 0.1, 0.1], [0.2, 0.2, 0.2], 2 / 3, 0, -0.1),
        ([None, None, 0.1], [0.2, 0.2, 0.2], 1 / 3, 0, math.inf),
        ([0.1, 0.1, 0.1], [0.2, None, None], 1, 0, -math.inf),
        ([None, None], [None, None], 0, 1, 0),
        ([None, 0.1], [0.1, None], 0.5, 0, 0),  # between the two infinities: no preference
        ([None, 0.1], [0.1, 0.1], 0, 0.5, math.inf),
    ],
)
def test_a_failed_trial_is_a_loss_and_two_are_a_tie(cell, ours, theirs, won, tied, median):
    line = paired(cell, ours, theirs).loc["mse"]
    assert (line["won"], line["tied"]) == (pytest.approx(won), pytest.approx(tied))
    assert line["difference_median"] == pytest.approx(median)
    assert line["difference_low"] <= median <= line["difference_high"]


def test_pairs_stay_within_a_cell_and_every_settings_of_the_first_method_has_its_lines(cell, tmp_path):
    second = replace(cell, seed=1)
    both = rows(cell, [0.1]) + rows(cell, [0.2], settings="old") + rows(cell, [0.3], method="cpd", settings="b")
    both += rows(second, [0.1], settings="c") + rows(second, [0.2], method="bcpd", settings="d")
    write_paired(tmp_path, both)
    lines = pd.read_csv(tmp_path / "paired.csv")
    assert list(lines) == PAIRED_COLUMNS
    pairs = lines[lines["error"] == "mse"][["settings", "other_settings", "seed"]]
    assert pairs.to_numpy().tolist() == [["a", "b", 0], ["old", "b", 0], ["c", "d", 1]]


def test_one_method_alone_or_without_common_trials_is_compared_with_nothing(cell):
    assert compare(rows(cell, [0.1, 0.2])).empty
    later = [{**row, "trial": 5} for row in rows(cell, [0.1], method="cpd", settings="b")]
    assert compare(rows(cell, [0.1]) + later).empty
    assert list(compare([])) == PAIRED_COLUMNS


def test_no_rows_give_an_empty_summary():
    assert summarise([]).empty
