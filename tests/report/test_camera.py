from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import proj3d

from pwan.report.camera import camera, view

USUAL = {"up": {"x": 0, "y": 1, "z": 0}, "eye": {"x": 0.35, "y": 0.3, "z": 1.15}}


def box(*sizes: float) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (1500, 3)) * sizes


def animal() -> np.ndarray:
    """(N, 3) a body along x on four legs, with a head at +x; y is up."""
    generator = np.random.default_rng(0)
    parts = [([-1, 0.6, -0.25], [1, 1.1, 0.25], 900), ([1, 1, -0.15], [1.4, 1.4, 0.15], 150)]
    parts += [([x - 0.1, 0, z - 0.1], [x + 0.1, 0.6, z + 0.1], 100) for x in (-0.85, 0.85) for z in (-0.15, 0.15)]
    return np.concatenate([generator.uniform(low, high, (count, 3)) for low, high, count in parts])


def person() -> np.ndarray:
    """(N, 3) a body with arms and feet that point to +z; y is up."""
    generator = np.random.default_rng(0)
    parts = [([-0.25, 0, -0.12], [0.25, 1.7, 0.12], 900), ([-0.2, 0, 0.12], [0.2, 0.1, 0.4], 100)]
    parts += [([x - 0.1, 0.6, -0.08], [x + 0.1, 1.4, 0.08], 150) for x in (-0.5, 0.5)]
    return np.concatenate([generator.uniform(low, high, (count, 3)) for low, high, count in parts])


def ways(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Up, and the coordinate axis with its sign from which the eye looks, as a vector."""
    found = camera(points)
    up, eye = (np.array(list(found[name].values())) for name in ("up", "eye"))
    nearest = abs(eye).argmax()
    return up, np.eye(3)[nearest] * np.sign(eye[nearest])


@pytest.mark.parametrize("points", [np.eye(3)[:1], box(1, 1, 1), np.zeros((1, 3)), np.zeros((50, 3)), box(1, 1, 0.05)])
def test_what_has_no_axes_and_what_lies_flat_is_seen_as_ever(points):
    assert camera(points) == USUAL


def test_a_sphere_is_seen_as_ever():
    points = np.random.default_rng(0).normal(size=(3000, 3))
    assert camera(points / np.linalg.norm(points, axis=1, keepdims=True)) == USUAL


@pytest.mark.parametrize("made", [person, animal])
@pytest.mark.parametrize("turned", [0.0, 0.3])
def test_a_body_stands_on_its_feet_in_y_up_and_in_z_up(made, turned):
    y_up = made()
    about_y = np.array([[np.cos(turned), 0, -np.sin(turned)], [0, 1, 0], [np.sin(turned), 0, np.cos(turned)]])
    y_up = y_up @ about_y
    z_up = np.stack([y_up[:, 0], -y_up[:, 2], y_up[:, 1]], -1)
    for points, up, eye in ((y_up, [0, 1, 0], [0, 0, 1]), (z_up, [0, 0, 1], [0, -1, 0])):
        assert [way.tolist() for way in ways(points)] == [up, eye]
        assert [way.tolist() for way in ways(points * 100 + 7)] == [up, eye]


@pytest.mark.parametrize("order", [[2, 1, 0], [2, 0, 1]])
def test_an_animal_along_another_axis_stands_on_its_feet_too(order):
    up, _ = ways(animal()[:, order])
    assert up.tolist() == np.eye(3)[order.index(1)].tolist()


def test_what_lies_askew_is_seen_by_its_own_axes():
    turn = np.linalg.qr(np.array([[1.0, 1, 1], [1, -1, 0], [1, 1, -2]]).T)[0].T  # rows: longest, middle, shortest
    found = camera(box(3, 2, 1) @ turn)
    up, eye = (np.array(list(found[name].values())) for name in ("up", "eye"))
    assert abs(up @ turn[0]) == pytest.approx(1, abs=0.01) and up[abs(up).argmax()] > 0
    assert abs(eye @ turn[2]) / np.linalg.norm(eye) > 0.9


def test_a_rod_and_a_disc_are_seen_from_the_side_and_from_above():
    assert [way.tolist() for way in ways(box(0.1, 0.1, 1))] == [[0, 0, 1], [0, -1, 0]]
    assert [way.tolist() for way in ways(box(1, 0.05, 1))] == [[0, 0, 1], [0, -1, 0]]
    assert [way.tolist() for way in ways(box(0.05, 1, 1))] == [[0, 1, 0], [-1, 0, 0]]


def test_the_view_does_not_hang_on_the_order_of_the_points():
    points = person() @ np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
    one, other = camera(points), camera(points[::-1])
    assert one["up"] == pytest.approx(other["up"]) and one["eye"] == pytest.approx(other["eye"])


@pytest.mark.parametrize(("lengths", "name"), [((1.0, 9.0, 3.0), "y"), ((3.0, 1.0, 9.0), "z")])
def test_pictures_are_seen_as_interactive_views_are(lengths: tuple[float, ...], name: str) -> None:
    points = np.random.default_rng(0).normal(size=(500, 3)) * lengths
    axes = Figure().add_subplot(projection="3d")
    axes.view_init(**view(points))
    axes.set_proj_type("ortho")
    far, near = (
        proj3d.proj_transform(*way, axes.get_proj())[:2] for way in (np.eye(3)["xyz".index(name)], np.zeros(3))
    )
    across, up = np.subtract(far, near)
    assert up > 0 and abs(across) < 1e-9 * up
