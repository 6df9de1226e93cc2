from __future__ import annotations

import math

import numpy as np
import pandas as pd

from pwan.bench.summary import STATISTICS, summarise, table, write_summary


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


def test_no_rows_give_an_empty_summary():
    assert summarise([]).empty
