"""The Python front door: kinds of arrays, what comes back, and one clear sentence for each bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pwan import RegistrationResult, methods, register, shapes
from pwan.begin.estimate import estimate_limits
from pwan.problem import RegistrationProblem
from pwan.randomness import derive_seed
from pwan.registration import pipeline
from pwan.registration.settings import PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.weights import even_weights

FAST: dict[str, Any] = {"steps": 4, "warmup": 3, "width": 8, "features": 8, "rank": 20, "stages": 0}


@pytest.fixture(scope="module")
def problem() -> RegistrationProblem:
    return make_problem(shapes.load("torus"), SynthesisSettings(points=60, keep=0.8), seed=0, trials=[0, 1])


@pytest.fixture
def pair(problem: RegistrationProblem) -> tuple[np.ndarray, np.ndarray]:
    return problem.source[0].numpy().copy(), problem.reference[0].numpy().copy()


def test_import_is_light() -> None:
    heavy = [
        "hydra",
        "omegaconf",
        "pytorch_lightning",
        "lightning",
        "wandb",
        "matplotlib",
        "plotly",
        "ot",
        "pandas",
        "pooch",
        "tqdm.auto",
        "IPython",
    ]
    code = f"import sys, pwan; print([m for m in {heavy} if m in sys.modules])"
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=paths)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("limit", [{}, {"mass": 30}, {"mass": 30.5}, {"distance": 0.1}])
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numpy_single(pair: tuple[np.ndarray, np.ndarray], limit: dict, dimension: int, dtype: type) -> None:
    source, reference = (np.ascontiguousarray(p[:, :dimension], dtype=dtype) for p in pair)
    kept = source.copy()
    result = register(source, reference, **limit, **FAST)
    assert isinstance(result, RegistrationResult)
    assert np.array_equal(source, kept)
    r, q, d = len(source), len(reference), dimension
    shapes_of = {"transformed": (r, d), "transformed_unrefined": (r, d), "affine": (d, d), "translation": (1, d)}
    for name, shape in {**shapes_of, "displacement": (r, d)}.items():
        array = getattr(result, name)
        assert isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
        assert np.isfinite(array).all()
    assert result.matched.shape == (r,) and result.matched.dtype == bool
    assert result.reference_matched.shape == (q,) and result.reference_matched.dtype == bool
    composed = source @ result.affine + result.translation + result.displacement
    np.testing.assert_allclose(composed, result.transformed, atol=1e-5 if dtype == np.float32 else 1e-12)
    if "mass" in limit:
        assert result.matched.sum() == result.reference_matched.sum() == np.ceil(limit["mass"])
    if not limit:
        assert result.matched.all() and result.reference_matched.sum() == r
    assert result.status == "ok" and isinstance(result.stop_reason, str)
    assert result.steps == 4 and len(result.history["loss"]) == 4 and result.seconds > 0
    values = result.potential(reference)
    assert values.shape == (q,) and (values <= 0).all()


def test_torch_batch(problem: RegistrationProblem) -> None:
    source, reference = problem.source.float(), problem.reference.float()
    result = register(source, reference, mass=[20, 30], **FAST)
    assert result.transformed.shape == source.shape and result.transformed.dtype == torch.float32
    assert result.translation.shape == (2, 1, 3) and result.affine.shape == (2, 3, 3)
    assert result.matched.sum(1).tolist() == [20, 30]
    for name in ("status", "stop_reason", "steps", "seconds", "history", "potential"):
        assert isinstance(getattr(result, name), list) and len(getattr(result, name)) == 2
    assert isinstance(result.potential[1](reference[1]), torch.Tensor)
    torch.testing.assert_close(
        source @ result.affine + result.translation + result.displacement, result.transformed, atol=1e-5, rtol=0
    )


def test_batch_equals_singles(problem: RegistrationProblem) -> None:
    settings = PwanSettings(**{**FAST, "steps": 20})
    both = pipeline.register(problem, settings, seeds=[3, 4])
    for k in range(2):
        alone = pipeline.register(problem.select([k]), settings, seeds=[3 + k])
        torch.testing.assert_close(alone.transformed[0], both.transformed[k], atol=1e-6, rtol=0)
        torch.testing.assert_close(alone.transformed_unrefined[0], both.transformed_unrefined[k], atol=1e-6, rtol=0)


@pytest.mark.parametrize("mass", [[48.0, 20.0], [20.0, 48.0]])
def test_batch_of_whole_and_part_equals_singles(problem: RegistrationProblem, mass: list[float]) -> None:
    mixed = replace(problem, mass=torch.tensor(mass, dtype=torch.float64))
    settings, told = PwanSettings(**FAST), []
    both = pipeline.register(
        mixed, settings, seeds=[3, 4], observer=lambda p: told.append((p.step, p.steps, p.transformed()))
    )
    for k in range(2):
        alone = pipeline.register(mixed.select([k]), settings, seeds=[3 + k])
        torch.testing.assert_close(alone.transformed[0], both.transformed[k], atol=1e-6, rtol=0)
        assert alone.history[0]["loss"] == pytest.approx(both.history[k]["loss"], abs=1e-4)
    assert [(step, steps) for step, steps, _ in told] == [(k, 8) for k in range(1, 9)]
    assert told[0][2].shape == problem.source.shape


def test_rigid_keeps_lengths_whatever_the_extents(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source = pair[0]
    for reference in (1.3 * source, pair[1]):
        result = register(source, reference, transform="rigid", **FAST)
        np.testing.assert_allclose(result.affine @ result.affine.T, np.eye(3), atol=1e-5)
        assert np.linalg.det(result.affine) == pytest.approx(1.0, abs=1e-5)
        assert np.abs(result.displacement).max() == 0


def test_affine_has_no_displacement(pair: tuple[np.ndarray, np.ndarray]) -> None:
    result = register(*pair, transform="affine", **FAST)
    assert np.abs(result.displacement).max() == 0


def test_distance_method_without_a_distance_matches_all_of_the_smaller_set(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = pair[0], pair[1][:30]
    free = register(source, reference, method="pwan_distance", **FAST)
    limited = register(source, reference, mass=30, **FAST)
    np.testing.assert_array_equal(free.transformed, limited.transformed)
    assert free.matched.sum() == 30


def test_complete_transport_matches_every_point(pair: tuple[np.ndarray, np.ndarray]) -> None:
    result = register(pair[0], pair[1][:30], method="wgan", **FAST)
    assert result.matched.all() and result.reference_matched.all()


def test_potential_is_bounded_and_flat_beyond_the_threshold(pair: tuple[np.ndarray, np.ndarray]) -> None:
    result = register(*pair, distance=0.2, **FAST, distance_start=0.0)
    grid = np.random.default_rng(0).normal(size=(500, 3)) * 3
    values = result.potential(grid[::-1])
    assert values.min() >= -0.2 - 1e-6 and values.max() <= 0
    assert isinstance(result.potential(torch.from_numpy(grid)), torch.Tensor)
    with pytest.raises(ValueError, match=r"shape"):
        result.potential(grid[0])
    with pytest.raises(ValueError, match=r"\(N, 3\)"):
        result.potential(grid[:, :2])


def test_transform_is_a_function_of_any_points(pair: tuple[np.ndarray, np.ndarray]) -> None:
    result = register(*pair, mass=30, **FAST)
    assert result.transform is not None
    moved = result.transform(pair[0])
    assert isinstance(moved, np.ndarray) and moved.dtype == np.float64
    np.testing.assert_allclose(moved, result.transformed, atol=1e-5)
    grid = np.random.default_rng(0).normal(size=(500, 3))
    np.testing.assert_allclose(result.transform(grid[::-1])[::-1], result.transform(grid), atol=1e-12)
    on_torch = result.transform(torch.from_numpy(grid).float())
    assert isinstance(on_torch, torch.Tensor) and on_torch.dtype == torch.float64
    assert 0.0 <= result.transform.folded(grid) <= 1.0
    with pytest.raises(ValueError, match=r"\(M, 3\)"):
        result.transform(grid[:, :2])


def test_transform_of_a_batch_and_of_a_method_without_one(problem: RegistrationProblem) -> None:
    result = register(problem.source, problem.reference, **FAST)
    assert isinstance(result.transform, list) and len(result.transform) == 2
    moved = torch.stack([one(points) for one, points in zip(result.transform, problem.source, strict=True)])
    torch.testing.assert_close(moved, result.transformed, atol=1e-5, rtol=0)
    free = register(problem.source[0], problem.reference[0], **FAST, parametrisation="free", refinement="none")
    assert free.transform is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_transform_at_a_far_origin_and_in_other_units(pair: tuple[np.ndarray, np.ndarray], scale: float) -> None:
    source, reference = pair
    shift = scale * np.array([5e5, 5e6, 100.0])  # as UTM coordinates, in the unit
    plain, far = register(*pair, **FAST), register(source * scale + shift, reference * scale + shift, **FAST)
    assert plain.transform is not None and far.transform is not None
    points = np.random.default_rng(0).normal(size=(200, 3))
    expected = plain.transform(points) * scale
    np.testing.assert_allclose(far.transform(points * scale + shift) - shift, expected, atol=2e-8 * scale)


def test_same_seed_same_result_and_another_seed_another(pair: tuple[np.ndarray, np.ndarray]) -> None:
    first, again, other = (register(*pair, seed=s, **FAST).transformed_unrefined for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_integer_readonly_noncontiguous_and_nested_lists(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = (np.round(p * 1000).astype(np.int32) for p in pair)
    expected = register(source.astype(float), reference.astype(float), **FAST).transformed
    result = register(source, reference, **FAST)
    assert result.transformed.dtype == np.float64
    np.testing.assert_array_equal(result.transformed, expected)
    readonly = source.astype(float)
    readonly.setflags(write=False)
    wide = np.zeros((len(reference), 6))
    wide[:, ::2] = reference
    np.testing.assert_array_equal(register(readonly, wide[:, ::2], **FAST).transformed, expected)
    swapped = source.astype(">f8")
    np.testing.assert_array_equal(register(swapped, np.asfortranarray(reference), **FAST).transformed, expected)
    as_lists = register(source.tolist(), reference.tolist(), **FAST).transformed
    np.testing.assert_array_equal(as_lists, expected)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_scale_and_origin_change_nothing_but_rounding(
    pair: tuple[np.ndarray, np.ndarray], scale: float, offset: float
) -> None:
    source, reference = pair
    plain = register(source, reference, mass=30, **FAST)
    shift = offset * np.array([1.0, -2.0, 0.5])
    if scale == 1e-6 and offset:
        shift = shift * 1e-6  # at 1e6 times their size from the origin the points themselves have no digits left
    moved = register(source * scale + shift, reference * scale + shift, mass=30, **FAST)
    digits = 1e-14 * np.abs(shift).max() + 1e-9 * scale  # the coordinates themselves are rounded to eps * offset
    for name in ("transformed", "transformed_unrefined"):
        np.testing.assert_allclose(getattr(moved, name) - shift, getattr(plain, name) * scale, atol=digits)


def test_distance_has_the_units_of_the_points(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = pair
    metres = register(source, reference, distance=0.2, **FAST)
    millimetres = register(source * 1000, reference * 1000, distance=200.0, **FAST)
    np.testing.assert_allclose(millimetres.transformed, 1000 * metres.transformed, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(
        millimetres.potential(reference * 1000), 1000 * metres.potential(reference), rtol=1e-3, atol=1e-2
    )


def test_mass_auto_is_estimated_for_each_problem(problem: RegistrationProblem) -> None:
    options = {**FAST, "seed": 4}
    masses = [estimate_limits(y, x, seed=4).mass for y, x in zip(problem.source, problem.reference, strict=True)]
    found = register(problem.source, problem.reference, mass="auto", **options)
    given = register(problem.source, problem.reference, mass=masses, **options)
    assert torch.equal(found.transformed, given.transformed)


def test_objects_with_points_are_taken_by_their_attributes(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = pair
    plain = register(source, reference, **FAST)
    mesh, cloud = (
        SimpleNamespace(vertices=source, faces=None),
        SimpleNamespace(points=[tuple(row) for row in reference]),
    )
    found = register(mesh, cloud, **FAST)
    assert isinstance(found.transformed, np.ndarray)
    np.testing.assert_array_equal(found.transformed, plain.transformed)


def test_weights_are_arrays_of_one_or_all_problems_or_even(problem: RegistrationProblem) -> None:
    y, x = problem.source, problem.reference
    own = torch.rand(y.shape[:2], generator=torch.Generator().manual_seed(0)).double() + 0.5
    stated = replace(problem, truth=None, mass=None, source_weights=own)
    expected = methods.run("pwan", stated, FAST, seeds=[derive_seed(0, k, "method") for k in range(2)])
    found = register(y, x, source_weights=own, **FAST)
    assert torch.equal(found.transformed, expected.transformed)
    assert not torch.equal(found.transformed, register(y, x, **FAST).transformed)
    same, repeated = (register(y, x, source_weights=w, **FAST) for w in (own[0].tolist(), own[:1].expand(2, -1)))
    assert torch.equal(same.transformed, repeated.transformed)
    even = np.stack([even_weights(points.numpy()) for points in x])
    by_word, by_array = (register(y, x, reference_weights=w, **FAST) for w in ("even", even))
    assert torch.equal(by_word.transformed, by_array.transformed)


def test_even_weights_of_a_mesh_are_of_its_faces_and_the_estimate_counts_them() -> None:
    torus = shapes.load("torus")
    assert torus.vertices is not None and torus.faces is not None
    vertices, cloud = torus.vertices.copy(), torus.points[:100].copy()
    corners = vertices[torus.faces]
    options: dict[str, Any] = {"reference_weights": None, "mass": "auto", "method": "soft_assignment", "steps": 3}
    by_hand = register(vertices, cloud, source_weights=even_weights(vertices, torus.faces), **options)
    plain = register(vertices, cloud, **options)
    assert not np.array_equal(by_hand.transformed, plain.transformed)
    for mesh in (
        SimpleNamespace(vertices=vertices, faces=torus.faces, triangles=corners),  # as trimesh
        SimpleNamespace(vertices=vertices, triangles=torus.faces.astype(np.int32)),  # as Open3D
        SimpleNamespace(
            points=vertices, faces=np.pad(torus.faces, ((0, 0), (0, 1)), constant_values=-1), triangles=torus.faces
        ),  # as PointFile
    ):
        found = register(mesh, cloud, source_weights="even", **options)
        np.testing.assert_array_equal(found.transformed, by_hand.transformed)
    bare = register(
        SimpleNamespace(vertices=vertices, triangles=np.empty((0, 3), int)), cloud, source_weights="even", **options
    )
    density = register(vertices, cloud, source_weights="even", **options)
    np.testing.assert_array_equal(bare.transformed, density.transformed)


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_result_draws_itself(pair: tuple[np.ndarray, np.ndarray], dimension: int, tmp_path: Path) -> None:
    source, reference = (np.ascontiguousarray(points[:, :dimension]) for points in pair)
    figure = register(source, reference, mass=30, **FAST).plot()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["initial sets", f"registered, {30 / 48:.0%} of the source matched"]
    figure.savefig(tmp_path / "a.png")
    batch = register(torch.from_numpy(source)[None], torch.from_numpy(reference)[None], mass=30, **FAST)
    assert [axes.get_title() for axes in batch.plot(0).axes] == titles


BAD = {
    "both given": (lambda s, r: register(s, r, mass=3, distance=1.0), "not both"),
    "NaN": (lambda s, r: register(np.where(s == s[3, 0], np.nan, s), r), "finite.*row 3"),
    "infinite": (lambda s, r: register(s, np.where(r == r[5, 1], np.inf, r)), "reference must be finite.*row 5"),
    "too few": (lambda s, r: register(s[:3], r), "at least 4 points in 3-D, got 3"),
    "no points": (lambda s, r: register(s[:0], r), "at least 4 points"),
    "1-D": (lambda s, r: register(s[:, 0], r), "shape"),
    "4-D": (lambda s, r: register(np.hstack([s, s]), r), "D 2 or 3"),
    "2-D against 3-D": (lambda s, r: register(s[:, :2], r), "source is 2-D and reference is 3-D"),
    "single against batch": (lambda s, r: register(s, r[None]), "both"),
    "batch sizes": (lambda s, r: register(np.stack([s] * 2), np.stack([r] * 3)), "2 problems and reference 3"),
    "mass too large": (lambda s, r: register(s, r, mass=49), "at most the size of the smaller set, 48"),
    "mass zero": (lambda s, r: register(s, r, mass=0), "mass must be positive"),
    "mass negative": (lambda s, r: register(s, r, mass=-1), "mass must be positive"),
    "mass NaN": (lambda s, r: register(s, r, mass=float("nan")), "mass must be positive"),
    "weights negative": (lambda s, r: register(s, r, source_weights=-np.ones(48)), "source_weights must be finite and"),
    "weights NaN": (
        lambda s, r: register(s, r, reference_weights=np.full(48, np.nan)),
        "reference_weights must be fin",
    ),
    "weights infinite": (lambda s, r: register(s, r, source_weights=np.full(48, np.inf)), "must be finite and zero or"),
    "weights zero": (lambda s, r: register(s, r, source_weights=np.zeros(48)), "source_weights must not all be zero"),
    "weights too few": (lambda s, r: register(s, r, source_weights=np.ones(47)), r"shape .48,., one .*; got .47,."),
    "weights a word": (lambda s, r: register(s, r, source_weights="evn"), "an array with one weight.*or .even., got"),
    "weights as text": (lambda s, r: register(s, r, source_weights=["a"] * 48), "source_weights must be an array"),
    "weights ragged": (lambda s, r: register(s, r, source_weights=[[1], [1, 2]]), "source_weights must be an array"),
    "weights a number": (lambda s, r: register(s, r, source_weights=2.0), r"got \(\)"),
    "weights for bcpd": (lambda s, r: register(s, r, source_weights="even", method="bcpd"), "does not take weights"),
    "mass above the weights": (
        lambda s, r: register(s, r, source_weights=np.full(48, 0.5), mass=25),
        "total weight of the lighter set",
    ),
    "faces beyond the points": (
        lambda s, r: register(SimpleNamespace(vertices=s, faces=np.array([[0, 1, 48]])), r, source_weights="even"),
        "face 0 of source_faces names the points .0, 1, 48.",
    ),
    "faces of another batch": (
        lambda s, r: register(np.stack([s] * 3), np.stack([r] * 3), source_faces=np.array([[[0, 1, 2]]] * 2)),
        r"source_faces must be int64 of shape .3, F, 3.*got torch.int64 of shape .2, 1, 3.",
    ),
    "mass a word": (lambda s, r: register(s, r, mass="many"), "mass must be a number"),
    "batch sizes, auto": (
        lambda s, r: register(np.stack([s] * 2), np.stack([r] * 3), mass="auto"),
        "2 problems and reference 3",
    ),
    "mass two numbers": (lambda s, r: register(s, r, mass=[1, 2]), "one for each of the 1"),
    "mass a truth value": (lambda s, r: register(s, r, mass=True), "mass must be a number"),
    "distance infinite": (lambda s, r: register(s, r, distance=np.inf), "positive and finite"),
    "no problems": (lambda s, r: register(s[None][:0], r[None][:0]), "at least one"),
    "seed a fraction": (lambda s, r: register(s, r, seed=1.5), "seed must be a whole number"),
    "complete with mass": (lambda s, r: register(s, r, mass=3, method="wgan"), "matches all of both"),
    "distance zero": (lambda s, r: register(s, r, distance=0.0), "distance must be positive"),
    "identical points": (lambda s, r: register(np.ones_like(s), r), "same point"),
    "objects": (lambda s, r: register(s.astype(object), r), "real numbers"),
    "complex": (lambda s, r: register(s.astype(complex), r), "real numbers"),
    "text": (lambda s, r: register(s.astype(str), r), "real numbers"),
    "unknown method": (lambda s, r: register(s, r, method="pwam"), "did you mean 'pwan'"),
    "unknown option": (lambda s, r: register(s, r, stepz=3), "did you mean 'steps'"),
    "wrong type": (lambda s, r: register(s, r, steps="many"), "steps must be a whole number"),
    "wrong choice": (lambda s, r: register(s, r, refinement="hard"), "one of 'soft', 'nearest', 'none'"),
    "out of range": (lambda s, r: register(s, r, rate=-1.0), "rate must be positive"),
    "distance method, mass": (lambda s, r: register(s, r, mass=3, method="pwan_distance"), "needs a distance"),
    "mass type, distance": (lambda s, r: register(s, r, distance=0.1, type="mass"), "needs a mass"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_a_sentence(pair: tuple[np.ndarray, np.ndarray], case: str) -> None:
    call, words = BAD[case]
    with pytest.raises(ValueError, match=words):
        call(*pair)


def test_numbers_of_numpy_are_numbers(pair: tuple[np.ndarray, np.ndarray]) -> None:
    numbers: dict[str, Any] = {"steps": np.int64(4), "pull": np.float32(1.0), "seed": np.int64(3)}
    result = register(*pair, mass=np.float32(30), **{**FAST, **numbers})
    np.testing.assert_array_equal(result.transformed, register(*pair, mass=30, seed=3, pull=1.0, **FAST).transformed)


def test_a_result_of_any_kind_of_tensor_is_judged_and_drawn(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = (torch.from_numpy(points) for points in pair)
    half = register(source.bfloat16(), reference, **FAST)
    assert 0 <= half.confidence <= 1 and half._repr_html_()
    batch: Any = [source.clone().requires_grad_(), source.clone()]
    assert len(register(batch, torch.stack((reference,) * 2), **FAST).confidence) == 2


def test_collinear_and_coplanar_points_work(pair: tuple[np.ndarray, np.ndarray]) -> None:
    line = np.linspace(0, 1, 30)[:, None] * np.array([1.0, 2.0, 3.0])
    result = register(line, line + [0.1, 0.0, 0.0], **FAST)
    assert np.isfinite(result.transformed).all() and result.status == "ok"
    flat = pair[0] * [1.0, 1.0, 0.0]
    moved = register(flat, pair[1] * [1.0, 1.0, 0.0], **FAST)
    for points in (moved.transformed, moved.transformed_unrefined):
        np.testing.assert_allclose(points[:, 2], 0.0, atol=1e-6)
        assert np.abs(points[:, :2] - flat[:, :2]).max() > 1e-3  # within the plane they do move


def test_extents_that_differ_are_named(pair: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(UserWarning, match="extents differ more than threefold.*RMS radius.*units"):
        register(pair[0] * 1000, pair[1], **FAST)


@pytest.mark.parametrize("refinement", ["soft", "nearest", "none"])
@pytest.mark.parametrize("options", [{"rate": 1e30}, {"rate": 1e10}, {"network_rate": 1e30}, {"transform": "rigid"}])
def test_divergence_is_a_status_and_never_nan(
    pair: tuple[np.ndarray, np.ndarray], options: dict, refinement: str
) -> None:
    if options == {"transform": "rigid"}:
        options = {"transform": "rigid", "rate": 1e38}
    result = register(*pair, **{**FAST, "steps": 8, "refinement": refinement, **options})
    assert result.status == "failed"
    assert "diverged at step" in result.stop_reason and "lower rate" in result.stop_reason
    assert result.steps == len(result.history["loss"]) < 8  # it stops at once
    extent = np.abs(pair[1]).max() * 3
    assert np.abs(result.transformed).max() < extent  # where it started
    np.testing.assert_array_equal(result.transformed, result.transformed_unrefined)


@pytest.mark.parametrize("options", [{"refinement": "nearest", "nearest_rate": 1e38}, {"steps": 0}])
@pytest.mark.parametrize("limit", [{}, {"mass": 30}, {"distance": 0.3}])
def test_odd_settings_give_finite_points(pair: tuple[np.ndarray, np.ndarray], options: dict, limit: dict) -> None:
    result = register(*pair, **limit, **{**FAST, **options})
    assert result.status == "ok" and np.isfinite(result.transformed).all()
    if "steps" in options:
        assert result.steps == 0 and result.history["loss"] == []


def test_a_diverging_problem_does_not_touch_its_batch(problem: RegistrationProblem) -> None:
    settings = PwanSettings(**FAST)
    registration = pipeline.Registration(problem, settings, [1, 2])
    registration.step()
    registration.solver.network.parameters[0] = torch.nan
    while not registration.solver.finished:
        registration.step()
    result = registration.finish()
    alone = pipeline.register(problem.select([1]), settings, seeds=[2])
    assert result.status == ["failed", "ok"]
    assert bool(result.transformed.isfinite().all())
    torch.testing.assert_close(result.transformed[1], alone.transformed[0], atol=1e-5, rtol=0)


# settings as an object


def test_settings_as_an_object_are_the_same_as_by_name(pair: tuple[np.ndarray, np.ndarray]) -> None:
    named, given = register(*pair, **FAST), register(*pair, settings=PwanSettings(**FAST))
    np.testing.assert_array_equal(given.transformed, named.transformed)


def test_names_are_put_over_an_object(pair: tuple[np.ndarray, np.ndarray]) -> None:
    settings = PwanSettings(**{**FAST, "steps": 2})
    both = register(*pair, settings=settings, steps=FAST["steps"])
    assert both.steps == FAST["steps"] and settings.steps == 2
    np.testing.assert_array_equal(both.transformed, register(*pair, **FAST).transformed)


@pytest.mark.parametrize("method", methods.names())
def test_each_method_takes_its_own_class_and_help_names_it(method: str) -> None:
    own = methods.find(method).Settings
    assert methods.settings(method, over=own()) == own()
    assert f"        {method}: ``pwan.methods.{method}.Settings``" in (register.__doc__ or "").splitlines()


OTHER_SETTINGS = {
    "of another method": (
        lambda: {"settings": methods.find("cpd").Settings(), "method": "bcpd"},
        r"method bcpd takes settings of the class pwan\.methods\.bcpd\.Settings, got Settings.*method='cpd'",
    ),
    "of a subclass": (lambda: {"settings": methods.find("pwan_paper").Settings()}, "got PaperSettings.*'pwan_paper'"),
    "of a base": (lambda: {"settings": PwanSettings(), "method": "wgan"}, r"methods\.wgan\.Settings.*method='pwan'"),
    "the class": (lambda: {"settings": PwanSettings}, r"the class PwanSettings itself; call it: PwanSettings\(\)"),
    "a dict": (lambda: {"settings": {"steps": 3}}, r"methods\.pwan\.Settings \(PwanSettings\), got dict"),
    "a wrong type inside": (lambda: {"settings": PwanSettings(transform="bent")}, "transform must be one of"),
}


@pytest.mark.parametrize("case", OTHER_SETTINGS)
def test_settings_of_another_class_are_refused(pair: tuple[np.ndarray, np.ndarray], case: str) -> None:
    options, words = OTHER_SETTINGS[case]
    with pytest.raises(ValueError, match=words):
        register(*pair, **options())


MISSPELT = {
    **{"mas": "mass", "masss": "mass", "distnace": "distance", "dist": "distance", "landmark": "landmarks"},
    **{"metod": "method", "sead": "seed", "setting": "settings", "observers": "observer", "progess": "progress"},
    **{"step": "steps", "transfrom": "transform", "refinment": "refinement", "cohrence": "coherence"},
}


@pytest.mark.parametrize("word", MISSPELT)
def test_a_misspelt_argument_suggests_the_right_one(pair: tuple[np.ndarray, np.ndarray], word: str) -> None:
    with pytest.raises(ValueError, match=rf"'{word}' \(did you mean '{MISSPELT[word]}'\?\)"):
        register(*pair, **{word: 3})


@pytest.mark.parametrize("name", ["pwan", "pwan_distance", "wgan", "pwan_paper", "pwan_paper_distance"])
def test_methods_are_found(name: str) -> None:
    assert name in methods.names()
    assert methods.settings(name) == methods.find(name).Settings()


def test_a_registration_begins_at_the_guess(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = pair
    there = source[:, [1, 0, 2]] * [1, -1, 1] + 0.3  # a quarter turn and a shift
    still: dict[str, Any] = {**FAST, "steps": 0, "transform": "rigid", "refinement": "none"}
    result = register(source, reference, guess=there, **still)
    np.testing.assert_allclose(result.transformed, there, atol=1e-4)
    both = register(np.stack((source, source)), np.stack((reference, reference)), guess=[there, source], **still)
    np.testing.assert_allclose(both.transformed, [there, source], atol=1e-4)
    with pytest.raises(ValueError, match=r"guess must have the shape of source \(1, 48, 3\), got \(1, 47, 3\)"):
        register(source, reference, guess=there[:-1])


def test_an_estimated_mass_is_that_of_the_guess(pair: tuple[np.ndarray, np.ndarray]) -> None:
    source, reference = pair
    away = np.array([50.0, 0.0, 0.0])
    result = register(source + away, reference, guess=source, mass="auto", **FAST)
    assert result.matched.sum() == int(np.ceil(estimate_limits(source, reference).mass))
