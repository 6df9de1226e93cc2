"""The packaged pairs of bodies, hands and heads: meshes whose rows are matched, half of them for tuning."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pwan import shapes
from pwan.shapes.surface import sample_surface

ROOT = Path(__file__).parents[2]
FOLDER = Path(shapes.__file__).parent / "data" / "pairs"
FAMILIES = shapes.families()
PAIRS = [name for members in FAMILIES.values() for name in members]


def listed(family: str, split: str) -> list[str]:
    """The names that the family's terms give to a half."""
    (line,) = re.findall(rf"^{split}: (.*)$", (FOLDER / f"{family}.md").read_text(), re.MULTILINE)
    return [name.strip() for name in line.split(",")]


def test_there_are_twelve_of_each_in_two_megabytes() -> None:
    assert {family: len(members) for family, members in FAMILIES.items()} == {"bodies": 12, "hands": 12, "heads": 12}
    assert len(set(PAIRS)) == len(PAIRS)
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 2e6


@pytest.mark.parametrize("family", FAMILIES)
def test_a_half_is_for_tuning_and_the_other_for_the_final_table(family: str) -> None:
    tuning, final = listed(family, "Tuning"), listed(family, "Final")
    assert not set(tuning) & set(final)
    assert tuning + final == FAMILIES[family]
    assert len(tuning) == len(final)
    text = (ROOT / "conf" / "experiment" / f"real_{family}.yaml").read_text()
    experiment = yaml.safe_load(text)
    assert experiment["hydra"]["sweeper"]["params"]["shape.name"].split(",") == tuning
    assert f"#   shape.name={','.join(final)}" in text.splitlines()
    assert experiment["problem"]["points"] == len(shapes.load(tuning[0]).points)


@pytest.mark.parametrize("name", PAIRS)
def test_both_meshes_are_sound_and_have_the_same_rows(name: str) -> None:
    shape = shapes.load(name)
    assert shape.vertices is not None and shape.faces is not None and shape.partner is not None
    n = len(shape.points)
    assert n <= 5000
    assert shape.points.shape == shape.partner.shape == (n, 3)
    np.testing.assert_array_equal(shape.points, shape.vertices)
    assert shape.faces.dtype == np.int64
    assert set(shape.faces.ravel()) == set(range(n))  # no vertex without a face, no face without a vertex
    ends = np.concatenate([shape.faces[:, [0, 1]], shape.faces[:, [1, 2]], shape.faces[:, [2, 0]]])
    assert len(np.unique(ends, axis=0)) == len(ends)  # an edge is met once in each direction: all faces look outward
    graph = coo_array((np.ones(len(ends)), ends.T), shape=(n, n))
    assert connected_components(graph, directed=False)[0] == 1
    for surface in (shape.vertices, shape.partner):
        corners = surface[shape.faces]
        assert np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).min() > 0


@pytest.mark.parametrize("name", PAIRS)
def test_the_partner_is_the_surface_elsewhere(name: str) -> None:
    """Most edges keep their length up to the size of the person: it is a skin that was moved, not other vertices."""
    shape = shapes.load(name)
    assert shape.vertices is not None and shape.faces is not None and shape.partner is not None
    assert not np.allclose(shape.partner, shape.vertices)
    lengths = [
        np.linalg.norm(x[shape.faces[:, 0]] - x[shape.faces[:, 1]], axis=1) for x in (shape.vertices, shape.partner)
    ]
    ratio = lengths[1] / lengths[0]
    assert 0.5 < np.median(ratio) < 2
    assert np.quantile(np.abs(np.log(ratio / np.median(ratio))), 0.5) < 0.15


def test_people_stand_upright_and_a_child_is_smaller() -> None:
    child = shapes.load("body_child")
    assert child.partner is not None
    heights = [np.ptp(x[:, 2]) for x in (child.points, child.partner)]
    assert 1.2 < heights[1] / heights[0] < 1.8
    assert (np.ptp(child.points, axis=0).argmax(), np.ptp(child.partner, axis=0).argmax()) == (2, 2)


def test_vertices_are_no_even_sample() -> None:
    """What the pairs are for: a face's vertices are far denser than a back's."""
    body = shapes.load("body_walk")
    assert body.vertices is not None and body.faces is not None
    even = sample_surface(body.vertices, body.faces, len(body.points), np.random.default_rng(0))
    top = np.quantile(body.vertices[:, 2], [0.0, 1.0])
    head = top[1] - 0.13 * (top[1] - top[0])
    assert (body.points[:, 2] > head).mean() > 2 * (even[:, 2] > head).mean()
