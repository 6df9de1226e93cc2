from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from pwan.app import main
from pwan.app.tasks import scalability
from pwan.app.tasks.scalability import Settings, power_law, predict
from pwan.bench.isolated import NOT_RUN, STOPPED
from pwan.bench.rows import read_rows
from pwan.report.scalability_figure import _counts, draw_scalability

CONF = Path(__file__).parents[3] / "conf"


def run(folder, *overrides, method="cpd_accelerated"):
    common = ["experiment=scalability", f"method=[{method}]", f"output={folder}", "logger=none"]
    return main([*common, "options.repeats=2", "options.repeats_up_to=60", *overrides], conf=CONF)


def line(points, seconds=None, memory=None, status="ok"):
    return {
        "points": points,
        "runs": 0 if seconds is None else 1,
        "seconds_mean": seconds,
        "memory_mb": memory,
        "status": status,
    }


def blue_share(path):
    """How much of a figure has the colour of the second method."""
    red, _, blue = np.moveaxis(imread(path)[..., :3], -1, 0)
    return float((blue - red > 0.25).mean())


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.7])
def test_a_power_law_is_found_and_carried_on(exponent):
    sizes = [10, 30, 100]
    values = [3 * n**exponent for n in sizes]
    assert power_law(sizes, values) == pytest.approx((3, exponent))
    assert predict(sizes, values, 1000) == pytest.approx(3 * 1000**exponent)


def test_predictions_look_at_the_two_largest_sizes_and_never_fall():
    assert predict([10, 100, 1000], [1, 1, 10], 10_000) == pytest.approx(100)
    assert predict([10, 100], [5, 4], 1000) == 4
    assert predict([10], [2], 40) == pytest.approx(8)  # one size: at least linear


def test_what_would_take_too_long_or_too_much_is_refused_with_the_numbers():
    settings = Settings(limit_seconds=100, memory_gb=2)
    lines = [line(100, 1.0, 100), line(1000, 10.0, 1000)]
    reason, seconds = scalability._refusal(lines, 20_000, settings)
    assert seconds == pytest.approx(200) and "200 s" in reason and "100 s" in reason
    reason, seconds = scalability._refusal(lines, 5000, settings)
    assert seconds == pytest.approx(50) and "4.88 GiB" in reason and "2 GiB" in reason
    assert scalability._refusal(lines, 2000, settings) == ("", pytest.approx(20))
    assert scalability._refusal([], 10**9, settings) == ("", None)
    for status in (STOPPED, NOT_RUN):
        reason, _ = scalability._refusal([*lines, line(1500, status=status)], 2000, settings)
        assert reason == "1500 points were too many already"


def test_a_failed_size_does_not_end_a_method():
    assert scalability._refusal([line(100, status="failed")], 1000, Settings()) == ("", None)


def test_stopped_at_the_limit_then_run_with_a_larger_one_then_finished(tmp_path, capsys):
    assert run(tmp_path, "options.sizes=[60,90]", "options.limit_seconds=0.001", method="tpsrpm") == 1
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert list(summary["status"]) == [STOPPED, NOT_RUN]
    assert summary["reason"][0].startswith("stopped after 0.001 s")
    assert summary["reason"][1] == "60 points were too many already"
    assert summary["runs"].eq(0).all() and summary["seconds_mean"].isna().all()

    again = ["options.sizes=[90,60]", "options.limit_seconds=100"]
    assert run(tmp_path, *again, method="tpsrpm") == 0
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert list(summary["points"]) == [60, 90] and list(summary["runs"]) == [2, 1]
    assert list(summary["status"]) == ["ok", "ok"] and summary["reason"].isna().all()
    assert (summary["seconds_mean"] > 0).all() and (summary["memory_mb"] > 10).all()
    assert summary["exponent"].nunique() == 1
    first, second = summary["seconds_mean"]
    assert summary["exponent"][0] == pytest.approx(np.log(second / first) / np.log(90 / 60))
    rows = read_rows(tmp_path)
    assert [(row["points"], row["trial"]) for row in rows] == [(60, 0), (60, 1), (90, 0)]
    assert len({row["mse_initial"] for row in rows}) == 3, "each repeat has a problem of its own"
    for kind in ("png", "pdf"):
        assert (tmp_path / f"scalability.{kind}").stat().st_size > 0

    before = (tmp_path / "rows.jsonl").read_bytes()
    assert run(tmp_path, *again, method="tpsrpm") == 0
    assert (tmp_path / "rows.jsonl").read_bytes() == before
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "summary.csv"), summary)
    assert "tpsrpm" in capsys.readouterr().out


def test_the_end_of_the_memory_is_a_row(tmp_path):
    assert run(tmp_path, "options.sizes=[60]", "options.memory_gb=0.01") == 1
    (row,) = read_rows(tmp_path)
    assert row["status"] == STOPPED and "memory" in row["reason"]


