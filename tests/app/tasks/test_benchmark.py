from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from pwan import methods
from pwan.app.tasks import benchmark
from pwan.bench import tracking
from pwan.bench.cell import Cell, MethodEntry, trial_seed
from pwan.bench.rows import PACKED, RowFile, read_rows, write_packed
from pwan.bench.settings import TrackingSettings
from pwan.pool import choose_workers
from pwan.report.trial_figure import Figure
from pwan.synthesis import SynthesisSettings

FAKE = Path(__file__).parents[2] / "bench" / "fake_methods"
CELL = Cell("test", "torus", "packaged", SynthesisSettings(points=30, rank=20, outlier_ratio=0.5), seed=0)


@pytest.fixture(autouse=True)
def _shifting(monkeypatch):
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(FAKE)])


def run(folder, *entries, cell=CELL, trials=3, workers=1, **more):
    more = {"tracking": TrackingSettings(wandb=False), "config": {}, **more}
    return benchmark.run_cell(cell, list(entries), folder, trials=trials, workers=workers, **more)


def shifting(name="shifting", **options):
    return MethodEntry(name, "shifting", options)


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_points_picture_and_summary_are_written(tmp_path, workers):
    (outcome,) = run(tmp_path, shifting(), workers=workers)
    assert (outcome.ran, outcome.skipped, outcome.failed, outcome.error) == (3, 0, 0, "")
    rows = read_rows(tmp_path)
    assert [row["trial"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert row["mse"] == row["mse_unrefined"] == row["mse_initial"] > 0  # nothing was moved
        assert (row["experiment"], row["method"], row["method_file"], row["shape"]) == (
            "test",
            *["shifting"] * 2,
            "torus",
        )
        assert (row["points"], row["outlier_ratio"], row["seconds"], row["steps"], row["status"]) == (
            30,
            0.5,
            0.5,
            2,
            "ok",
        )
        assert row["batch"] == (3 if workers == 0 else 1)
    assert len(list(tmp_path.glob("points/*/*.npz"))) == 3
    with np.load(next(tmp_path.glob("points/*/0.npz"))) as arrays:
        assert arrays["transformed"].shape == (30, 3)
        assert arrays["reference_matched"].shape == (45,)
    assert (tmp_path / "trials_shifting.png").stat().st_size > 10_000
    assert (tmp_path / "summary.csv").exists()


def test_the_same_call_again_runs_only_what_is_missing(tmp_path):
    run(tmp_path, shifting(), trials=2)
    before = read_rows(tmp_path)
    (outcome,) = run(tmp_path, shifting(), trials=3)
    assert (outcome.ran, outcome.skipped) == (1, 2)
    (outcome,) = run(tmp_path, shifting(), trials=3)
    assert (outcome.ran, outcome.skipped) == (0, 3)
    assert read_rows(tmp_path)[:2] == before


def test_a_changed_setting_is_a_new_cell(tmp_path):
    run(tmp_path, shifting(), trials=2)
    run(tmp_path, shifting(shift=0.1), trials=2)
    run(tmp_path, shifting(), cell=replace(CELL, seed=1), trials=2)
    rows = read_rows(tmp_path)
    assert len(rows) == 6
    assert len({row["settings"] for row in rows}) == 3
    assert (tmp_path / "summary.csv").read_text().count("\n") == 4


def test_a_changed_default_that_follows_from_the_problem_is_a_new_cell(tmp_path, monkeypatch):
    run(tmp_path, MethodEntry("following", "following"), trials=2)
    monkeypatch.setattr(methods.find("following"), "SHIFT", 0.5)
    (outcome,) = run(tmp_path, MethodEntry("following", "following"), trials=2)
    assert (outcome.ran, outcome.skipped) == (2, 0)
    assert len({row["settings"] for row in read_rows(tmp_path)}) == 2


def test_known_trials_of_the_same_settings_count_as_done(tmp_path, capsys):
    run(tmp_path / "elsewhere", shifting(), trials=2)
    run(tmp_path / "elsewhere", shifting(shift=0.1), trials=2)
    theirs = read_rows(tmp_path / "elsewhere")
    known = tmp_path / PACKED
    write_packed(theirs, known)
    capsys.readouterr()
    (outcome,) = run(tmp_path / "here", shifting(), trials=3, known=known)
    assert (outcome.ran, outcome.skipped) == (1, 2)
    assert f"2 trials taken over from {known}" in capsys.readouterr().out
    assert read_rows(tmp_path / "here")[:2] == theirs[:2]
    assert pd.read_csv(tmp_path / "here" / "summary.csv")["trials"].tolist() == [3]
    (outcome,) = run(tmp_path / "here", shifting(), trials=3, known=known)  # once more adds nothing
    assert (outcome.ran, len(read_rows(tmp_path / "here"))) == (0, 3)
    (outcome,) = run(tmp_path / "one", shifting(), trials=1, known=known)  # no more than was asked for
    assert (outcome.ran, len(read_rows(tmp_path / "one"))) == (0, 1)


def test_known_trials_stand_in_the_order_of_the_methods(tmp_path):
    run(tmp_path / "elsewhere", shifting(), trials=2)
    mine = shifting("mine", shift=0.1)
    run(tmp_path / "here", mine, shifting(), trials=2, known=tmp_path / "elsewhere" / "rows.jsonl")
    assert [row["method"] for row in read_rows(tmp_path / "here")] == ["mine", "mine", "shifting", "shifting"]


def test_known_trials_of_other_settings_are_run_and_it_is_said(tmp_path, capsys):
    run(tmp_path / "elsewhere", shifting(shift=0.1), trials=2)
    known = tmp_path / "elsewhere" / "rows.jsonl"
    (outcome,) = run(tmp_path / "here", shifting(), trials=2, known=known)
    assert (outcome.ran, outcome.skipped) == (2, 0)
    assert f"none of the 2 trials in {known} is of this cell" in capsys.readouterr().out


@pytest.mark.parametrize("begin", [0, 1])
def test_known_trials_of_another_problem_are_refused_before_anything_runs(tmp_path, begin):
    run(tmp_path / "elsewhere", shifting(), trials=2)
    known = tmp_path / PACKED
    theirs = read_rows(tmp_path / "elsewhere")[begin:]  # a file may begin at any trial
    write_packed([{**row, "mse_initial": 1.01 * row["mse_initial"]} for row in theirs], known)
    with pytest.raises(ValueError, match="it is another problem"):
        run(tmp_path / "here", shifting(), trials=3, known=known)
    assert read_rows(tmp_path / "here") == []


def test_a_file_of_something_else_is_refused_and_nothing_is_left(tmp_path):
    other = tmp_path / "results.csv"
    other.write_text("experiment,mse\nnoise_bunny,0.003\n")
    with pytest.raises(ValueError, match="line 1 of .*results.csv is not a result row; .*name another file"):
        run(tmp_path / "here", shifting(), known=other)
    assert not (tmp_path / "here").exists()


def test_a_file_of_known_trials_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="options.known must name a file of trials"):
        benchmark.Settings(known=str(tmp_path / "rows.jsonl")).check_files()


def test_config_yaml_and_wandb_hold_the_settings_that_ran(tmp_path, monkeypatch):
    tracked = []
    monkeypatch.setattr(benchmark, "track", lambda *arguments, **named: tracked.append(named["config"]))
    run(
        tmp_path,
        MethodEntry("mine", "following"),
        shifting(),
        tracking=TrackingSettings(),
        config={"seed": 0, "method": {"mine": {"shift": None}}},
    )
    mine = {"method": "following", "shift": 0.375, "most": 1000}  # 45 to 30 points
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert written["seed"] == 0
    assert list(written["method"]) == ["mine", "shifting"]
    assert written["method"]["mine"] == mine
    assert tracked[0] == {"seed": 0, "method": {"mine": mine}}


def test_an_unknown_kind_of_picture_is_refused():
    with pytest.raises(ValueError, match="trials, example, training, got 'movie'"):
        benchmark.Settings(pictures=("movie",))


def test_settings_that_do_not_fit_the_problem_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match="method following: at most 40 points, got 45"):
        run(tmp_path, shifting(), MethodEntry("mine", "following", {"most": 40}))
    assert list(tmp_path.iterdir()) == []


