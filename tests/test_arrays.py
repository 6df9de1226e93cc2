"""Arrays of all kinds at the front doors: taken as they are meant, or refused in a sentence that names the shape."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import torch

from pwan import methods, partial_wasserstein, register
from pwan.api import Registered
from pwan.arrays import floating_type, real_array, to_points
from pwan.begin.alignment import find_start
from pwan.begin.estimate import estimate_limits

QUICK: dict[str, Any] = {"method": "soft_assignment", "steps": 2}
TINY: dict[str, Any] = {
    **{"steps": 2, "warmup": 1, "stages": 0, "rank": 10, "nearest_steps": 2, "updates": 2, "max_iterations": 3},
}


def points(count: int = 40, dimension: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, dimension))


def masked(array: np.ndarray) -> Any:
    """A masked array with a fill value far away in row 3."""
    filled = array.copy()
    filled[3] = 1e6
    return np.ma.masked_greater(filled, 1e5)


# masked


DOORS: dict[str, Callable[[Any], Any]] = {
    "source": lambda given: register(given, points(), **QUICK),
    "reference": lambda given: register(points(), given, **QUICK),
    "batch": lambda given: register([given, given], [points(), points()], **QUICK),
    "transport, reference": lambda given: partial_wasserstein(given, points()),
    "transport, source": lambda given: partial_wasserstein(points(), given),
    "weights": lambda given: partial_wasserstein(points(), points(), source_weights=abs(given[:, 0])),
    "limits": lambda given: estimate_limits(given, points()),
    "start": lambda given: find_start(points(), given),
    "transform": lambda given: registered().transform(given),
    "potential": lambda given: registered().potential(given),
    "transport's potential": lambda given: neural().potential(given),
}


def registered(seed: int = 0) -> Registered:
    of_pwan = {name: value for name, value in TINY.items() if name in methods.setting_names("pwan")}
    return register(points(), points() + 0.1, seed=seed, **of_pwan)


def neural() -> Any:
    return partial_wasserstein(points(), points() + 0.1, solver="neural", updates=3)


@pytest.mark.parametrize("door", DOORS)
def test_masked_numbers_are_refused(door: str) -> None:
    with pytest.raises(ValueError, match="masked numbers.*compress_rows"):
        DOORS[door](masked(points()))


@pytest.mark.parametrize("door", DOORS)
def test_a_masked_array_without_masked_numbers_is_an_array(door: str) -> None:
    DOORS[door](np.ma.masked_array(points()))


def test_what_is_left_of_a_masked_array_gives_the_value_of_its_rows() -> None:
    rest = np.ma.compress_rows(masked(points()))
    assert partial_wasserstein(rest, points(), mass=20).value == pytest.approx(0.0, abs=1e-12)


def test_masked_limits_landmarks_and_torchs_own_masks_are_refused() -> None:
    source = points()
    with pytest.raises(ValueError, match="mass must be a number"):
        register(source, source, mass=np.ma.masked_array([3.0], mask=True), **QUICK)
    with pytest.raises(ValueError, match="landmarks must be an array"):
        register(source, source, landmarks=np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 0], [1, 1]]), **QUICK)
    mask = torch.ones(40, 3, dtype=torch.bool)
    with pytest.warns(UserWarning, match="MaskedTensor"):
        hidden = torch.masked.masked_tensor(torch.from_numpy(source), mask)
    with pytest.raises(ValueError, match="ordinary dense tensor, got a MaskedTensor"):
        register(hidden, source, **QUICK)


# shapes


SHAPES = {
    "contour": ((40, 1, 2), np.int32, r"got \(40, 1, 2\): 40 sets of one point each.*source\[:, 0\]"),
    "contour in space": ((40, 1, 3), np.float64, r"\(40, 1, 3\).*source\[:, 0\]"),
    "image": ((30, 40, 3), np.uint8, r"\(30, 40, 3\) of bytes: an image.*np.argwhere"),
    "image with alpha": ((30, 40, 4), np.uint8, r"\(30, 40, 4\) of bytes: an image"),
    "grey image": ((30, 40), np.uint8, r"\(30, 40\); of an image.*np.argwhere"),
    "mask": ((30, 40), bool, r"real numbers, got one of bool and shape \(30, 40\)"),
    "transposed": ((3, 40), np.float64, r"got \(3, 40\): a point is a row, so give source.T"),
    "with colours": ((40, 6), np.float64, r"\(40, 6\).*source\[\.\.\., :3\]"),
    "homogeneous": ((40, 4), np.float64, r"\(40, 4\).*source\[\.\.\., :3\]"),
    "organised clouds": ((1, 30, 40, 3), np.float32, r"\(1, 30, 40, 3\).*source.reshape\(-1, 3\)"),
    "a volume": ((30, 40, 50), np.float32, r"got \(30, 40, 50\)"),
    "one point": ((3,), np.float64, r"got \(3,\)"),
    "a number": ((), np.float64, r"got \(\)"),
    "depth image": ((30, 40, 3), np.float32, r"shapes \(30, 40, 3\) and \(20, 40, 3\).*depth image, is \(1200, 3\)"),
    "triangles": ((20, 3, 3), np.float64, r"at least 4 points in 3-D, got 3.*shape \(20, 3, 3\)"),
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("on_torch", [False, True])
def test_a_shape_that_is_no_set_of_points_is_named(kind: str, on_torch: bool) -> None:
    shape, dtype, words = SHAPES[kind]
    given: Any = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    reference: Any = points(dimension=2 if shape and shape[-1] == 2 else 3)
    if len(shape) == 3 and "at least" not in words:
        reference = points(800).reshape(20, 40, 3)
    if on_torch:
        given = torch.from_numpy(np.asarray(given))
    with pytest.raises(ValueError, match=words):
        register(given, reference if "at least" not in words else given, **QUICK)


def test_a_contour_in_partial_wasserstein_is_named() -> None:
    with pytest.raises(ValueError, match=r"\(40, 1, 2\).*reference\[:, 0\]"):
        partial_wasserstein(points(dimension=2)[:, None], points(dimension=2))


def test_the_advice_for_a_contour_and_a_transposed_set_works() -> None:
    plane = points(dimension=2)
    expected = register(plane, plane + 0.1, **QUICK).transformed
    np.testing.assert_array_equal(register(plane[:, None][:, 0], plane + 0.1, **QUICK).transformed, expected)
    np.testing.assert_array_equal(register(plane.T.copy().T, plane + 0.1, **QUICK).transformed, expected)


# lists


RAGGED: dict[str, tuple[Any, str]] = {
    "points": ([[0.0, 1.0], [2.0, 3.0, 4.0]], "rows of 2 to 3 numbers; give each point as many coordinates"),
    "an empty row": ([[0.0, 1.0], []], "rows of 0 to 2 numbers"),
    "sets": ([[[0, 1], [2, 3]], [[4, 5]]], "sets of 1 to 2 points; a batch needs sets of equal sizes"),
    "sets of arrays": ([np.zeros((4, 2)), np.zeros((5, 2))], "sets of 4 to 5 points"),
    "sets of tensors": ([torch.zeros(4, 2), torch.zeros(5, 2)], "sets of 4 to 5 points"),
    "points of the second set": ([[[0, 1], [2, 3]], [[4, 5], [6]]], "rows of 1 to 2 numbers"),
    "a number beside rows": ([[0.0, 1.0], 2.0], "single numbers beside rows"),
}


@pytest.mark.parametrize("kind", RAGGED)
def test_a_ragged_list_has_a_sentence_of_its_own(kind: str) -> None:
    given, words = RAGGED[kind]
    with pytest.raises(ValueError, match=f"source must be an array of real numbers, but it holds {words}"):
        register(given, points(dimension=2), **QUICK)
    with pytest.raises(ValueError, match=f"source must be an array of real numbers, but it holds {words}"):
        partial_wasserstein(points(dimension=2), given)


def test_tensors_of_odd_types_and_views_are_taken() -> None:
    source = torch.from_numpy(points())
    for given in (source.to(torch.float8_e4m3fn), source.bfloat16(), (source * 20).to(torch.int8), source.float().T.T):
        reference = given.double() + 0.1
        assert bool(register(given, reference, **QUICK).transformed.isfinite().all())
    expected = register(-source, source, **QUICK).transformed
    np.testing.assert_array_equal(register(torch._neg_view(source), source, **QUICK).transformed, expected)


@pytest.mark.parametrize("landmarks", [3, [3], [[1, 2, 3, 4]], "all", [None, None]])
def test_landmarks_of_a_batch_that_are_none_are_a_sentence(landmarks: Any) -> None:
    with pytest.raises(ValueError, match="landmarks must"):
        register(points()[None], points()[None], landmarks=landmarks, **QUICK)


def test_lists_of_arrays_and_tensors_are_a_batch() -> None:
    source, reference = points(), points() + 0.1
    expected = register(np.stack([source] * 2), np.stack([reference] * 2), **QUICK).transformed
    tensors = [torch.from_numpy(source).requires_grad_(), torch.from_numpy(source)]
    for given in ([source, source], (source, source), tensors):
        np.testing.assert_array_equal(register(given, [reference, reference], **QUICK).transformed, expected)


ODD_TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sparse": lambda tensor: tensor.to_sparse(),
    "compressed": lambda tensor: tensor.to_sparse_csr(),
    "nested": lambda tensor: torch.nested.nested_tensor([tensor, tensor]),
    "complex": lambda tensor: tensor.to(torch.complex64),
    "truth values": lambda tensor: tensor > 0,
}


@pytest.mark.filterwarnings("ignore:Sparse|.*prototype|.*beta state")
@pytest.mark.parametrize("kind", ODD_TENSORS)
def test_odd_tensors_are_refused(kind: str) -> None:
    given = ODD_TENSORS[kind](torch.from_numpy(points()))
    with pytest.raises(ValueError, match="source must be an (ordinary dense tensor|array of real numbers)"):
        register(given, points(), **QUICK)


def test_frames_and_read_only_arrays_are_arrays() -> None:
    source, reference = points(), points() + 0.1
    expected = register(source, reference, **QUICK).transformed
    frame = pd.DataFrame(source, columns=["x", "y", "z"])
    np.testing.assert_array_equal(register(frame, reference, **QUICK).transformed, expected)
    fixed = source.copy()
    fixed.setflags(write=False)
    np.testing.assert_array_equal(register(fixed, reference, **QUICK).transformed, expected)
    np.testing.assert_array_equal(register(source[::-1][::-1], reference, **QUICK).transformed, expected)


# floating types


HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("far", [0.0, 1e5, 1e8])
def test_a_half_precise_source_and_a_far_reference_give_finite_points(half: torch.dtype, far: float) -> None:
    source = torch.from_numpy(points()).to(half)
    reference = torch.from_numpy(points() + far)
    result = register(source, reference, **QUICK)
    assert result.status == "ok" and result.transformed.dtype == torch.float64
    for name in ("transformed", "transformed_unrefined", "affine", "translation", "displacement"):
        assert bool(getattr(result, name).isfinite().all()), name
    assert float((result.transformed.mean(0) - reference.mean(0)).abs().max()) <= 0.1 * max(1.0, far)


@pytest.mark.parametrize("half", HALVES)
def test_half_precise_sets_give_float32(half: torch.dtype) -> None:
    source = torch.from_numpy(points()).to(half)
    result = register(source, source + 0.5, **QUICK)
    assert result.transformed.dtype == result.affine.dtype == torch.float32
    if half == torch.float16:
        of_numpy = register(source.numpy(), (source + 0.5).numpy(), **QUICK)
        np.testing.assert_array_equal(of_numpy.transformed, result.transformed.numpy())


def test_a_result_holds_what_its_sets_hold() -> None:
    single, double = points().astype(np.float32), points() + 5e6
    assert register(single, single, **QUICK).transformed.dtype == np.float32
    far = register(single, double, **QUICK)  # float32 has steps of half a unit there
    assert far.transformed.dtype == np.float64
    assert np.abs(far.transformed - double).max() < 0.4
    assert register(double, single, **QUICK).transformed.dtype == np.float64
    assert register(single, np.round(points() * 2).astype(int), **QUICK).transformed.dtype == np.float64


def test_a_map_that_float32_cannot_hold_is_float64() -> None:
    small, large = (points() * 1e-20).astype(np.float32), (points() * 1e20).astype(np.float32)
    with pytest.warns(UserWarning, match="extents differ"):
        result = register(small, large, **QUICK, normalisation="separate")
    assert result.affine.dtype == np.float64 and np.isfinite(result.affine).all()
    assert np.abs(result.affine).max() > np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((np.float16, np.float16), torch.float32),
        ((np.float32, np.float16), torch.float32),
        ((np.float32, np.float64), torch.float64),
        ((np.int8, np.float32), torch.float64),
        ((">f4", np.float32), torch.float32),
        ((">f8", np.float32), torch.float64),
        ((np.longdouble, np.float32), torch.float64),
    ],
)
def test_the_floating_type_is_the_finest(kinds: tuple[Any, Any], expected: torch.dtype) -> None:
    sets = [np.zeros((2, 2), dtype=kind) for kind in kinds]
    assert floating_type(*sets) == floating_type(*sets[::-1]) == expected


def test_points_are_copied_and_arrays_are_not() -> None:
    given = points()
    assert real_array("points", given) is given
    to_points("points", given)[:] = 0.0
    np.testing.assert_array_equal(given, points())


# results that travel


def saved(result: Registered) -> Registered:
    buffer = io.BytesIO()
    torch.save(result, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


PEERS = ("probreg", "biocpd", "nricp")
TRAVELS: dict[str, Callable[[Registered], Registered]] = {
    "pickle": lambda result: pickle.loads(pickle.dumps(result)),
    "deepcopy": copy.deepcopy,
    "torch.save": saved,
}


@pytest.mark.parametrize("travel", TRAVELS)
@pytest.mark.parametrize("method", [name for name in methods.names() if not name.startswith(PEERS)])
def test_a_result_travels_whole(method: str, travel: str) -> None:
    options = {name: value for name, value in TINY.items() if name in methods.setting_names(method)}
    for source in (points(), torch.from_numpy(points()), np.stack([points()] * 2)):
        result = register(source, source + 0.1, method=method, **options)
        other = TRAVELS[travel](result)
        assert repr(other) == repr(result) and other.history == result.history
        np.testing.assert_array_equal(np.asarray(other.transformed), np.asarray(result.transformed))
        for name in ("transform", "potential"):
            here, there = getattr(result, name), getattr(other, name)
            if here is not None and not isinstance(here, list):
                np.testing.assert_array_equal(there(points()), here(points()))


def test_a_pool_of_processes_gives_results_back() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (there,) = pool.map(registered, [3])
    here = registered(3)
    np.testing.assert_array_equal(there.transformed, here.transformed)
    np.testing.assert_array_equal(there.potential(points()), here.potential(points()))


def test_a_potential_travels_and_can_be_differentiated() -> None:
    found = neural()
    other = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(other.potential(points()), found.potential(points()))
    at = torch.from_numpy(points()).requires_grad_()
    (slope,) = torch.autograd.grad(registered().potential(at).sum(), at)
    assert slope.shape == at.shape and bool(slope.isfinite().all()) and float(slope.abs().max()) > 0


# transport of near-identical sets

SOLVERS: tuple[tuple[Literal["neural", "exact"], dict[str, Any]], ...] = (("neural", {"updates": 60}), ("exact", {}))


@pytest.mark.parametrize("apart", [0.0, 1e-15, 1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_neural_values_keep_their_signs(apart: float, scale: float) -> None:
    reference = scale * points(30, 2)
    source = reference + scale * apart * np.random.default_rng(1).normal(size=reference.shape)
    by_mass, exact = (partial_wasserstein(reference, source, solver=kind, **more) for kind, more in SOLVERS)
    assert by_mass.value >= 0.0
    # the bound knows nearest distances, and may be the better of the two numbers
    assert by_mass.lower_bound is not None and 0.0 <= by_mass.lower_bound <= exact.value * (1 + 1e-9)
    by_distance = partial_wasserstein(reference, source, distance=1e-9 * scale, solver="neural", updates=60)
    assert by_distance.lower_bound is not None and by_distance.lower_bound <= 0.0
    assert -30e-9 * scale * (1 + 1e-9) <= by_distance.value <= 0.0
