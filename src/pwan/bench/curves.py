"""Curves of several trials as one: the median over those that still run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

STEP = "step"
CURVES = ("mse", "loss", "threshold", "gradient_norm")


def median_curves(per_trial: Sequence[Mapping[str, np.ndarray]]) -> pd.DataFrame:
    """The median over the trials at each step.

    Args:
        per_trial: for each trial any of ``history_loss``, ``history_threshold`` and ``history_gradient_norm``, (n,) at
            the steps 1 to n, and ``curve_mse`` (k,) at the steps ``curve_step`` (k,); other arrays are left alone.

    Returns:
        "step", ascending, and those of "mse", "loss", "threshold" and "gradient_norm" that a trial knows: a line for
        each step at which one is known, NaN where another is not. Trials that have ended do not count.

    Raises:
        ValueError: a trial's ``curve_step`` and ``curve_mse`` differ in length.
    """
    medians = {}
    for name in CURVES:
        series = [curve for arrays in per_trial if (curve := _curve(arrays, name)) is not None]
        if series:
            medians[name] = pd.concat(series, axis=1).median(axis=1)
    return pd.DataFrame(medians).dropna(how="all").sort_index().rename_axis(STEP).reset_index()


def _curve(arrays: Mapping[str, np.ndarray], name: str) -> pd.Series | None:
    """A trial's metric by the step, or None where the trial does not have it."""
    if name == "mse":
        if "curve_mse" not in arrays:
            return None
        return pd.Series(arrays["curve_mse"], index=arrays["curve_step"], dtype=float)
    values = arrays.get(f"history_{name}")
    return None if values is None else pd.Series(values, index=np.arange(1, len(values) + 1), dtype=float)
