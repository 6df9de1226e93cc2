"""Attributes at the front door: what numbers, labels and normals become, and one clear sentence for each bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pwan import methods, register
from pwan.attributes import LABELS, WEIGHT, Attributes, attributes_of, spacing_of
from pwan.problem import RegistrationProblem
from pwan.transport import partial_wasserstein

FAST: dict[str, Any] = {"steps": 4, "warmup": 3, "width": 8, "features": 8, "rank": 20, "stages": 0}
DRAW = np.random.default_rng(0)
Y, X = DRAW.normal(size=(30, 3)), DRAW.normal(size=(25, 3))
Y_LABELS, X_LABELS = np.array(["arm", "leg", "hip"])[np.arange(30) % 3], np.array(["arm", "leg"])[np.arange(25) % 2]


def of(source: Any, reference: Any, weight: Any = None) -> Attributes:
    """Attributes of the sets above."""
    found = attributes_of(source, reference, weight, *(torch.from_numpy(p)[None] for p in (Y, X)), single=True)
    assert found is not None
    return found


def distances(given: Attributes) -> np.ndarray:
    """(r, q) between the attributes alone."""
    return torch.cdist(given.source[0], given.reference[0], compute_mode="donot_use_mm_for_euclid_dist").numpy()


@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("mass", [1.0, 2.0])
def test_a_label_forbids_the_nearest_match_where_it_costs_more_than_the_way(weight: float, mass: float) -> None:
    # (0, a) and (1, b) onto (0, b) and (1, a): staying costs the weight, changing places costs 1
    hot = weight * np.sqrt(0.5) * np.eye(2)
    reference, source = np.column_stack(((0.0, 1.0), hot)), np.column_stack(((0.0, 1.0), hot[::-1]))
    result = partial_wasserstein(reference, source, mass=mass)
    assert result.value == pytest.approx(mass * min(weight, 1.0))
    if mass == 2.0 and weight != 1.0:
        np.testing.assert_allclose(result.plan, np.eye(2) if weight < 1 else np.eye(2)[::-1], atol=1e-12)


@pytest.mark.parametrize(("weight", "apart"), [(None, LABELS * spacing_of(X)), (0.2, 0.2), ({"part": 0.3}, 0.3)])
def test_two_labels_that_differ_are_a_weight_apart(weight: Any, apart: float) -> None:
    given = of({"part": Y_LABELS}, {"part": X_LABELS}, weight)
    np.testing.assert_allclose(distances(given), apart * (Y_LABELS[:, None] != X_LABELS), atol=1e-12)
    assert given.labels == 3 and not given.normals
    hot = given.one_hot
    assert hot is not None and (hot[0].sum(-1) == 1).all() and hot[1].shape == (1, 25, 3)


def test_labels_are_whole_numbers_or_text_of_any_kind() -> None:
    numbers = {"arm": 7, "leg": -2, "hip": 0}
    y, x = (np.array([numbers[label] for label in labels]) for labels in (Y_LABELS, X_LABELS))
    wanted = distances(of(Y_LABELS, X_LABELS))
    for both in ((y, x), (torch.from_numpy(y), x.astype(np.int8)), (list(y), list(x))):
        np.testing.assert_array_equal(distances(of(*both)), wanted)
    np.testing.assert_array_equal(distances(of(Y_LABELS.astype(object), list(X_LABELS))), wanted)


def test_numbers_are_taken_times_their_weight_or_deviate_by_a_spacing() -> None:
    y, x = DRAW.normal(size=(30, 2)) * (1.0, 50.0) + 1e4, DRAW.normal(size=(25, 2)) * (1.0, 50.0) + 1e4
    np.testing.assert_allclose(distances(of(y, x, 0.1)), 0.1 * np.linalg.norm(y[:, None] - x, axis=-1), rtol=1e-9)
    given = of(y, x)
    together = [part[0].numpy() for part in (given.source, given.reference)]
    each = np.mean([np.square(part).mean(0) for part in together], axis=0) ** 0.5
    np.testing.assert_allclose(each, WEIGHT * spacing_of(X) * np.sqrt(0.5) * np.ones(2), rtol=1e-9)
    other = of(y * (3.0, 1e-3) - 5.0, x * (3.0, 1e-3) - 5.0)  # in other units the same
    np.testing.assert_allclose(distances(other), distances(given), rtol=1e-9)


def test_normals_come_first_as_unit_vectors_and_labels_last() -> None:
    y = {"part": Y_LABELS, "heat": DRAW.normal(size=30), "normals": 5 * Y}
    x = {"heat": DRAW.normal(size=25), "part": X_LABELS, "normals": 0.1 * X}
    x["normals"][3] = 0.0  # a point that has none
    given = of(y, x, {"normals": 0.2, "part": 0.3})
    assert given.source.shape == (1, 30, 3 + 1 + 3) and given.normals and given.labels == 3
    lengths = given.reference[0, :, :3].norm(dim=-1)
    assert lengths[3] == 0 and torch.allclose(lengths[torch.arange(25) != 3], torch.full((24,), 0.2).double())
    torch.testing.assert_close(given.source[0, :, :3], 0.2 * torch.from_numpy(Y / np.linalg.norm(Y, axis=1)[:, None]))


def test_columns_that_are_the_same_everywhere_are_left_out() -> None:
    y, x = np.column_stack((Y[:, 0], np.full(30, 7.0))), np.column_stack((X[:, 0], np.full(25, 7.0)))
    assert of(y, x).source.shape == (1, 30, 1)
    assert of({"a": Y[:, 0], "b": np.ones(30, int)}, {"a": X[:, 0], "b": np.ones(25, int)}).labels == 0


@pytest.mark.parametrize("method", ["pwan", "soft_assignment"])
def test_attributes_that_are_the_same_everywhere_change_nothing(method: str) -> None:
    options = FAST if method == "pwan" else {}
    same = {"source_attributes": np.full((30, 2), 3.0), "reference_attributes": np.full((25, 2), 3.0)}
    plain, given = register(Y, X, method=method, **options), register(Y, X, method=method, **options, **same)
    np.testing.assert_array_equal(plain.transformed, given.transformed)
    assert given.labels is None


def test_a_batch_takes_attributes_with_b_in_front() -> None:
    y, x = (np.stack((points, points[::-1])) for points in (Y, X))
    labels = {"source_attributes": np.stack((Y_LABELS, Y_LABELS[::-1]))}
    labels["reference_attributes"] = np.stack((X_LABELS, X_LABELS[::-1]))
    both = register(y, x, **labels, **FAST)
    assert both.labels is not None and both.labels[0].shape == (2, 30, 3)
    one = register(Y, X, source_attributes=Y_LABELS, reference_attributes=X_LABELS, **FAST)
    np.testing.assert_allclose(both.transformed[0], one.transformed, atol=1e-4)
    assert len(both.warnings) == 2 and one.labels is not None and one.labels[0].shape == (30, 3)
    potential = one.potential(np.column_stack((X, np.zeros((25, 3)))))
    assert potential.shape == (25,) and (potential <= 0).all()
    with pytest.raises(ValueError, match=r"points must have shape \(N, 6\), got \(25, 3\)"):
        one.potential(X)


@pytest.mark.parametrize(
    ("source", "reference", "weight", "words"),
    [
        (Y, None, None, "source_attributes are given without reference_attributes"),
        (None, X, None, "reference_attributes are given without source_attributes"),
        (None, None, 0.1, "attribute_weight is given without attributes"),
        ({"a": Y, "b": Y}, {"a": X, "c": X}, None, "reference_attributes lack 'b' of the source; there are 'a', 'c'"),
        (Y, {"a": X}, None, "reference_attributes lack unnamed ones of the source; there are 'a'"),
        ({}, {}, None, "source_attributes are empty"),
        (np.ma.masked_less(Y, 0), X, None, "source_attributes holds masked numbers"),
        (
            [[1.0], [2.0, 3.0]],
            X,
            None,
            "source_attributes must be an array of real numbers, but it holds rows of 1 to 2",
        ),
        (Y, X[:, :2], None, "must hold as many numbers; got 3 a point of the source and 2 of the reference"),
        (
            Y[:9],
            X,
            None,
            r"source_attributes must hold .* for each of the points of shape \(30, 3\); got shape \(9, 3\)",
        ),
        (np.where(Y > 9, 0, np.nan), X, None, "source_attributes must be finite, but 90 numbers are not"),
        (Y_LABELS, X[:, 0], None, "source_attributes holds labels where numbers belong"),
        (np.tile(Y_LABELS[:, None], 2), X[:, :2], None, "source_attributes holds labels where numbers belong"),
        (Y_LABELS, np.arange(25), None, "must both hold text or both hold numbers"),
        ({"normals": Y[:, 0]}, {"normals": X[:, 0]}, None, "must hold 3 numbers a point, as normals have"),
        ({"normals": Y_LABELS}, {"normals": X_LABELS}, None, "'normals' holds labels where numbers belong"),
        (Y, X, 0.0, "attribute_weight must be positive and finite, in units of length; got 0.0"),
        (Y, X, np.inf, "attribute_weight must be positive"),
        (Y, X, "much", "attribute_weight must be positive"),
        ({"a": Y}, {"a": X}, {"b": 1.0}, "attribute_weight names 'b', which is no attribute; there are a"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_attributes_are_refused_in_a_sentence(source: Any, reference: Any, weight: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        register(Y, X, source_attributes=source, reference_attributes=reference, attribute_weight=weight)


def test_many_labels_are_numbers_that_were_meant_as_such() -> None:
    y, x = (torch.randn(1, 80, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    with pytest.raises(
        ValueError, match="hold 160 different labels, but at most 100 are taken; give numbers as floats"
    ):
        attributes_of(np.arange(80), np.arange(80, 160), None, y, x, single=True)


@pytest.mark.parametrize("name", ["cpd", "gmmreg", "tpsrpm", "bcpd"])
def test_methods_that_see_places_alone_refuse_attributes(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"method {name} sees nothing but .* take one of pwan, .*, soft_assignment, wgan"
    ):
        register(Y, X, method=name, source_attributes=Y, reference_attributes=X)
    assert name in methods.names()


def test_a_problem_checks_its_attributes() -> None:
    y, x = torch.from_numpy(Y)[None], torch.from_numpy(X)[None]
    for attributes, words in (
        (Attributes(y[:, 1:], x), r"of the source must be float64 of shape \(1, 30, 'A'\)"),
        (Attributes(y, x[..., :2]), "both sets must have the same attributes, 1 numbers a point or more"),
        (Attributes(y[..., :2], x[..., :2], normals=True), "3 numbers a point or more; got 2"),
        (Attributes(y, x.masked_fill(x > 1, torch.nan)), "of the reference must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            RegistrationProblem(y, x, attributes=attributes)
    problem = RegistrationProblem(y, x, attributes=Attributes(y, x))
    assert "with 3 attributes" in repr(problem)
    assert problem.select([0]).attributes is not None


@pytest.mark.parametrize("pinned", [False, True])
def test_landmarks_at_positions_go_with_attributes(pinned: bool) -> None:
    places = np.concatenate((Y[:4] + 0.01, Y[:4] + 0.2), 1)
    carried = {
        "source_attributes": {"normals": Y, "part": Y_LABELS},
        "reference_attributes": {"normals": X, "part": X_LABELS},
    }
    result = register(Y, X, landmarks=places, pinned=pinned, **carried, **FAST)
    assert result.transformed.shape == (30, 3) and result.labels is not None and result.labels[1].shape == (25, 3)
    if pinned:
        np.testing.assert_allclose(result.transform(places[:, :3]), places[:, 3:], atol=1e-5)
