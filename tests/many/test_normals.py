from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pwan.many.normals import carried_normals, moved_file
from pwan.pointfiles import read_points


def sphere(count: int = 400) -> np.ndarray:
    """Even points on the unit sphere, which are their own normals."""
    z = 1 - (2 * np.arange(count) + 1) / count
    angle = np.arange(count) * np.pi * (3 - np.sqrt(5))
    around = np.sqrt(1 - z**2)
    return np.column_stack((around * np.cos(angle), around * np.sin(angle), z))


def test_a_turn_turns_the_normals_and_keeps_their_lengths_and_sides():
    points, turn = sphere(), Rotation.from_rotvec([0.3, -1.0, 2.0]).as_matrix()
    normals = -2.5 * points
    normals[7] = 0
    np.testing.assert_allclose(carried_normals(points, normals, points @ turn + 4), normals @ turn, atol=1e-9)


def test_an_affine_map_takes_them_by_its_inverse():
    points, linear = sphere(2000), np.array([[1.5, 0.2, 0], [0, 0.8, 0.1], [0, 0, 1.0]])
    due = points @ np.linalg.inv(linear).T
    due /= np.linalg.norm(due, axis=1, keepdims=True)
    cosines = (carried_normals(points, points, points @ linear) * due).sum(1)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("side", [1, -1])
def test_in_the_plane(side):
    angle = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(carried_normals(circle, side * circle, circle @ turn), side * circle @ turn, atol=1e-9)


def test_a_file_with_its_points_elsewhere_has_turned_normals(tmp_path):
    points, turn = sphere(), Rotation.from_rotvec([0.3, -1.0, 2.0]).as_matrix()
    np.savetxt(
        tmp_path / "a.csv", np.column_stack((points, points)), delimiter=",", header="x,y,z,nx,ny,nz", comments=""
    )
    moved = moved_file(read_points(tmp_path / "a.csv"), points @ turn)
    np.testing.assert_allclose(moved.points, points @ turn)
    np.testing.assert_allclose(moved.normals, points @ turn, atol=1e-9)
