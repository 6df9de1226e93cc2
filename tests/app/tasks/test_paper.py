from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from pwan.app import main, standing
from pwan.app.checked import Checked
from pwan.app.plan import OVERHEAD, duration, lasting, plan
from pwan.app.standing import Part, missing, note_end, rows_there, seconds_left, words
from pwan.app.tasks import paper
from pwan.app.tasks.paper import Settings, describe, run_all
from pwan.bench.rows import RowFile, read_rows
from pwan.process import Ended

CONF = Path(__file__).parents[3] / "conf"
PAPER = yaml.safe_load((CONF / "experiment" / "paper.yaml").read_text())["options"]
TOY = "toy_correspondence"
CHECKED = Checked("paper", None, [], 1, "auto", False, None, None, Settings(experiments=("x",), report=False), {})  # type: ignore[arg-type]
MONKEY = "noise_monkey trials=3 method=[soft_assignment] problem.points=30 problem.outlier_ratio=0.2"
SMALL = "noise_bunny method=[soft_assignment] problem.points=30 problem.outlier_ratio=0.2,0.4 options.pictures=[]"


parts_of = cache(standing.parts_of)  # composing cells takes most of the time


@pytest.fixture(autouse=True)
def hydra(monkeypatch):
    monkeypatch.setattr(paper, "parts_of", parts_of)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield


def planned(*lines, given=(), workers=2, hours=None, **seconds):
    return plan(lines, list(given), seconds=seconds, hours=hours, workers=workers)


def checked(**options):
    return replace(CHECKED, options=replace(CHECKED.options, **options))


