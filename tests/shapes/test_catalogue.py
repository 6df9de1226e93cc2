from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from pwan import shapes
from pwan.shapes.shape import Shape
from pwan.shapes.surface import sample_surface

DEFAULT_SIZES = {"bunny": 8171, "armadillo": 106289, "monkey": 7958, "fish": 91, "torus": 4000}
SURFACES = sorted(set(DEFAULT_SIZES) - {"fish"})
DATA_FILES = sorted((Path(shapes.__file__).parent / "data").rglob("*.npz"))
PAIRS = {name for members in shapes.families().values() for name in members}


def test_names() -> None:
    assert set(DEFAULT_SIZES) <= set(shapes.names())
    assert shapes.names() == sorted(shapes.names())


@pytest.mark.parametrize("name", shapes.names())
def test_every_shape_has_zero_mean_and_unit_rms_radius(name: str) -> None:
    points = shapes.load(name).points
    assert points.dtype == np.float64
    assert points.shape[1] in (2, 3)
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-12)
    assert (points**2).sum(1).mean() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(("name", "size"), DEFAULT_SIZES.items())
def test_default_sizes(name: str, size: int) -> None:
    assert len(shapes.load(name).points) == size


@pytest.mark.parametrize("file", DATA_FILES, ids=lambda file: file.stem)
def test_every_data_file_has_its_terms_and_is_small(file: Path) -> None:
    assert file.stat().st_size < 1e6
    terms = file.with_suffix(".md").read_text()
    assert all(word in terms for word in ("Source:", "Credit:", "Terms:"))


@pytest.mark.parametrize("name", SURFACES)
def test_default_points_lie_on_the_surface(name: str) -> None:
    shape = shapes.load(name)
    assert shape.vertices is not None
    assert shape.faces is not None
    # no farther from the nearest vertex than the longest edge
    edges = np.linalg.norm(shape.vertices[shape.faces] - shape.vertices[np.roll(shape.faces, 1, 1)], axis=-1)
    distances = cKDTree(shape.vertices).query(shape.points[:200])[0]
    assert distances.max() <= edges.max()


def test_the_monkey_is_its_vertices() -> None:
    monkey = shapes.load("monkey")
    np.testing.assert_array_equal(monkey.points, monkey.vertices)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("bunny", [0.007444906835, 0.180406340175, 0.949560972202]),
        ("armadillo", [0.214539899457, 0.955681184724, 0.307029709672]),
        ("torus", [-1.194997508489, 0.103991326671, -0.253572513512]),
    ],
)
def test_the_default_set_never_changes(name: str, row: list[float]) -> None:
    # results of other days are compared with today's, so a change of the fixed draw must not pass unseen
    np.testing.assert_allclose(shapes.load(name).points[7], row, rtol=0, atol=1e-9)


def test_the_fish_has_its_partner() -> None:
    fish = shapes.load("fish")
    assert fish.partner is not None
    assert fish.partner.shape == (91, 2)
    assert not np.allclose(fish.points, fish.partner)


def test_a_sample_is_a_seeded_part_of_the_default_set() -> None:
    shape = shapes.load("monkey")
    first, again, other = (shape.sample(500, np.random.default_rng(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    rows = {tuple(row) for row in shape.points}
    assert len({tuple(row) for row in first} & rows) == 500  # without replacement
    first[0] = 0  # a sample may be changed,
    with pytest.raises(ValueError, match="read-only"):  # the shape may not
        shape.points[0] = 0


def test_a_million_points_keep_the_frame() -> None:
    points = shapes.load("bunny").sample(1_000_000, np.random.default_rng(0))
    assert points.shape == (1_000_000, 3)
    assert (points**2).sum(1).mean() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(points.mean(0), 0, atol=0.02)


def test_a_shape_without_a_surface_says_so() -> None:
    with pytest.raises(ValueError, match=r"fish .*91 points and no surface"):
        shapes.load("fish").sample(92, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 1"):
        shapes.load("fish").sample(0, np.random.default_rng(0))


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'bunny'"):
        shapes.load("buny")
    with pytest.raises(ValueError, match="did you mean 'paper'"):
        shapes.load("bunny", "papers")
    with pytest.raises(ValueError, match="unknown shape 'torus' of source paper"):
        shapes.load("torus", "paper")


def test_surface_points_are_uniform_over_the_area() -> None:
    # a 3 x 1 rectangle in the plane z = 2, cut into triangles of areas 1.5, 1 and 0.5
    vertices = np.array([[0.0, 0, 2], [3, 0, 2], [3, 1, 2], [0, 1, 2], [2, 1, 2]])
    faces = np.array([[0, 1, 2], [0, 4, 3], [0, 2, 4]])
    points = sample_surface(vertices, faces, 60_000, np.random.default_rng(0))
    np.testing.assert_array_equal(points[:, 2], 2)
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=(6, 2), range=[[0, 3], [0, 1]])[0]
    assert counts.sum() == 60_000
    np.testing.assert_allclose(counts, 5000, atol=5 * np.sqrt(5000))


def test_a_surface_without_area_is_refused() -> None:
    flat = Shape("line", "packaged", np.zeros((3, 3)), vertices=np.zeros((3, 3)), faces=np.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="no area"):
        flat.sample(10, np.random.default_rng(0))


def test_every_shape_has_its_config() -> None:
    conf = Path(__file__).parents[2] / "conf" / "shape"
    files = {file.stem: file.read_text().splitlines() for file in conf.glob("*.yaml")}
    first = {name: name for name in set(shapes.names()) - PAIRS} | {
        family: members[0] for family, members in shapes.families().items()
    }
    assert set(first) <= set(files)
    for choice, name in first.items():
        assert files[choice][0].startswith("#")
        assert files[choice][1:] == [f"name: {name}", "source: packaged"]
