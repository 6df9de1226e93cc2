"""Summaries: one line for each cell and method, with every failed trial counted; methods compared trial by trial."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from pwan.bench.cell import AXES, LATER
from pwan.bench.measures import NAMES as MEASURES
from pwan.bench.rows import Row
from pwan.files import in_one_move
from pwan.problem import FAILED
from pwan.randomness import numpy_generator

STATISTICS = [
    "trials",
    "failed",
    "mse_initial_median",
    "mse_median",
    "mse_q25",
    "mse_q75",
    "mse_std",
    "mse_max",
    "mse_unrefined_median",
    "matched_fraction_median",
    "seconds_median",
]
# errors over the truth's mean squared radius, and what else is measured
WITHOUT_UNIT = [
    "mse_normalised_median",
    "mse_unrefined_normalised_median",
    "mse_partnered_normalised_median",
    "near_median",
    "edge_stretch_median",
]
NAME, PAIRED = "summary.csv", "paired.csv"
ERRORS = ("mse", "mse_unrefined")
PAIRED_COLUMNS = [
    *("experiment", *AXES, "method", "settings", "other", "other_settings", "error", "trials"),
    *("won", "won_low", "won_high", "tied", "difference_median", "difference_low", "difference_high"),
]
RESAMPLES = 2000  # of the bootstrap: the ends of the interval are then the 50th values from both ends


def summarise(rows: Iterable[Row]) -> pd.DataFrame:
    """One line for each cell and method.

    A failed trial counts in ``trials`` and ``failed``, and as an infinite error in the medians, the quartiles
    (``mse_q25``, ``mse_q75``: linear between the two values beside them) and the maximum (a median over survivors would
    flatter the method that fails most). ``mse_std`` is the sample standard deviation over
    the trials that did not fail: with a failure no other answer is finite; ``failed`` is the column beside it.
    ``mse_normalised_median``, and those of the unrefined and the partnered points, are medians of the errors over the
    truth's mean squared radius, so without a unit; see :mod:`pwan.bench.measures` for the latter, ``near_median`` (0
    where a trial failed) and ``edge_stretch_median``. Older rows have none of these three.
    ``shape_origin`` joins by a plus where the trials' copies of the shape came from several places.
    """
    frame = pd.DataFrame([completed(row) for row in rows])
    columns = ["experiment", *AXES, "method", "options", "settings", "shape_origin", *STATISTICS, *WITHOUT_UNIT]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    return pd.DataFrame([_line(group) for _, group in frame.groupby("settings", sort=False)], columns=columns)


def compare(rows: Iterable[Row]) -> pd.DataFrame:
    """The first method of each cell against each other one, trial by trial, on the trials that both have.

    The first method is the one whose rows come first. One line for each pair of ``settings`` and each error (``mse``,
    ``mse_unrefined``): ``trials``, the share ``won`` by the first method with the ends of its 95% interval (Wilson's
    score interval), the share ``tied``, the median over the trials of its error less the other's, and the ends of the
    95% interval of this median by the percentile bootstrap over trials (seeded). A failed trial counts as an infinite
    error, so as a loss; where both failed, as a tie and no difference.
    """
    frame = pd.DataFrame([completed(row) for row in rows])
    if frame.empty:
        return pd.DataFrame(columns=PAIRED_COLUMNS)
    lines = []
    for _, cell in frame.groupby(AXES, sort=False, dropna=False):
        groups = [group for _, group in cell.groupby("settings", sort=False)]
        first = groups[0].iloc[0]["method"]
        ours = [group for group in groups if group.iloc[0]["method"] == first]
        others = [group for group in groups if group.iloc[0]["method"] != first]
        lines += [_paired(own, other, error) for own in ours for other in others for error in ERRORS]
    return pd.DataFrame([line for line in lines if line["trials"]], columns=PAIRED_COLUMNS)


def write_summary(folder: Path, rows: Iterable[Row]) -> pd.DataFrame:
    """Write ``summary.csv`` in one move and return it."""
    return write_table(summarise(rows), folder / NAME)


def write_paired(folder: Path, rows: Iterable[Row]) -> pd.DataFrame:
    """Write ``paired.csv`` in one move and return it."""
    return write_table(compare(rows), folder / PAIRED)


def write_tables(folder: Path, rows: list[Row]) -> pd.DataFrame:
    """Write ``summary.csv`` and ``paired.csv`` and return the summary."""
    write_paired(folder, rows)
    return write_summary(folder, rows)


def write_table(frame: pd.DataFrame, path: Path, float_format: str | None = None) -> pd.DataFrame:
    """Write a table as CSV in one move and return it."""
    with in_one_move(path) as half:
        frame.to_csv(half, index=False, float_format=float_format)
    return frame


def table(summary: pd.DataFrame) -> str:
    """The summary as a table for the terminal: what varies, the methods and their errors."""
    axes = [name for name in AXES if summary[name].nunique(dropna=False) > 1]
    shown = summary[["experiment", *axes, "method", *STATISTICS]].rename(columns=lambda c: c.replace("_median", ""))
    return shown.to_string(index=False, float_format=lambda x: f"{x:.4g}", na_rep="-")


def completed(row: Row) -> Row:
    """The row with the columns that older ones do not have."""
    return {**LATER, "options": "", "truth_radius": None, **dict.fromkeys(MEASURES), **row}


def _line(group: pd.DataFrame) -> dict[str, object]:
    first = group.iloc[0]
    failed = (group["status"] == FAILED).to_numpy()
    errors = {name: np.sort(_errors(group, name).to_numpy()) for name in ERRORS}
    survivors = errors["mse"][: len(group) - failed.sum()]
    return {
        "experiment": first["experiment"],
        **{name: first[name] for name in AXES},
        "method": first["method"],
        "options": first["options"],
        "settings": first["settings"],
        "shape_origin": "+".join(group["shape_origin"].dropna().unique()),
        "trials": len(group),
        "failed": int(failed.sum()),
        "mse_initial_median": group["mse_initial"].median(),
        "mse_median": np.median(errors["mse"]),
        "mse_q25": _quantile(errors["mse"], 0.25),
        "mse_q75": _quantile(errors["mse"], 0.75),
        "mse_std": np.std(survivors, ddof=1) if len(survivors) > 1 else np.nan,
        "mse_max": errors["mse"][-1],
        "mse_unrefined_median": np.median(errors["mse_unrefined"]),
        "matched_fraction_median": group["matched_fraction"].astype(float).median(),
        "seconds_median": group["seconds"].astype(float).median(),
        **{
            f"{name}_normalised_median": np.median(
                _errors(group, name) / group["truth_radius"].astype(float).to_numpy() ** 2
            )
            for name in ("mse", "mse_unrefined", "mse_partnered")
        },
        "near_median": np.median(np.where(failed, 0.0, group["near"].astype(float))),
        "edge_stretch_median": np.median(_errors(group, "edge_stretch")),
    }


def _errors(group: pd.DataFrame, name: str) -> pd.Series:
    """The errors of a method's trials, infinite where a trial failed; numbered by the trials."""
    errors = np.where(group["status"] == FAILED, np.inf, group[name].astype(float))
    return pd.Series(errors, index=group["trial"])