def test_rows_and_summary_say_where_the_shape_came_from(tmp_path):
    run(tmp_path, shifting(), trials=1)
    run(tmp_path, shifting(), trials=1, cell=replace(CELL, shape="bunny"))
    assert [row["shape_origin"] for row in read_rows(tmp_path)] == ["analytic", "packaged"]
    assert pd.read_csv(tmp_path / "summary.csv")["shape_origin"].tolist() == ["analytic", "packaged"]


@pytest.fixture
def titles(monkeypatch):
    """The titles of each picture that was drawn."""
    drawn = []
    save = Figure.savefig

    def note(self, path, **more):
        drawn.append([axes.get_title() for axes in self.axes])
        save(self, path, **more)

    monkeypatch.setattr(Figure, "savefig", note)
    return drawn


def test_the_picture_gives_both_errors_and_is_that_of_the_settings_that_were_asked_for(tmp_path, titles):
    # the fake's unrefined points are shifted twice as far
    run(tmp_path, shifting(shift=0.1), trials=1)
    (row,) = read_rows(tmp_path)
    assert row["mse"] != row["mse_unrefined"]
    first = f"worst, trial 0: registered, MSE {row['mse_unrefined']:.4f} unrefined, {row['mse']:.4f} refined"
    run(tmp_path, shifting(), trials=1)
    second = f"worst, trial 0: registered, MSE {row['mse_initial']:.4f}"
    (outcome,) = run(tmp_path, shifting(shift=0.1), trials=1)
    assert outcome.ran == 0
    assert [picture[1] for picture in titles] == [first, second, first]


