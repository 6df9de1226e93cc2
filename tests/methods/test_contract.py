"""The contract that every method keeps; a new file in methods/ with its YAML in conf/method/ is covered without an
edit.

The YAML states ``contract_mse``, the bound on the standard cell; where the method's own settings would take minutes,
``contract_options``, with which the bound is held; and where the method is known to fail on the standard cell,
``contract_problem``, the settings of an easier one. ``contract_mse: null`` is for settings that the paper has for other
data, and for packages that do not work: they need only end in a result, good or failed. Methods whose optional package
is not installed are skipped. Methods that move a mesh get small triangles of near points as its faces, in 3-D alone.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy.spatial import KDTree

from pwan import methods, shapes
from pwan.normalisation import normalise
from pwan.problem import RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem

CONF = Path(__file__).parents[2] / "conf" / "method"
NODES = {path.stem: yaml.safe_load(path.read_text())[path.stem] for path in sorted(CONF.glob("*.yaml"))}
CONTRACT = ("method", "contract_mse", "contract_options", "contract_problem")
TINY = {"steps": 3, "updates": 2, "warmup": 2, "nearest_steps": 3, "stages": 0, "rank": 20, "width": 8, "features": 8}


def method_of(name: str) -> str:
    return NODES[name].get("method", name)


def known_to_fail(name: str) -> bool:
    return NODES[name]["contract_mse"] is None


def contract_settings(name: str) -> dict[str, Any]:
    """The YAML's settings, with its quicker ones for the contract where it has such."""
    settings = {key: value for key, value in NODES[name].items() if key not in CONTRACT}
    return settings | NODES[name].get("contract_options", {})


def tiny_options(method: str) -> dict[str, Any]:
    """Settings that make the method quick, of those that it has."""
    known = {f.name for f in dataclasses.fields(methods.find(method).Settings)}
    return {key: value for key, value in TINY.items() if key in known}


def standard_cell(dimension: int = 3, points: int = 200, **changed: Any) -> RegistrationProblem:
    """Two problems with a smooth deformation, some outliers, and both limits stated."""
    shape = shapes.load("bunny" if dimension == 3 else "fish")
    settings = SynthesisSettings(**{"points": points, "outlier_ratio": 0.2, "distance": 1.0, "rank": 50, **changed})
    return make_problem(shape, settings, seed=0, trials=[0, 1])


def meshed(problem: RegistrationProblem) -> RegistrationProblem:
    """With a face from each source point to its two nearest ones."""
    near = [KDTree(points).query(points, 3)[1] for points in problem.source.numpy()]  # (r, 3) each
    return dataclasses.replace(problem, source_faces=torch.from_numpy(np.stack(near)))


def run_or_skip(method: str, problem: RegistrationProblem, options: dict[str, Any], **rest: Any) -> RegistrationResult:
    if methods.needs_faces(method):
        problem = meshed(problem)
    try:
        return methods.run(method, problem, options, **rest)
    except ImportError as missing:
        pytest.skip(str(missing))


def run(method: str, problem: RegistrationProblem, **options: Any) -> RegistrationResult:
    return run_or_skip(method, problem, {**tiny_options(method), **options}, seeds=list(range(len(problem))))


def test_every_method_has_a_yaml_and_every_yaml_a_method() -> None:
    assert {method_of(name) for name in NODES} == set(methods.names())


DIMENSIONS = [(name, d) for name in methods.names() for d in ((3,) if methods.needs_faces(name) else (2, 3))]