def _quantile(ordered: np.ndarray, share: float) -> float:
    """Linear between the two values beside the quantile, which numpy cannot where they are infinite."""
    place = (len(ordered) - 1) * share
    low, high = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    return float(low if low == high else low + (place - np.floor(place)) * (high - low))


def _paired(own: pd.DataFrame, other: pd.DataFrame, error: str) -> dict[str, object]:
    a, b = _errors(own, error).align(_errors(other, error), join="inner")
    ours, theirs = a.to_numpy(), b.to_numpy()
    both_failed = np.isinf(ours) & np.isinf(theirs)
    difference = np.where(both_failed, 0.0, ours) - np.where(both_failed, 0.0, theirs)  # (trials,)
    first, second = own.iloc[0], other.iloc[0]
    line = {
        "experiment": first["experiment"],
        **{name: first[name] for name in AXES},
        "method": first["method"],
        "settings": first["settings"],
        "other": second["method"],
        "other_settings": second["settings"],
        "error": error,
        "trials": len(difference),
    }
    if not len(difference):
        return line
    generator = numpy_generator(int(first["seed"]), "bootstrap of the paired difference")
    drawn = generator.integers(len(difference), size=(RESAMPLES, len(difference)))  # (resamples, trials)
    medians = np.sort(_medians(difference[drawn]))  # (resamples,)
    cut = (
        RESAMPLES // 40
    )  # 2.5% at each end; values of the sample, as between infinite ones nothing can be interpolated
    from scipy.stats import binomtest  # takes a second to load

    won = binomtest(int((ours < theirs).sum()), len(ours)).proportion_ci(0.95, method="wilson")
    return {
        **line,
        "won": float((ours < theirs).mean()),
        "won_low": float(won.low),
        "won_high": float(won.high),
        "tied": float((ours == theirs).mean()),
        "difference_median": float(_medians(difference[None])[0]),
        "difference_low": float(medians[cut - 1]),
        "difference_high": float(medians[-cut]),
    }


def _medians(differences: np.ndarray) -> np.ndarray:
    """The median of each line, (lines, trials) to (lines,); 0 where its middle lies between -inf and inf."""
    n = differences.shape[1]
    middle = np.partition(differences, [(n - 1) // 2, n // 2], axis=1)  # (lines, trials)
    low, high = middle[:, (n - 1) // 2], middle[:, n // 2]
    opposite = np.isinf(low) & np.isinf(high) & (low != high)
    return (np.where(opposite, 0.0, low) + np.where(opposite, 0.0, high)) / 2
