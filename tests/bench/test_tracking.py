from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import wandb

from pwan.bench import tracking
from pwan.bench.curves import CURVES, median_curves
from pwan.bench.settings import TrackingSettings
from pwan.bench.tracking import SUMMARY_METRICS, is_tracked, is_wanted, run_id, save_workspace, track


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
    return _latest(update for record in records(folder) for update in record.summary.update)


def logged_history(folder):
    """The logged lines, each a dictionary."""
    return [_latest(record.history.item) for record in records(folder) if record.HasField("history")]


def _latest(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def call(folder, *, failed=False, mode="offline", rows=None, curves=None, figures=None, config=None, **summary):
    line = {
        "settings": "abc",
        "shape": "bunny",
        "outlier_ratio": 0.6,
        "keep": 1.0,
        "mse_median": 0.2,
        "mse_std": float("nan"),
    }
    line |= {"seconds_median": 3.0, "failed": 0, "trials": 1, "mse_unrefined_median": 0.4}
    track(
        folder,
        TrackingSettings(mode=mode),
        config=config or {"seed": 0},
        experiment="test",
        method="pwan",
        rows=pd.DataFrame([{"trial": 0, "mse": 0.2, "status": "ok", "distance": None}]) if rows is None else rows,
        written=1,
        summary={**line, **summary},
        curves=curves,
        figures=figures or {},
        failed=failed,
    )


def is_tracked_here(folder, experiment="test", rows=1, of=None):
    """Whether rows of the experiment are, of which the rows themselves say that they are."""
    return is_tracked(folder, experiment, rows * [{"settings": "abc", "experiment": of or experiment}])


def table(folder, key):
    (path,) = folder.glob(f"wandb/offline-run-*/files/media/table/{key}_*.json")
    return json.loads(path.read_text())


def test_an_offline_run_holds_group_job_type_config_summary_and_table(tmp_path):
    call(tmp_path)
    runs = [record.run for record in records(tmp_path) if record.HasField("run")]
    assert (runs[0].run_group, runs[0].job_type, runs[0].project) == ("test", "pwan", "pwan")
    assert "seed" in {update.key for run in runs for update in run.config.update}
    summary = logged_summary(tmp_path)
    assert set(SUMMARY_METRICS) <= set(summary)
    assert (summary["mse_median"], summary["mse_std"], summary["trials"]) == (0.2, "nan", 1)
    assert summary["settings"] == "abc"
    assert summary["trials_table/_type"] == "table-file"
    assert table(tmp_path, "trials_table")["columns"] == ["trial", "mse", "status", "distance"]
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [0]


@pytest.mark.parametrize(("ratio", "axis", "value"), [(0.6, "outlier_ratio", 0.6), (0.0, "keep", 0.7)])
def test_the_accuracy_stands_beside_what_its_figure_varies(tmp_path, ratio, axis, value):
    call(tmp_path, outlier_ratio=ratio, keep=0.7, mse_median=np.float64(0.3))
    there = table(tmp_path, f"accuracy_by_{axis}_bunny")
    assert there["columns"] == ["experiment", "method", axis, "mse_median"]
    assert there["data"] == [["test", "pwan", value, 0.3]]
    assert len(list(tmp_path.glob("wandb/offline-run-*/files/media/table/accuracy*"))) == 1


def test_a_median_that_is_infinite_is_left_out_of_the_chart(tmp_path):
    call(tmp_path, mse_median=np.inf)
    assert table(tmp_path, "accuracy_by_outlier_ratio_bunny")["data"] == [["test", "pwan", 0.6, None]]
    assert logged_summary(tmp_path)["mse_median"] == "inf"


def test_curves_are_logged_against_a_step_metric_of_their_own(tmp_path):
    nan = float("nan")
    curves = pd.DataFrame(
        {"step": [1, 2, 5], "mse": [nan, 0.5, 0.25], "loss": [-3.0, -4.0, nan], "threshold": [1, 1, 1]}
    )
    call(tmp_path, curves=curves)
    lines = [{k: v for k, v in line.items() if not k.startswith("_")} for line in logged_history(tmp_path)]
    assert lines[:3] == [
        {"step": 1, "loss": -3.0, "threshold": 1},
        {"step": 2, "loss": -4.0, "mse": 0.5, "threshold": 1},
        {"step": 5, "mse": 0.25, "threshold": 1},
    ]
    metrics = {record.metric.name: record.metric for record in records(tmp_path) if record.HasField("metric")}
    assert {name: metric.step_metric for name, metric in metrics.items()} == {
        "step": "",
        "mse": "step",
        "loss": "step",
        "threshold": "step",
    }
    assert not {"step", *CURVES} & set(logged_summary(tmp_path)), "a curve's last value is no result"


def test_every_figure_is_logged_under_its_name(tmp_path):
    paths = {name: tmp_path / f"file_{name}.png" for name in ("one", "two")}
    for number, path in enumerate(paths.values()):
        matplotlib.image.imsave(path, np.full((4, 5 + number, 3), 0.5))
    call(tmp_path, figures=paths)
    summary = logged_summary(tmp_path)
    for number, name in enumerate(paths):
        assert (summary[f"{name}/_type"], summary[f"{name}/width"]) == ("image-file", 5 + number)
        (copy,) = tmp_path.glob(f"wandb/offline-run-*/files/media/images/{name}_*.png")
        assert copy.read_bytes() == paths[name].read_bytes()


def test_a_failed_job_ends_its_run_as_crashed(tmp_path):
    call(tmp_path, failed=True)
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [1]


def test_an_error_while_logging_ends_the_run_as_crashed(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "_plain", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call(tmp_path)
    assert [record.exit.exit_code for record in records(tmp_path) if record.HasField("exit")] == [1]


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """The file of keys in a home that has none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("NETRC", "WANDB_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / ".netrc"


def login(keys, host):
    keys.write_text(f"machine {host} login user password {40 * '0'}\n")
    keys.chmod(0o600)


def test_nobody_is_asked_for_a_login(keys, monkeypatch):
    assert not tracking._logged_in()
    login(keys, "example.org")
    assert not tracking._logged_in()
    monkeypatch.setenv("WANDB_BASE_URL", "https://example.org")
    assert tracking._logged_in()
    login(keys, "api.wandb.ai")
    assert not tracking._logged_in()
    monkeypatch.delenv("WANDB_BASE_URL")
    assert tracking._logged_in()


def test_a_login_is_found_where_wandb_writes_it(keys, monkeypatch):
    from wandb.sdk.lib.wbauth import write_netrc_auth

    write_netrc_auth(host=wandb.Settings().base_url, api_key=40 * "0")
    assert tracking._logged_in()
    monkeypatch.setenv("NETRC", str(keys.rename(keys.with_name("elsewhere"))))
    assert tracking._logged_in()


class Workspace:
    entity, project, url = "me", "pwan", "https://example.org/me/pwan"

    def __init__(self, error=None):
        self.error, self.saved = error, 0

    def save(self):
        if self.error:
            raise self.error
        self.saved += 1
        return self


def test_a_workspace_is_saved_only_with_a_login(keys):
    workspace = Workspace()
    with pytest.raises(ValueError, match="wandb login"):
        save_workspace(workspace)
    assert workspace.saved == 0
    login(keys, "api.wandb.ai")
    assert save_workspace(workspace) == workspace.url
    assert workspace.saved == 1


def test_a_workspace_that_is_refused_says_why(keys):
    login(keys, "api.wandb.ai")
    with pytest.raises(ValueError, match=r"me/pwan: no such project; check the login"):
        save_workspace(Workspace(wandb.errors.CommError("no such project")))


def test_the_median_is_over_the_trials_that_still_run():
    one = {"history_loss": np.array([1.0, 2.0, 3.0]), "curve_step": np.array([1, 3]), "curve_mse": np.array([4.0, 2.0])}
    other = {
        "history_loss": np.array([3.0]),
        "history_threshold": np.array([0.5], dtype=np.float32),
        "curve_step": np.array([0, 1]),
        "curve_mse": np.array([9.0, 8.0]),
        "transformed": np.zeros((4, 3)),
    }
    nan = float("nan")
    expected = pd.DataFrame(
        {
            "step": [0, 1, 2, 3],
            "mse": [9.0, 6.0, nan, 2.0],
            "loss": [nan, 2.0, 2.0, 3.0],
            "threshold": [nan, 0.5, nan, nan],
        }
    )
    pd.testing.assert_frame_equal(median_curves([one, other]), expected)
    pd.testing.assert_frame_equal(median_curves([other, one, {}]), expected)


def test_a_step_at_which_nothing_is_known_has_no_line():
    nan = float("nan")
    curves = median_curves([{"history_gradient_norm": np.array([nan, 1.0, nan])}])
    assert curves.to_dict("list") == {"step": [2], "gradient_norm": [1.0]}


def test_trials_without_curves_give_none():
    curves = median_curves([{"transformed": np.zeros((4, 3))}, {}])
    assert curves.empty and list(curves.columns) == ["step"]


def test_a_curve_whose_steps_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="Length"):
        median_curves([{"curve_step": np.array([1, 2]), "curve_mse": np.array([1.0])}])


# a server that does not take the run; nothing here speaks to anything but this machine


def answering(listening, status):
    with contextlib.suppress(OSError):  # closed at the end of the test
        while True:
            with listening.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(f"HTTP/1.1 {status} no\r\nContent-Length: 2\r\n\r\n{{}}".encode())


@pytest.fixture
def server(monkeypatch):
    """Called with the status that W&B's server answers; None for one that takes calls and says nothing, 0 for none."""
    with contextlib.ExitStack() as stack:

        def use(status):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
            if status == 0:
                listening.close()
            elif status is not None:
                threading.Thread(target=answering, args=(listening, status), daemon=True).start()

        monkeypatch.setenv("WANDB_API_KEY", 40 * "0")
        monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
        monkeypatch.setattr(tracking, "PATIENCE", 2.0)
        monkeypatch.setattr(tracking, "_silent", [])
        yield use


@pytest.mark.parametrize("status", [0, None, 401, 500])
def test_a_run_that_no_server_takes_is_written_offline_and_that_is_said(tmp_path, server, capsys, status):
    server(status)
    assert not is_tracked_here(tmp_path)
    call(tmp_path, mode="online")
    assert is_tracked_here(tmp_path)
    assert logged_summary(tmp_path)["mse_median"] == 0.2
    assert not list(tmp_path.glob("wandb/run-*"))
    told = capsys.readouterr().err
    assert "warning: W&B did not take the run" in told and "wandb sync" in told
    call(tmp_path / "next", mode="auto")  # nobody is asked again
    assert is_tracked_here(tmp_path / "next") and "W&B" not in capsys.readouterr().err


def test_a_key_of_a_wrong_form_is_as_good_as_no_server(tmp_path, server, monkeypatch, capsys):
    server(500)
    monkeypatch.setenv("WANDB_API_KEY", "mine")
    call(tmp_path, mode="online")
    assert is_tracked_here(tmp_path) and "warning: W&B did not take the run" in capsys.readouterr().err


def test_the_folder_of_a_run_that_never_began_does_not_count(tmp_path):
    (tmp_path / "wandb" / "run-20260101_000000-abc" / "files").mkdir(parents=True)
    (tmp_path / "wandb" / "run-20260101_000000-abc" / "run-abc.wandb").write_bytes(b"")
    assert not is_tracked_here(tmp_path)


def test_a_run_counts_for_its_experiment_and_its_rows(tmp_path):
    assert run_id("one", "abc") != run_id("two", "abc") != run_id("two", "abd")
    call(tmp_path)
    ids = [record.run.run_id for record in records(tmp_path) if record.HasField("run")]
    assert ids[0] == run_id("test", "abc")
    assert is_tracked_here(tmp_path)
    assert not is_tracked_here(tmp_path, "other")
    assert not is_tracked_here(tmp_path, rows=2)  # of another trial, or of one that was run again


def test_a_run_that_was_cut_short_does_not_count(tmp_path, monkeypatch):
    call(tmp_path)
    monkeypatch.setattr(tracking, "_number", lambda value: 1 / 0)  # when all is logged
    with pytest.raises(ZeroDivisionError):
        call(tmp_path)
    assert not is_tracked_here(tmp_path)


def test_a_run_of_before_counts_for_the_experiment_of_its_rows_where_it_has_a_table(tmp_path):
    run = tmp_path / "wandb" / "offline-run-20260101_000000-abc"
    run.mkdir(parents=True)
    assert not is_tracked_here(tmp_path)
    (run / "files" / "media" / "table").mkdir(parents=True)
    assert is_tracked_here(tmp_path)
    assert not is_tracked_here(tmp_path, "other", of="test")


@pytest.mark.parametrize(
    ("variable", "wanted"), [("disabled", False), ("offline", True), ("online", True), (None, True)]
)
def test_the_variable_of_wandb_disables_it(monkeypatch, variable, wanted):
    if variable:
        monkeypatch.setenv("WANDB_MODE", variable)
    assert is_wanted(TrackingSettings()) is wanted
    assert not is_wanted(TrackingSettings(wandb=False))


def test_the_variable_of_wandb_keeps_a_run_offline(tmp_path, server, monkeypatch, capsys):
    server(0)
    monkeypatch.setenv("WANDB_MODE", "offline")
    call(tmp_path, mode="online")
    assert is_tracked_here(tmp_path) and capsys.readouterr().err == ""
