from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pwan
from pwan.many import registering, shape_model
from pwan.many.registering import ROUNDS, in_rounds, moved_by, nearest_places, register_many
from tests.many.scanned import QUICK, family, shuffled

TEMPLATE, SHAPES = family(3)
SCANS, ROWS = shuffled(SHAPES)


@pytest.fixture(scope="module")
def found() -> registering.Corresponded:
    return register_many(TEMPLATE, SCANS, names=["a", "b", "c"], init="none", **QUICK)


def test_all_scans_come_into_the_numbering_of_the_template(found):
    assert found.points.shape == SHAPES.shape and found.names == ("a", "b", "c") and not found.failed
    before = np.linalg.norm(TEMPLATE - SHAPES, axis=2).mean(1)
    after = np.linalg.norm(found.points - SHAPES, axis=2).mean(1)
    assert (after < 0.05).all() and after.mean() < before.mean()
    for result, points in zip(found.results, found.points, strict=True):
        np.testing.assert_array_equal(result.transformed, points)
    assert found.confidence.shape == (3,) and ((found.confidence >= 0) & (found.confidence <= 1)).all()
    assert set(found.warnings) <= {"a", "b", "c"}


def test_their_model_is_that_of_their_points(found):
    plain = shape_model(found.points, found.names)
    np.testing.assert_array_equal(found.model.mean, plain.mean)
    assert found.model.names == found.names and found.rounds == 1
    assert repr(found).startswith("Corresponded: 3 scans, 60 points each\n  ShapeModel: 3 shapes of 60 points")


def test_scans_move_onto_the_template_and_its_points_take_their_old_places():
    found = register_many(TEMPLATE, SCANS, moves="scans", init="none", **QUICK)
    for points, scan, result in zip(found.points, SCANS, found.results, strict=True):
        np.testing.assert_array_equal(points, nearest_places(TEMPLATE, result.transformed, scan))
        assert {tuple(row) for row in points} <= {tuple(row) for row in scan}
    assert np.linalg.norm(found.points - SHAPES, axis=2).mean() < 0.1


def test_the_nearest_moved_point_leads_back_to_its_place():
    original = np.array([[0.0, 0], [1, 0], [2, 0]])
    places = nearest_places(np.array([[10.1, 0], [12.2, 0], [11.8, 0]]), original + [10, 0], original)
    np.testing.assert_array_equal(places, [[0, 0], [2, 0], [2, 0]])


def test_one_that_fails_does_not_end_the_rest(monkeypatch):
    right = registering.register

    def some(source: Any, reference: Any, **options: Any) -> Any:
        if len(reference) < 60:
            raise ValueError("this one is wrong")
        return right(source, reference, **options)

    monkeypatch.setattr(registering, "register", some)
    found = register_many(TEMPLATE, [SCANS[0], SCANS[1][:50], SCANS[2]], names=[*"abc"], init="none", **QUICK)
    assert found.failed == {"b": "this one is wrong"} and found.warnings["b"] == ["this one is wrong"]
    assert np.isnan(found.points[1]).all() and np.isfinite(found.points[[0, 2]]).all()
    assert found.model.names == ("a", "c") and found.confidence[1] == 0 and found.results[1] is None
    with pytest.raises(ValueError, match="no scan could be registered; 0: this one is wrong"):
        register_many(TEMPLATE, [SCANS[1][:50]] * 2, init="none", **QUICK)


def test_what_register_is_called_with(monkeypatch):
    called: list[dict[str, Any]] = []

    def told(source: Any, reference: Any, **options: Any) -> Any:
        called.append({"source": source, "reference": reference, **options})
        raise ValueError("enough")

    monkeypatch.setattr(registering, "register", told)
    pairs = np.array([[0, 5, 2], [1, 6, 1], [2, 9, 1]])
    mesh = type("Mesh", (), {"vertices": TEMPLATE, "faces": np.array([[0, 1, 2]])})()
    for moves in ("template", "scans"):
        with pytest.raises(ValueError, match="enough"):
            register_many(mesh, SCANS, moves=moves, landmarks=[pairs, None, None], init="none", seed=4)
    np.testing.assert_array_equal(called[0]["source"], TEMPLATE)
    np.testing.assert_array_equal(called[0]["landmarks"], pairs)
    np.testing.assert_array_equal(called[3]["reference"], TEMPLATE)
    np.testing.assert_array_equal(called[3]["landmarks"], pairs[:, [1, 0, 2]])
    assert called[0]["source_faces"].shape == called[3]["reference_faces"].shape == (1, 3)
    assert called[1]["landmarks"] is None and {one["seed"] for one in called} == {4}


def test_landmarks_give_the_start(monkeypatch):
    called: list[np.ndarray] = []

    def told(source: Any, reference: Any, **options: Any) -> Any:
        called.append(source)
        raise ValueError("enough")

    monkeypatch.setattr(registering, "register", told)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    scans = [TEMPLATE @ turn + 3, TEMPLATE @ turn - 5]
    pairs = np.column_stack([np.arange(6)] * 2)
    with pytest.raises(ValueError, match="enough"):
        register_many(TEMPLATE, scans, landmarks=[pairs, pairs])
    np.testing.assert_allclose(called[0], scans[0], atol=1e-9)
    np.testing.assert_allclose(called[1], scans[1], atol=1e-9)


