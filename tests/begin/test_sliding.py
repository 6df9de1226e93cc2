"""The check of a finished registration: what has slid, what has not, and what is too little to tell."""

from __future__ import annotations

import numpy as np

from pwan import shapes
from pwan.begin.sliding import check_sliding
from pwan.randomness import numpy_generator
from tests.begin.turned import RIGHT, halves_of_a_bunny


def test_halves_that_have_slid_are_told_and_led_back() -> None:
    source, reference, truth = halves_of_a_bunny()
    slid = truth + [0.3, 0.0, 0.0]
    mass = float((truth[:, 0] > RIGHT).sum())
    given = source + 0.05
    check = check_sliding(given, reference, slid, mass=mass)
    assert check is not None
    start = check.start
    assert check.ratio < 0.3 and start.changed and start.scale == 1.0
    before, after = (((points - truth) ** 2).sum(1).mean() for points in (given, start.apply(given)))
    assert after < 0.5 * before
    near = truth + 0.005 * numpy_generator(0, "test").standard_normal(truth.shape)
    good, exact = (check_sliding(source, reference, moved, mass=mass) for moved in (near, truth))
    assert good is not None and exact is not None and good.ratio > 1.0 and exact.ratio == np.inf


def test_of_a_far_smaller_reference_enough_is_compared_or_nothing() -> None:
    points = shapes.load("bunny").points.copy()
    source, reference = points[:3000], points[3000:3300]  # the same surface, ten times as dense
    noise = numpy_generator(0, "test").standard_normal(source.shape)
    near = check_sliding(source, reference, source + 0.01 * noise, mass=300)
    slid = check_sliding(source + 0.05, reference, source + [0.3, 0.0, 0.0], mass=300)
    assert near is not None and slid is not None and slid.ratio < 0.6 < 0.9 < near.ratio
    sphere = numpy_generator(1, "test").standard_normal((8000, 3))
    for few in (4, 5, 28):  # 0.7 of 28 points is below 20
        assert check_sliding(sphere, sphere[:few], sphere + 0.1, mass=few) is None
        assert check_sliding(sphere[:few], sphere, sphere[:few] + 0.1, mass=few) is None
    assert check_sliding(sphere[:29], sphere, sphere[:29] + 0.1, mass=29) is not None
