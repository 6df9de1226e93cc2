"""The transform on all of space: closed forms, its derivative, the source points, files, and all methods with one."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pwan import methods, shapes
from pwan.deformation import kernels, space
from pwan.deformation.kernels import KernelSum
from pwan.deformation.space import SpaceTransform
from pwan.normalisation import Frame
from pwan.problem import RegistrationProblem, RegistrationResult
from pwan.registration import pipeline
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import quantise
from pwan.synthesis import SynthesisSettings, make_problem

FAST: dict[str, Any] = {
    "steps": 20,
    "warmup": 10,
    "width": 8,
    "features": 8,
    "rank": 40,
    "stages": 0,
    "nearest_steps": 5,
}
UTM = torch.tensor([5.0e5, 5.0e6, 100.0], dtype=torch.float64)
ON_SPACE = ("pwan", "soft_assignment", "cpd", "bcpd", "gmmreg", "tpsrpm")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_frame(d: int, centre: float = 0.0) -> Frame:
    return Frame(
        draw(1, 1, d, seed=1) + centre,
        torch.full((1, 1, 1), 2.0, dtype=torch.float64),
        draw(1, 1, d, seed=2) + centre,
        torch.full((1, 1, 1), 3.0, dtype=torch.float64),
    )


def some_transform(d: int, kernel: str = "gaussian", centre: float = 0.0, strength: float = 0.05) -> SpaceTransform:
    """Not affine, with another scale and centre on each side."""
    sums = KernelSum(draw(7, d, seed=3), strength * draw(7, d, seed=4), kernel, 0.8)  # type: ignore[arg-type]
    affine = torch.eye(d).double() + 0.1 * draw(d, d, seed=5)
    return SpaceTransform(some_frame(d, centre), affine, 0.1 * draw(1, d, seed=6), sums)


def bunny(points: int = 80, dimension: int = 3, **changed: Any) -> RegistrationProblem:
    shape = shapes.load("bunny" if dimension == 3 else "fish")
    points = min(points, 80) if dimension == 2 else points
    synthesis = SynthesisSettings(**{"points": points, "outlier_ratio": 0.2, "rank": 50, "distance": 1.0, **changed})
    return make_problem(shape, synthesis, seed=0, trials=[0, 1])


def pwan(problem: RegistrationProblem, **options: Any) -> RegistrationResult:
    return pipeline.register(problem, PwanSettings(**{**FAST, **options}), seeds=[0, 1])


def largest_error(problem: RegistrationProblem, result: RegistrationResult) -> float:
    """Between the transform at the source points and the moved source, in RMS radii of the reference."""
    assert result.transform is not None
    moved = torch.stack([one(points) for one, points in zip(result.transform, problem.source, strict=True)])
    centred = problem.reference - problem.reference.mean(1, keepdim=True)
    radius = centred.square().sum(-1).mean(1).sqrt()  # (B,)
    return float(((moved - result.transformed).norm(dim=-1).amax(1) / radius).max())


def test_pure_affine_map() -> None:
    points, affine = draw(50, 3), draw(3, 3, seed=1)
    one = replace(some_transform(3), affine=affine, displacement=KernelSum.zero(3))
    frame = one.frame
    expected = (points - frame.source_centre[0]) / 2 @ affine + one.translation
    torch.testing.assert_close(one(points), expected * 3 + frame.reference_centre[0])
    determinant = torch.linalg.det(affine) * 1.5**3
    torch.testing.assert_close(one.jacobian_determinants(points), determinant.expand(50))
    assert one.folded(points) == float(determinant < 0)
    mirrored = replace(one, affine=affine * torch.tensor([-1.0, 1.0, 1.0]))
    assert mirrored.folded(points) == float(determinant > 0)
    torch.testing.assert_close(one.jacobians(points), (1.5 * affine).expand(50, -1, -1))


@pytest.mark.parametrize("d", [2, 3])
def test_gaussian_gradient_is_that_of_autograd(d: int) -> None:
    sums, points = some_transform(d).displacement, draw(20, d, seed=9)
    jacobian = torch.autograd.functional.jacobian(sums, points)  # (M, D of V, M, D of x)
    expected = torch.stack([jacobian[m, :, m].T for m in range(len(points))])
    torch.testing.assert_close(sums.gradient(points), expected)
    at_centres = sums.gradient(sums.centres)
    assert bool(at_centres.isfinite().all())


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kernel", ["gaussian", "thin_plate"])
@pytest.mark.parametrize("centre", [0.0, 1e5])
def test_jacobian_is_the_limit_of_differences(d: int, kernel: str, centre: float) -> None:
    one, points = some_transform(d, kernel, centre), draw(200, d, seed=9) + centre
    step = 1e-5 if centre == 0 else 1e-3
    columns = [
        (one(points + step * axis) - one(points - step * axis)) / (2 * step)
        for axis in torch.eye(d, dtype=torch.float64)
    ]
    differences = torch.stack(columns, 1)  # (M, D of y, D of moved)
    tolerance = 1e-8 if centre == 0 else 1e-5
    torch.testing.assert_close(one.jacobians(points), differences, rtol=0, atol=tolerance)
    torch.testing.assert_close(
        one.jacobian_determinants(points), torch.linalg.det(differences), rtol=0, atol=10 * tolerance
    )


def test_a_fold_is_found_where_it_is() -> None:
    """x moves by -a exp(-x^2 / 2), so d moved / dx = 1 + a x exp(-x^2 / 2): negative around x = -1 if a > sqrt(e)."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    zero = torch.zeros(1, 1, 2, dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    x = torch.linspace(-4, 4, 801, dtype=torch.float64)
    points = torch.stack([x, torch.zeros_like(x)], 1)
    for strength in (1.5, 2.0):
        weights = torch.tensor([[-strength, 0.0]], dtype=torch.float64)
        bent = SpaceTransform(Frame(zero, one, zero, one), eye, zero[0], KernelSum(zero[0], weights, "gaussian", 1.0))
        slope = 1 + strength * x * torch.exp(-x.square() / 2)
        torch.testing.assert_close(bent.jacobian_determinants(points), slope)
        assert bent.folded(points) == float((slope < 0).double().mean())
        assert (bent.folded(points) > 0) == (strength > math.sqrt(math.e))


