from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pwan.bench.measures import NAMES, measures
from pwan.problem import RegistrationProblem

GENERATOR = torch.Generator().manual_seed(0)
SQUARE = torch.rand(1, 400, 2, generator=GENERATOR, dtype=torch.float64)
PROBLEM = RegistrationProblem(
    source=SQUARE, reference=torch.rand(1, 4000, 2, generator=GENERATOR, dtype=torch.float64) + 1.0, truth=SQUARE + 1.0
)
TRUTH = (SQUARE + 1.0)[0].numpy()


def test_the_truth_itself_is_near_and_not_stretched() -> None:
    assert measures(PROBLEM, 0, TRUTH) == {
        "mse_partnered": 0.0,
        "near": 1.0,
        "edge_stretch": pytest.approx(0, abs=1e-9),
    }


def test_a_shift_is_an_error_but_no_stretch() -> None:
    found = measures(PROBLEM, 0, TRUTH + [0.1, 0.0])
    assert found == {"mse_partnered": pytest.approx(0.01), "near": 0.0, "edge_stretch": pytest.approx(0, abs=1e-9)}


def test_doubling_stretches_all_edges_by_one_and_a_collapse_too() -> None:
    assert measures(PROBLEM, 0, 2 * TRUTH)["edge_stretch"] == pytest.approx(1.0)
    assert measures(PROBLEM, 0, 0 * TRUTH + TRUTH.mean(0))["edge_stretch"] == pytest.approx(1.0)


def test_near_is_within_five_percent_of_the_truths_radius() -> None:
    radius = np.sqrt(((TRUTH - TRUTH.mean(0)) ** 2).sum(1).mean())
    moved = TRUTH.copy()
    moved[:100] += [0.051 * radius, 0.0]
    moved[100:200] += [0.049 * radius, 0.0]
    assert measures(PROBLEM, 0, moved)["near"] == pytest.approx(0.75, abs=0.01)  # a point or two find no partner


def test_points_whose_place_was_cropped_have_no_partner() -> None:
    here = PROBLEM.reference[0, :, 0] < 1.5
    cropped = replace(PROBLEM, reference=PROBLEM.reference[:, here])
    moved = TRUTH.copy()
    moved[TRUTH[:, 0] > 1.55] += 1.0  # far beyond the edge nothing is asked
    found = measures(cropped, 0, moved)
    assert (found["mse_partnered"], found["near"]) == (0.0, 1.0)
    moved[TRUTH[:, 0] < 1.5] += [0.3, 0.0]
    assert measures(cropped, 0, moved)["mse_partnered"] == pytest.approx(0.09, rel=0.1)


def test_what_cannot_be_measured_is_nan() -> None:
    nothing = replace(PROBLEM, reference=PROBLEM.reference + 50.0)
    assert np.isnan(measures(nothing, 0, TRUTH)["mse_partnered"])
    broken = measures(PROBLEM, 0, np.full_like(TRUTH, np.nan))
    assert set(broken) == set(NAMES) and all(np.isnan(value) for value in broken.values())
