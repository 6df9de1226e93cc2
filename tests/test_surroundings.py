"""Whatever a caller has set for all of torch or numpy, every method gives the same bits; and the rule that makes it so:
every tensor made in the package names its type and its device."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pwan
from pwan import methods, partial_wasserstein, register, shapes
from pwan.begin.alignment import find_start
from pwan.begin.estimate import estimate_limits
from pwan.begin.sliding import check_sliding
from pwan.synthesis import SynthesisSettings, make_problem

SMALL: dict[str, Any] = {
    **{"steps": 3, "warmup": 2, "stages": 1, "stage_steps": 2, "rank": 20, "nearest_steps": 3, "updates": 2},
    **{"max_iterations": 5, "iterations": 5},
}
PEERS = [name for name in methods.names() if name.startswith(("probreg", "biocpd", "nricp"))]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in methods.names() if name not in PEERS},
    "rigid": ("pwan", {"transform": "rigid"}),
    "rigid, nearest": ("pwan", {"transform": "rigid", "refinement": "nearest"}),
    "affine": ("pwan", {"transform": "affine"}),
    "nearest": ("pwan", {"refinement": "nearest"}),
    "coarse": ("pwan", {"coarse_steps": 2}),
    "sampled": ("pwan", {"sample": 40}),
    "learned": ("pwan", {"threshold": "learned", "optimiser": "rmsprop"}),
    "landmarks": ("pwan", {"landmarks": [[0, 0], [1, 1], [2, 2], [3, 3]]}),
    "estimated": ("pwan", {"mass": "auto"}),
    "batch": ("pwan", {"batch": True}),
    "geodesic": ("pwan", {"kernel": "geodesic"}),
    "geodesic bcpd": ("bcpd", {"kernel": "geodesic"}),
    "flexible": ("pwan", {"flexibility": "auto"}),
}


def sets() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    source = generator.normal(size=(60, 3))
    near = source[:50] + 0.05 * generator.normal(size=(50, 3))
    return source, np.concatenate([near, generator.normal(size=(10, 3))])


def registered(variant: str) -> list[np.ndarray]:
    """The points, and what the transform and the potential make of others."""
    method, options = VARIANTS[variant]
    (source, reference), options = sets(), dict(options)
    if options.pop("batch", False):
        source, reference = np.stack([source] * 2), np.stack([reference] * 2)
    chosen = {name: value for name, value in SMALL.items() if name in methods.setting_names(method)}
    limit = {"distance": 0.5} if method.endswith("distance") else {} if method == "wgan" else {"mass": 50}
    result = register(source, reference, method=method, **{**chosen, **limit, **options})
    functions = [one for one in (result.transform, result.potential) if one is not None]
    if source.ndim == 3:
        functions = [one for of_each in functions for one in of_each]
    return [result.transformed, result.affine, *(function(sets()[1]) for function in functions)]


def other_doors() -> list[Any]:
    """What else computes with torch: transport, starts, limits, problems."""
    source, reference = sets()
    exact = partial_wasserstein(reference, source, mass=40)
    neural = partial_wasserstein(reference, source, mass=40, solver="neural", updates=20)
    assert neural.potential is not None
    start, limits = find_start(source, reference), estimate_limits(source, reference)
    check = check_sliding(source, reference, source, mass=40)
    assert check is not None
    problem = make_problem(shapes.load("torus"), SynthesisSettings(points=60, keep=0.8), seed=0, trials=[0])
    return [
        *(exact.value, neural.value, neural.lower_bound, neural.potential(source), neural.potential.gradient(source)),
        *(start.rotation, start.translation, limits.mass, limits.distance, check.ratio),
        *(problem.source, problem.reference, problem.mass),
    ]


@contextmanager
def default_dtype(kind: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def strict() -> Iterator[None]:
    """What careful callers set, and global generators that somebody has drawn from."""
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad(), torch.autograd.set_detect_anomaly(True, check_nan=False), np.errstate(all="raise"):
            yield
    finally:
        torch.use_deterministic_algorithms(False)


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "float64": lambda: default_dtype(torch.float64),
    "float16": lambda: default_dtype(torch.float16),
    "meta": lambda: torch.device("meta"),  # what torch.set_default_device sets
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "strict": strict,
}
PLAIN: dict[str, list[Any]] = {}


def plain(name: str, compute: Callable[[], list[Any]]) -> list[Any]:
    """What comes without any surroundings, computed once."""
    if name not in PLAIN:
        PLAIN[name] = compute()
    return PLAIN[name]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_registration_is_the_same_in_all_surroundings(variant: str, surroundings: str) -> None:
    expected = plain(variant, lambda: registered(variant))
    with SURROUNDINGS[surroundings]():
        found = registered(variant)
    assert_same(found, expected)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_the_other_doors_are_the_same_in_all_surroundings(surroundings: str) -> None:
    expected = plain("other doors", other_doors)
    with SURROUNDINGS[surroundings]():
        found = other_doors()
    assert_same(found, expected)


def test_set_default_device_is_the_same_as_the_context() -> None:
    expected = plain("rigid", lambda: registered("rigid"))
    torch.set_default_device("meta")
    try:
        found = registered("rigid")
    finally:
        torch.set_default_device(None)
    assert_same(found, expected)


def test_a_registration_leaves_the_surroundings_as_they_were() -> None:
    with torch.inference_mode(), torch.device("meta"), torch.autocast("cpu"), default_dtype(torch.float64):
        registered("rigid")
        assert torch.is_inference_mode_enabled() and torch.is_autocast_enabled("cpu")
        assert torch.get_default_device() == torch.device("meta") and torch.get_default_dtype() == torch.float64


def test_tensors_of_inference_mode_are_taken() -> None:
    source, reference = (torch.from_numpy(points) for points in sets())
    with torch.inference_mode():
        given = source.clone(), reference.clone()
        result = register(*given, mass=50, transform="rigid", steps=2, warmup=1, stages=0)
    result.transformed.add_(1.0)  # an ordinary tensor, which the caller may change
    outside = register(source, reference, mass=50, transform="rigid", steps=2, warmup=1, stages=0)
    torch.testing.assert_close(result.transformed - 1.0, outside.transformed)


# the rule


FACTORIES = {
    *("tensor", "as_tensor", "asarray", "zeros", "ones", "empty", "full", "eye", "arange", "range", "linspace"),
    *("logspace", "rand", "randn", "randint", "randperm", "normal", "scalar_tensor", "empty_strided", "frombuffer"),
    *("tril_indices", "triu_indices", "hann_window", "sparse_coo_tensor", "complex", "polar"),
}


def unnamed(source: str) -> list[str]:
    """Calls of torch's factories that leave the type or the device to the caller's defaults."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"):
            continue
        named = {word.arg for word in node.keywords}
        if node.func.attr in FACTORIES and None not in named and not {"dtype", "device"} <= named:
            found.append(ast.unparse(node))
        if node.func.attr == "load" and "map_location" not in named:
            found.append(ast.unparse(node))
    return found


def test_the_rule_finds_what_it_is_for() -> None:
    text = "torch.zeros(3); torch.eye(2, dtype=x.dtype); torch.ones(2, dtype=a, device=b); torch.load(p); x.new_ones(2)"
    assert unnamed(text) == ["torch.zeros(3)", "torch.eye(2, dtype=x.dtype)", "torch.load(p)"]


def test_every_tensor_names_its_type_and_its_device() -> None:
    folder = Path(pwan.__file__).parent
    found = {str(path.relative_to(folder)): unnamed(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    assert len(found) > 100 and {path: calls for path, calls in found.items() if calls} == {}


def test_a_result_is_of_the_sources_device_and_type_whatever_the_defaults() -> None:
    source, reference = (torch.from_numpy(points).float() for points in sets())
    with torch.device("meta"), default_dtype(torch.float64):
        result = register(source, reference, mass=50, steps=1, warmup=1, stages=0)
    assert isinstance(result.transformed, Tensor)
    assert result.transformed.device.type == "cpu" and result.transformed.dtype == torch.float32
