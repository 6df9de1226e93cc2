"""The curves of the figures of accuracy: medians with a band, on a log scale, and published numbers as stars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from pwan.choices import BANDS
from pwan.report.looks import Look
from pwan.report.published import PublishedTable

GRID = {"which": "major", "color": "#dddddd", "linewidth": 0.6}
_HUGE = 1e300  # stands for infinity where quantiles are interpolated


@dataclass(frozen=True)
class Curve:
    """One method's errors.

    Attributes:
        method: its name.
        x: (k,) values of the axis.
        median: (k,) of the errors there; infinite where most trials failed.
        lower: (k,) edge of the band.
        upper: (k,) edge of the band.
        trials: (k,) how many there are.
        unrefined: (k,) the median before the method's refinement, NaN where most trials failed; None without one.
    """

    method: str
    x: np.ndarray
    median: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    trials: np.ndarray
    unrefined: np.ndarray | None = None


def curves(rows: pd.DataFrame, axis: str, band: str = "quartiles") -> list[Curve]:
    """The curve of each method, in the order in which the methods come in the rows.

    Args:
        rows: one line a trial with the columns ``axis``, "method", "status" and "mse", and "mse_unrefined" if there
            is a refinement; a trial whose status is not "ok" counts as an infinite error in medians and quartiles.
        axis: the numeric column that varies.
        band: "quartiles", or "std": the median plus and minus the sample standard deviation over the trials that did
            not fail, as in the paper's figure.

    Raises:
        ValueError: another band, a missing column, or no rows.
    """
    if band not in BANDS:
        raise ValueError(f"band must be one of {', '.join(BANDS)}, got {band!r}")
    missing = [name for name in (axis, "method", "status", "mse") if name not in rows]
    if missing or rows.empty:
        raise ValueError(f"the accuracy figure needs rows with {axis}, method, status and mse; missing: {missing}")
    return [_curve(str(method), group, axis, band) for method, group in rows.groupby("method", sort=False)]


def stars(lines: Sequence[Curve], table: PublishedTable | None) -> dict[str, list[tuple[float, float]]]:
    """The published (axis value, error) of each method, where the curves reach; each number once."""
    found: dict[str, list[tuple[float, float]]] = {line.method: [] for line in lines}
    if table is None:
        return found
    every = np.concatenate([line.x for line in lines])
    drawn: set[tuple[float, float]] = set()  # two of our methods may be compared with one published number
    for line in lines:
        points = [p for p in table.points(line.method) if every.min() - 1e-9 <= p[0] <= every.max() + 1e-9]
        found[line.method] = [point for point in points if point not in drawn]
        drawn.update(points)
    return found


def limits(lines: Sequence[Curve], published: Sequence[float]) -> tuple[float, float]:
    """The range of the log axis: everything positive and finite; a band that reaches below zero does not stretch it."""
    before = [line.unrefined for line in lines if line.unrefined is not None]
    medians = np.concatenate([*(line.median for line in lines), *before, published])
    values = np.concatenate([*(np.concatenate([line.lower, line.upper]) for line in lines), medians])
    medians = medians[np.isfinite(medians) & (medians > 0)]
    if not len(medians):
        return 1e-4, 1.0
    values = values[np.isfinite(values) & (values > 0.3 * medians.min())]
    return float(min(values.min(), medians.min()) / 1.4), float(max(values.max(), medians.max()) * 1.4)


def draw_curve(
    axes: Any, line: Curve, look: Look, points: Sequence[tuple[float, float]], words: str, dotted: str
) -> None:
    """Draw a method's median, its band, its median before a refinement (dotted) and what was published (stars).

    A median that is infinite (most trials failed) is a cross at the upper edge. The axes have their limits already.

    Args:
        axes: matplotlib's.
        line: the curve.
        look: the method's.
        points: published (axis value, error).
        words: the method's name in the legend.
        dotted: the legend's words for the error before a refinement.
    """
    bottom, top = axes.get_ylim()
    style = {"color": look.colour, "marker": look.mark}
    shown = np.isfinite(line.median)  # (k,)
    median = np.where(shown, line.median, np.nan)
    axes.plot(line.x, median, look.dash, markersize=4.5, label=words, zorder=3, **style)
    lower, upper = (np.clip(np.where(shown, edge, np.nan), bottom, top) for edge in (line.lower, line.upper))
    axes.fill_between(line.x, lower, upper, color=look.colour, alpha=0.15, linewidth=0)
    if line.unrefined is not None:
        axes.plot(line.x, line.unrefined, ":", markersize=3, label=dotted, zorder=2, **style)
    failed = line.x[~shown]
    if len(failed):  # an empty one that is not clipped would take part in the layout, at the origin
        axes.plot(failed, np.full(len(failed), top), "x", color=look.colour, clip_on=False, markersize=8, zorder=5)
    xy = np.array(points).reshape(-1, 2).T
    axes.plot(*xy, "*", color=look.colour, fillstyle="none", markersize=12, zorder=4)


def keys(lines: Sequence[Curve], published: bool) -> list[Line2D]:
    """The legend's lines for stars and crosses, where there are any."""
    handles = [_key("*", "published (one example, N = 2000)")] if published else []
    if any(not np.isfinite(line.median).all() for line in lines):
        handles.append(_key("x", "most trials failed"))
    return handles


def least_to_most(counts: np.ndarray | pd.Series) -> str:
    """The count, or "a to b" where counts differ."""
    return f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def caption(lines: Sequence[Curve], band: str) -> str:
    """What line and band are, and over how many trials."""
    trials = least_to_most(np.concatenate([line.trials for line in lines]))
    width = "quartiles" if band == "quartiles" else "median ± standard deviation"
    return f"median of {trials} trials a point; band: {width}"


def _curve(method: str, group: pd.DataFrame, axis: str, band: str) -> Curve:
    x = group[axis].astype(float)
    errors = group["mse"].astype(float).where(group["status"] == "ok", np.inf)  # (T,)
    table = pd.DataFrame({"x": x, "error": errors}).groupby("x")["error"]
    median = table.median()
    if band == "quartiles":
        # linear, as in the summary; next to a failure infinite, which pandas would make NaN
        huge = table.apply(lambda group: group.clip(upper=_HUGE).quantile([0.25, 0.75])).unstack()  # (k, 2)
        lower, upper = (huge[share].where(huge[share] < _HUGE / 1e9, np.inf) for share in (0.25, 0.75))
    else:
        spread = errors.replace(np.inf, np.nan).groupby(x).std().reindex(median.index).fillna(0.0)
        lower, upper = median - spread, median + spread
    return Curve(
        method,
        median.index.to_numpy(),
        median.to_numpy(),
        lower.to_numpy(),
        upper.to_numpy(),
        table.size().to_numpy(),
        _unrefined(group, x),
    )


def _unrefined(group: pd.DataFrame, x: pd.Series) -> np.ndarray | None:
    """The median error before the refinement at each axis value; None where no error differs."""
    if "mse_unrefined" not in group:
        return None
    before = group["mse_unrefined"].astype(float)
    if not (before - group["mse"].astype(float)).abs().gt(0).any():
        return None
    medians = before.where(group["status"] == "ok", np.inf).groupby(x).median()
    return medians.replace(np.inf, np.nan).to_numpy()


def _key(mark: str, label: str) -> Line2D:
    return Line2D([], [], linestyle="", marker=mark, markersize=9, color="#444444", fillstyle="none", label=label)
