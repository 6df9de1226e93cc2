"""W&B: one run for each cell and method, mirroring the rows on disk. Offline by default; never waits for a login."""

from __future__ import annotations

import hashlib
import json
import math
import netrc
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from pwan.bench.curves import CURVES, STEP
from pwan.bench.rows import Row
from pwan.bench.settings import TrackingSettings
from pwan.files import save_text

SUMMARY_METRICS = ("mse_median", "mse_std", "seconds_median", "failed", "trials", "mse_unrefined_median")
PATIENCE = 8.0  # seconds that W&B's server has to take a run, else the run is written offline
UPLOAD = 60.0  # seconds for what is left at a run's end; `wandb sync` uploads what is not done by then
TRIALS_TABLE = "trials_table"
FIGURES_GROUP = "accuracy_figures"  # the group of the run that holds the report's figures
WORST_MEDIAN_BEST = "worst_median_best"  # the figures' name of the picture that every method has

_TRACKED = "tracked.json"  # beside the runs: how many rows each of them has, by its id

_silent: list[str] = []  # why a server did not take a run: it is not asked again by this process


def track(
    folder: Path,
    settings: TrackingSettings,
    *,
    config: Mapping[str, Any],
    experiment: str,
    method: str,
    rows: pd.DataFrame,
    written: int,
    summary: Mapping[str, Any],
    curves: pd.DataFrame | None,
    figures: Mapping[str, Path],
    failed: bool,
) -> None:
    """Write one finished run below ``folder/wandb``.

    Args:
        folder: of the cell's results.
        settings: whether and where to track.
        experiment: the run's group in W&B.
        method: the run's kind in W&B.
        config: the resolved configuration of this cell and method.
        rows: the trials of this cell and method; become a Table.
        written: how many rows they have, see :func:`is_tracked`.
        summary: this method's line of summary.csv; its medians become summary metrics (W&B computes none itself).
        curves: of ``median_curves``: lines with "step" and any of the metrics in ``CURVES``, NaN where one is not known
            at that step. "step" is the metrics' x-axis, so that those of several runs lie over each other.
        figures: pictures to log, by the names they get.
        failed: the job as a whole failed; the run then ends as a crashed one.
    """
    key = run_id(experiment, summary["settings"])
    _note(folder, key, 0)  # a kill from here on leaves a run that does not count
    with _data_below(folder):
        import wandb

        run = _begun(
            _mode(settings),
            id=key,
            dir=str(folder),
            project=settings.project,
            entity=settings.entity,
            group=experiment,
            job_type=method,
            name=f"{experiment} {method}",  # equal in all cells of a sweep: W&B's line charts join the runs of a name
            config=dict(config),
        )
        complete = False
        try:
            if curves is not None:
                _log_curves(run, curves)
            axis = "outlier_ratio" if summary["outlier_ratio"] > 0 else "keep"
            median = float(summary["mse_median"])
            run.log(
                {
                    TRIALS_TABLE: wandb.Table(dataframe=_plain(rows)),
                    accuracy_table(axis, summary["shape"]): wandb.Table(
                        columns=["experiment", "method", axis, "mse_median"],
                        data=[[experiment, method, float(summary[axis]), median if math.isfinite(median) else None]],
                    ),
                    **{name: wandb.Image(str(path)) for name, path in figures.items()},
                }
            )
            run.summary.update({name: _number(summary[name]) for name in SUMMARY_METRICS})
            run.summary["settings"] = summary["settings"]
            complete = not failed
        finally:  # or the next job of this process would write into the same run
            run.finish(exit_code=0 if complete else 1)
    _note(folder, key, written)


def run_id(experiment: str, settings: str) -> str:
    """The run's id in W&B: more trials of the same settings are the same run, those of another experiment are not."""
    return hashlib.sha256(json.dumps([experiment, settings]).encode()).hexdigest()[:12]


def track_figures(folder: Path, settings: TrackingSettings, figures: Mapping[str, Path]) -> None:
    """Write a run that holds figures of several experiments, below ``folder/wandb``; later ones replace it.

    Args:
        folder: of the results.
        settings: where to track.
        figures: pictures to log, by the names they get.
    """
    with _data_below(folder):
        import wandb

        run = _begun(
            _mode(settings),
            id=FIGURES_GROUP,
            dir=str(folder),
            project=settings.project,
            entity=settings.entity,
            group=FIGURES_GROUP,
            job_type="report",
            name=FIGURES_GROUP.replace("_", " "),
        )
        try:
            run.log({name: wandb.Image(str(path)) for name, path in figures.items()})
        finally:  # or the next job of this process would write into the same run
            run.finish()


