"""How a shape may move, chosen by measurement on few points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from pwan.problem import OK, Progress, RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.registration import coarse, flexibility
from pwan.registration.flexibility import measure_fit
from pwan.registration.settings import PwanSettings

QUICK = PwanSettings(steps=60, stages=2, width=32, features=32)


def sphere(n: int, seed: int) -> np.ndarray:
    points = np.random.default_rng(seed).standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def legs(n: int, seed: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Two legs below a bar, side by side, and the same with one of them lifted by an angle: (n, 3) each."""
    generator = np.random.default_rng(seed)
    part = generator.integers(0, 3, n)
    along, around = generator.uniform(0, 2, n), generator.uniform(0, 2 * np.pi, n)
    ring = 0.12 * np.column_stack((np.cos(around), np.sin(around)))
    bar = np.column_stack((along - 1, 0.12 * np.cos(around), 0.12 * np.sin(around)))
    left, right = (np.column_stack((x + ring[:, 0], ring[:, 1], -along)) for x in (-0.18, 0.18))
    points = np.choose(part[:, None], (bar, left, right))
    hip = np.array([0.18, 0.0, 0.0])
    bent = (right - hip) @ Rotation.from_rotvec([0.0, -spread, 0.0]).as_matrix().T + hip
    return points, np.where(part[:, None] == 2, bent, points)


def two_poses(n: int = 350, spread: float = 0.4) -> RegistrationProblem:
    """One leg far from the other: independent samples, the truth known."""
    source, truth = legs(n, 0, spread)
    _, reference = legs(n, 1, spread)
    return RegistrationProblem(
        *(torch.from_numpy(x)[None] for x in (source, reference)), truth=torch.from_numpy(truth)[None]
    )


def test_a_set_that_lies_on_the_other_fits() -> None:
    points = sphere(300, 0)
    fit = measure_fit(points, points, points, 300)
    assert fit.source == fit.reference == fit.stretch == 0


def test_a_set_of_another_size_is_stretched_by_nothing() -> None:
    points = sphere(300, 0)
    assert measure_fit(points, 3 * points, 3 * points, 300).stretch == pytest.approx(0, abs=1e-12)


def test_a_part_that_nothing_covers_is_far_from_the_source() -> None:
    points, other = sphere(400, 0), sphere(400, 1)
    half = points[points[:, 0] > 0]
    fit = measure_fit(half, half, other, 400)
    assert fit.source < 2.5 < 5 < fit.reference == fit.distance


def test_what_the_mass_leaves_out_does_not_count() -> None:
    points = sphere(400, 0)
    half = points[points[:, 0] > 0]
    assert measure_fit(half, half, points, len(half)).distance == 0


def test_a_limb_that_collapsed_is_stretched() -> None:
    source, moved = legs(400, 0, 1.2)
    right = measure_fit(source, moved, moved, 400)
    fallen = moved.copy()
    fallen[:, 0] *= np.where(np.abs(fallen[:, 0]) > 0.5, 0.2, 1.0)
    assert right.stretch < 0.2 < 0.5 < measure_fit(source, fallen, moved, 400).stretch


@pytest.fixture(scope="module")
def chosen() -> tuple[RegistrationProblem, RegistrationResult]:
    """Two poses, and their registration by the kernel or energy that suits them."""
    problem = two_poses()
    return problem, flexibility.register(problem, replace(QUICK, flexibility="auto"), seeds=[0])


def test_a_leg_beside_the_other_does_not_stay_with_the_gaussian_kernel(
    chosen: tuple[RegistrationProblem, RegistrationResult],
) -> None:
    problem, result = chosen
    given = flexibility.register(problem, QUICK, seeds=[0])
    assert problem.truth is not None and result.choice is not None and given.choice is None
    assert result.choice[0].startswith(("the rigid energy", "the geodesic kernel"))
    errors = [float(mean_squared_error(found.transformed, problem.truth)) for found in (result, given)]
    assert errors[0] < 0.6 * errors[1]


def test_the_result_moves_points_that_were_not_registered(
    chosen: tuple[RegistrationProblem, RegistrationResult],
) -> None:
    problem, result = chosen
    source, truth = legs(200, 7, 0.4)
    assert result.transform is not None
    moved = torch.as_tensor(result.transform[0](source))
    at_points = mean_squared_error(result.transformed, problem.truth)  # type: ignore[arg-type]
    assert float((moved - torch.from_numpy(truth)).square().sum(-1).mean()) < 2 * float(at_points) + 0.002


def test_a_shape_that_the_gaussian_fits_keeps_its_default_result() -> None:
    points = torch.from_numpy(sphere(200, 0))[None]
    problem = RegistrationProblem(points, 1.1 * torch.from_numpy(sphere(200, 1))[None])
    chosen = flexibility.register(problem, replace(QUICK, flexibility="auto"), seeds=[3])
    assert chosen.choice is not None and chosen.choice[0].startswith("the Gaussian kernel")
    assert torch.equal(chosen.transformed, coarse.register(problem, QUICK, seeds=[3]).transformed)


def test_problems_of_a_batch_choose_for_themselves() -> None:
    first = two_poses(120)
    still = torch.from_numpy(sphere(120, 0))[None]
    batch = RegistrationProblem(torch.cat((first.source, still)), torch.cat((first.reference, 1.05 * still)))
    result = flexibility.register(batch, replace(QUICK, steps=20, flexibility="auto"), seeds=[0, 1])
    assert result.choice is not None and len(result.choice) == len(result) == 2
    assert result.choice[1].startswith("the Gaussian kernel") and result.status == [OK, OK]


def test_an_observer_is_told_of_steps_that_never_fall() -> None:
    told: list[Progress] = []
    problem = two_poses(120)
    flexibility.register(problem, replace(QUICK, steps=10, flexibility="auto"), seeds=[0], observer=told.append)
    shares = [progress.step / progress.steps for progress in told]
    assert shares == sorted(shares) and shares[-1] == 1
    assert torch.equal(told[0].transformed(), problem.source)


def test_a_rigid_transform_has_nothing_to_choose() -> None:
    with pytest.raises(ValueError, match="flexibility=auto"):
        PwanSettings(flexibility="auto", transform="rigid")