@pytest.mark.parametrize("refinement", ["soft", "nearest", "none"])
@pytest.mark.parametrize("keep", [1.0, 0.8])
@pytest.mark.parametrize("dimension", [2, 3])
def test_source_points_go_where_the_result_says(refinement: str, keep: float, dimension: int) -> None:
    problem = bunny(dimension=dimension, keep=keep, distance=None)
    result = pwan(problem, refinement=refinement)
    assert float(result.displacement.norm(dim=-1).max()) > 0.01  # there is something to be found again
    assert largest_error(problem, result) < 1e-5  # the solver's own coordinates are rounded to 2^-16


def test_nothing_but_the_rounding_of_coordinates_differs() -> None:
    problem = bunny(distance=None)
    registration = pipeline.Registration(problem, PwanSettings(**FAST), [0, 1])
    while not registration.solver.finished:
        registration.step()
    result, frame = registration.finish(), registration.frame
    assert result.transform is not None
    rounded = quantise(registration.problem.source).double() * frame.source_scale + frame.source_centre
    for k in range(2):
        one, source, t = result.transform[k], problem.source[k], result.transformed[k]
        shift = (rounded[k] - source) @ result.affine[k]  # what the affine part does to the rounding
        torch.testing.assert_close(one(rounded[k]) - shift, t, rtol=0, atol=1e-6)