def test_a_picture_that_is_there_and_right_is_left_alone(tmp_path, titles):
    for _ in range(2):
        run(tmp_path, shifting(), trials=1)
    assert len(titles) == 1


def test_an_example_of_all_methods_and_the_course_of_those_with_a_potential(tmp_path, titles):
    network = {"rank": 20, "steps": 2, "stages": 0, "warmup": 1, "updates": 2, "refinement": "none"}
    entries = [shifting(), MethodEntry("pwan", "pwan", network)]
    run(tmp_path, shifting(), cell=CELL, trials=2)  # so that trial 0's row is not the first
    lines = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text("".join(reversed(lines)))
    for picture in tmp_path.glob("trials_*"):
        picture.unlink()
    titles.clear()
    kinds = {"pictures": ["example", "training"], "trials": 2}
    run(tmp_path, *entries, **kinds)
    made = {path.name for path in tmp_path.iterdir() if path.suffix in (".png", ".pdf")}
    assert made == {f"{name}.{kind}" for name in ("example", "training_pwan") for kind in ("png", "pdf")}
    rows = [row for row in read_rows(tmp_path) if row["trial"] == 0]
    initial = f"initial sets\nMSE {rows[0]['mse_initial']:.3g}"
    assert titles[-1] == [initial, *(f"{row['method']}\nMSE {row['mse']:.3g}" for row in rows)]
    count = len(titles)
    run(tmp_path, *entries, **kinds)
    assert len(titles) == count  # there and right
    run(tmp_path, shifting(shift=0.1), entries[1], **kinds)
    assert len(titles) == count + 2  # the example with the other settings, PNG and PDF
    run(tmp_path, shifting(), entries[1], trials=2)  # with other pictures
    run(tmp_path, shifting(), entries[1], **kinds)
    first = next(row for row in rows if row["method"] == "shifting")
    assert titles[-1][1] == f"shifting\nMSE {first['mse']:.3g}"  # not that of the settings before


