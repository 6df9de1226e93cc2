from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan.many import shape_model
from pwan.many.model import FEWEST


def family(s: int = 8, n: int = 30, d: int = 3, modes: int = 2) -> tuple[np.ndarray, ...]:
    """Shapes mean + scores @ modes that Procrustes leaves where they are: (S, N, D), mean, modes, scores.

    A shape is not turned against another one where the product of both is symmetric, which each mode's product with the
    mean and with the other modes must be.
    """
    generator = np.random.default_rng(3)
    mean = generator.standard_normal((n, d))
    mean -= mean.mean(0)
    found: list[np.ndarray] = []
    for _ in range(modes):
        mode = generator.standard_normal((n, d))
        conditions = [np.repeat(np.eye(d)[k][None], n, 0).ravel() for k in range(d)]
        for other in (mean, *found):
            conditions.append(other.ravel())
            for a in range(d):
                for b in range(a):
                    turned = np.zeros((n, d))
                    turned[:, b], turned[:, a] = other[:, a], -other[:, b]
                    conditions.append(turned.ravel())
        basis = np.linalg.qr(np.array(conditions).T)[0]
        mode = mode.ravel() - basis @ (basis.T @ mode.ravel())
        found.append((mode / np.linalg.norm(mode)).reshape(n, d))
    scores = generator.standard_normal((s, modes))
    scores = np.linalg.qr(scores - scores.mean(0))[0] * np.array([1.0, 0.4])[:modes]
    shapes = mean + np.tensordot(scores, np.array(found), 1)
    return shapes, mean, np.array(found), scores


def moved(shapes: np.ndarray, sized: bool) -> np.ndarray:
    """Each shape turned and shifted at random, all but the first one, and scaled where that is asked for."""
    generator = np.random.default_rng(7)
    out = shapes.copy()
    for k in range(1, len(shapes)):
        turn = Rotation.random(rng=generator).as_matrix()
        if shapes.shape[2] == 2:
            angle = generator.uniform(0, 2 * np.pi)
            turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        out[k] = (generator.uniform(0.5, 2) if sized else 1.0) * shapes[k] @ turn + 10 * generator.standard_normal(
            shapes.shape[2]
        )
    return out


@pytest.mark.parametrize("d", [2, 3])
def test_a_linear_family_gives_back_its_mean_its_modes_and_its_scores(d):
    shapes, mean, modes, scores = family(d=d)
    model = shape_model(shapes)
    np.testing.assert_allclose(model.mean, mean, atol=1e-12)
    assert model.modes.shape == modes.shape
    sign = np.sign((model.modes * modes).sum((1, 2)))
    np.testing.assert_allclose(model.modes * sign[:, None, None], modes, atol=1e-10)
    np.testing.assert_allclose(model.scores * sign, scores, atol=1e-10)
    np.testing.assert_allclose(model.variances, scores.var(0, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(model.explained.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(model.shape(model.scores[4]), shapes[4], atol=1e-10)
    np.testing.assert_allclose(model.at(0, 2.0) - mean, 2 * scores[:, 0].std(ddof=1) * model.modes[0], atol=1e-10)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_where_shapes_lie_and_how_large_they_are_changes_nothing(d, scale):
    shapes, *_ = family(d=d)
    plain, other = shape_model(shapes, remove_size=scale), shape_model(moved(shapes, scale), remove_size=scale)
    factor = plain.sizes.mean() / other.sizes.mean() if scale else 1.0
    np.testing.assert_allclose(other.aligned * factor, plain.aligned, atol=1e-9)
    np.testing.assert_allclose(other.explained, plain.explained, rtol=1e-8)
    np.testing.assert_allclose(other.distances * factor, plain.distances, rtol=1e-7)


def test_what_was_done_to_a_shape_is_told():
    shapes, *_ = family()
    given = moved(shapes, True)
    model = shape_model(given, remove_size=True)
    for k in range(len(given)):
        told = (given[k] - model.centres[k]) @ model.rotations[k] * model.factors[k]
        np.testing.assert_allclose(told, model.aligned[k], atol=1e-12)
        np.testing.assert_allclose(np.linalg.det(model.rotations[k]), 1, rtol=1e-12)
    where = model.mean_on(3)
    back = (where - model.centres[3]) @ model.rotations[3] * model.factors[3]
    np.testing.assert_allclose(back, model.mean, atol=1e-12)
    np.testing.assert_allclose(model.rotations[0], np.eye(3), atol=1e-12)


def test_a_mirror_image_is_not_turned_over():
    shapes, *_ = family()
    model = shape_model(np.stack((*shapes, shapes[0] * [1, 1, -1])))
    assert model.distances[-1] > 3 * model.distances[:-1].max()


def test_equal_shapes_have_no_modes():
    shapes, *_ = family()
    model = shape_model(np.repeat(shapes[:1], 6, 0))
    assert model.modes.shape == (0, 30, 3) and model.scores.shape == (6, 0) and not model.outlying
    assert "0 modes" in repr(model)


def test_a_shape_apart_is_named_with_its_reason_and_the_others_are_not():
    shapes, *_ = family()
    strange = shapes[0].copy()
    strange[11] += 5.0
    names = [*"abcdefgh", "strange"]
    model = shape_model(np.stack((*shapes, strange)), names)
    assert list(model.outlying) == ["strange"]
    assert "times as far as half of the shapes; farthest at point 11" in model.outlying["strange"]
    assert repr(model).endswith("outlying: strange")
    few = shape_model(np.stack((*shapes[: FEWEST - 2], strange)))
    assert not few.outlying


@pytest.mark.parametrize(
    ("points", "names", "says"),
    [
        (np.zeros((3, 4)), None, r"points must be \(S, N, D\), two shapes or more"),
        (np.zeros((1, 4, 3)), None, "two shapes or more"),
        (np.ones((2, 4, 3)), None, "all points of 0 lie at one place"),
        (np.arange(24.0).reshape(2, 4, 3), ["a"], "names must be 2 different ones"),
        (np.arange(24.0).reshape(2, 4, 3), ["a", "a"], "names must be 2 different ones, one for each shape, got a, a"),
        (np.full((2, 4, 3), np.nan), ["a", "b"], "those of a, b are not"),
    ],
)
def test_bad_input_is_one_sentence(points, names, says):
    with pytest.raises(ValueError, match=says):
        shape_model(points, names)
