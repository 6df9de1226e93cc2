from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from pwan.randomness import numpy_generator
from pwan.transport.kernel import kl_divergence, l2_distance


def sets(q=7, r=5, dimension=2):
    generator = numpy_generator(0, "test_kernel")
    return generator.normal(size=(q, dimension)), generator.normal(size=(r, dimension)) + 0.5


def test_l2_of_two_points_in_closed_form():
    # 2 phi(0) - 2 phi(d), Gaussians of variance 2 s in D dimensions
    for dimension in (1, 2, 3):
        y = np.zeros((1, dimension))
        x = y + np.eye(dimension)[:1] * 1.3
        expected = 2 * (4 * math.pi * 0.7) ** (-dimension / 2) * (1 - math.exp(-(1.3**2) / (4 * 0.7)))
        assert l2_distance(x, y, variance=0.7) == pytest.approx(expected)


def test_l2_is_the_integral_of_the_squared_difference():
    x, y = sets(dimension=1)

    def difference(u):
        return norm.pdf(u, x[:, 0], math.sqrt(0.6)).mean() - norm.pdf(u, y[:, 0], math.sqrt(0.6)).mean()

    integral, _ = quad(lambda u: difference(u) ** 2, -12, 12, limit=200)
    assert l2_distance(x, y, variance=0.6) == pytest.approx(integral, rel=1e-6)


def test_l2_properties():
    x, y = sets()
    assert l2_distance(x, x) == pytest.approx(0, abs=1e-15)
    assert l2_distance(x, y) == pytest.approx(l2_distance(y, x)) and l2_distance(x, y) > 0
    assert l2_distance(x + 3, y + 3) == pytest.approx(l2_distance(x, y))
    assert l2_distance(np.repeat(x, 3, 0), y) == pytest.approx(l2_distance(x, y))  # weights are shares
    assert l2_distance(torch.tensor(x), torch.tensor(y)) == l2_distance(x, y)


@pytest.mark.parametrize("form", ["cpd", "printed"])
def test_kl_of_single_points_in_closed_form(form):
    x, y, w = np.array([[0.0]]), np.array([[1.5]]), 0.2
    expected = -math.log(w + (1 - w) * norm.pdf(1.5, scale=math.sqrt(2.0)))
    assert kl_divergence(x, y, variance=2.0, outlier_weight=w, form=form) == pytest.approx(expected)


def test_kl_by_loops():
    x, y = sets()
    q, r, w, s = len(x), len(y), 0.3, 0.8

    def phi(a, b):
        return math.exp(-((a - b) ** 2).sum() / (2 * s)) / (2 * math.pi * s)

    cpd = -sum(math.log(w / q + (1 - w) * sum(phi(a, b) / r for b in y)) for a in x) / q
    printed = -sum(math.log(w / q + (1 - w) * sum(phi(b, a) / r for a in x)) for b in y) / q
    assert kl_divergence(x, y, variance=s, outlier_weight=w) == pytest.approx(cpd)
    assert kl_divergence(x, y, variance=s, outlier_weight=w, form="printed") == pytest.approx(printed)
    assert cpd != pytest.approx(printed)


def test_kl_far_away_does_not_underflow():
    x, y = np.zeros((2, 1)), np.full((3, 1), 100.0)
    assert kl_divergence(x, y, outlier_weight=0.0) == pytest.approx(5000 + 0.5 * math.log(2 * math.pi))
    # only the uniform term is left
    assert kl_divergence(x, y, outlier_weight=0.2) == pytest.approx(-math.log(0.2 / 2))


def test_matching_all_is_biased_by_many_far_outliers():
    y = np.linspace(0, 3, 10)[:, None]
    clean, crowded = y, np.concatenate([y, np.full((1000, 1), 8.0)])
    for measure in (l2_distance, kl_divergence):
        assert measure(clean, y) < measure(clean, y + 6.5)
        assert measure(crowded, y) > measure(crowded, y + 6.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance": 0.0}, "variance must be positive"),
        ({"variance": math.inf}, "variance must be positive and finite"),
        ({"outlier_weight": 1.0}, "outlier_weight must be from 0 to below 1"),
        ({"outlier_weight": -0.1}, "outlier_weight"),
        ({"form": "bcpd"}, "form must be 'cpd' or 'printed'"),
    ],
)
def test_wrong_options(options, message):
    x, y = sets()
    with pytest.raises(ValueError, match=message):
        kl_divergence(x, y, **options)


def test_wrong_points():
    x, _ = sets()
    with pytest.raises(ValueError, match="same number of coordinates"):
        l2_distance(x, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="variance must be positive"):
        l2_distance(x, x, variance=-1.0)
    with pytest.raises(ValueError, match="finite"):
        kl_divergence(x, np.full((2, 2), np.nan))