@pytest.mark.parametrize("transform", ["rigid", "affine"])
def test_rigid_and_affine_transforms(transform: str) -> None:
    problem = bunny(distance=None)
    result = pwan(problem, transform=transform)
    assert largest_error(problem, result) < 1e-12 and result.transform is not None
    assert result.transform[0].to_dict()["displacement"] is None
    expected = torch.linalg.det(result.affine)
    for k in range(2):
        determinants = result.transform[k].jacobian_determinants(problem.source[k])
        torch.testing.assert_close(determinants, expected[k].expand(len(determinants)))
    if transform == "rigid":
        torch.testing.assert_close(expected, torch.ones(2, dtype=torch.float64), atol=1e-5, rtol=0)


def test_a_free_displacement_is_known_at_the_source_only() -> None:
    assert pwan(bunny(40, distance=None), parametrisation="free", refinement="none", steps=3).transform is None
    mixed = replace(bunny(40, outlier_ratio=0.0, distance=None), mass=torch.tensor([40.0, 20.0]).double())
    assert pwan(mixed, parametrisation="free", refinement="none", steps=3).transform is None
    both = pwan(mixed, steps=3)  # solved as two batches, told as one
    assert largest_error(mixed, both) < 1e-5


def test_it_is_the_refined_transform() -> None:
    problem = bunny(distance=None)
    result = pwan(problem)
    assert result.transform is not None
    moved = result.transform[0](problem.source[0])
    refined, unrefined = ((moved - p[0]).norm(dim=-1).max() for p in (result.transformed, result.transformed_unrefined))
    assert float(refined) < 0.01 * float(unrefined)


@pytest.mark.parametrize("method", ON_SPACE)
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("far", [False, True])
def test_methods_that_are_functions_on_space(method: str, dimension: int, far: bool) -> None:
    problem = bunny(60, dimension)
    if far:
        shift = UTM[:dimension]
        problem = replace(problem, source=problem.source + shift, reference=problem.reference + shift)
    options = FAST if method == "pwan" else {}
    result = methods.run(method, problem, options, seeds=[0, 1])
    assert result.status == ["ok", "ok"]
    assert largest_error(problem, result) < (1e-5 if method == "pwan" else 1e-8)
    assert result.transform is not None
    between = problem.source[0].mean(0, keepdim=True) + 0.01 * draw(30, dimension)
    moved, jacobians = result.transform[0](between), result.transform[0].jacobians(between)
    centre = result.transform[0](between.mean(0, keepdim=True))
    linear = centre + (between - between.mean(0)) @ jacobians.mean(0)
    assert float((moved - linear).norm(dim=1).max()) < 0.01  # off the points it is as smooth as on them


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("bcpd", {"full_points": 50, "sample_points": 60}),
        ("bcpd", {"unit": "coordinate"}),
        ("cpd", {"exact_points": 50}),
        ("tpsrpm", {"every": 2}),
        ("gmmreg", {"control_grid": 3}),
    ],
)
def test_methods_with_samples_units_and_grids(method: str, options: dict[str, Any]) -> None:
    problem = bunny()
    result = methods.run(method, problem, options, seeds=[0, 1])
    assert largest_error(problem, result) < 1e-6


def test_a_failed_problem_has_the_identity() -> None:
    problem = bunny(40)
    result = methods.run("bcpd", problem, {"gamma": 1e9}, seeds=[0, 1])
    assert result.status == ["failed", "failed"]
    assert largest_error(problem, result) < 1e-12


