from __future__ import annotations

from dataclasses import replace

import pytest

from pwan.scans.pair import stem, suffixes
from pwan.scans.verdict import Measured, judge, settled

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


def test_a_good_fit_is_trusted_and_told_in_numbers():
    verdict = judge(GOOD)
    assert verdict.trusted and verdict.warnings == ()
    assert "80% of the source's points are matched" in verdict.sentences and "it has converged" in verdict.sentences


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"failed": "diverged"}, "the registration failed: diverged"),
        ({"residual": 0.05}, "5 spacings from the reference"),
        ({"of_smaller": 0.1}, "only 10% of the smaller set has partners"),
        ({"folded": 0.2}, "folds at 20.0% of the points"),
        ({"settled": False}, "still changing at the end"),
        ({"at_bound": True, "tail": 0.5}, "all of the smaller set was matched"),
    ],
)
def test_what_is_not_to_be_trusted_is_said(changed, word):
    verdict = judge(replace(GOOD, **changed))
    assert not verdict.trusted and any(word in warning for warning in verdict.warnings)


def test_little_folding_and_a_loose_fit_are_mentioned_only():
    verdict = judge(replace(GOOD, folded=0.005, residual=0.02))
    assert verdict.trusted and "that is a loose fit" in verdict.sentences
    assert any("0.5%" in sentence for sentence in verdict.sentences)


def test_settled_by_hand():
    assert settled([1.0] * 100) is True
    assert settled([2.0 - 0.02 * k for k in range(100)]) is False
    assert settled([1.0] * 20) is None


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("a.ply", ("a", ".ply")),
        ("b.c.xyz.gz", ("b.c", ".xyz.gz")),
        ("scan", ("scan", "")),
        (".hidden", (".hidden", "")),
    ],
)
def test_names_of_files(tmp_path, path, parts):
    assert (stem(tmp_path / path), suffixes(tmp_path / path)) == parts