def test_what_a_killed_run_did_not_track_is_tracked_by_the_next(tmp_path, monkeypatch):
    tracked = []
    monkeypatch.setattr(benchmark, "track", lambda folder, *_, summary, **__: tracked.append(summary["settings"]))
    run(tmp_path, shifting())
    assert tracked == []  # not wanted
    more = {"tracking": TrackingSettings()}
    run(tmp_path, shifting(), **more)
    assert len(tracked) == 1
    run(tmp_path, shifting(), **more)  # killed before that run had anything
    assert len(tracked) == 2
    (tmp_path / "wandb" / f"offline-run-20261128_000000-{tracked[0]}" / "files" / "media" / "table").mkdir(parents=True)
    run(tmp_path, shifting(), **more)
    assert len(tracked) == 2


@pytest.fixture
def tracked(monkeypatch):
    """How many trials each run of W&B had, in order."""
    counts = []

    def track(folder, settings, *, experiment, summary, written, **more):
        counts.append(summary["trials"])
        tracking._note(folder, tracking.run_id(experiment, summary["settings"]), written)

    monkeypatch.setattr(benchmark, "track", track)
    return counts


def test_a_run_and_a_picture_are_renewed_where_there_are_more_trials_by_now(tmp_path, titles, tracked, monkeypatch):
    more = {"tracking": TrackingSettings()}
    run(tmp_path, shifting(), trials=1, **more)
    with monkeypatch.context() as killed:
        killed.setattr(benchmark, "worst_median_best", lambda *_: 1 / 0)  # the rows are there then
        with pytest.raises(ZeroDivisionError):
            run(tmp_path, shifting(), trials=2, **more)
    drawn = len(titles)
    assert tracked == [1]
    (outcome,) = run(tmp_path, shifting(), trials=2, **more)
    assert (outcome.ran, tracked, len(titles)) == (0, [1, 2], drawn + 1)
    run(tmp_path, shifting(), trials=3)  # without W&B
    run(tmp_path, shifting(), trials=3, **more)
    assert (tracked, len(titles)) == ([1, 2, 3], drawn + 2)
    run(tmp_path, shifting(), trials=3, **more)
    assert (tracked, len(titles)) == ([1, 2, 3], drawn + 2)


def test_trials_that_are_taken_over_renew_pictures_tables_and_runs_and_are_of_this_experiment(
    tmp_path, titles, tracked, capsys
):
    run(tmp_path / "elsewhere", shifting(), trials=3, cell=replace(CELL, experiment="other"))
    here = tmp_path / "here"
    run(here, shifting(), trials=1, tracking=TrackingSettings())
    count = len(titles)
    known = tmp_path / "elsewhere" / "rows.jsonl"
    (outcome,) = run(here, shifting(), trials=3, tracking=TrackingSettings(), known=known)
    assert (outcome.ran, outcome.skipped, outcome.taken) == (0, 3, 2)
    assert "3 were there already (2 taken over)" in outcome.sentence()
    assert (tracked, len(titles)) == ([1, 3], count + 1)
    assert {row["experiment"] for row in read_rows(here)} == {"test"}
    assert pd.read_csv(here / "summary.csv")["trials"].tolist() == [3]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_both_tables_are_of_all_rows_however_a_run_ends(tmp_path, monkeypatch, stop):
    run(tmp_path, shifting(), shifting("two", shift=0.1), trials=1)

    benchmark.write_tables(tmp_path, read_rows(tmp_path))
    show = benchmark._show

    def ends(job, *arguments):
        if job.entry.name == "two":
            raise stop
        show(job, *arguments)

    monkeypatch.setattr(benchmark, "_show", ends)
    with pytest.raises(stop):
        run(tmp_path, shifting(), shifting("two", shift=0.1), trials=2)
    assert pd.read_csv(tmp_path / "summary.csv")["trials"].tolist() == [2, 2]
    assert set(pd.read_csv(tmp_path / "paired.csv")["trials"]) == {2}


def test_no_picture_of_other_settings_is_left_where_all_trials_failed(tmp_path):
    run(tmp_path, shifting(), trials=1)
    assert (tmp_path / "trials_shifting.png").exists()
    cell = replace(CELL, seed=next(seed for seed in range(1, 50) if trial_seed(seed, 0) % 2))  # trial 0 fails
    (outcome,) = run(tmp_path, shifting(fragile=True), trials=1, cell=cell)
    assert outcome.failed == 1
    assert not (tmp_path / "trials_shifting.png").exists()