@pytest.mark.parametrize(("method", "dimension"), DIMENSIONS)
def test_shapes_kinds_and_inputs(method: str, dimension: int) -> None:
    problem = standard_cell(dimension, 60)
    before = (problem.source.clone(), problem.reference.clone())
    result = run(method, problem)
    again = run(method, problem)
    assert torch.equal(problem.source, before[0]) and torch.equal(problem.reference, before[1])
    b, r, d = problem.source.shape
    expected = {
        "transformed": (b, r, d),
        "transformed_unrefined": (b, r, d),
        "affine": (b, d, d),
        "translation": (b, 1, d),
        "displacement": (b, r, d),
    }
    for name, shape in expected.items():
        array = getattr(result, name)
        assert tuple(array.shape) == shape and array.dtype == torch.float64 and bool(array.isfinite().all()), name
    assert result.matched.shape == (b, r) and result.matched.dtype == torch.bool
    assert result.reference_matched.shape == problem.reference.shape[:2]
    composed = problem.source @ result.affine + result.translation + result.displacement
    torch.testing.assert_close(composed, result.transformed)
    if result.transform is not None:  # in single precision PWAN rounds what it takes V of
        moved = torch.stack([one(points) for one, points in zip(result.transform, problem.source, strict=True)])
        torch.testing.assert_close(moved, result.transformed, rtol=0, atol=1e-5)
    for name in ("status", "stop_reason", "steps", "seconds", "history"):
        assert len(getattr(result, name)) == b, name
    assert all(s > 0 for s in result.seconds)
    assert torch.equal(result.transformed, again.transformed), "the same seeds must give the same result"


@pytest.mark.parametrize("method", methods.names())
def test_observer_is_told_of_each_step(method: str) -> None:
    seen = []
    result = run_or_skip(
        method,
        standard_cell(points=40),
        tiny_options(method),
        seeds=[0, 1],
        observer=lambda p: seen.append((p.step, p.steps, p.transformed().shape)),
    )
    numbers, totals = [step for step, _, _ in seen], {steps for _, steps, _ in seen}
    assert numbers == sorted(set(numbers)) and 1 <= numbers[0] <= numbers[-1] <= min(totals) and len(totals) == 1
    assert len(seen) in (result.steps[0], sum(result.steps))  # solved as a batch, or one problem after the other
    assert {shape for _, _, shape in seen} == {result.transformed.shape}


@pytest.mark.parametrize("method", methods.names())
def test_one_seed_for_each_problem_is_asked_for(method: str) -> None:
    with pytest.raises(ValueError, match="seeds"):
        run_or_skip(method, standard_cell(points=40), tiny_options(method), seeds=[0])


@pytest.mark.parametrize("name", [n for n in NODES if method_of(n) == n and not known_to_fail(n)])
def test_rigid_motion_is_undone(name: str) -> None:
    """A turn by 20 degrees and a shift; the reference is the source in another order."""
    source = torch.from_numpy(shapes.load("bunny").points[:150].copy())[None]
    cosine, sine = math.cos(math.radians(20)), math.sin(math.radians(20))
    turn = torch.tensor([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]], dtype=torch.float64)
    truth = source @ turn + torch.tensor([0.1, -0.1, 0.05], dtype=torch.float64)
    centred = source - source.mean(1, keepdim=True) + truth.mean(1, keepdim=True)  # what the normalisation does alone
    problem = RegistrationProblem(source, truth.flip(1))
    result = run_or_skip(method_of(name), problem, contract_settings(name), seeds=[0])
    assert float(mean_squared_error(result.transformed, truth)) < 0.25 * float(mean_squared_error(centred, truth))


@pytest.mark.parametrize("name", [name for name in NODES if known_to_fail(name)])
def test_every_end_is_a_result(name: str) -> None:
    problem, method = standard_cell(points=60), method_of(name)
    result = run_or_skip(method, problem, {**contract_settings(name), **tiny_options(method)}, seeds=[0, 1])
    assert bool(result.transformed.isfinite().all())
    assert set(result.status) <= {"ok", "failed"} and all(result.stop_reason)


@pytest.mark.parametrize("name", [name for name in NODES if not known_to_fail(name)])
def test_error_on_the_standard_cell_is_under_the_stated_bound(name: str) -> None:
    problem = standard_cell(**NODES[name].get("contract_problem", {}))
    result = run_or_skip(method_of(name), problem, contract_settings(name), seeds=[0, 1])
    assert problem.truth is not None
    idle = normalise(problem, "auto")  # the best that no registration at all can claim
    nothing = idle[0].source * idle[1].reference_scale + idle[1].reference_centre
    errors = [
        float(mean_squared_error(p, problem.truth).max())
        for p in (result.transformed_unrefined, nothing, problem.source)
    ]
    assert result.status == ["ok", "ok"]
    assert errors[0] < NODES[name]["contract_mse"] < 0.7 * min(errors[1:])