@pytest.mark.parametrize("k", [0, 3])
def test_any_kind_of_array_in_any_number_of_blocks(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    full = some_transform(3)
    one = replace(full, displacement=KernelSum(full.displacement.centres[:k], full.displacement.weights[:k]))
    points = draw(50, 3, seed=8)
    expected = one(points)
    assert isinstance(expected, Tensor) and expected.dtype == torch.float64
    monkeypatch.setattr(space, "BLOCK_NUMBERS", 9 * 7)  # 7 points at once, and a last block of one
    torch.testing.assert_close(one(points), expected, rtol=0, atol=1e-14)
    array = points.numpy()
    readonly = array.copy()
    readonly.setflags(write=False)
    for given in (array, readonly, np.asfortranarray(array), array.astype(">f8"), array[::-1][::-1]):
        kept = given.copy()
        moved = one(given)
        assert isinstance(moved, np.ndarray) and moved.dtype == np.float64
        np.testing.assert_allclose(moved, expected.numpy(), rtol=0, atol=1e-14)
        assert np.array_equal(given, kept)
    assert isinstance(one(array.tolist()), np.ndarray)
    single = one(points.float())
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, one(points.float().double()))
    integers = (10 * array).astype(np.int32)
    np.testing.assert_array_equal(one(integers), one(integers.astype(float)))
    assert one(array[:0]).shape == (0, 3) and one.jacobians(array[:0]).shape == (0, 3, 3)
    assert one.jacobians(array).shape == (50, 3, 3) and one.jacobian_determinants(array).shape == (50,)
    assert not one(points.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize("call", ["__call__", "jacobians", "jacobian_determinants", "folded"])
def test_bad_points_are_named(call: str) -> None:
    use = getattr(some_transform(3), call)
    for points in (np.zeros(3), np.zeros((4, 2)), torch.zeros(1, 4, 3)):
        with pytest.raises(ValueError, match=r"shape \(M, 3\)"):
            use(points)
    for words in (np.zeros((4, 3), dtype=complex), np.full((4, 3), "a"), torch.zeros(4, 3, dtype=torch.complex64)):
        with pytest.raises(ValueError, match="real numbers"):
            use(words)


def test_the_folded_share_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        some_transform(3).folded(np.zeros((0, 3)))


@pytest.mark.parametrize("kernel", ["gaussian", "thin_plate"])
def test_pickle_and_file_give_the_same_points(tmp_path: Path, kernel: str) -> None:
    one, points = some_transform(3, kernel, 1e5), draw(30, 3) + 1e5
    one.save(tmp_path / "transform.npz")
    one.save(tmp_path / "transform.npz")  # the one that is there gives way
    assert [path.name for path in tmp_path.iterdir()] == ["transform.npz"]
    for again in (pickle.loads(pickle.dumps(one)), SpaceTransform.load(str(tmp_path / "transform.npz"))):
        assert torch.equal(again(points), one(points))
        assert torch.equal(again.jacobians(points), one.jacobians(points))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("kernel", ["gaussian", "thin_plate", "none"])
def test_the_whole_way_is_the_similarity_and_then_the_transform(d: int, kernel: str) -> None:
    one, points = some_transform(d, "gaussian" if kernel == "none" else kernel, 10.0), draw(30, d) + 7.0
    if kernel == "none":
        one = replace(one, displacement=KernelSum.zero(d))
    turn = torch.linalg.qr(draw(d, d, seed=8))[0]
    scale, shift = 0.4, draw(d, seed=9)
    whole = one.after(scale, turn.numpy(), shift.numpy())
    torch.testing.assert_close(whole(points), one(scale * points @ turn + shift), atol=1e-11, rtol=0)
    expected = scale * turn @ one.jacobians(scale * points @ turn + shift)
    torch.testing.assert_close(whole.jacobians(points), expected, atol=1e-11, rtol=0)
    told = whole.to_dict()["displacement"]
    if kernel == "gaussian":  # in the new units of the source
        assert told["width"] == pytest.approx(one.to_dict()["displacement"]["width"] / scale)


def test_a_file_of_before_says_that_a_start_is_not_in_it(tmp_path: Path) -> None:
    one, points = some_transform(3), draw(9, 3)
    one.save(tmp_path / "new.pwan")
    with np.load(tmp_path / "new.pwan") as kept:
        arrays = {**kept, "format": np.array("pwan transform 1")}
    with (tmp_path / "old.pwan").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.warns(UserWarning, match=r'old\.pwan was written by an older version.*"start" in result\.json'):
        old = SpaceTransform.load(tmp_path / "old.pwan")
    assert torch.equal(old(points), one(points))
    assert torch.equal(SpaceTransform.load(tmp_path / "new.pwan")(points), one(points))  # without a word


def test_the_file_keeps_its_name_and_a_transform_of_no_displacement(tmp_path: Path) -> None:
    one = replace(some_transform(2), displacement=KernelSum.zero(2))
    one.save(tmp_path / "kept")
    assert torch.equal(SpaceTransform.load(tmp_path / "kept")(draw(9, 2)), one(draw(9, 2)))


def test_a_pickle_of_one_holds_no_others() -> None:
    result = pwan(bunny(distance=None), steps=2)
    assert result.transform is not None
    held = sum(len(pickle.dumps(one)) for one in result.transform)
    assert held < 2 * (2 * 40 * 3 * 8 + 4000)


def test_a_file_without_a_transform_is_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    some_transform(3).save(good)
    with np.load(good) as kept:
        arrays = dict(kept)
    broken: list[Any] = [good.read_bytes()[:200], b"", b"no archive at all"]
    for content in broken:
        bad.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad.npz does not hold a transform"):
            SpaceTransform.load(bad)
    with bad.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="does not hold a transform"):
        SpaceTransform.load(bad)
    for changed in (
        {"format": np.array("another 2")},
        {"kernel": np.array("another")},
        {"beta": np.ones(2)},
        {"surplus": np.zeros(2)},
    ):
        np.savez(bad, **{**arrays, **changed})
        with pytest.raises(ValueError, match="does not hold a transform"):
            SpaceTransform.load(bad)
    for missing in ("centres", "affine", "source_scale", "kernel"):
        np.savez(bad, **{name: array for name, array in arrays.items() if name != missing})
        with pytest.raises(ValueError, match="does not hold a transform"):
            SpaceTransform.load(bad)
    with pytest.raises(FileNotFoundError):
        SpaceTransform.load(tmp_path / "none.npz")