def accuracy_table(axis: str, shape: str) -> str:
    """The name of the table with the median error of a shape beside what one of the paper's accuracy figures varies.

    A chart over many runs takes its x from a table, and the runs that it shows are those that have the table: so each
    shape has a panel of its own, as in the paper.
    """
    return f"accuracy_by_{axis}_{shape}"


def is_wanted(settings: TrackingSettings) -> bool:
    """Whether to track at all, by the settings and by W&B's own variable."""
    return settings.wandb and os.environ.get("WANDB_MODE") != "disabled"


def is_tracked(folder: Path, experiment: str, written: Sequence[Row]) -> bool:
    """Whether :func:`track` has written a run of this experiment with these rows into the folder.

    Args:
        folder: of the cell's results.
        experiment: the run's group in W&B.
        written: all rows of one method's settings, those of trials that were run again too.
    """
    settings = written[0]["settings"]
    tracked = _tracked(folder).get(run_id(experiment, settings))
    if tracked is not None:
        return tracked == len(written)
    # earlier runs have the settings as their id; one that was cut short, or that no server took, has no table
    earlier = any(True for _ in (folder / "wandb").glob(f"*run-*-{settings}/files/media/table"))
    return earlier and {row["experiment"] for row in written} == {experiment}


def _tracked(folder: Path) -> dict[str, int]:
    path = folder / "wandb" / _TRACKED
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _note(folder: Path, key: str, rows: int) -> None:
    path = folder / "wandb" / _TRACKED
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps({**_tracked(folder), key: rows}, indent=1))


def _mode(settings: TrackingSettings) -> str:
    """ "online" or "offline"."""
    offline = settings.mode == "offline" or os.environ.get("WANDB_MODE") in ("offline", "dryrun") or _silent
    return "online" if not offline and _logged_in() else "offline"


def _begun(mode: str, **run: Any) -> Any:
    """A run of W&B; an offline one, and a warning, where its server does not take it."""
    import wandb

    def begin(mode: str) -> Any:
        return wandb.init(
            **run,
            mode=mode,  # type: ignore[arg-type]
            resume="allow" if mode == "online" else None,
            reinit="finish_previous",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                save_code=False,
                x_disable_stats=True,
                init_timeout=PATIENCE,
                finish_timeout=UPLOAD,
            ),
        )

    if mode == "offline":
        return begin(mode)
    before = _folders(run)
    try:
        return begin(mode)
    except Exception as error:  # W&B lets through whatever its transport raises
        wandb.teardown()  # its service knows the run as one that is in use
        for left in _folders(run) - before:
            shutil.rmtree(left, ignore_errors=True)
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        _silent.append(reason)
        print(
            f"warning: W&B did not take the run ({reason}): this run and further ones are written "
            f"offline; `wandb sync {run['dir']}/wandb/offline-run-*` uploads them",
            file=sys.stderr,
        )
        return begin("offline")


def _folders(run: Mapping[str, Any]) -> set[Path]:
    """The folders of the online runs with this id."""
    return set((Path(run["dir"]) / "wandb").glob(f"run-*-{run['id']}"))


def save_workspace(workspace: Any) -> str:
    """Save a workspace of ``wandb_workspaces`` in W&B as a new view, and return its address.

    Raises:
        ValueError: the user is not logged in, or W&B refused the view or could not be reached.
    """
    if not _logged_in():
        raise ValueError("saving a workspace needs a login to W&B, and there is none: call `wandb login` first")
    try:
        return str(workspace.save().url)
    except Exception as error:  # W&B lets through whatever its transport raises
        raise ValueError(
            f"W&B did not save the workspace in {workspace.entity}/{workspace.project}: {error}; check the login "
            "(`wandb login --relogin`), the entity's name, and that the project has runs already"
        ) from error


def _log_curves(run: Any, curves: pd.DataFrame) -> None:
    """Log each line, without what is not known there; the last values do not become summary metrics."""
    names = [name for name in CURVES if name in curves.columns]
    run.define_metric(STEP, summary="none")
    for name in names:
        run.define_metric(name, step_metric=STEP, summary="none")
    for line in curves[[STEP, *names]].to_dict("records"):
        run.log({name: value for name, value in line.items() if name == STEP or not math.isnan(value)})


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
    import wandb

    own = os.environ.get("WANDB_BASE_URL")
    hosts = [own] if own else [wandb.Settings().base_url, "https://api.wandb.ai"]  # the second: of logins before 0.31
    try:
        keys = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return any(keys.authenticators(urlsplit(host).netloc) is not None for host in hosts)


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of one type each, as a Table wants them."""
    return rows.astype({name: str for name in rows.columns if rows[name].dtype == object})


def _number(value: Any) -> float | int | str:
    value = value.item() if hasattr(value, "item") else value
    return value if math.isfinite(value) else str(value)
