"""Starts, one after the other."""

from __future__ import annotations

import numpy as np

from pwan.begin.start import Start
from pwan.randomness import numpy_generator
from tests.begin.turned import turned_over


def test_one_start_after_the_other() -> None:
    points = numpy_generator(0, "test").standard_normal((5, 3))
    first, second = (
        Start(scale, turned_over(3), np.array(shift), 1.0, 2.0, True, word)
        for scale, shift, word in ((2.0, [1.0, 2, 3], "one"), (0.5, [0.0, -1, 4], "two"))
    )
    both = first.then(second)
    np.testing.assert_allclose(both.apply(points), second.apply(first.apply(points)), atol=1e-12)
    assert both.reason == "two" and both.scale == 1.0
