"""The task behind ``experiment=toy_discrepancies``: four discrepancies of 1-D sets against a translation.

Paper, section "Comparison of Several Discrepancies" and its appendix: ten points on [0, 3] are the source, moved by t;
the same ten and N outliers on [7.8, 8.2] are the reference. The paper does not say how the outliers lie in their
interval: here they are equally spaced from end to end, and one alone is in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import find_peaks
from tqdm import tqdm

from pwan.app.checked import Checked
from pwan.app.tasks import write_config
from pwan.app.tasks._settings.toy_discrepancies import Settings
from pwan.bench.summary import write_table
from pwan.report.toy_figures import draw_discrepancies
from pwan.transport import partial_wasserstein
from pwan.transport.kernel import kl_divergence, l2_distance

DIGITS = 9  # of a curve's values: rounding of the sums must not break a level stretch into many minima


def run(checked: Checked, settings: Settings, folder: Path) -> int:
    write_config(folder, checked.resolved)
    summary = make_curves(settings, folder)
    print(summary.to_string(index=False, float_format=lambda x: f"{x:.4g}", na_rep="none"))
    return 0


def make_curves(settings: Settings, out_dir: Path) -> pd.DataFrame:
    """Compute all curves, find their minima, and write the tables and the figure into ``out_dir``.

    Files: ``curves.csv`` (outliers, t and a column for each discrepancy), ``minima.csv`` (every local minimum:
    discrepancy, outliers, t, value, depth), ``summary.csv`` and ``toy_discrepancies.png`` and ``.pdf``.

    Returns:
        The summary, a line for each discrepancy and N: discrepancy, outliers, minima (how many), lowest_t, and for the
        right mode and the outliers' mode t, value and depth of the minimum nearest to it; NaN where there is none.
    """
    functions = discrepancies(settings)
    t = translations(settings)
    source = _spread(settings.data_interval, settings.points)[:, None]  # (r, 1)
    curves = []
    with tqdm(total=len(settings.outliers) * len(functions) * len(t), desc="curves", mininterval=0.5) as bar:
        for count in settings.outliers:
            reference = with_outliers(source, count, settings.outlier_interval)
            columns: dict[str, np.ndarray] = {"outliers": np.full(len(t), count), "t": t}
            for name, function in functions.items():
                columns[name] = np.array([function(reference, source + move) for move in t])
                bar.update(len(t))
            curves.append(pd.DataFrame(columns))
    frame = pd.concat(curves)
    write_table(frame, out_dir / "curves.csv", float_format="%.9g")
    minima = pd.DataFrame(
        [
            {"discrepancy": name, "outliers": count, **minimum}
            for name in functions
            for count, lines in frame.groupby("outliers", sort=False)
            for minimum in local_minima(t, lines[name].to_numpy())
        ],
        columns=["discrepancy", "outliers", "t", "value", "depth"],
    )
    write_table(minima, out_dir / "minima.csv", float_format="%.6g")
    summary = pd.DataFrame(
        [_summary(name, count, minima, frame, settings) for name in functions for count in settings.outliers]
    )
    write_table(summary, out_dir / "summary.csv", float_format="%.6g")
    sets = [with_outliers(source, count, settings.outlier_interval)[:, 0] for count in settings.outliers]
    draw_discrepancies(
        source[:, 0], sets, settings.outliers, frame, minima, settings.modes, out_dir / "toy_discrepancies.png"
    )
    return summary


def discrepancies(settings: Settings) -> dict[str, Callable[[np.ndarray, np.ndarray], float]]:
    """Name -> function of reference (q, 1) and source (r, 1): the paper's four, and KL as its equation is printed."""

    def kl(reference: np.ndarray, source: np.ndarray) -> float:
        return kl_divergence(
            reference, source, variance=settings.variance, outlier_weight=settings.outlier_weight, form="cpd"
        )

    def kl_printed(reference: np.ndarray, source: np.ndarray) -> float:
        return kl_divergence(
            reference, source, variance=settings.variance, outlier_weight=settings.outlier_weight, form="printed"
        )

    return {
        "L2": lambda x, y: l2_distance(x, y, variance=settings.variance),
        "KL": kl,
        f"L_M,{settings.mass:g}": lambda x, y: partial_wasserstein(x, y, mass=settings.mass).value,
        f"L_D,{settings.distance:g}": lambda x, y: partial_wasserstein(x, y, distance=settings.distance).value,
        "KL as printed": kl_printed,
    }


def translations(settings: Settings) -> np.ndarray:
    """The values of t, (k,): multiples of the step, so that t = 0 is one of them."""
    first, last = (round(edge / settings.step) for edge in settings.translations)
    return np.arange(first, last + 1) * settings.step


def with_outliers(data: np.ndarray, count: int, interval: tuple[float, ...]) -> np.ndarray:
    """The data (n, 1) followed by the outliers, (n + count, 1)."""
    outliers = _spread(interval, count) if count > 1 else np.full(count, sum(interval) / 2)
    return np.concatenate([data, outliers[:, None]])


def _spread(interval: tuple[float, ...], count: int) -> np.ndarray:
    """Equally spaced positions from end to end of (lower, upper), (count,)."""
    return np.linspace(interval[0], interval[1], count)


def local_minima(t: np.ndarray, values: np.ndarray) -> list[dict[str, float]]:
    """The local minima of a sampled curve, in the order of t; a level stretch counts once, at its middle.

    Args:
        t: (k,), rising.
        values: (k,) finite.

    Returns:
        For each t, value, and depth: how far one must climb before one can come lower, or reach an end of the curve.
    """
    spread = float(np.ptp(values)) or 1.0
    places, about = find_peaks(-np.round(values / spread, DIGITS), plateau_size=1, prominence=10.0**-DIGITS)
    return [
        {"t": float(t[i]), "value": float(values[i]), "depth": float(depth * spread)}
        for i, depth in zip(places, about["prominences"], strict=True)
    ]


def _summary(
    name: str, count: int, minima: pd.DataFrame, curves: pd.DataFrame, settings: Settings
) -> dict[str, float | str]:
    own = minima[(minima["discrepancy"] == name) & (minima["outliers"] == count)]
    curve = curves[curves["outliers"] == count]
    lowest = curve["t"].iloc[int(np.argmin(np.round(curve[name], DIGITS)))]
    line: dict[str, float | str] = {"discrepancy": name, "outliers": count, "minima": len(own), "lowest_t": lowest}
    for mode, words in zip(settings.modes, ("right", "outlier"), strict=True):
        near = own[(own["t"] - mode).abs() <= settings.near]
        best = near.loc[(near["t"] - mode).abs().idxmin()] if len(near) else None
        for key in ("t", "value", "depth"):
            line[f"{words}_{key}"] = float("nan") if best is None else float(best[key])
    return line
