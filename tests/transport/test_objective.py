"""The Kantorovich-Rubinstein objective for a given potential: thresholds, shares and slopes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwan.transport.objective import largest_share, objective


@pytest.fixture
def outputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return (
        torch.randn(4, 9, generator=generator, dtype=torch.float64),
        torch.randn(4, 7, generator=generator, dtype=torch.float64),
    )


@pytest.mark.parametrize("mass", [0.4, 1.0, 2.5, 7.0])
def test_exact_threshold_is_the_best_h_of_a_grid(outputs: tuple[Tensor, Tensor], mass: float) -> None:
    x, y = outputs
    m = torch.full((4,), mass, dtype=torch.float64)
    exact = objective(x, y, "mass", mass=m)
    grid = torch.linspace(0, 4, 2001, dtype=torch.float64)
    values = torch.stack([objective(x, y, "mass", mass=m, threshold=h.expand(4)).value for h in grid])
    best = values.max(0).values
    assert bool((exact.value >= best - 1e-12).all())
    torch.testing.assert_close(exact.value, best, atol=7 * 0.002, rtol=0)
    at = objective(x, y, "mass", mass=m, threshold=exact.threshold).value
    torch.testing.assert_close(at, exact.value)
    torch.testing.assert_close(exact.source_share.sum(1), m)


def test_a_point_beyond_the_reach_counts_as_at_it_and_does_not_pull() -> None:
    # f(x) = 0 at one reference point; source points at distances 0.1, 0.7 and 2 from it, f = -distance
    x, y = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([[0.1, 0.7, 2.0]], dtype=torch.float64)
    two = torch.tensor([2.0], dtype=torch.float64)
    found = objective(x, y, "mass", mass=two, reach=torch.tensor([0.5]).double(), fold=False)
    torch.testing.assert_close(found.value, torch.tensor([0.1 + 0.5]).double())
    assert found.source_slope.tolist() == [[1.0, 0.0, 0.0]]
    assert found.threshold.tolist() == [0.5]
    far = objective(x, y, "mass", mass=two, reach=torch.tensor([torch.inf]).double(), fold=False)
    plain = objective(x, y, "mass", mass=two, fold=False)
    for name in ("value", "source_slope", "reference_slope", "source_share", "threshold"):
        assert torch.equal(getattr(far, name), getattr(plain, name))


def test_share_takes_the_largest_and_the_last_in_part() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0, 0.0]])
    share = largest_share(values, torch.tensor([1.5]), torch.ones(1, 4))
    assert share.tolist() == [[1.0, 0.0, 0.5, 0.0]]
    weighted = largest_share(values, torch.tensor([1.5]), torch.tensor([[0.25, 1.0, 1.0, 1.0]]))
    assert weighted.tolist() == [[0.25, 0.25, 1.0, 0.0]]


@pytest.mark.parametrize("kind", ["mass", "reach", "learned", "distance", "complete"])
def test_slopes_are_those_of_the_value(outputs: tuple[Tensor, Tensor], kind: str) -> None:
    x, y = (o.clone().requires_grad_() for o in outputs)
    mass = torch.full((4,), 3.5, dtype=torch.float64)
    h = torch.full((4,), 0.8, dtype=torch.float64, requires_grad=True)
    reach = torch.full((4,), 0.6, dtype=torch.float64)
    limits = {
        "mass": {"mass": mass},
        "reach": {"mass": mass, "reach": reach},
        "learned": {"mass": mass, "threshold": h},
        "distance": {"threshold": h},
    }
    found = objective(x, y, "mass" if kind in limits and kind != "distance" else kind, **limits.get(kind, {}))  # type: ignore[arg-type]
    of = (x, y, h) if kind == "learned" else (x, y)
    expected = torch.autograd.grad(found.value.sum(), of)
    torch.testing.assert_close(found.reference_slope.detach(), expected[0])
    torch.testing.assert_close(found.source_slope.detach(), expected[1])
    if kind == "learned":
        assert found.threshold_slope is not None
        torch.testing.assert_close(found.threshold_slope.detach(), expected[2])


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("kind", ["mass", "distance", "complete"])
def test_permutation_and_duplication_change_nothing(outputs: tuple[Tensor, Tensor], kind: str, fold: bool) -> None:
    x, y = outputs
    mass, h = (torch.full((4,), value, dtype=torch.float64) for value in (3.5, 0.8))
    limits = {"mass": {"mass": mass}, "distance": {"threshold": h}, "complete": {}}[kind]
    found = objective(x, y, kind, fold=fold, **limits)  # type: ignore[arg-type]
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    again = objective(x.flip(1), y[:, order], kind, fold=fold, **limits)  # type: ignore[arg-type]
    torch.testing.assert_close(again.value, found.value)
    torch.testing.assert_close(again.source_share, found.source_share[:, order])
    halves = {"reference_weights": 0.5, "source_weights": 0.5}
    twice = objective(
        torch.cat((x, x), 1),
        torch.cat((y, y), 1),
        kind,
        fold=fold,
        **limits,
        **halves,  # type: ignore[arg-type]
    )
    torch.testing.assert_close(twice.value, found.value)
    torch.testing.assert_close(twice.threshold, found.threshold)


@pytest.mark.parametrize("kind", ["mass", "distance"])
def test_without_the_fold_the_objective_is_concave_and_no_larger(outputs: tuple[Tensor, Tensor], kind: str) -> None:
    x, y = outputs
    mass, h = (torch.full((4,), value, dtype=torch.float64) for value in (3.5, 0.8))
    limits = {"mass": {"mass": mass}, "distance": {"threshold": h}}[kind]

    def value(a: Tensor, b: Tensor, fold: bool = False) -> Tensor:
        return objective(a, b, kind, fold=fold, **limits).value  # type: ignore[arg-type]

    middle = value((x + x.roll(1, 0)) / 2, (y + y.roll(1, 0)) / 2)
    assert bool((middle >= (value(x, y) + value(x, y).roll(1, 0)) / 2 - 1e-12).all())
    # where the output is a distance, nowhere negative, both forms are the same potential
    torch.testing.assert_close(value(x.abs(), y.abs()), value(x.abs(), y.abs(), fold=True))
    assert bool((value(x, y) <= value(x.clamp(min=0), y.clamp(min=0)) + 1e-12).all())