def test_the_mean_is_registered_until_it_stays():
    names, seen = ["a", "b", "c"], []

    def match(model: Any) -> list[np.ndarray | None]:
        seen.append(model)
        return list(SHAPES) if len(seen) > 1 else [TEMPLATE, *SHAPES[1:]]

    points, model, rounds = in_rounds(match, names, "mean", False)
    assert rounds == len(seen) == 3 and seen[0] is None  # the second differs from the first, the third does not
    np.testing.assert_allclose(seen[2].mean, shape_model(SHAPES).mean, atol=1e-12)
    np.testing.assert_array_equal(np.stack(points), SHAPES)
    assert moved_by(seen[1].mean, model.mean) > 0
    seen.clear()
    assert in_rounds(match, names, "template", False)[2] == len(seen) == 1
    seen.clear()
    drifting = in_rounds(
        lambda model: [shape * [1, 1.1 ** len(seen), 1] for shape in match(model)], names, "mean", False
    )
    assert drifting[2] == len(seen) == ROUNDS


def test_a_mean_that_only_turns_or_shifts_stays():
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    assert moved_by(TEMPLATE, TEMPLATE @ turn + 4) == pytest.approx(0, abs=1e-12)
    assert moved_by(TEMPLATE, TEMPLATE * 1.1) == pytest.approx(0.1)


def test_the_second_round_begins_where_the_scan_lies(monkeypatch):
    sources: list[np.ndarray] = []
    right = registering.register

    def told(source: Any, reference: Any, **options: Any) -> Any:
        sources.append(source)
        return right(source, reference, **options)

    monkeypatch.setattr(registering, "register", told)
    monkeypatch.setattr(registering, "STAYS", 1.0)
    shifted = [scan + 10 * k for k, scan in enumerate(SCANS)]
    places = [TEMPLATE + 10 * k for k in range(3)]
    pairs = [np.column_stack((np.arange(60), rows)) for rows in ROWS]
    found = register_many(TEMPLATE, shifted, to="mean", landmarks=pairs, **QUICK, pull=0)
    assert found.rounds == 2 and len(sources) == 6
    for k in range(3):
        np.testing.assert_allclose(sources[3 + k].mean(0), found.points[k].mean(0), atol=0.1)
        assert np.linalg.norm(sources[3 + k].mean(0) - places[k].mean(0)) < 0.2


@pytest.mark.parametrize(
    ("scans", "more", "says"),
    [
        (SCANS[:1], {}, "expected two scans or more, got 1; pwan.register is for one"),
        (SCANS, {"names": ["a", "a", "b"]}, "names must be 3 different ones, one for each scan, got a, a, b"),
        (
            [SCANS[0], SCANS[1][:, :2]],
            {},
            "the template is in 3-D, but not scan 1; expected as many coordinates in all",
        ),
        (SCANS, {"to": "men"}, "to must be 'template' or 'mean', got 'men'"),
        (SCANS, {"moves": "both"}, "moves must be 'template' or 'scans', got 'both'"),
        (SCANS, {"init": "some"}, "init must be 'auto' or 'none', got 'some'"),
        (SCANS, {"landmarks": [None]}, "landmarks must hold pairs, or None, for each of the 3 scans, got 1"),
        (SCANS, {"landmarks": [np.zeros((3, 6)), None, None]}, r"must be \(L, 2\).* got an array of shape \(3, 6\)"),
        ([SCANS[0], SHAPES], {}, r"scans\[1\] must be one set of points \(N, D\), got \(3, 60, 3\)"),
        (SCANS, {"stepz": 3}, r"^neither register nor method pwan has 'stepz' \(did you mean 'steps'\?\)"),
    ],
)
def test_bad_input_is_one_sentence(scans, more, says):
    with pytest.raises(ValueError, match=says):
        register_many(TEMPLATE, scans, **more)


def test_it_is_offered_at_the_front_door():
    assert pwan.register_many is register_many and pwan.shape_model is shape_model


def test_a_transform_leads_the_whole_way_from_where_the_set_was_given():
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    scans = [scan @ turn + [5.0, 0, 0] for scan in SCANS[:2]]
    pairs = [np.column_stack((np.arange(60), rows)) for rows in ROWS[:2]]
    found = register_many(TEMPLATE, scans, landmarks=pairs, **QUICK)
    for result, transform, points in zip(found.results, found.transforms, found.points, strict=True):
        np.testing.assert_allclose(transform(TEMPLATE), points, atol=1e-6)
        np.testing.assert_allclose(result.transform(result.source), points, atol=1e-6)
    back = register_many(TEMPLATE, scans, moves="scans", landmarks=pairs, **QUICK)
    for result, transform, scan in zip(back.results, back.transforms, scans, strict=True):
        np.testing.assert_allclose(transform(scan), result.transformed, atol=1e-6)
    assert register_many(TEMPLATE, SCANS, to="mean", init="none", **QUICK).transforms == (None,) * 3


def test_a_scan_that_failed_meets_the_mean_where_the_template_lies(monkeypatch):
    right, sources = registering.register, []

    def some(source: Any, reference: Any, **options: Any) -> Any:
        sources.append(source)
        if len(sources) == 2:
            raise ValueError("this one is wrong at first")
        return right(source, reference, **options)

    monkeypatch.setattr(registering, "register", some)
    monkeypatch.setattr(registering, "STAYS", 1.0)
    far = np.array([100.0, 90.0, 80.0])
    found = register_many(
        TEMPLATE + far, [scan + far for scan in SCANS], names=[1, 2, 3], to="mean", init="none", **QUICK
    )
    assert found.names == ("1", "2", "3") and not found.failed
    assert np.linalg.norm(sources[4] - TEMPLATE - far, axis=1).mean() < 0.3


@pytest.mark.parametrize(("moves", "own"), [("template", "reference"), ("scans", "source")])
def test_what_is_of_one_scan_alone_is_refused(moves, own):
    for name in ("source_attributes", "reference_attributes", f"{own}_weights", f"{own}_faces"):
        with pytest.raises(ValueError, match=f"register_many has one {name} for all sets"):
            register_many(TEMPLATE, SCANS, moves=moves, **{name: np.ones((60, 3))})
