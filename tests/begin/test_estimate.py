"""The estimate of mass and distance: where the answer is known, and on small bunnies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pwan import shapes
from pwan.begin.estimate import Limits, _partners, estimate_limits
from pwan.randomness import numpy_generator
from pwan.synthesis import SynthesisSettings, make_problem


def bunny(**settings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, reference and truth."""
    made = make_problem(shapes.load("bunny"), SynthesisSettings(**settings), seed=1, trials=[0])
    assert made.truth is not None
    return made.source[0].numpy(), made.reference[0].numpy(), made.truth[0].numpy()


def squares(shift: float, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Independent draws of two unit squares that share 1 - shift of their area."""
    generator = numpy_generator(0, "squares")
    return generator.random((n, 2)), generator.random((n, 2)) + [shift, 0.0]


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.5, 0.8])
def test_the_share_with_partners_is_the_overlap_of_two_squares(shift: float) -> None:
    points, others = squares(shift)
    for here, there in ((points, others), (others, points)):
        assert _partners(here, there)[0] == pytest.approx(1 - shift, abs=0.05)  # the strip's count is no exact one


def test_sets_apart_share_nothing() -> None:
    points, others = squares(1.2)
    assert _partners(points, others)[0] == 0.0


def test_another_density_of_the_others_changes_little() -> None:
    points, others = squares(0.4)
    assert _partners(points, others[:500])[0] == pytest.approx(0.6, abs=0.08)


@pytest.mark.parametrize("keep", [0.75, 1.0])
def test_the_overlap_of_partial_bunnies(keep: float) -> None:
    source, reference, truth = bunny(points=400, keep=keep, deformation_lambda=50)
    limits = estimate_limits(source, reference)
    known = min(_partners(truth, reference)[0], _partners(reference, truth)[0])  # the crops share more than 2 keep - 1
    if keep == 1.0:
        assert limits.mass == 400 and limits.overlap == 1.0 and "all 400" in limits.reason
    else:
        assert limits.overlap == pytest.approx(known, abs=0.08)
        assert limits.mass == pytest.approx(limits.overlap * 300, abs=1) and limits.mass < 300
    assert not limits.little


def test_all_of_the_source_among_outliers() -> None:
    source, reference, _ = bunny(points=300, outlier_ratio=1.2)
    limits = estimate_limits(source, reference)
    assert limits.mass >= 0.95 * 300


def test_two_sets_without_overlap_are_told() -> None:
    points, _, _ = bunny(points=800)
    left, right = points[points[:, 0] < -0.1], points[points[:, 0] > 0.1]
    limits = estimate_limits(left, right)
    assert limits.little and limits.overlap < 0.3 and limits.mass < 0.3 * min(len(left), len(right))
    assert "too little overlap" in limits.reason


def test_units_and_the_kind_of_array_change_nothing_else() -> None:
    source, reference, _ = bunny(points=200, keep=0.8, deformation_lambda=50)
    limits = estimate_limits(source, reference, seed=4)
    scaled: Limits = estimate_limits(torch.from_numpy(1024 * source), torch.from_numpy(1024 * reference), seed=4)
    assert scaled.mass == limits.mass
    assert scaled.distance == pytest.approx(1024 * limits.distance)


def test_the_distance_is_the_spacing_of_the_reference() -> None:
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    limits = estimate_limits(grid + 0.1, grid)
    assert limits.distance == limits.spacing == pytest.approx(1.0)


def test_points_that_are_not_finite_are_refused() -> None:
    points = np.zeros((10, 3))
    points[3, 1] = np.nan
    with pytest.raises(ValueError, match="finite|NaN"):
        estimate_limits(points, points)


@pytest.mark.parametrize("total", [1.0, 3.0, 5000.0])
def test_what_a_set_weighs_in_all_changes_no_share(total: float) -> None:
    """Probabilities, which sum to 1, are weights too."""
    points = shapes.load("bunny").points[:160]
    order = points[:, 0].argsort()
    source, reference = points[order[:105]], points[order[55:]] + 0.01
    counted = estimate_limits(source, reference)
    even = (np.full(105, total / 105),) * 2
    weighed = estimate_limits(source, reference, source_weights=even[0], reference_weights=even[1])
    assert counted.mass < 60 and weighed.mass == pytest.approx(counted.mass * total / 105, abs=1.01 * total / 105)
    assert "so 0 are matched" not in weighed.reason
