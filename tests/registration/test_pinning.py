"""Landmarks pinned: they end together, by a correction that is small, smooth and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pwan import register, shapes
from pwan.deformation.space import SpaceTransform
from pwan.problem import OK
from pwan.registration.pinning import GENTLE, Pinning
from pwan.trust.verdict import LandmarkResidual, Measured, judge

POINTS = shapes.load("bunny").points[:200]
OFF = POINTS[:200:50] + np.random.default_rng(1).normal(size=(4, 3)) * 0.05  # positions off the points
# nothing moves before the pinning, so that what it does has a closed form
STILL: dict[str, Any] = {
    "pull": 0.0,
    "steps": 0,
    "stages": 0,
    "refinement": "none",
    "normalisation": "joint",
    "warmup": 0,
}
TINY = 1e-12


def pinned(landmarks: Any, **options: Any) -> Any:
    return register(POINTS, POINTS, landmarks=landmarks, pinned=True, **{**STILL, **options})


@pytest.mark.parametrize("transform", ["rigid", "affine", "nonrigid"])
def test_landmarks_at_positions_end_together_and_far_points_stay(transform: Any) -> None:
    goals = OFF + np.array([[0.02, 0, 0], [0, 0.02, 0], [0, 0, 0.02], [-0.02, 0, 0]])
    result = pinned((OFF, goals), transform=transform)
    np.testing.assert_allclose(result.transform(OFF), goals, atol=TINY)
    np.testing.assert_allclose(result.transform(POINTS), result.transformed, atol=TINY)
    bent = result.pinned
    np.testing.assert_allclose(bent.before, 0.02, atol=1e-6)
    assert 0.02 <= bent.largest + 1e-6 < 0.025 and 0 < bent.stretch <= GENTLE and bent.folded == 0
    moved = np.linalg.norm(result.transformed - POINTS, axis=1)
    far = np.linalg.norm(POINTS[:, None] - OFF[None], axis=2).min(1) > 4 * bent.width
    assert moved[far].max(initial=0.0) < 1e-4 and moved.max() < 0.025
    np.testing.assert_allclose(POINTS @ result.affine + result.translation + result.displacement, result.transformed)


def test_rows_end_together_too_and_a_weight_of_zero_is_not_pinned() -> None:
    result = pinned([[0, 1, 1.0], [50, 51, 2.0], [100, 60, 0.0]], method="pwan", transform="rigid")
    np.testing.assert_allclose(result.transformed[[0, 50]], POINTS[[1, 51]], atol=TINY)
    assert len(result.pinned.before) == 2 and np.linalg.norm(result.transformed[100] - POINTS[60]) > 0.1


def test_nothing_changes_where_they_are_together_already() -> None:
    result = pinned((OFF, OFF), transform="rigid")
    np.testing.assert_allclose(result.transformed, POINTS, atol=TINY)
    np.testing.assert_allclose(result.displacement, 0.0, atol=TINY)
    assert result.pinned.width == result.pinned.largest == 0.0 and max(result.pinned.before) < TINY
    assert result.transform.to_dict()["displacement"] is None


def test_a_real_registration_ends_with_them_together(tmp_path: Path) -> None:
    goals = OFF + [0.1, 0.05, 0.0]
    result = register(
        POINTS, POINTS + [0.1, 0.05, 0.0], landmarks=(OFF, goals + 0.01), pinned=True, steps=10, stages=0, rank=40
    )
    assert result.status == OK and result.matched.all()
    np.testing.assert_allclose(result.transform(OFF), goals + 0.01, atol=TINY)
    result.transform.save(tmp_path / "a.pwan")
    kept = SpaceTransform.load(tmp_path / "a.pwan")
    np.testing.assert_array_equal(kept(OFF), result.transform(OFF))
    told = kept.to_dict()["displacement"]
    assert told["pinned_width"] == pytest.approx(result.pinned.width) and told["kernel"] == "gaussian"
    step = 1e-6 * np.eye(3)
    slopes = np.stack([(kept(OFF + one) - kept(OFF - one)) / 2e-6 for one in step], 1)
    np.testing.assert_allclose(kept.jacobians(OFF), slopes, atol=1e-6)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    before = (OFF - [1.0, 2.0, 3.0]) @ turn.T / 2
    np.testing.assert_allclose(kept.after(2.0, turn, [1.0, 2.0, 3.0])(before), kept(OFF), atol=1e-9)


@pytest.mark.parametrize("options", [{"kernel": "geodesic"}, {"method": "soft_assignment", "steps": 4}])
def test_they_are_pinned_behind_any_transform_of_space(options: dict[str, Any]) -> None:
    given = options if "method" in options else {**STILL, **options}
    result = register(POINTS, POINTS, landmarks=(OFF, OFF + 0.02), pinned=True, rank=40, **given)
    np.testing.assert_allclose(result.transform(OFF), OFF + 0.02, atol=TINY)


def test_a_batch_pins_each_problem_by_its_own() -> None:
    both = np.stack((POINTS, POINTS, POINTS))
    result = register(both, both, landmarks=[(OFF, OFF + 0.02), None, [[3, 4]]], pinned=True, **STILL)
    np.testing.assert_allclose(result.transform[0](OFF), OFF + 0.02, atol=TINY)
    np.testing.assert_allclose(result.transformed[2, 3], POINTS[4], atol=TINY)
    assert result.pinned[1] is None and [len(result.pinned[k].before) for k in (0, 2)] == [4, 1]
    np.testing.assert_allclose(result.transformed[1], POINTS, atol=1e-4)


def test_near_landmarks_that_contradict_each_other_fold_and_are_warned_of() -> None:
    places = np.stack((POINTS[0], POINTS[0] + [0.01, 0, 0]))
    result = pinned((places, places[::-1]), transform="rigid")
    np.testing.assert_allclose(result.transform(places), places[::-1], atol=1e-7)
    assert result.pinned.folded > 0
    assert any("pinning the landmarks folds the map" in warning for warning in result.warnings)
    wrong = pinned([[0, 100], [50, 50]], transform="rigid")
    assert any("pinning the landmarks" in warning for warning in wrong.warnings)


def test_one_place_that_belongs_to_two_is_refused_and_one_told_twice_is_not() -> None:
    with pytest.raises(ValueError, match="landmarks 0 and 1 begin at one place .* cannot both be pinned"):
        pinned([[3, 4], [3, 9]])
    result = pinned((OFF[[0, 0]], OFF[[0, 0]] + 0.01), transform="rigid")
    np.testing.assert_allclose(result.transform(OFF[:1]), OFF[:1] + 0.01, atol=TINY)


def test_without_landmarks_or_a_transform_of_space_it_is_refused() -> None:
    with pytest.raises(ValueError, match="pinned=True brings landmarks together, and there are none"):
        pinned(None)
    with pytest.raises(ValueError, match="pinned=True needs a transform of all of space"):
        register(POINTS, POINTS, landmarks=[[0, 1]], pinned=True, method="pwan_paper")


GOOD: dict[str, Any] = {
    "failed": "",
    "matched": 1.0,
    "of_smaller": 1.0,
    "residual": 0.005,
    "tail": 0.02,
    "spacing": 0.01,
    "folded": 0.0,
    "settled": True,
    "at_bound": False,
}


def test_the_verdict_says_what_it_bent() -> None:
    small = judge(Measured(**GOOD, pinned=Pinning((0.005, 0.002), 0.005, 0.3, np.log(1.04))))
    assert small.trusted and any(
        "pinning the 2 landmarks moved points by up to 0.005, 0.5 times the spacing" in said
        and said.endswith("lengths between neighbours by up to 4%")
        for said in small.sentences
    )
    (large,) = judge(Measured(**GOOD, pinned=Pinning((0.5,), 0.5, 0.3, 0.2))).warnings
    assert large.startswith("pinning the landmarks bent much: is one of them wrong")
    assert "(number 0 of those pinned was the farthest until then, 0.5)" in large
    each = LandmarkResidual(2, 0.0, 0.0, "chin", (("chin", 0.0), ("nose", 0.0)))
    (large,) = judge(Measured(**GOOD, landmarks=each, pinned=Pinning((0.1, 0.5), 0.5, 0.3, 0.2))).warnings
    assert "(nose was the farthest until then, 0.5)" in large
    (folds,) = judge(Measured(**GOOD, pinned=Pinning((0.005,), 0.005, 0.001, 2.0, 3))).warnings
    assert folds.startswith("pinning the landmarks folds the map at 3 of the places around them")
    nothing = judge(Measured(**GOOD, pinned=Pinning((0.0,))))
    assert "the landmarks were together already: pinning them moved nothing" in nothing.sentences


def test_a_mesh_that_repeats_its_vertices_is_pinned() -> None:
    twice = np.repeat(POINTS[:60], 2, axis=0)
    result = register(twice, twice, landmarks=[[0, 5]], pinned=True, transform="rigid", **STILL)
    np.testing.assert_allclose(result.transformed[0], twice[5], atol=TINY)
    assert result.pinned.width > 0
