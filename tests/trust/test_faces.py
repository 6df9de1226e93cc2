"""Flipped and crossing faces: none after a rigid move, those that were put there, and what is too much to look at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Delaunay
from scipy.spatial.transform import Rotation

from pwan.trust import faces as faces_module
from pwan.trust.faces import FaceFaults, face_faults


def sheet(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """An even sheet in the plane z = 0."""
    flat = np.stack(np.meshgrid(np.arange(n), np.arange(n)), -1).reshape(-1, 2).astype(float)
    flat += 0.05 * np.random.default_rng(0).normal(size=flat.shape)
    return np.column_stack((flat, np.zeros(len(flat)))), Delaunay(flat).simplices


def test_a_rigid_move_a_bend_and_another_size_do_nothing():
    points, triangles = sheet()
    turned = points @ Rotation.from_rotvec([2.0, 1.0, 0.5]).as_matrix() + 5
    angle = points[:, 0] / 4  # rolled up by 157 degrees
    rolled = np.column_stack((4 * np.sin(angle), points[:, 1], 4 * np.cos(angle)))
    for moved in (turned, 3 * turned, rolled):
        found = face_faults(points, moved, triangles)
        assert (found.flipped, found.crossing) == (0, 0)
    assert found.sentence == (
        f"none of the {len(triangles)} faces is flipped or crosses another one that it did not cross before"
    )


def test_a_vertex_that_is_pulled_over_its_neighbours_flips_faces():
    points, triangles = sheet()
    row = int(np.linalg.norm(points - [5, 5, 0], axis=1).argmin())
    moved = points.copy()
    moved[row, 0] += 1.6
    wanted = int((areas(moved, triangles) * areas(points, triangles) < 0).sum())
    assert wanted > 0 and face_faults(points, moved, triangles).flipped == wanted


def areas(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    a, b, c = points[triangles].swapaxes(0, 1)
    return np.cross(b - a, c - a)[:, 2]


def test_two_sheets_that_are_pushed_through_each_other_cross():
    points, triangles = sheet(8)
    both = np.concatenate((points, points + [0.3, 0.2, 1.0]))
    faces = np.concatenate((triangles, triangles + len(points)))
    assert face_faults(both, both, faces).crossing == 0
    moved = both.copy()
    row = len(points) + int(np.linalg.norm(points - [4, 4, 0], axis=1).argmin())
    moved[row, 2] -= 1.5  # a spike through the sheet below
    found = face_faults(both, moved, faces)
    around = int((faces == row).any(1).sum())
    assert around < found.crossing <= around + 8 and "cross others that they did not cross before" in found.sentence
    assert face_faults(moved, moved, faces).crossing == 0  # it was there before
    assert face_faults(moved, both, faces).crossing == 0


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_one_triangle_through_another(size):
    """Closed form: a segment through the middle, through an edge's outside, and beside the triangle's plane."""
    large = np.array([[-1.0, -1, 0], [2, -1, 0], [-1, 2, 0]]) * size
    for shift, crosses in (((0, 0, 0), True), ((size * 0.9, size * 0.9, 0), False), ((0, 0, 3), False)):
        small = np.array([[0.0, 0, -0.5], [0, 0, 0.5], [0.1, 0, 0.5]]) + shift
        before = np.concatenate((large, small + [0, 0, 50]))
        found = face_faults(before, np.concatenate((large, small)), np.arange(6).reshape(2, 3))
        assert found.crossing == 2 * crosses


def test_a_seam_that_repeats_vertices_is_no_crossing():
    points, triangles = sheet(5)
    soup = points[triangles].reshape(-1, 3)
    bent = soup + np.column_stack((np.zeros((len(soup), 2)), 0.2 * soup[:, 0] ** 2))
    assert face_faults(soup, bent, np.arange(len(soup)).reshape(-1, 3)).crossing == 0


def test_what_is_too_much_is_not_looked_at_and_said(monkeypatch):
    points, triangles = sheet(6)
    monkeypatch.setattr(faces_module, "MOST_PAIRS", 10)
    found = face_faults(points, points, triangles)
    assert found.crossing is None and found.flipped == 0 and "whether they cross was not looked at" in found.sentence
    monkeypatch.setattr(faces_module, "MOST_FACES", 10)
    assert face_faults(points, points, triangles) == FaceFaults(len(triangles), None, None)
    assert "was not looked at: there are more than 10" in FaceFaults(len(triangles), None, None).sentence