@pytest.fixture(scope="module")
def small_and_toy():
    """Two lines and their parts."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        items = planned(SMALL + " trials=3", TOY)
        return items, [part for item in items for part in parts_of(item)]


class Commands:
    """In place of processes: keeps the arguments, and writes the rows of a benchmark as its command would."""

    def __init__(self, parts, codes=(), stop_at=None):
        self.parts, self.codes, self.stop_at, self.given = parts, dict(codes), stop_at, []

    def __call__(self, arguments, tell):
        self.given.append(list(arguments))
        if len(self.given) == self.stop_at:
            raise KeyboardInterrupt
        overrides = dict(word.split("=", 1) for word in arguments if "=" in word)
        folder, code = Path(overrides["output"]), self.codes.get(overrides["experiment"], 0)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "summary.csv").touch()
        mine = [part for part in self.parts if part.item.experiment == overrides["experiment"] and part.cell]
        for part in mine if code == 0 else []:
            trials = min(int(overrides.get("trials", part.trials)), part.trials)
            done = {row["trial"] for row in read_rows(folder / part.cell)} if (folder / part.cell).is_dir() else set()
            with RowFile(folder / part.cell) as rows:
                for trial in sorted({*range(trials)} - done):
                    rows.append({"settings": part.settings, "trial": trial, "status": "ok", "seconds": 3.0})
        return code


def of(commands, key):
    return [next((word for word in given if word.startswith(f"{key}=")), "") for given in commands.given]


def test_each_experiment_gets_the_overrides_that_mean_something_to_it():
    given = ["experiment=paper", "trials=3", "method=[pwan]", "shape.source=paper", "seed=1", "output=x", "logger=none"]
    given += ["method.pwan.steps=5", "options.hours=1"]
    noise, toy, large, control = planned("noise_bunny", TOY, "scalability", "dm_against_pdm", given=given)
    assert noise.words == (
        "trials=3",
        "method=[pwan]",
        "shape.source=paper",
        "seed=1",
        "logger=none",
        "method.pwan.steps=5",
    )
    assert toy.words == ("seed=1",)  # which tracks nothing
    assert large.words == ("method=[pwan]", "seed=1", "method.pwan.steps=5")
    assert control.words == ("shape.source=paper", "seed=1")
    assert (noise.trials, noise.methods, len(noise.cells), noise.swept) == (3, ("pwan",), 6, True)
    assert (len(toy.cells), toy.swept) == (1, False)
    assert noise.arguments("trials=1")[:2] == ["-m", "experiment=noise_bunny"]
    assert [word for word in noise.arguments("trials=1") if word.startswith("trials")] == ["trials=1"]
    assert toy.command() == f"python run.py experiment={TOY} seed=1"
    how = ["retry_failed=true", "workers=2", "trainer=lightning"]
    every, large, control, toy = planned("noise_bunny", "scalability", "dm_against_pdm", TOY, given=how)
    assert (every.words, large.words, control.words, toy.words) == (tuple(how), ("retry_failed=true",), (), ())


def test_a_line_has_overrides_of_its_own_and_methods_that_the_command_cannot_take_away():
    given = ["method=[pwan]", "trials=4"]
    published, u, own = planned(
        "noise_bunny method=[pwan_paper] trials=10", "update_frequency", "noise_bunny", given=given
    )
    assert "about pwan_paper, and the command names other methods" in published.left_out
    assert published.words == ("method=[pwan_paper]", "trials=10", "trials=4")
    assert "about pwan_unrefined" in u.left_out and u.words == ("trials=4",)
    assert not own.left_out
    (small,) = planned(SMALL)
    assert [cell[-1] for cell in small.cells] == ["options.pictures=[]"] * 2
    assert {cell[0] for cell in small.cells} == {"problem.outlier_ratio=0.2", "problem.outlier_ratio=0.4"}
    (taken,) = planned("update_frequency", given=["method=[pwan_unrefined]"])
    assert not taken.left_out and len(taken.cells) == 6


@pytest.mark.parametrize("word", ["problem.points=60", "shape.name=torus", "shape=torus", "name=x", "problem=partial"])
def test_what_every_experiment_has_of_its_own_is_refused(word):
    with pytest.raises(ValueError, match="cannot pass on .* by itself, for example python run.py -m experiment="):
        planned(TOY, given=[word])


def test_wrong_lists_are_refused():
    with pytest.raises(ValueError, match="'noise_buny' does not exist .did you mean 'noise_bunny'"):
        planned("noise_buny")
    with pytest.raises(ValueError, match="take experiment=paper"):
        planned()
    with pytest.raises(ValueError, match="'paper' is a list of experiments itself"):
        planned("paper")
    for seconds in ({"toy": 0}, {"toy": "long"}, {"toy": {"pwan": -1}}):
        with pytest.raises(ValueError, match="seconds.toy must hold positive numbers"):
            Settings(experiments=(TOY,), seconds=seconds)


def test_what_does_not_fit_into_the_hours_is_left_out_and_said_with_its_command(tmp_path):
    items = planned(
        "faces trials=1", TOY, "dm_against_pdm", hours=1, dm_against_pdm=3500, other=dict.fromkeys(("pwan",), 9)
    )
    assert [bool(item.left_out) for item in items] == [False, False, True]
    told = describe(items, tmp_path, 2)
    assert "left out" in told and f"python run.py experiment=dm_against_pdm output={tmp_path}/dm_against_pdm" in told
    assert "it takes 58 min, and" in told and "left of options.hours=1" in told
    assert not planned("dm_against_pdm", dm_against_pdm=1e9)[0].left_out  # no limit


def test_points_that_no_download_has_need_their_folder(monkeypatch):
    monkeypatch.delenv("PWAN_DATA", raising=False)
    assert "PWAN_DATA" in planned("humans_partial")[0].left_out
    monkeypatch.setenv("PWAN_DATA", "somewhere")
    assert not planned("humans_partial")[0].left_out


def test_times_follow_from_trials_and_workers():
    assert lasting(5, 10.0, 2) == 30 + OVERHEAD  # three rounds of two
    assert lasting(1, 10.0, 2) == 10 + OVERHEAD and lasting(4, 10.0, 0) == 40 + OVERHEAD and lasting(0, 10.0, 2) == 0
    assert [duration(seconds) for seconds in (90, 600, 9000)] == ["90 s", "10 min", "2.5 h"]
    (item,) = planned(SMALL + " trials=4", noise_bunny={"soft_assignment": 7})
    assert item.lasts(2) == 2 * (14 + OVERHEAD)
    part = Part(item, "cell", "soft_assignment", "abc", 4, 7.0)
    there = {("noise_bunny", "abc"): {k: {"seconds": 1.0, "status": "ok"} for k in (0, 1, 7)}}
    assert missing(part, there) == 2 and missing(part, there, 2) == 0 and missing(part, {}) == 4
    assert seconds_left([part], there, 2) == 1 + OVERHEAD  # as measured
    assert seconds_left([part], {}, 2) == 14 + OVERHEAD  # as stated
    assert "2 of 4 trials and 0 of 1 cells are there; 2 trials remain, about 3 s" in words([part], there, 2)


def test_all_experiments_have_a_few_trials_before_one_has_more_and_only_what_is_missing_is_run(
    tmp_path, capsys, small_and_toy
):
    items, parts = small_and_toy
    commands = Commands(parts)
    assert run_all(items, checked(), tmp_path, commands) == 0
    assert of(commands, "experiment") == ["experiment=noise_bunny", f"experiment={TOY}", "experiment=noise_bunny"]
    assert of(commands, "trials") == ["trials=2", "", "trials=3"] and of(commands, "logger") == ["logger=none", "", ""]
    assert of(commands, "output")[1] == f"output={tmp_path}/{TOY}"
    told = capsys.readouterr().out
    assert "5 of 7 trials and 1 of 3 cells are there; 2 trials remain, about" in told
    assert "all 7 trials of 3 cells are there" in told
    frame = pd.read_csv(tmp_path / paper.SUMMARY)
    assert list(frame["trials"]) == [6, 1] and not frame["missing"].any() and not frame["exit_code"].any()

    again = Commands(parts)
    assert run_all(items, checked(), tmp_path, again) == 0
    assert again.given == []
    assert run_all(planned(TOY, given=["logger=none"]), checked(), tmp_path, again) == 0
    assert again.given == []
    more = planned(TOY, given=["seed=1"])  # another picture
    assert run_all(more, checked(), tmp_path, again) == 0
    assert of(again, "experiment") == [f"experiment={TOY}"]
    assert run_all(items[1:], checked(), tmp_path, again) == 0  # which took the place of the first
    assert len(again.given) == 2
    (tmp_path / TOY / "summary.csv").unlink()
    assert all(missing(part, rows_there([part], tmp_path)) for part in parts if part.method == TOY)


def test_a_task_whose_folder_has_got_the_results_of_other_settings_is_not_there(tmp_path, small_and_toy):
    (part,) = (part for part in small_and_toy[1] if part.method == TOY)
    folder = tmp_path / TOY
    folder.mkdir()

    def run_with(**config):
        (folder / "summary.csv").touch()
        (folder / "config.yaml").write_text(yaml.safe_dump({"task": TOY, "seed": 0, "options": {}, **config}))

    run_with()
    note_end(part, tmp_path, 3.0)
    assert missing(part, rows_there([part], tmp_path)) == 0
    run_with(options={"updates": 3})  # a quick look
    assert missing(part, rows_there([part], tmp_path)) == 1
    run_with(workers=1)
    assert missing(part, rows_there([part], tmp_path)) == 0
    (folder / "config.yaml").write_text("a: [")
    assert missing(part, rows_there([part], tmp_path)) == 1
    record = json.loads((tmp_path / standing.RECORD).read_text())
    del record[TOY]["config"]  # as it was written before
    (tmp_path / standing.RECORD).write_text(json.dumps(record))
    assert missing(part, rows_there([part], tmp_path)) == 0


def test_what_fails_or_is_refused_does_not_end_the_rest(tmp_path, capsys, small_and_toy):
    items = [*planned(MONKEY), *small_and_toy[0]]
    parts = [*parts_of(items[0]), *small_and_toy[1]]
    for code, tries in ((1, 2), (2, 1)):  # what was refused is not tried again
        commands = Commands(parts, {"noise_monkey": code})
        assert run_all(items, checked(), tmp_path / str(code), commands) == code
        assert of(commands, "experiment").count("experiment=noise_monkey") == tries
        assert of(commands, "experiment").count("experiment=noise_bunny") == 2
        frame = pd.read_csv(tmp_path / str(code) / paper.SUMMARY)
        assert list(frame["exit_code"]) == [code, 0, 0] and list(frame["missing"]) == [3, 0, 0]
    capsys.readouterr()
    cannot = planned("noise_bunny shape.name=fish problem.outlier_ratio=0.2")
    assert run_all(cannot, checked(report=True), tmp_path / "cannot", Commands([])) == 2
    told = capsys.readouterr().err
    assert "error: noise_bunny shape.name=fish" in told
    assert "error: no page of the results: nothing to report" in told


def test_ctrl_c_leaves_the_rest_for_the_same_command(tmp_path, capsys, small_and_toy):
    items, parts = small_and_toy
    with pytest.raises(KeyboardInterrupt):
        run_all(items, checked(), tmp_path, Commands(parts, stop_at=2))
    assert "4 of 7 trials and 0 of 3 cells are there" in capsys.readouterr().out.splitlines()[-1]
    commands = Commands(parts)
    assert run_all(items, checked(), tmp_path, commands) == 0
    assert of(commands, "experiment") == [f"experiment={TOY}", "experiment=noise_bunny"]


def test_processes_that_others_started_are_refused(monkeypatch):
    monkeypatch.setattr("pwan.lightning.processes.crew", object())
    with pytest.raises(ValueError, match="without torchrun or srun"):
        paper._check_alone()


def test_failed_trials_are_counted_and_tried_again_only_when_asked(tmp_path):
    items = planned(SMALL + " trials=1")
    parts = parts_of(items[0])
    for part in parts:
        with RowFile(tmp_path / "noise_bunny" / part.cell) as rows:
            rows.append({"settings": part.settings, "trial": 0, "status": "failed", "seconds": None})
    commands = Commands(parts)
    assert run_all(items, checked(), tmp_path, commands) == 1 and commands.given == []
    again = replace(checked(), retry_failed=True)
    assert run_all(items, again, tmp_path, commands) == 1 and len(commands.given) == 1


def in_this_process(arguments, tell):
    here = GlobalHydra.instance()
    outer = here.hydra
    here.clear()
    try:
        return main(arguments, conf=CONF)
    finally:
        here.clear()
        here.hydra = outer


def test_the_experiments_own_command_finds_all_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pwan.app.tasks.report.make_report", lambda folder, settings: Path(settings.folder) / "page")
    line = SMALL + " trials=2 logger=none workers=1"
    items = planned(line)
    assert run_all(items, checked(report=True), tmp_path, in_this_process) == 0
    assert f"page: {tmp_path}/page" in capsys.readouterr().out
    assert len(read_rows(tmp_path / "noise_bunny")) == 4
    cells = {path.name for path in (tmp_path / "noise_bunny").iterdir() if path.is_dir()}
    assert cells == {part.cell for part in parts_of(items[0])}
    assert in_this_process(items[0].arguments(f"output={tmp_path}/noise_bunny"), None) == 0
    assert "nothing to do: all 2 cells were finished already" in capsys.readouterr().out


def outside(*arguments):
    return in_this_process(["experiment=paper", *arguments], None)


def test_the_list_alone_and_what_the_command_line_cannot_have(tmp_path, capsys):
    place = [f"output={tmp_path}/a b", f"options.experiments=[{TOY},datasets]", "options.seconds.datasets=1e9"]
    assert outside(*place, "options.list=true") == 0
    told = capsys.readouterr().out
    assert "1 of 2 lines, 1 cells: about" in told
    assert f"""'output='"'"'{tmp_path}/a b/datasets'"'"''""" in told  # as the shell and Hydra read it
    assert not any((tmp_path / "a b").iterdir())
    assert outside(*place, "problem.points=60") == 2
    assert "cannot pass on 'problem.points'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="hydra/launcher and hydra.launcher alone"):
        paper._launcher(["hydra.verbose=true"])
    launcher = ["hydra/launcher=joblib", "+hydra.launcher.x=1"]
    assert paper._launcher(["hydra.mode=RUN", *launcher]) == launcher
    names = {"hydra": "pkg://hydra.conf", "main": "/mine", "command-line": "/more", "schema": "structured://"}
    sources = [SimpleNamespace(provider=provider, path=path) for provider, path in names.items()]
    assert paper._conf(sources) == ["--config-path=/mine", "--config-dir=/more"]
    assert outside("-m", *place) == 2
    assert "leave out -m" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stop", "number"), [(KeyboardInterrupt(), signal.SIGINT), (Ended(signal.SIGTERM), signal.SIGTERM)]
)
def test_a_running_command_is_told_to_stop_and_awaited(monkeypatch, stop, number):
    told = []

    class Process:
        """Two times of waiting, and then Ctrl-C."""

        waits = iter([subprocess.TimeoutExpired("", 1), stop, None])

        def __init__(self, line, **more):
            told.append(line[-2:])

        def wait(self, timeout=None):
            if (happens := next(self.waits)) is not None:
                raise happens
            told.append("awaited")

        def send_signal(self, number):
            told.append(number)

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None

    monkeypatch.setattr(subprocess, "Popen", Process)
    with pytest.raises(KeyboardInterrupt):
        paper.start(["-m", "experiment=x"], lambda: told.append("told"))
    assert told == [["-m", "experiment=x"], "told", number, "awaited"]


def test_the_list_holds_every_experiment_of_the_paper_with_the_time_of_its_methods():
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (CONF / "experiment").glob("*.yaml")}
    beyond = {name for name in files if name.startswith("real_")}  # pairs that the paper does not have
    listed = {line.split()[0] for line in PAPER["experiments"]}
    assert listed == set(files) - beyond - {"paper"}
    for name in listed:
        stated = PAPER["seconds"][name]
        methods = next((d["override /method"] for d in files[name].get("defaults", []) if "override /method" in d), [])
        if isinstance(stated, dict):
            assert set(methods) <= set(stated), name
        else:
            assert files[name]["task"] != "benchmark", name
