"""Distances along a shape, the coherence kernel of them, and displacements led on to all of space along the shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay
from scipy.spatial.transform import Rotation

from pwan.deformation import geodesic
from pwan.deformation.coherence import Coherence
from pwan.deformation.factors import as_it_is
from pwan.deformation.geodesic import geodesic_factor
from pwan.deformation.graph import farthest_points, graph_neighbours, parted, shape_graph, thinned, thinned_edges
from pwan.deformation.surface_map import SurfaceDisplacement

LINE = np.column_stack((np.arange(10.0), np.zeros(10)))


def two_legs(n: int = 400, seed: int = 0) -> np.ndarray:
    """A U of two legs, 0.3 apart and 2 long, joined at the top; (n, 3)."""
    generator = np.random.default_rng(seed)
    length = np.sort(generator.uniform(0, 4.3, n))
    x = np.clip(length - 2, 0, 0.3)
    z = np.where(length < 2, length, np.where(length < 2.3, 2.0, 4.3 - length))
    return np.column_stack((x, 0.02 * generator.standard_normal(n), z))


def test_a_line_s_distances_are_its_lengths() -> None:
    graph = shape_graph(LINE, neighbours=2)
    rows, lengths = farthest_points(graph, 3, 0)
    assert rows.tolist() == [0, 9, 4]  # the far end, then the middle
    np.testing.assert_allclose(lengths, np.abs(LINE[rows][:, None, 0] - LINE[:, 0]))


def test_a_mesh_s_edges_are_the_ways_and_not_the_gap() -> None:
    """A strip bent into a U: its ends are near in space and far along the faces."""
    u, v = np.meshgrid(np.linspace(0, 4.3, 44), [0.0, 0.1], indexing="ij")
    flat = np.column_stack((u.ravel(), v.ravel()))
    faces = Delaunay(flat).simplices
    bent = np.column_stack((np.clip(flat[:, 0] - 2, 0, 0.3), flat[:, 1], np.minimum(flat[:, 0], 4.3 - flat[:, 0])))
    _, lengths = farthest_points(shape_graph(bent, faces), 1, 0)
    assert lengths[0, -2] == pytest.approx(4.3, rel=0.1)
    assert np.linalg.norm(bent[-2] - bent[0]) < 0.31


def test_neighbours_make_no_bridge_over_a_gap() -> None:
    points = two_legs()
    _, lengths = farthest_points(shape_graph(points), 1, 0)
    assert lengths[0, -1] > 3.5


def test_loose_parts_are_joined_by_their_nearest_points() -> None:
    points = np.concatenate((LINE, LINE + [0.0, 5.0], LINE + [30.0, 0.0]))
    _, lengths = farthest_points(shape_graph(points, neighbours=2), 1, 0)
    assert np.isfinite(lengths).all()
    assert lengths[0, 10] == pytest.approx(5.0) and lengths[0, 20] == pytest.approx(30.0)


def test_a_thousand_loose_points_are_joined() -> None:
    points = np.random.default_rng(0).standard_normal((1000, 3))
    faces = np.array([[0, 1, 2]])  # the others are named by no face
    _, lengths = farthest_points(shape_graph(points, faces), 1, 0)
    assert np.isfinite(lengths).all()


def test_repeated_vertices_of_a_seam_are_one_place() -> None:
    points = np.concatenate((LINE, LINE[-1:], LINE[1:] + [9.0, 0.0]))  # row 10 repeats row 9
    faces = np.array([[k, k + 1, k] for k in [*range(9), *range(10, 19)]])
    _, lengths = farthest_points(shape_graph(points, faces), 1, 0)
    assert lengths[0, -1] == pytest.approx(18.0)


def test_faces_without_area_and_repeated_corners_are_edges_like_others() -> None:
    faces = np.array([[k, k + 1, k + 1] for k in range(9)])
    assert shape_graph(LINE, faces).nnz == 18


@pytest.mark.parametrize("faces", [np.array([[0, 1, 10]]), np.array([[-1, 0, 1]])])
def test_a_face_that_names_no_vertex_is_refused(faces: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"face 0 names vertices \[.*\], but the vertices are 0 to 9"):
        shape_graph(LINE, faces)


def test_faces_must_be_whole_numbers() -> None:
    with pytest.raises(ValueError, match="faces must be whole numbers"):
        shape_graph(LINE, np.zeros((2, 3)))


def test_a_point_s_neighbours_are_on_its_own_leg() -> None:
    points = two_legs()
    near = graph_neighbours(points, shape_graph(points), 12)
    assert (near[:, 0] == np.arange(len(points))).all()
    foot = points[:, 2] < 1.5
    assert (np.abs(points[near[foot]][..., 0] - points[foot][:, None, 0]) < 0.15).all()


def test_with_all_points_as_centres_the_factor_is_the_kernel() -> None:
    """On a line geodesic and straight distances agree, and a Gaussian of them is positive."""
    source = torch.from_numpy(LINE)[None]
    factor = geodesic_factor(source, [None], 10, 0.7, 1.0, [0], as_it_is)
    exact = np.exp(-0.5 * ((LINE[:, None, 0] - LINE[:, 0]) / 0.7) ** 2)
    exact[np.abs(LINE[:, None, 0] - LINE[:, 0]) > 4 * 0.7] = 0.0
    np.testing.assert_allclose(factor.phi[0] @ factor.phi[0].T, exact, atol=2e-3)


def test_a_share_of_the_gaussian_is_mixed_in() -> None:
    source = torch.from_numpy(two_legs(150))[None]
    gram = {
        share: (factor := geodesic_factor(source, [None], 150, 1.0, share, [0], as_it_is)).phi[0] @ factor.phi[0].T
        for share in (1.0, 0.5)
    }
    ends = (0, -1)  # near in space, far along the shape
    assert float(gram[1.0][ends]) < 0.1 < 0.4 < float(gram[0.5][ends])


def test_a_thinned_graph_keeps_the_ways() -> None:
    points = two_legs(2000)
    graph = shape_graph(points)
    nodes = np.arange(0, 2000, 10)
    few, weights = thinned(points, graph, nodes)
    _, exact = farthest_points(graph, 1, 0)
    _, lengths = farthest_points(few, 1, 0)
    np.testing.assert_allclose(lengths[0], exact[0, nodes], atol=0.05, rtol=0.1)
    np.testing.assert_allclose(weights.sum(1), 1.0)
    np.testing.assert_allclose(weights @ exact[0, nodes], exact[0], atol=0.1)  # the far leg stays far


def test_edges_of_a_thinned_mesh_lie_on_it() -> None:
    """Two sheets nearer each other than their points are to their neighbours stay two."""
    across = 15
    grid = np.stack(np.meshgrid(*[np.arange(across, dtype=float)] * 2, [0.0, 0.3]), -1).reshape(-1, 3)
    sheet = grid[:, 2] > 0
    corner = np.arange(2 * across**2).reshape(across, across, 2)[:-1, :-1].reshape(-1)  # of each square
    squares = np.stack((corner, corner + 2 * across, corner + 2 * across + 2, corner + 2), 1)
    nodes = np.sort(np.random.default_rng(0).permutation(len(grid))[:100])
    edges = thinned_edges(grid, squares, nodes)
    assert edges.dtype == np.int64 and edges.shape[1] == 3
    np.testing.assert_array_equal(edges[:, 1], edges[:, 2])
    crossing = sheet[nodes][edges[:, 0]] != sheet[nodes][edges[:, 1]]
    assert crossing.sum() <= 1 < len(edges) / 100  # the shortest way joins the loose parts
    assert shape_graph(grid[nodes], edges).nnz == 2 * len(edges)  # faces as any other


@pytest.mark.parametrize("meshed", [False, True])
def test_parts_that_touch_and_go_apart_lose_their_bridges(meshed: bool) -> None:
    """Two strips of a grid, one row of it apart, one lifted; where all moves together nothing is cut."""
    across = 12
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(across, dtype=float), [0.0]), -1).reshape(-1, 3)
    corner = np.arange(30 * across).reshape(across, 30)[:-1, :-1].reshape(-1)
    faces = np.stack((corner, corner + 1, corner + 31, corner + 30), 1) if meshed else None
    upper = grid[:, 1] >= across / 2
    edges = parted(grid, faces, grid + upper[:, None] * [0.0, 0.0, 20.0])
    assert (upper[edges[:, 0]] == upper[edges[:, 1]]).all() and (edges[:, 1] == edges[:, 2]).all()
    whole = shape_graph(grid, faces).nnz // 2
    between = whole - len(edges)
    assert 30 <= between < whole / 4
    assert len(parted(grid, faces, 3 * grid + 1)) == whole


def test_a_large_source_follows_from_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    source = torch.from_numpy(two_legs(1200))[None]
    full = geodesic_factor(source, [None], 120, 0.7, 1.0, [0], as_it_is).phi[0]
    monkeypatch.setattr(geodesic, "NODES", 600)
    led = geodesic_factor(source, [None], 120, 0.7, 1.0, [0], as_it_is).phi[0]
    assert (full @ full.T - led @ led.T).abs().max() < 0.1


def test_a_leg_moves_without_the_other_one() -> None:
    """The modes can raise one leg and leave the other; those of the Gaussian cannot."""
    points = two_legs()
    source = torch.from_numpy(points)[None]
    coherence = Coherence(source, geodesic_factor(source, [None], 60, 0.5, 1.0, [0], as_it_is))
    wanted = np.zeros_like(points)
    wanted[: len(points) // 2, 1] = np.clip(2 - points[: len(points) // 2, 2], 0, None)
    fit = np.linalg.lstsq(coherence.basis[0].numpy(), wanted, rcond=None)[0]
    assert np.abs(coherence.basis[0].numpy() @ fit - wanted).max() < 0.15


def moved_shape() -> tuple[torch.Tensor, torch.Tensor, SurfaceDisplacement]:
    """Two legs turned and scaled as a whole, beside an affine part of their own."""
    points = torch.from_numpy(two_legs(200))
    turn = torch.from_numpy(1.3 * Rotation.from_rotvec([0.2, 0.4, -0.5]).as_matrix())
    affine = torch.eye(3, dtype=torch.float64) * 0.9
    values = points @ turn - points @ affine
    graph = shape_graph(points.numpy())
    return turn, affine, SurfaceDisplacement.of(points, values, affine, graph)


def test_a_similarity_of_the_whole_shape_is_led_on_exactly() -> None:
    turn, affine, displacement = moved_shape()
    off = torch.from_numpy(np.random.default_rng(1).uniform(-0.2, 2.2, (50, 3)))
    torch.testing.assert_close(off @ affine + displacement(off), off @ turn, atol=1e-9, rtol=0)
    torch.testing.assert_close(affine + displacement.gradient(off), turn.expand(50, 3, 3), atol=1e-7, rtol=0)


def test_at_the_shape_s_points_v_is_what_it_is_there() -> None:
    _, _, displacement = moved_shape()
    torch.testing.assert_close(displacement(displacement.points), displacement.values, atol=1e-12, rtol=0)


def test_a_turned_displacement_is_that_of_turned_points() -> None:
    _, _, displacement = moved_shape()
    rotation = torch.from_numpy(Rotation.from_rotvec([1.0, 0.3, -0.2]).as_matrix())
    off = torch.from_numpy(np.random.default_rng(1).uniform(-0.2, 2.2, (50, 3)))
    turned = displacement.turned(rotation)
    torch.testing.assert_close(turned(off), displacement(off @ rotation), atol=1e-11, rtol=0)
    expected = rotation @ displacement.gradient(off @ rotation)
    torch.testing.assert_close(turned.gradient(off), expected, atol=1e-8, rtol=0)


def test_the_gradient_is_that_of_the_map() -> None:
    points = torch.from_numpy(two_legs(200))
    values = torch.sin(2 * points.flip(1))
    displacement = SurfaceDisplacement.of(
        points, values, torch.eye(3, dtype=torch.float64), shape_graph(points.numpy())
    )
    at = torch.from_numpy(two_legs(20, seed=5)) + 0.03
    step = 1e-6
    for i in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[i] = step
        measured = (displacement(at + shift) - displacement(at - shift)) / (2 * step)
        torch.testing.assert_close(displacement.gradient(at)[:, i], measured, atol=1e-4, rtol=1e-4)


def test_a_point_beside_one_leg_goes_with_that_leg() -> None:
    points = torch.from_numpy(two_legs())
    values = torch.zeros_like(points)
    first = torch.arange(len(points)) < len(points) // 2
    values[first, 1] = 1.0  # one leg goes away
    displacement = SurfaceDisplacement.of(
        points, values, torch.eye(3, dtype=torch.float64), shape_graph(points.numpy())
    )
    between = torch.tensor([[0.12, 0.0, 0.5], [0.18, 0.0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(displacement(between)[:, 1], torch.tensor([1.0, 0.0]).double(), atol=1e-6, rtol=0)
