from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pwan.registration.flexibility import Fit
from pwan.scans.folder import stem, suffixes
from pwan.trust.signs import Signs
from pwan.trust.verdict import Measured, judge, settled, unevenness

GOOD = Measured(
    failed="",
    matched=0.8,
    of_smaller=0.9,
    residual=0.01,
    tail=0.02,
    spacing=0.01,
    folded=0.0,
    settled=True,
    at_bound=False,
)


USUAL = Signs(loose=0.8, off=0.3, stretch=0.1, tilt=0.02, merged=0.0, unmatched=0.0, few=0.05)


def test_a_good_fit_is_trusted_and_told_in_numbers():
    verdict = judge(GOOD)
    assert verdict.trusted and verdict.warnings == ()
    assert "80% of the source's points are matched" in verdict.sentences and "it has converged" in verdict.sentences


def test_a_turn_that_the_shapes_do_not_determine_is_doubted():
    assert "not determined by the shapes" in judge(replace(GOOD, turn_open=True)).warnings[0]


def test_what_both_sets_leave_is_doubted():
    """Arms that were left out of both by an estimate, while the rest fits."""
    assert judge(replace(GOOD, beyond=(0.5, 0.1))).trusted  # a part onto a whole
    assert "in both sets 25% or more lie far" in judge(replace(GOOD, beyond=(0.25, 0.27))).warnings[0]


def test_what_had_not_settled_is_no_warning_beside_a_high_confidence() -> None:
    moving = replace(GOOD, settled=False)
    assert "still changing" in judge(moving).warnings[0]
    assert "still changing" in judge(replace(moving, signs=USUAL, confidence=0.7)).warnings[0]
    sure = judge(replace(moving, signs=USUAL, confidence=0.93))
    assert sure.trusted and any("method.steps=" in sentence for sentence in sure.sentences)


def test_thirty_points_are_too_few_to_judge_by() -> None:
    few = judge(replace(GOOD, signs=replace(USUAL, few=30**-0.5), confidence=0.97))
    assert few.warnings == ("only 30 points are matched: so few fit by chance as well",)


def test_no_more_mass_is_asked_for_where_all_is_matched() -> None:
    left = replace(GOOD, fit=Fit(1.0, 9.0, 0.1), beyond=(0.25, 0.27))
    for of_smaller, asked in ((0.9, True), (1.0, False)):
        said = " ".join(judge(replace(left, of_smaller=of_smaller)).warnings)
        assert "landmarks=" in said and ("give mass=" in said) == asked


def test_below_a_stated_confidence_nothing_is_called_good():
    usual = USUAL
    sure = judge(replace(GOOD, signs=usual, confidence=0.93))
    assert sure.trusted and sure.confidence == 0.93
    assert "of registrations with such measures 93% are right" in sure.sentences
    torn = judge(replace(GOOD, signs=replace(usual, stretch=0.8), confidence=0.79))
    assert not torn.trusted
    said = "only 79% of registrations with such measures are right: at one place in twenty neighbours came apart or "
    assert f"{said}together by more than 122.6%" in torn.warnings[0]
    assert judge(replace(GOOD, failed="no number")).confidence == 0.0
    eight = judge(replace(GOOD, signs=replace(usual, few=8**-0.5), confidence=0.99))
    assert eight.warnings == ("only 8 points are matched: so few fit by chance as well",)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"failed": "diverged"}, "the registration failed: diverged"),
        ({"residual": 0.05}, "5 spacings from the reference"),
        ({"of_smaller": 0.1}, "only 10% of the smaller set has partners"),
        ({"of_smaller": 0.4, "estimated": True}, "by the estimate only 40% of the smaller set has partners"),
        ({"folded": 0.2}, "folds at 20.0% of the points"),
        ({"settled": False}, "still changing at the end"),
        ({"at_bound": True, "tail": 0.5}, "all of the smaller set was matched"),
        ({"slide_ratio": 0.25}, "brings them 4 times nearer: this one has slid"),
        ({"unevenness": 3.0}, "differs by a factor of 3 in point distances"),
    ],
)
def test_what_is_not_to_be_trusted_is_said(changed, word):
    verdict = judge(replace(GOOD, **changed))
    assert not verdict.trusted and any(word in warning for warning in verdict.warnings)


def test_a_check_of_sliding_that_finds_nothing_nearer_is_no_reason():
    assert judge(replace(GOOD, slide_ratio=0.8, unevenness=1.5)).trusted


def test_half_that_was_asked_for_is_enough():
    assert judge(replace(GOOD, of_smaller=0.4)).trusted and judge(replace(GOOD, of_smaller=0.5, estimated=True)).trusted


def grid(start: float, end: float, step: float) -> np.ndarray:
    """(N, 2) the points of a grid of this step from start to end, 0 to 10 the other way."""
    across, along = (np.arange(low, high, step) for low, high in ((start, end), (0.0, 10.0)))
    return np.stack(np.meshgrid(across, along), -1).reshape(-1, 2)


def test_unevenness_is_the_spread_of_the_ratio_of_spacings():
    even, uneven = grid(0, 20, 0.5), np.concatenate((grid(0, 10, 0.5), grid(10, 20, 0.125)))
    moved, every = even + [0.01, 0.02], np.ones(len(even), dtype=bool)
    assert unevenness(even, moved, even, every) == 1.0
    inside = (np.abs(even % 10 - 5) <= 3).all(1)  # neighbours beyond an edge are missing
    assert unevenness(even, moved, uneven, inside) == pytest.approx(4.0)
    assert unevenness(even, moved, uneven, inside & (even[:, 0] > 10)) == pytest.approx(1.0)  # of matched points only
    assert unevenness(uneven, uneven + 0.01, uneven, np.ones(len(uneven), dtype=bool)) == 1.0  # both in the same way
    assert unevenness(even, moved, uneven, inside, evened=(False, True)) == pytest.approx(1.0)  # weighted by its room
    assert unevenness(uneven, uneven, even, np.ones(len(uneven), dtype=bool), evened=(True, True)) == 1.0
    thrice = [np.repeat(points, 3, axis=0) for points in (even, moved, inside)]
    assert unevenness(*thrice[:2], uneven, thrice[2]) == pytest.approx(4.0)
    assert unevenness(even[:32], moved[:32], even[:32], every[:32]) == 1.0  # too few to tell
    assert unevenness(even, moved, uneven, ~every) == 1.0


def test_little_folding_and_a_loose_fit_are_mentioned_only():
    verdict = judge(replace(GOOD, folded=0.005, residual=0.02))
    assert verdict.trusted and "that is a loose fit" in verdict.sentences
    assert any("0.5%" in sentence for sentence in verdict.sentences)


def test_settled_by_hand():
    assert settled([1.0] * 100) is True
    assert settled([2.0 - 0.02 * k for k in range(100)]) is False
    # a fall of 0.29 in ten steps is 3% of 9.67
    assert settled([9.6] + [3.0 - 0.029 * k for k in range(99)]) is False
    assert settled([9.8] + [3.0 - 0.029 * k for k in range(99)]) is True
    assert settled([1.0] * 20) is None


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a.ply", ("a", ".ply")),
        ("b.c.xyz.gz", ("b.c", ".xyz.gz")),
        ("scan", ("scan", "")),
        (".hidden", (".hidden", "")),
        ("F.mrk.json", ("F", ".mrk.json")),
        ("F.MRK.JSON.gz", ("F", ".MRK.JSON.gz")),
        ("mrk.json", ("mrk", ".json")),
    ],
)
def test_names_of_files(tmp_path, path, parts):
    assert (stem(tmp_path / path), suffixes(tmp_path / path)) == parts
