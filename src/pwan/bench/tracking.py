"""W&B: one run for each cell and method, mirroring the rows on disk. Offline by default; never waits for a login."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

SUMMARY_METRICS = ("mse_median", "mse_std", "seconds_median", "failed", "trials", "mse_unrefined_median")


@dataclass(frozen=True)
class TrackingSettings:
    """The group ``logger``: whether and where to track.

    Attributes:
        wandb: write W&B runs at all.
        mode: "offline"; "online" and "auto" upload while running where the user is logged in, and are offline elsewhere.
        project, entity: where the runs belong in W&B.
    """

    wandb: bool = True
    mode: Literal["offline", "online", "auto"] = "offline"
    project: str = "pwan"
    entity: str | None = None


def track(
    folder: Path,
    settings: TrackingSettings,
    *,
    config: Mapping[str, Any],
    experiment: str,
    method: str,
    rows: pd.DataFrame,
    summary: Mapping[str, Any],
    figure: Path | None,
    failed: bool,
) -> None:
    """Write one finished run below ``folder/wandb``.

    Args:
        config: the resolved configuration of this cell and method.
        rows: the trials of this cell and method; become a Table.
        summary: this method's line of summary.csv; its medians become summary metrics (W&B computes none itself).
        figure: a picture to log, if there is one.
        failed: the job as a whole failed; the run then ends as a crashed one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _folders(folder):
 = wandb.init(
        dir=str(folder),
        project=settings.project,
        entity=settings.entity,
        group=experiment,
        job_type=method,
        name=f"{method} {summary['settings']}",
        config=dict(config),
        mode=_mode(settings.mode, logged_in=_logged_in),
        reinit="finish_previous",
        settings=wandb.Settings(
            silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True, x_save_requirements=False
        ),
    )
    complete = False
    try:
        logged: dict[str, Any] = {"trials_table": wandb.Table(dataframe=_plain(rows))}
        if figure is not None:
            logged["worst_median_best"] = wandb.Image(str(figure))
        run.log(logged)
        run.summary.update({name: _number(summary[name]) for name in SUMMARY_METRICS})
        complete = not failed
    finally:
        run.finish(exit_code=0 if complete else 1)


def _mode(wanted: str, *, logged_in: Any) -> Literal["online", "offline"]:
    return "online" if wanted != "offline" and logged_in() else "offline"


def _logged_in() -> bool:
    """Whether an API key is at hand (environment or netrc), without asking anybody for one."""
    import wandb

    return bool(wandb.Api().api_key) if os.environ.get("WANDB_API_KEY") else bool(wandb.api.api_key)


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type each, as a Table wants them."""
    return rows.astype({name: str for name in rows.columns if rows[name].dtype == object})


def _number(value: Any) -> float | int | str:
    value = value.item() if hasattr(value, "item") else value
    return value if math.isfinite(value) else str(value)
