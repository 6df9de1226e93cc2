from __future__ import annotations

import numpy as np
import pytest

from pwan.trust.left import left_behind, where


def grid(width: int, height: int) -> np.ndarray:
    """(width * height, 2) points with a spacing of 1."""
    return np.stack(np.meshgrid(np.arange(width), np.arange(height), indexing="ij"), -1).reshape(-1, 2).astype(float)


def test_equal_sets_leave_nothing():
    of_source, of_reference = left_behind(grid(10, 10), grid(10, 10), 1.0)
    assert of_source.share == of_reference.share == 0 and not (of_source.noted or of_reference.noted)
    assert where((of_source, of_reference)) == ()


def test_a_part_that_sticks_out_is_found_with_its_middle_and_radius():
    reference = grid(30, 10)  # of which x > 22 lies more than 3 from x <= 19
    of_source, of_reference = left_behind(grid(20, 10), reference, 1.0)
    assert not of_source.noted
    assert of_reference.distance.max() == 10
    assert of_reference.share == pytest.approx(70 / 300) and of_reference.together == 1
    assert of_reference.centre == pytest.approx((26, 4.5)) and of_reference.radius == pytest.approx(np.hypot(3, 4.5))
    assert reference[of_reference.row] == pytest.approx([26, 4.5], abs=0.51)
    assert where((of_source, of_reference)) == (
        "of the 23% of the reference beyond 3 spacings nearly all lies around (26, 4.5), within 5.4",
    )


def test_of_two_parts_the_larger_one_is_named():
    moved = np.concatenate([grid(10, 10), grid(4, 5) + [50, 0], grid(4, 10) - [50, 0]])
    of_source, _ = left_behind(moved, grid(10, 10), 1.0)
    assert of_source.together == pytest.approx(40 / 60) and of_source.centre == pytest.approx((-48.5, 4.5))
    assert "of the 38% of the moved source beyond 3 spacings the largest part, 25%, lies" in where((of_source,) * 2)[0]


def test_scattered_points_have_no_place():
    far = np.stack([np.arange(30) * 20.0 + 100, np.zeros(30)], -1)
    of_source, of_reference = left_behind(np.concatenate([grid(10, 10), far]), grid(10, 10), 1.0)
    assert of_source.together == pytest.approx(1 / 30)
    assert where((of_source, of_reference)) == (
        "of the 23% of the moved source beyond 3 spacings no place holds much: it is scattered",
    )


def test_units_do_not_matter():
    unit = 2.0**-20
    small = left_behind(grid(20, 10) * unit, grid(30, 10) * unit, unit)[1]
    assert small.share == pytest.approx(70 / 300) and small.centre == pytest.approx((26 * unit, 4.5 * unit))


def test_places_of_large_sets_are_sought_among_some_points():
    reference = grid(400, 100)
    of_reference = left_behind(grid(300, 100), reference, 1.0)[1]
    assert of_reference.share == pytest.approx(97 / 400) and of_reference.together > 0.9
    assert of_reference.centre == pytest.approx((351, 49.5), abs=1)
