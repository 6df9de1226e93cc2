from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pwan.app.own_scans import parse
from pwan.begin.estimate import Limits
from pwan.begin.start import Start
from pwan.scans import again as again_module
from pwan.scans.again import better, command
from pwan.scans.pair import read_pair
from pwan.scans.settings import ScanSettings
from pwan.trust.left import Left

NOTHING, MUCH = Left(np.zeros(30), 0.0), Left(np.full(30, 9.0), 0.2, 1.0, 7, (0.0, 0.0, 0.0), 1.0)
LIMITS = Limits(mass=20.0, distance=0.1, overlap=0.7, spacing=0.1, little=False, reason="")


@pytest.fixture
def settings(tmp_path: Path) -> ScanSettings:
    """Of two files, the reference with a point that is dropped."""
    points = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "a b.npy", points)
    np.save(tmp_path / "b.npy", np.concatenate([np.full((1, 3), np.nan), points + 0.1]))
    return ScanSettings(str(tmp_path / "a b.npy"), str(tmp_path / "b.npy"), drop_invalid=True)


def found(settings: ScanSettings, left: tuple[Left, Left], *, start=None, limits=None, mass=None, trusted=True):
    return better(settings, read_pair(settings), start, limits, mass, left, trusted)


def parsed(line: str) -> ScanSettings:
    words = shlex.split(line)
    begins = ["pwan", "register"] if again_module.INSTALLED else ["python", "run.py", "task=register"]
    assert words[: len(begins)] == begins
    return parse(words[len(begins) :])


@pytest.fixture(autouse=True, params=[False, True])
def installed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The command is spelt as people have it: in a clone, and where the package is installed."""
    monkeypatch.setattr(again_module, "INSTALLED", request.param)


def start(changed: bool, shift: float = 0.0) -> Start:
    return Start(1.0, np.eye(3), np.full(3, shift), 1.0, 1.0, changed, "")


def test_where_nothing_is_left_and_all_is_well_there_is_no_command(settings):
    assert found(settings, (NOTHING, NOTHING), start=start(True), limits=LIMITS, mass=20.0) is None
    assert found(settings, (MUCH, NOTHING), mass=30.0) is None  # the reference shows a part of the source


def test_an_estimate_that_left_parts_out_of_both_is_answered_with_all_points(settings):
    again = found(settings, (MUCH, MUCH), limits=LIMITS, mass=20.0)
    assert parsed(again.command) == replace(settings, mass=30, output="registered_all")
    assert found(settings, (MUCH, MUCH), limits=LIMITS, mass=20.0, trusted=False) == again
    assert "mass=" not in found(settings, (MUCH, MUCH), mass=20.0).command  # it was given
    assert "mass=" not in found(settings, (MUCH, MUCH), limits=LIMITS, mass=30.0).command  # it is all already


def test_all_points_are_as_many_as_the_reference_holds(settings):
    pair = read_pair(settings)
    pair = replace(pair, reference=pair.reference[:25])
    again = better(settings, pair, None, LIMITS, 20.0, (MUCH, MUCH), True)
    assert parsed(again.command).mass == 25


def test_sets_with_too_little_in_common_are_not_forced_onto_each_other(settings):
    little = replace(LIMITS, little=True)
    assert "mass=" not in found(settings, (MUCH, MUCH), limits=little, mass=20.0, trusted=False).command


def test_a_limb_left_behind_is_answered_with_landmarks_by_numbers_in_the_file(settings):
    again = found(settings, (NOTHING, MUCH), mass=30.0)
    assert parsed(again.command) == replace(settings, landmarks="landmarks.csv", output="registered_landmarks")
    assert "SOURCE,8 " in again.when  # row 7 behind a dropped point
    assert "SOURCE" not in found(settings, (MUCH, NOTHING), mass=30.0, trusted=False).when
    no_landmarks = replace(settings, method="cpd")
    assert found(no_landmarks, (NOTHING, MUCH)) is None


@pytest.mark.parametrize(
    ("changed", "doubted"),
    [
        ({}, True),
        ({"trusted": True}, False),
        ({"start": start(False)}, False),
        ({"init": "none"}, False),
        ({"shift": 9.0}, False),  # they did not lie on each other
    ],
)
def test_a_start_that_moved_sets_which_lay_on_each_other_is_doubted(settings, changed, doubted):
    settings = replace(settings, init=changed.get("init", "auto"))
    pair = read_pair(settings)
    pair = replace(pair, source=pair.source + changed.get("shift", 0.0))
    begun, trusted = changed.get("start", start(True)), changed.get("trusted", False)
    again = better(settings, pair, begun, LIMITS, 20.0, (NOTHING, NOTHING), trusted)
    assert (again is not None) == doubted
    if again is not None:
        assert parsed(again.command) == replace(settings, init="none", output="registered_as_given")


def test_the_command_says_all_that_was_set():
    settings = ScanSettings(
        "-odd 'name.ply",
        "b.csv",
        output="out put/",
        mass=3.5,
        scale=True,
        columns="2,3,4",
        seed=4,
        method_settings={"steps": 40, "energy": "rigid", "betas": [0.5, 0.9], "coherence": 1e-5},
    )
    assert parsed(command(settings)) == settings
    assert "mass=400 " in command(replace(settings, mass=400.0))


@pytest.mark.parametrize(
    ("output", "other"), [("out", "out_all"), ("a/out/", "a/out_all"), (".", "all"), ("/x", "/x_all")]
)
def test_results_go_beside_the_earlier_ones(settings, output, other):
    again = found(replace(settings, output=output, overwrite=True), (MUCH, MUCH), limits=LIMITS, mass=20.0)
    assert (parsed(again.command).output, parsed(again.command).overwrite) == (other, False)
