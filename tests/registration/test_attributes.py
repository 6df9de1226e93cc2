"""Distances in the product of space and attributes, while the points move in space alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pwan import methods, shapes
from pwan.attributes import Attributes
from pwan.deformation.normals import Carried
from pwan.deformation.transform import Transform
from pwan.devices.ranks import Place
from pwan.normalisation import normalise
from pwan.problem import RegistrationProblem
from pwan.registration import coarse
from pwan.registration.matched import matched_points
from pwan.registration.pipeline import Registration, register
from pwan.registration.refinement import _nearest_residual
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.registration.soft_assignment import SoftSettings, _kernel, soft_assignment
from pwan.synthesis import SynthesisSettings, make_problem

SMALL: dict[str, Any] = {"steps": 12, "stages": 1, "stage_steps": 6, "warmup": 5, "updates": 2, "width": 16}
SMALL |= {"features": 16, "rank": 20}
QUICK = SMALL | {"steps": 5, "stage_steps": 3}
ROW = {"steps": 40, "stages": 1, "stage_steps": 10, "rate": 0.03, "width": 32, "features": 32}


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def torus(trials: int = 1, *, normals: bool = True, **synthesis: Any) -> RegistrationProblem:
    """With attributes, of which the first three are unit vectors times 0.1."""
    settings = SynthesisSettings(points=60, deformation_lambda=50.0, **synthesis)
    problem = make_problem(shapes.load("torus"), settings, seed=0, trials=list(range(trials)))
    each = []
    for points in (problem.source, problem.reference):
        unit = points / points.norm(dim=-1, keepdim=True)
        each.append(torch.cat((0.1 * unit, 0.1 * (points[..., :1] > 0)), -1))
    return replace(problem, attributes=Attributes(*each, normals=normals, labels=1))


def row() -> tuple[RegistrationProblem, Tensor]:
    """Parts 1, 2 of a row of three alike balls that touch, onto 2, 3, from where they lie on 2, 3; the half that
    both have is matched. And the truth of part 2."""
    generator = np.random.default_rng(0)

    def ball(part: int) -> np.ndarray:
        inside = generator.normal(size=(60, 3))
        inside *= generator.random((60, 1)) ** (1 / 3) / np.linalg.norm(inside, axis=1, keepdims=True)
        return inside + (2.0 * part, 0.0, 0.0)

    y, x = np.concatenate((ball(1), ball(2))), np.concatenate((ball(2), ball(3)))
    hot = [torch.eye(3, dtype=torch.float64)[np.repeat(parts, 60)][None] for parts in ((0, 1), (1, 2))]
    truth = torch.from_numpy(y)[None]
    given = RegistrationProblem(truth + double(1.6, 0, 0), torch.from_numpy(x)[None], mass=double(60))
    return replace(given, attributes=Attributes(*hot, labels=3)), truth[:, 60:]


def test_the_kernel_of_the_soft_assignment_is_that_of_the_product() -> None:
    y, x = double(0.0, 0.0, 0.0, 0.5)[None, None], double(0.3, 0.0, 0.0, 0.1)[None, None]
    to_source, to_reference = _kernel(y, x, 0.4, [y.new_empty(0, dtype=torch.float32)])
    wanted = np.exp(-(0.3**2 + 0.4**2) / (2 * 0.4**2))
    assert float(to_source(torch.ones_like(x[..., :1]))) == pytest.approx(wanted, rel=1e-6)
    assert float(to_reference(torch.ones_like(x[..., :1]))) == pytest.approx(wanted, rel=1e-6)


def test_the_soft_assignment_moves_to_points_of_the_same_label() -> None:
    # four points whose nearest ones have the other label; those of the same label lie to the other side
    source = double(0, 0, 0, 3, 3, 0, 0, 3).view(1, 4, 2)
    shifts, labels = torch.cat((source + double(0.2, 0), source - double(0.4, 0)), 1), double(1, 0, 1, 0)[:, None]
    carried = Carried(Attributes(labels[None], torch.cat((1 - labels, labels))[None]), source, None)
    transform = Transform("affine", source, None)
    start, settings = transform.parameters.detach(), SoftSettings(steps=10, sigma_start=0.3, sigma_end=0.1)
    for given, shift in ((None, 0.2), (carried, -0.4)):
        reference = shifts if given is None else torch.cat((shifts, given.attributes.reference), -1)
        settings = replace(settings, affine_ridge=1e4)
        found = soft_assignment(transform, start, reference, None, settings, [0], carried=given)
        assert float(found[0, 2, 0]) == pytest.approx(shift, abs=0.02) and abs(float(found[0, 2, 1])) < 0.02


@pytest.mark.parametrize("of", ["source", "reference"])
def test_the_nearest_refinement_looks_in_the_product(of: str) -> None:
    y, x = double(0.0, 0.0, 1.0)[None, None], double(0.1, 0.0, 0.0, 0.5, 0.0, 1.0).view(1, 2, 3)
    _, value = _nearest_residual(y, x, double(1.0), None, of)
    assert float(value) == pytest.approx(0.25)  # the nearer one in space is 1.005 away


def test_the_gradient_is_that_of_moving_in_space_alone() -> None:
    settings = PwanSettings(**SMALL, transform="affine")
    registration = Registration(torus(), settings, [0], Place(dtype=torch.float64))
    registration.step()
    game = registration.solver.game
    theta, sample = game.transform.parameters, game.sample

    def loss() -> float:
        sample.move()
        assert sample.points.shape[2] == 3 + 4
        both = [game.network.output(game.network.features(of)) for of in (game.reference, sample.points)]
        return float(game.loss(*both, sample.seen).value) / sample.seen.totals[1]

    attributes = sample.points[..., 3:].clone()
    gradient, _ = game.loss_gradient(game.network.features(sample.points))
    for place in ((0, 0, 1), (0, 3, 0), (0, 3, 2)):
        ends = []
        for step in (1e-6, -2e-6):
            theta.data[place] += step
            ends.append(loss())
        theta.data[place] += 1e-6
        assert float(gradient[place]) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=2e-5)
    assert torch.equal(sample.points[..., 3:], attributes)


def test_a_point_is_matched_by_its_distance_in_the_product() -> None:
    y, x = double(0, 0, 1, 0, 5, 5).view(1, 3, 2), double(0.1, 0, 1.1, 0, 9, 0).view(1, 3, 2)
    attributes = Attributes(double(0, 1, 0).view(1, 3, 1), double(0, 0, 0).view(1, 3, 1))
    problem = RegistrationProblem(y, x, distance=double(0.5))
    assert matched_points(y, problem, "distance")[0].tolist() == [[True, True, False]]
    assert matched_points(y, replace(problem, attributes=attributes), "distance")[0].tolist() == [[True, False, False]]


def test_attributes_are_lengths_and_follow_the_frame_and_the_direction() -> None:
    given = replace(torus(), source=2 * torus().source)
    normalised, frame = normalise(given, "separate")
    assert given.attributes is not None and normalised.attributes is not None
    for name in ("source", "reference"):
        wanted = getattr(given.attributes, name) / frame.reference_scale
        torch.testing.assert_close(getattr(normalised.attributes, name), wanted)
    running = Registration(given, PwanSettings(**SMALL, normalisation="separate"), [0])
    back = coarse.turned_round(given, [running])
    assert back.attributes is not None
    unit = float(frame.reference_scale / frame.source_scale)
    torch.testing.assert_close(back.attributes.source, given.attributes.reference / unit)
    there, again = coarse.sampled(given, [0]), coarse.turned_round(back, [Registration(back, running.settings, [0])])
    assert there.attributes is not None and again.attributes is not None
    torch.testing.assert_close(again.attributes.source, given.attributes.source)


@pytest.mark.parametrize("method", ["pwan", "soft_assignment"])
def test_labels_halve_the_error_where_parts_are_alike(method: str) -> None:
    given, truth = row()
    errors = []
    for problem in (replace(given, attributes=None), given):
        moved = methods.run(method, problem, ROW if method == "pwan" else {}, seeds=[0]).transformed[:, 60:]
        errors.append(float((moved - truth).square().sum(-1).mean()))
    assert errors[1] < 0.5 * errors[0] and errors[0] > 1.0, errors


WAYS: dict[str, dict[str, Any]] = {
    "rigid": {"transform": "rigid"},
    "affine": {"transform": "affine"},
    "distance": {"type": "distance"},
    "samples and parts": {"sample": 40, "update_points": 60},
    "nearest": {"refinement": "nearest", "nearest_steps": 3},
    "coarse": {"coarse_steps": 6, "normalisation": "joint"},
    "rigid energy": {"energy": "rigid", "kernel": "geodesic"},
    "learned": {"threshold": "learned", "penalty": "max", "bound": "fold"},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_takes_attributes(way: str) -> None:
    given = torus(keep=0.8)
    if way == "distance":
        given = replace(given, distance=double(0.3), mass=None)
    found = coarse.register(given, PwanSettings(**QUICK | WAYS[way]), seeds=[0])
    assert found.status == ["ok"] and bool(found.matched.any())


def test_a_problem_of_a_batch_with_attributes_is_what_it_is_alone() -> None:
    given, settings = torus(2, keep=0.8), PwanSettings(**QUICK)
    both, alone = register(given, settings, seeds=[0, 1]), register(given.select([1]), settings, seeds=[1])
    torch.testing.assert_close(both.transformed[1:], alone.transformed, atol=1e-3, rtol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_run_with_normals_goes_on_from_its_state(dtype: torch.dtype) -> None:
    given, settings = torus(), PwanSettings(**SMALL)
    whole, before, after = (Registration(given, settings, [0], Place(dtype=dtype)) for _ in range(3))
    for _ in range(13):
        whole.step(), before.step()
    after.load_state_dict(before.state_dict())
    for _ in range(3):
        whole.step(), after.step()
    assert torch.equal(whole.transformed(), after.transformed())
    turned = whole.solver.transform.attributes
    assert turned is not None and given.attributes is not None
    start = normalise(given, "joint")[0].attributes
    assert start is not None and not torch.allclose(turned[..., :3].double(), start.source[..., :3], atol=1e-5)
    torch.testing.assert_close(turned.norm(dim=-1).double(), start.source.norm(dim=-1), atol=1e-5, rtol=1e-4)
    kept = whole.problem.attributes
    assert kept is not None and torch.equal(kept.source, start.source)


def test_a_free_displacement_turns_no_normals_and_takes_all_else() -> None:
    settings = PaperSettings(steps=2, nearest_steps=2)
    with pytest.raises(ValueError, match="parametrisation=free cannot turn normals"):
        register(torus(), settings, seeds=[0])
    assert register(torus(normals=False), settings, seeds=[0]).status == ["ok"]
