"""Summaries: one line for each cell and method, with every failed trial counted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from pwan.bench.cell import AXES
from pwan.bench.rows import Row
from pwan.problem import FAILED

STATISTICS = [
    "trials",
    "failed",
    "mse_initial_median",
    "mse_median",
    "mse_std",
    "mse_max",
    "mse_unrefined_median",
    "matched_fraction_median",
    "seconds_median",
]
NAME = "summary.csv"


def summarise(rows: Iterable[Row]) -> pd.DataFrame:
    """One line for each cell and method.

    A failed trial counts in ``trials`` and ``failed``, and as an infinite error in the medians and the maximum (a
    median over survivors would flatter the method that fails most). ``mse_std`` is the sample standard deviation over
    the trials that did not fail: with a failure there is no other finite answer; ``failed`` stands beside it.
    ``shape_origin`` joins by a plus where the trials' copies of the shape came from several places.
    """
    frame = pd.DataFrame(list(rows))
    columns = ["experiment", *AXES, "method", "settings", "shape_origin", *STATISTICS]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    return pd.DataFrame([_line(group) for _, group in frame.groupby("settings", sort=False)], columns=columns)


def write_summary(folder: Path, rows: Iterable[Row]) -> pd.DataFrame:
    """Write ``summary.csv`` in one move and return it."""
    summary = summarise(rows)
    half = folder / f"{NAME}.{os.getpid()}.tmp"
    summary.to_csv(half, index=False)
    os.replace(half, folder / NAME)
    return summary


def table(summary: pd.DataFrame) -> str:
    """The summary as a table for the terminal: what varies, the methods and their errors."""
    axes = [name for name in AXES if summary[name].nunique(dropna=False) > 1]
    shown = summary[["experiment", *axes, "method", *STATISTICS]].rename(columns=lambda c: c.replace("_median", ""))
    return shown.to_string(index=False, float_format=lambda x: f"{x:.4g}", na_rep="-")


def _line(group: pd.DataFrame) -> dict[str, object]:
    first = group.iloc[0]
    failed = group["status"] == FAILED
    errors = group[["mse", "mse_unrefined"]].astype(float).mask(failed, float("inf"))
    return {
        "experiment": first["experiment"],
        **{name: first[name] for name in AXES},
        "method": first["method"],
        "settings": first["settings"],
        "shape_origin": "+".join(group["shape_origin"].dropna().unique()),
        "trials": len(group),
        "failed": int(failed.sum()),
        "mse_initial_median": group["mse_initial"].median(),
        "mse_median": errors["mse"].median(),
        "mse_std": group.loc[~failed, "mse"].astype(float).std(),
        "mse_max": errors["mse"].max(),
        "mse_unrefined_median": errors["mse_unrefined"].median(),
        "matched_fraction_median": group["matched_fraction"].astype(float).median(),
        "seconds_median": group["seconds"].astype(float).median(),
    }
