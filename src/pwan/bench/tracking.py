"""W&B: one run for each cell and method, mirroring the rows on disk. Offline by default; never waits for a login."""

from __future__ import annotations

import math
import netrc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pandas as pd

SUMMARY_METRICS = ("mse_median", "mse_std", "seconds_median", "failed", "trials", "mse_unrefined_median")


@dataclass(frozen=True)
class TrackingSettings:
    """The group ``logger``: whether and where to track.

    Attributes:
        wandb: write W&B runs at all.
        mode: "offline"; "online" and "auto" upload where the user is logged in, and are offline elsewhere.
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
    with _data_below(folder):
        import wandb

        run = wandb.init(
            dir=str(folder),
            project=settings.project,
            entity=settings.entity,
            group=experiment,
            job_type=method,
            name=f"{method} {summary['settings']}",
            config=dict(config),
            mode="online" if settings.mode != "offline" and _logged_in() else "offline",
            reinit="finish_previous",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True
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
        finally:  # or the next job of this process would write into the same run
            run.finish(exit_code=0 if complete else 1)


@contextmanager
def _data_below(folder: Path) -> Iterator[None]:
    """Keeps what W&B stages and caches in the output folder, unless the user has chosen a place."""
    folder.mkdir(parents=True, exist_ok=True)
    added = [name for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR") if name not in os.environ]
    os.environ.update(dict.fromkeys(added, str(folder / "wandb")))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _logged_in() -> bool:
    """Whether W&B has a key in one of its documented places; asking W&B itself may wait for a person's answer."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type each, as a Table wants them."""
    return rows.astype({name: str for name in rows.columns if rows[name].dtype == object})


def _number(value: Any) -> float | int | str:
    value = value.item() if hasattr(value, "item") else value
    return value if math.isfinite(value) else str(value)
