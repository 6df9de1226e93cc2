"""Flags: Hydra's, wherever they stand; what they exclude; and that nothing of the program's own is shown."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import pytest
import yaml

import pwan
from pwan.app import flags, main

CONF = Path(__file__).parents[2] / "conf"
OWN = ("hydra.callbacks", "PWAN_SWEEP", "++", "hydra.mode")


@pytest.fixture(autouse=True)
def _own_logging():
    """Hydra's handlers write into what pytest captures of one test alone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def run(*arguments: str) -> int:
    return main(arguments, conf=CONF)


@pytest.mark.parametrize("order", list(itertools.permutations(("experiment=noise_bunny", "trials=3", "--cfg job"))))
def test_a_flag_stands_anywhere(order, capsys):
    assert run(*" ".join(order).split()) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    assert (told["name"], told["trials"], list(told["method"])[1]) == ("noise_bunny", 3, "cpd")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("experiment=noise_bunny --info defaults", "experiment/noise_bunny"),
        ("--info defaults experiment=noise_bunny", "experiment/noise_bunny"),
        ("-i defaults-tree experiment=noise_bunny", "experiment: noise_bunny"),
        ("--info experiment=noise_bunny", "Config search path"),
        ("experiment=noise_bunny -i", "Config search path"),
        ("experiment=noise_bunny --help", "noise_monkey"),
        ("-h experiment=nothing", "noise_monkey"),
        ("experiment=noise_bunny --hydra-help", "https://hydra.cc"),
        ("experiment=noise_bunny --version", f"pwan {pwan.__version__}\n"),
        ("problem.points=7 -c job -p problem.points", "7\n"),
        ("--cfg=job --package problem.points problem.points=7", "7\n"),
        ("--cfg job --resolve --package output name=x", "outputs/x\n"),
        ("-sc install=bash", "hydra_bash_completion"),
        (f"--config-path {CONF} -c job -p name name=here", "here\n"),
        ("--config-name config -c job -p name name=here", "here\n"),
    ],
)
def test_what_flags_show(arguments, words, capsys):
    assert run(*arguments.split()) == 0
    told = capsys.readouterr()
    assert words in told.out
    assert told.err == ""
    assert not any(word in told.out for word in OWN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--mutlirun experiment=noise_bunny", "unknown flag '--mutlirun' (did you mean '--multirun'?)"),
        ("experiment=noise_bunny --confg job", "(did you mean '--cfg'?)"),
        ("-x", "unknown flag '-x'; the flags are --help"),
        ("--cfg", "--cfg must be followed by one of job, hydra, all"),
        ("--cfg jobs", "got 'jobs' (did you mean 'job'?)"),
        ("--cfg -m", "--cfg must be followed by one of"),
        ("--package", "--package must be followed by a value"),
        ("-m=2 trials=1", "--multirun takes no value, got '2'"),
        ("-m --cfg job", "--multirun and --cfg exclude each other"),
        ("--resolve", "--resolve goes with --cfg"),
        ("-p problem", "--package goes with --cfg"),
        ("-sc", "--shell-completion goes with one of install=bash"),
        ("--experimental-rerun x", "is not supported"),
        ("--config-dir nowhere", "--config-dir nowhere: there is no such folder"),
        ("--config-path nowhere", "--config-path nowhere: there is no such folder"),
        ("--config-name nothing", "config 'nothing' does not exist; there are config"),
    ],
)
def test_a_wrong_flag_is_refused_in_a_sentence(arguments, words, capsys):
    assert run(*arguments.split()) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and words in told
    assert len(told.splitlines()) == 1


def test_flags_and_overrides_apart():
    found = flags.parse(["a=1", "-m", "~b", "--config-dir", "x", "+c=-1"])
    assert found.overrides == ["a=1", "~b", "+c=-1"]
    assert found.for_hydra() == ["a=1", "~b", "+c=-1", "--multirun", "--config-dir", "x"]
    assert flags.parse(["--config-path", "x", "a=1"]).for_hydra() == ["a=1"]


def test_a_folder_of_ones_own_adds_experiments(tmp_path, capsys):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nname: mine\ntrials: 2\n")
    own = ["--config-dir", str(tmp_path)]
    assert run("experiment=mine", *own, "--cfg", "job", "-p", "trials") == 0
    assert capsys.readouterr().out == "2\n"
    assert run(*own, "experiment=mien") == 2
    assert "did you mean 'mine'?" in capsys.readouterr().err
    assert run(*own, "--help") == 0
    assert "mine" in capsys.readouterr().out
    assert run("--config-path", str(tmp_path)) == 2
    assert f"there are none in {tmp_path}" in capsys.readouterr().err


def test_words_are_completed(capsys, monkeypatch):
    monkeypatch.setenv("COMP_LINE", "python run.py experiment=noise_")
    assert run("-sc", "query=bash") == 0
    assert capsys.readouterr().out.split() == [f"experiment=noise_{name}" for name in ("armadillo", "bunny", "monkey")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["experiment=noise_bunny", "-m", "trials=1"],
        ["-m", "trials=1", "experiment=noise_bunny"],
        ["experiment=noise_bunny", "--multirun", "trials=1"],
    ],
)
def test_a_sweep_from_any_order_keeps_the_words_of_the_user_alone(tmp_path, capsys, arguments):
    more = ["problem.outlier_ratio=0.2,0.4", "problem.points=20", "method=[pwan]", "method.pwan.steps=0", "workers=1"]
    more += ["method.pwan.warmup=0", "method.pwan.stages=0", "method.pwan.refinement=none", "logger=none"]
    assert run(*arguments, *more, f"output={tmp_path}") == 0
    told = capsys.readouterr()
    assert "2 cells, 0 failed as a job" in told.out
    assert not any(word in told.out + told.err for word in OWN)
    written = yaml.safe_load((tmp_path / "multirun.yaml").read_text())["hydra"]["overrides"]
    assert written["hydra"] == ["hydra.mode=MULTIRUN"]  # Hydra's own word for the flag
    assert sorted(written["task"]) == sorted([*(one for one in arguments if "=" in one), *more, f"output={tmp_path}"])
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        f"pwan.refinement=none_pwan.stages=0_pwan.steps=0_pwan.warmup=0_outlier_ratio={ratio}_points=20"
        for ratio in (0.2, 0.4)
    }
