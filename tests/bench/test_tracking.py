from __future__ import annotations

import json
import time

import pandas as pd
import pytest

from pwan.bench import tracking
from pwan.bench.tracking import SUMMARY_METRICS, TrackingSettings, track


def records(folder):
    """The records of the only offline run below the folder; W&B's service may still be writing when finish returns."""
    for _ in range(100):
        found = list(_decode(folder))
        if any(record.HasField("exit") for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError("the run was not finished")


def _decode(folder):
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    data, block = path.read_bytes(), 32 * 1024  # LevelDB's framing, after a header of 7 bytes
    position, pending = 7, b""
    while position + 7 <= len(data):
        if block - position % block < 7:
            position += block - position % block
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        pending += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pending)
            yield record
            pending = b""


def logged_summary(folder):
    values = {}
    for record in records(folder):
        for update in record.summary.update:
            values[update.key or "/".join(update.nested_key)] = json.loads(update.value_json)
    return values


def call(folder, *, failed=False, rows=None):
    summary = {"settings": "abc", "mse_median": 0.2, "mse_std": float("nan"), "seconds_median": 3.0, "failed": 0}
    track(
        folder,
        TrackingSettings(),
        config={"seed": 0},
        experiment="test",
        method="pwan",
        rows=pd.DataFrame([{"trial": 0, "mse": 0.2, "status": "ok", "distance": None}]) if rows is None else rows,
        summary={**summary, "trials": 1, "mse_unrefined_median": 0.4},
        figure=None,
        failed=failed,
    )


def test_an_offline_run_holds_group_job_type_config_summary_and_table(tmp_path):
    call(tmp_path)
    runs = [record.run for record in records(tmp_path) if record.HasField("run")]
    assert (runs[0].run_group, runs[0].job_type, runs[0].project) == ("test", "pwan", "pwan")
    assert "seed" in {update.key for run in runs for update in run.config.update}
    summary = logged_summary(tmp_path)
    assert set(SUMMARY_METRICS) <= set(summary)
    assert (summary["mse_median"], summary["mse_std"], summary["trials"]) == (0.2, "nan", 1)
    (table,) = tmp_path.glob("wandb/offline-run-*/files/media/table/*.json")
    assert json.loads(table.read_text())["columns"] == ["trial", "mse", "status", "distance"]
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [0]


def test_a_failed_job_ends_its_run_as_crashed(tmp_path):
    call(tmp_path, failed=True)
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [1]


def test_an_error_while_logging_ends_the_run_as_crashed(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "_plain", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call(tmp_path)
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [1]


def test_nobody_is_asked_for_a_login(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    assert not tracking._logged_in()
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password " + 40 * "0" + "\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert tracking._logged_in()
