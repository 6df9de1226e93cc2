"""Columns of two files that the match respects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pwan.begin.start import Start
from pwan.scans import ScanSettings, registering
from pwan.scans.attributes import names_of
from pwan.scans.pair import read_pair
from pwan.scans.registering import register_pair

TURN = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
QUICK: dict[str, Any] = {"steps": 3, "stages": 0, "warmup": 2, "width": 8, "features": 8, "rank": 10}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a.csv and b.csv with normals, heat, a part as text, its number, and what can be neither."""
    place, draw = tmp_path_factory.mktemp("attributes"), np.random.default_rng(0)
    for name, count in (("a", 70), ("b", 60)):
        points = draw.normal(size=(count, 3))
        table = pd.DataFrame(points, columns=["x", "y", "z"])
        table[["nx", "ny", "nz"]] = points / np.linalg.norm(points, axis=1, keepdims=True)
        table["heat"] = draw.normal(size=count)
        table["part"] = np.where(points[:, 0] > 0, "left", "right")
        table["number"] = (points[:, 0] > 0).astype(int)
        table["torn"] = np.where(np.arange(count) == 4, np.nan, 1.0)
        if name == "a":
            table["alone"] = 1.0
        table.to_csv(place / f"{name}.csv", index=False)
    return place


def settings(folder: Path, **given: Any) -> ScanSettings:
    return ScanSettings(
        source=str(folder / "a.csv"), reference=str(folder / "b.csv"), output=str(folder / "out"), **given
    )


@pytest.mark.parametrize("given", ["nx,ny", "[nx, ny]", "['nx', 'ny']", ' [ "nx" , ny ] '])
def test_names_are_a_list_of_any_spelling(given: str) -> None:
    assert names_of(given) == ["nx", "ny"] and names_of(None) == []


def test_columns_become_attributes_of_the_registered_points(folder: Path) -> None:
    pair = read_pair(settings(folder, attributes="[heat,nx,ny,nz]", labels="part,number"))
    assert pair.attributes is not None and len(pair.source) == 70
    for of_set, points in zip(pair.attributes, (pair.source, pair.reference), strict=True):
        assert list(of_set) == ["normals", "heat", "part", "number"]
        np.testing.assert_allclose(of_set["normals"], points / np.linalg.norm(points, axis=1, keepdims=True), atol=1e-9)
        assert of_set["heat"].shape == (len(points), 1) and set(of_set["part"]) == {"left", "right"}
        np.testing.assert_array_equal(of_set["number"], points[:, 0] > 0)
    assert "the match respects heat, nx, ny, nz, part, number of both files, with a weight of" in pair.notes[-1]
    named = read_pair(settings(folder, attributes="normals", attribute_weight=0.25))
    assert named.attributes is not None and list(named.attributes[0]) == ["normals"]
    assert named.notes[-1].endswith("with a weight of 0.25")
    assert read_pair(settings(folder)).attributes is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attributes": "alone"}, r"b.csv has no column 'alone'; it has nx, ny, nz, heat, part, number, torn"),
        ({"labels": "parts"}, r"a.csv has no column 'parts' \(did you mean 'part'\?\); it has nx"),
        ({"attributes": "part"}, r"'part' of .*a.csv holds text, such as '(left|right)'; name it in labels="),
        ({"labels": "heat"}, "'heat' of .*a.csv holds .*; expected whole numbers or text as labels"),
        ({"attributes": "torn"}, r"'torn' of .*a.csv must be finite, but 1 points have none \(the first is point 4\)"),
        ({"labels": "part", "attribute_weight": 0.0}, "attribute_weight must be positive"),
        ({"attribute_weight": 0.1}, "attribute_weight is given without attributes"),
        ({"labels": "part", "sample": 50}, "sample= draws others"),
        ({"labels": "part", "method": "cpd"}, "method cpd sees nothing but the points' places"),
    ],
    ids=str,
)
def test_a_column_that_cannot_be_used_is_refused_in_a_sentence(folder: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_pair(settings(folder, **given))


def test_normals_begin_turned_as_the_source_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(folder, attributes="nx,ny,nz", labels="part", mass=50.0)
    pair, start = read_pair(chosen), Start(2.0, TURN, np.ones(3), 1.0, 1.0, True, "")
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(registering, "register", lambda *_, **more: given.append(more))
    for begin in (None, start):
        registering._run(chosen, pair, begin, pair.source, None, 50.0, None, None)
    assert pair.attributes is not None
    np.testing.assert_allclose(given[1]["source_attributes"]["normals"], pair.attributes[0]["normals"] @ TURN)
    assert given[0]["source_attributes"] is pair.attributes[0]
    assert given[1]["source_attributes"]["part"] is pair.attributes[0]["part"]
    assert given[1]["reference_attributes"] is pair.attributes[1]


def test_the_verdict_says_how_many_lie_nearest_to_another_label(folder: Path) -> None:
    chosen = settings(folder, labels="part", init="none", mass=60.0, method_settings=QUICK)
    right = register_pair(chosen, pair := read_pair(chosen), tell=lambda _: None)
    share = right.measured.mislabelled
    assert share is not None and share < 0.3
    assert f"{share:.0%} of the matched points lie nearest to a point with another label" in "; ".join(
        (*right.verdict.sentences, *right.verdict.warnings)
    )
    assert pair.attributes is not None
    swapped = {"part": np.where(pair.attributes[1]["part"] == "left", "right", "left")}
    wrong = register_pair(chosen, replace(pair, attributes=(pair.attributes[0], swapped)), tell=lambda _: None)
    assert wrong.measured.mislabelled is not None and wrong.measured.mislabelled > 0.5
    assert any("with another label" in sentence for sentence in wrong.verdict.warnings)