def test_methods_meet_the_same_problems_whatever_runs_beside_them(tmp_path):
    run(tmp_path / "both", shifting("one"), shifting("two"))
    run(tmp_path / "alone", shifting("two"))
    both, alone = read_rows(tmp_path / "both"), read_rows(tmp_path / "alone")
    assert [row["mse_initial"] for row in both] == 2 * [row["mse_initial"] for row in alone]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_trial_that_raises_is_a_failed_row_and_the_others_go_on(tmp_path, workers, capsys):
    (outcome,) = run(tmp_path, shifting(fragile=True), shifting("sound"), trials=6, workers=workers)[:1]
    rows = {row["trial"]: row for row in read_rows(tmp_path) if row["method"] == "shifting"}
    failed = [row for row in rows.values() if row["status"] == "failed"]
    assert sorted(rows) == list(range(6))
    assert 0 < len(failed) == outcome.failed < 6  # odd seeds fail, and both kinds are among the six
    assert outcome.error == ""
    assert {row["stop_reason"] for row in failed} == {"RuntimeError: an odd seed"}
    assert {row["mse"] for row in failed} == {None}
    assert sum(row["method"] == "sound" for row in read_rows(tmp_path)) == 6
    assert "an odd seed" in capsys.readouterr().err
    (again,) = run(tmp_path, shifting(fragile=True), trials=6)
    assert again.ran == 0
    (retried,) = run(tmp_path, shifting(fragile=True), trials=6, retry_failed=True)
    assert retried.ran == len(failed)
    assert len(read_rows(tmp_path)) == 12


def test_points_that_are_not_finite_are_a_failure(tmp_path):
    (outcome,) = run(tmp_path, shifting(not_finite=True), trials=2)
    assert outcome.failed == 2
    assert "all trials failed" in outcome.error
    assert "not finite" in read_rows(tmp_path)[0]["stop_reason"]


def test_a_missing_package_leaves_no_rows_and_stops_no_other_method(tmp_path):
    missing, sound = run(tmp_path, shifting(package="thing"), shifting("sound"), trials=2)
    assert "pip install thing" in missing.error
    assert sound.ran == 2
    assert {row["method"] for row in read_rows(tmp_path)} == {"sound"}


def test_a_folder_in_use_is_refused(tmp_path):
    with RowFile(tmp_path), pytest.raises(BlockingIOError, match="another run"):
        run(tmp_path, shifting())


def test_an_interrupt_keeps_the_rows_and_summarises_them(tmp_path, monkeypatch):
    append = RowFile.append

    def stop_after_two(self, row):
        append(self, row)
        if len(self.rows) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RowFile, "append", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, shifting(), trials=5)
    assert len(read_rows(tmp_path)) == 2
    assert (tmp_path / "summary.csv").exists()


def test_batch_and_workers_give_the_same_rows(tmp_path):
    entry = MethodEntry("pwan", "pwan", {"steps": 3, "stages": 0, "warmup": 3, "rank": 20})
    for workers in (0, 1, 2):
        run(tmp_path / str(workers), entry, trials=2, workers=workers, pictures=())
    rows = [sorted(read_rows(tmp_path / str(n)), key=lambda row: row["trial"]) for n in (0, 1, 2)]
    assert all(row["status"] == "ok" for some in rows for row in some)
    for name in ("mse_initial", "mse_unrefined", "mse", "matched_fraction", "steps"):
        batch, single, parallel = ([row[name] for row in some] for some in rows)
        assert batch == pytest.approx(single, rel=1e-3)
        assert parallel == single


def test_workers_are_chosen_by_the_machine():
    assert choose_workers("auto", 1) == 1
    assert choose_workers("auto", 10_000) == len(os.sched_getaffinity(0))
    assert choose_workers(8, 3) == 3
    assert choose_workers(0, 3) == 0