def test_a_missing_package_leaves_no_row_but_its_reason(tmp_path, monkeypatch):
    def missing(work, limit, on_wait):
        yield {"trial": work.repeats[0], "status": NOT_RUN, "reason": "pip install it"}

    monkeypatch.setattr(scalability, "measure", missing)
    assert run(tmp_path, "options.sizes=[60]") == 1
    assert read_rows(tmp_path) == []
    assert pd.read_csv(tmp_path / "summary.csv")["reason"].tolist() == ["pip install it"]


def test_what_failed_is_measured_again_only_when_asked_and_what_was_stopped_is_not(tmp_path, monkeypatch):
    asked = []

    def measured(statuses):
        def measure(work, limit, on_wait):
            asked.append((work.cell.synthesis.points, work.repeats))
            for repeat in work.repeats:
                row = {
                    "trial": repeat,
                    "status": statuses.get((work.cell.synthesis.points, repeat), "ok"),
                    "reason": "",
                }
                yield {**row, "seconds": 1.0, "memory_mb": 9.0, "mse_initial": 1.0, "mse": 0.5}

        return measure

    sizes = "options.sizes=[50,60]"
    monkeypatch.setattr(scalability, "measure", measured({(50, 1): "failed", (60, 1): STOPPED}))
    run(tmp_path, sizes)
    monkeypatch.setattr(scalability, "measure", measured({}))
    asked.clear()
    run(tmp_path, sizes)
    assert asked == []
    assert pd.read_csv(tmp_path / "summary.csv")["failed"].tolist() == [1, 1]
    assert run(tmp_path, sizes, "retry_failed=true") == 0
    assert asked == [(50, (1,))]
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert summary["runs"].tolist() == [2, 1] and summary["failed"].tolist() == [0, 1]


@pytest.mark.parametrize("experiment", ["scalability", "multi_gpu", "dm_against_pdm"])
def test_a_trainer_that_would_drive_nothing_is_refused(tmp_path, capsys, experiment):
    arguments = [f"experiment={experiment}", "trainer=lightning", f"output={tmp_path / 'out'}"]
    assert main(arguments, conf=CONF) == 2
    assert (
        f"trainer=lightning is for task=benchmark, task={experiment} drives the steps itself" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()


def test_workers_that_would_have_nothing_to_do_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scalability, "measure", lambda *_: iter([{"trial": 0, "status": NOT_RUN, "reason": "x"}]))
    for workers, told in (("auto", 0), (1, 0), (4, 1)):
        run(tmp_path, "options.sizes=[60]", f"workers={workers}")
        assert capsys.readouterr().out.count("workers=4 means nothing here") == told


def test_the_figure_counts_runs_and_marks_what_was_not_run(tmp_path):
    def lines(method, sizes, seconds, runs, exponent):
        table = {"method": method, "points": sizes, "seconds_mean": seconds, "runs": runs, "exponent": exponent}
        return pd.DataFrame({**table, "status": "ok", "limit": 50.0})

    good = lines("pwan", [1000, 10_000, 100_000], [0.1, 1.0, 10.0], [10, 10, 1], 1.0)
    slow = lines("cpd", [1000, 10_000, 100_000], [1.0, None, None], [10, 0, 0], None)
    files = draw_scalability(pd.concat([good, slow]), "a shape", tmp_path / "with.png")
    assert [file.suffix for file in files] == [".png", ".pdf"] and all(file.stat().st_size for file in files)
    draw_scalability(pd.concat([good, slow[:1]]), "a shape", tmp_path / "without.png")
    crosses = (blue_share(tmp_path / name) for name in ("with.png", "without.png"))
    assert next(crosses) > 1.2 * next(crosses)
    assert _counts(pd.concat([good, slow])) == "mean of 10 runs at 1,000 to 10,000; 1 run at 100,000 points"
    assert _counts(slow[1:]) == "nothing was measured"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sizes": ()}, "sizes is empty"),
        ({"sizes": (10, 0)}, "sizes must be positive"),
        ({"repeats": 0}, "repeats must be positive"),
        ({"limit_seconds": 0.0}, "limit_seconds must be positive"),
        ({"memory_gb": -1.0}, "memory_gb must be positive"),
    ],
)
def test_wrong_settings(changed, said):
    with pytest.raises(ValueError, match=said):
        Settings(**changed)


def test_more_points_than_a_shape_without_a_surface_has(tmp_path, capsys):
    assert run(tmp_path, "shape=fish", "options.sizes=[60,1000]") == 2
    assert "no surface" in capsys.readouterr().err
    assert not (tmp_path / "rows.jsonl").exists()


def test_what_ran_under_a_larger_limit_has_no_reason_under_a_smaller_one(tmp_path, monkeypatch):
    sizes = "options.sizes=[30,60]"
    assert run(tmp_path, sizes) == 0
    monkeypatch.setattr(scalability, "_refusal", lambda *_: ("would take too long", 9.0))
    assert run(tmp_path, sizes, "options.limit_seconds=5") == 0
    summary = pd.read_csv(tmp_path / "summary.csv")
    assert summary["status"].tolist() == ["ok", "ok"] and summary["reason"].isna().all()
    assert run(tmp_path, "options.sizes=[30,60,90]", "options.limit_seconds=5") == 0
    assert pd.read_csv(tmp_path / "summary.csv")["reason"].tolist()[2] == "would take too long"
