"""What tells right from wrong: closed forms, and signs that no change of units moves."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import pwan
from pwan.registration.flexibility import measure_fit
from pwan.trust.confidence import WEIGHTS, confidence, reasons
from pwan.trust.signs import Signs, signs


def found(source: np.ndarray, moved: np.ndarray, reference: np.ndarray) -> Signs:
    matched, staying = np.ones(len(source), dtype=bool), np.ones(len(reference), dtype=bool)
    return signs(source, moved, reference, matched, staying, measure_fit(source, moved, reference, len(source)))


def strip(n: int, seed: int = 0) -> np.ndarray:
    """A long strip in the plane z = 0."""
    return np.random.default_rng(seed).uniform(0, 1, (n, 3)) * [4.0, 1.0, 0.0]


def folded(points: np.ndarray) -> np.ndarray:
    """The strip with its right half laid back onto its left half."""
    return np.where(points[:, :1] > 2, [[4.0, 0.0, 0.02]] + points * [-1.0, 1.0, 1.0], points)


def test_a_set_on_itself_shows_no_sign() -> None:
    points = strip(400)
    none = asdict(found(points, points, points))
    assert none.pop("few") == pytest.approx(1 / 20)
    assert none == dict.fromkeys(none, pytest.approx(0.0, abs=1e-6))


@pytest.mark.parametrize("d", [2, 3])
def test_units_do_not_matter(d: int) -> None:
    generator = np.random.default_rng(1)
    source, moved, reference = (generator.uniform(size=(n, d)) for n in (150, 150, 170))
    once, other = found(source, moved, reference), found(1000 * source, 0.01 * moved, 0.01 * reference)
    assert asdict(once) == pytest.approx(asdict(other), rel=1e-6)


def test_parts_that_were_apart_and_now_lie_on_each_other_are_told() -> None:
    source = strip(500)
    sign = found(source, folded(source), strip(250, 1) * [0.5, 1.0, 1.0])
    assert sign.merged > 0.5
    assert found(source, source, strip(500, 1)).merged == 0


def test_another_plane_is_tilted() -> None:
    points = strip(400)
    turned = points[:, [0, 2, 1]]  # upright on the line where both meet
    assert found(points, points, turned).tilt == pytest.approx(1.0, abs=1e-3)


def test_independent_draws_lie_on_each_others_surface() -> None:
    """Their points are a spacing apart, and their surfaces are not; a sheet that floats above shows both."""
    source, reference = strip(600), strip(600, 1)
    near, above = found(source, source, reference), found(source, source + [0.0, 0.0, 0.2], reference)
    assert near.loose == pytest.approx(1.0, abs=0.2) and near.off < 0.02
    assert above.off > 3 and above.loose > 3 and above.tilt < 0.02


def test_what_has_no_partner_and_few_points_are_counted() -> None:
    source, reference = strip(100), strip(400, 1)
    matched = np.arange(100) < 64
    fit = measure_fit(source, source, reference, 64)
    sign = signs(source, source, reference, matched, matched[:1].repeat(400), fit)
    assert sign.unmatched == pytest.approx(0.36) and sign.few == pytest.approx(1 / 8)


def test_no_sign_of_doubt_makes_anything_surer() -> None:
    usual = found(strip(400), strip(400, 1), strip(400, 2))
    assert all(of.weight >= 0 for of in WEIGHTS.values()) and set(WEIGHTS) == set(asdict(usual))
    for name in WEIGHTS:
        assert confidence(replace(usual, **{name: getattr(usual, name) + 0.1})) <= confidence(usual)


def test_reasons_are_told_in_words_the_strongest_first() -> None:
    right = Signs(loose=0.8, off=0.3, stretch=0.1, tilt=0.02, merged=0.0, unmatched=0.0, few=0.05)
    assert reasons(right) == ()
    torn = replace(right, stretch=0.9)
    said = (
        "at one place in twenty neighbours came apart or together by more than 146.0% (usual when right: up to 32.3%)"
    )
    assert reasons(torn) == (said,)
    few = reasons(replace(right, few=0.5, unmatched=0.4))
    assert few[0] == "few points are matched: 4 (usual when right: from 59)"
    assert few[1] == "without a partner is of the smaller set 40.0% (usual when right: up to 30.0%)"
    assert reasons(replace(right, few=0.13001)) == ()  # what reads the same is no reason
    assert confidence(torn) < 0.5 < confidence(right)


def test_results_in_a_loop_can_be_sorted() -> None:
    """One number and the warnings for each problem of a batch, and for a single one the entry itself."""
    reference = np.random.default_rng(0).normal(size=(120, 3)) * [1.0, 2.0, 3.0]
    source = np.stack((reference[:100], 5 * np.random.default_rng(1).normal(size=(100, 3))))
    result = pwan.register(source, np.stack((reference, reference)), steps=10, stages=1)
    assert len(result.confidence) == len(result.warnings) == 2
    assert result.confidence[0] > result.confidence[1] and all(0 <= value <= 1 for value in result.confidence)
    single = pwan.register(source[0], reference, steps=10, stages=1)
    assert isinstance(single.confidence, float) and isinstance(single.warnings, tuple)


STILL: dict[str, Any] = {"steps": 0, "stages": 0, "refinement": "none", "normalisation": "joint", "warmup": 0}


@pytest.mark.parametrize("weight", [1 / 150, 5.0])
def test_what_the_points_weigh_in_all_changes_no_verdict(weight: float) -> None:
    points = np.random.default_rng(0).normal(size=(150, 3))
    weights = {f"{side}_weights": np.full(150, weight) for side in ("source", "reference")}
    for mass in (150, 30):
        counted = pwan.register(points, points, mass=mass, **STILL)
        weighed = pwan.register(points, points, mass=mass * weight, **weights, **STILL)
        assert counted.warnings == weighed.warnings and counted.confidence == pytest.approx(weighed.confidence)
        assert ("only 20% of the smaller set has partners: too little to go by" in weighed.warnings) == (mass == 30)


def test_within_a_distance_the_set_with_fewer_matched_points_tells_how_much_is_matched() -> None:
    """A dense patch on a quarter of a sparse sheet: all of the patch has partners, a quarter of the sheet."""

    def sheet(side: int, width: float) -> np.ndarray:
        x, y = (of.ravel() for of in np.meshgrid(*[np.linspace(0, width, side)] * 2))
        return np.stack((x, y, 0.1 * np.sin(3 * x)), -1)

    patch, whole = sheet(14, 1.0), sheet(12, 2.2)
    for source, reference in ((patch, whole), (whole, patch)):
        result = pwan.register(source, reference, distance=0.15, **STILL)
        assert {int(result.matched.sum()), int(result.reference_matched.sum())} == {196, 36}
        assert result.warnings[0] == "only 25% of the smaller set has partners: too little to go by"
        assert not any("a part was left behind" in words for words in result.warnings)
        assert result.confidence < 0.96
