"""Normals turn as the surface does that they stand on; other attributes stay."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwan.attributes import Attributes
from pwan.deformation.coherence import coherence_of
from pwan.deformation.normals import Carried, carried, in_product, turned
from pwan.deformation.rigid import rotation_matrix
from pwan.deformation.settings import Kernel
from pwan.deformation.transform import Transform
from pwan.problem import RegistrationProblem


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("d", [2, 3])
def test_a_rotation_turns_a_normal_as_it_turns_a_point(d: int) -> None:
    normals = drawn(5, d)
    rotation = rotation_matrix(drawn(1, d, d, seed=1))[0]
    torch.testing.assert_close(turned(normals, 1.7 * rotation), normals @ rotation)


def test_a_stretched_slope_is_steeper_the_other_way() -> None:
    # z = x stretched twice along x is z = x / 2, whose normal is (-1, 0, 2)
    stretched = turned(torch.tensor([-1.0, 0.0, 1.0]).double(), torch.diag(torch.tensor([2.0, 1.0, 1.0]).double()))
    torch.testing.assert_close(stretched, torch.tensor([-1.0, 0.0, 2.0]).double() * (2 / 5) ** 0.5)
    plane = turned(torch.tensor([-1.0, 1.0]).double(), torch.diag(torch.tensor([2.0, 1.0]).double()))
    torch.testing.assert_close(plane, torch.tensor([-1.0, 2.0]).double() * (2 / 5) ** 0.5)


def test_a_map_that_folds_flat_gives_no_infinity() -> None:
    flat = torch.diag(torch.tensor([1.0, 1.0, 0.0]).double())
    torch.testing.assert_close(turned(drawn(4, 3), flat)[:, :2], torch.zeros(4, 2).double())
    assert bool(turned(torch.zeros(4, 3).double(), torch.zeros(3, 3).double()).isfinite().all())


@pytest.mark.parametrize("kernel", ["gaussian", "geodesic"])
def test_normals_of_a_bent_plane_stand_on_it(kernel: str) -> None:
    grid = torch.cartesian_prod(*[torch.linspace(-1, 1, 9, dtype=torch.float64)] * 2)
    source = torch.cat((grid, torch.zeros(81, 1).double()), 1)[None]
    up = torch.tensor([0.0, 0.0, 0.3]).double().expand(1, 81, 3)
    coherence = coherence_of(source, None, Kernel.of(kernel, None, 40, 1.0, 8), [0])
    goal = torch.stack((grid[:, 0], grid[:, 1], 0.2 * grid[:, 0] ** 2), 1)[None]
    ridge = 1e-9 * torch.eye(40, dtype=torch.float64)
    weights = torch.linalg.solve(coherence.basis.mT @ coherence.basis + ridge, coherence.basis.mT @ (goal - source))
    given = Carried(Attributes(torch.cat((up, drawn(1, 81, 2)), -1), up, normals=True), source, coherence)
    found = given.at(torch.eye(3).double()[None], weights)
    moved = (source + coherence.basis @ weights).view(9, 9, 3)
    tangents = moved[2:, 1:-1] - moved[:-2, 1:-1], moved[1:-1, 2:] - moved[1:-1, :-2]
    wanted = 0.3 * torch.nn.functional.normalize(torch.linalg.cross(*tangents), dim=-1)
    torch.testing.assert_close(found[..., :3].view(9, 9, 3)[1:-1, 1:-1], wanted, atol=0.03, rtol=0.0)
    assert float((wanted - up[0, 0]).abs().max()) > 0.05
    torch.testing.assert_close(found[..., 3:], given.attributes.source[..., 3:])
    some = torch.tensor([[3, 40, 80]])
    torch.testing.assert_close(given.part(some).at(torch.eye(3).double()[None], weights), found[:, some[0]])


def test_a_transform_leaves_attributes_and_takes_them_along_its_rows() -> None:
    source, attributes = drawn(1, 6, 3), drawn(1, 6, 2, seed=1)
    transform = Transform("affine", source, None, attributes.clone())
    moved = transform.in_product(transform.parameters + 0.1)
    torch.testing.assert_close(moved[..., 3:], attributes)
    torch.testing.assert_close(moved[..., :3], transform.points(transform.parameters + 0.1))
    part, other = transform.part(torch.tensor([[4, 2]])), transform.part(torch.tensor([[0, 1]]))
    torch.testing.assert_close(part.in_product(), torch.cat((source, attributes), -1)[:, [4, 2]])
    part.copy_points(other)
    torch.testing.assert_close(part.in_product(), other.in_product())


def test_without_attributes_the_product_is_space() -> None:
    problem = RegistrationProblem(drawn(1, 6, 3), drawn(1, 7, 3))
    assert in_product(problem) == (problem.source, problem.reference)
    assert Carried.of(problem, None) is None
    fixed = Attributes(drawn(1, 6, 3), drawn(1, 7, 3))
    assert carried(fixed, problem.source, None) is fixed.source