def test_to_dict_is_what_json_holds_and_the_map_itself() -> None:
    one = some_transform(3)
    told = json.loads(json.dumps(one.to_dict()))
    points = draw(20, 3, seed=8)
    plain = replace(one, displacement=KernelSum.zero(3))
    torch.testing.assert_close(
        points @ torch.tensor(told["affine"]).double() + torch.tensor(told["translation"]).double(), plain(points)
    )
    assert told["scale"] == pytest.approx(1.5 * float(torch.linalg.det(one.affine)) ** (1 / 3))
    assert told["displacement"] == {"kernel": "gaussian", "width": pytest.approx(1.6), "centres": 7}


def test_to_dict_has_the_affine_part_of_the_result() -> None:
    result = pwan(bunny(distance=None), steps=2)
    assert result.transform is not None
    for k in range(2):
        told = result.transform[k].to_dict()
        torch.testing.assert_close(torch.tensor(told["affine"], dtype=torch.float64), result.affine[k])
        torch.testing.assert_close(torch.tensor(told["translation"], dtype=torch.float64), result.translation[k, 0])


def test_many_points_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest block that is ever handed on holds a fixed number of kernel values."""
    seen: list[int] = []
    kernel = kernels.gaussian_kernel

    def counted(x: Tensor, y: Tensor, beta: float) -> Tensor:
        seen.append(x.shape[1] * y.shape[1])
        return kernel(x, y, beta)

    monkeypatch.setattr(kernels, "gaussian_kernel", counted)
    points = np.zeros((200_000, 3))
    some_transform(3)(points)
    assert max(seen) <= space.BLOCK_NUMBERS and sum(seen) == 7 * len(points)


def test_every_field_of_a_frame_is_selected() -> None:
    two = Frame(*(torch.arange(2.0).double()[:, None, None] + k for k in range(len(fields(Frame)))))
    second = two.select(1)
    for f in fields(Frame):
        assert torch.equal(getattr(second, f.name), getattr(two, f.name)[1:])
