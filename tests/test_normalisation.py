"""The frame of the methods: what it does to points, thresholds and units, and which one a problem gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pwan import shapes
from pwan.choices import Normalisation
from pwan.normalisation import normalise
from pwan.problem import RegistrationProblem
from pwan.synthesis import SynthesisSettings, make_problem


@pytest.fixture(scope="module")
def noisy() -> RegistrationProblem:
    settings = SynthesisSettings(points=200, outlier_ratio=1.0)
    return make_problem(shapes.load("bunny"), settings, seed=0, trials=[0, 1])


def radius(points: torch.Tensor) -> torch.Tensor:
    return (points - points.mean(1, keepdim=True)).square().sum(-1).mean(1).sqrt()


@pytest.mark.parametrize("mode", ["separate", "joint", "none"])
def test_the_frame_leads_back(noisy: RegistrationProblem, mode: str) -> None:
    normalised, frame = normalise(noisy, mode)  # type: ignore[arg-type]
    b, r, d = noisy.source.shape
    generator = torch.Generator().manual_seed(0)
    a, t, v = (torch.randn(s, generator=generator, dtype=torch.float64) for s in ((b, d, d), (b, 1, d), (b, r, d)))
    moved = normalised.source @ a + t + v
    expected = moved * frame.reference_scale + frame.reference_centre
    affine, translation, displacement = frame.transform_to_input(a, t, v)
    torch.testing.assert_close(noisy.source @ affine + translation + displacement, expected)
    torch.testing.assert_close(frame.apply(noisy.source, a, t, v), expected)


def test_separate_has_unit_radius_and_joint_keeps_the_relation(noisy: RegistrationProblem) -> None:
    separate, _ = normalise(noisy, "separate")
    for points in (separate.source, separate.reference):
        torch.testing.assert_close(radius(points), torch.ones(2, dtype=torch.float64))
        torch.testing.assert_close(points.mean(1), torch.zeros(2, 3, dtype=torch.float64), atol=1e-12, rtol=0)
    joint, frame = normalise(replace(noisy, mass=None, distance=torch.tensor([0.1, 0.2]).double()), "joint")
    gap = (noisy.source[:, :1] - noisy.reference[:, :1]) / frame.reference_scale
    torch.testing.assert_close(joint.source[:, :1] - joint.reference[:, :1], gap)
    assert joint.distance is not None
    torch.testing.assert_close(joint.distance * frame.reference_scale.flatten(), torch.tensor([0.1, 0.2]).double())


def test_none_leaves_the_origin_where_it_is_unless_it_is_far_off(noisy: RegistrationProblem) -> None:
    normalised, _ = normalise(noisy, "none")
    assert torch.equal(normalised.source, noisy.source) and torch.equal(normalised.reference, noisy.reference)
    for shift in (5.0, 1000.0):  # within ten radii single precision keeps all digits that matter
        there = replace(noisy, source=noisy.source + shift, reference=noisy.reference + shift)
        normalised, frame = normalise(there, "none")
        expected = there.reference if shift == 5.0 else there.reference - there.reference.mean(1, keepdim=True)
        torch.testing.assert_close(normalised.reference, expected)
        torch.testing.assert_close(
            normalised.source - normalised.reference[:, :1], noisy.source - noisy.reference[:, :1]
        )
        assert bool((frame.source_scale == 1).all())


def test_auto_is_separate_for_the_whole_source_and_joint_for_a_part(noisy: RegistrationProblem) -> None:
    def is_joint(problem: RegistrationProblem) -> list[bool]:
        frame = normalise(problem, "auto")[1]
        return (frame.source_scale == frame.reference_scale).flatten().tolist()

    assert is_joint(noisy) == [False, False]
    assert is_joint(replace(noisy, mass=torch.tensor([150.0, 150.0]).double())) == [True, True]
    # outliers far beyond the shape: scaling each set by itself would blow the source up, here in the second problem
    far = noisy.reference.clone()
    far[1, 200:] = 6.0 * (torch.rand(200, 3, generator=torch.Generator().manual_seed(0)).double() - 0.5)
    aligned = RegistrationProblem(noisy.source, far)
    aligned.reference[1, :200] = noisy.source[1].flip(0)
    assert is_joint(aligned) == [False, True]


@pytest.mark.parametrize("mode", ["auto", "joint", "none", "separate"])
def test_a_source_far_from_the_reference_begins_on_it(noisy: RegistrationProblem, mode: Normalisation) -> None:
    part = replace(noisy, mass=torch.tensor([150.0, 150.0]).double())
    _, frame = normalise(part, mode)
    away = part.source.clone()
    away[1] += 1000.0 * torch.tensor([0.6, 0.8, 0.0]).double()
    normalised, far = normalise(replace(part, source=away), mode)
    torch.testing.assert_close(normalised.source[1].mean(0), normalised.reference[1].mean(0), atol=1e-9, rtol=0)
    torch.testing.assert_close(far.source_scale, frame.source_scale)
    assert torch.equal(far.reference_centre, frame.reference_centre)
    assert torch.equal(far.source_centre[0], frame.source_centre[0])  # the other problem keeps its bits
    near = part.source + 2.0  # still less than twice the sum of both radii
    moved = normalise(replace(part, source=near), mode)[1].source_centre
    torch.testing.assert_close(moved, frame.source_centre + (2.0 if mode == "separate" else 0.0))
