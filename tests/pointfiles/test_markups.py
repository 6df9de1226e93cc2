"""Control points of 3D Slicer (.mrk.json): read, written with all else as it stood, and refused where damaged."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pwan import read_points, write_points
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS


def changed(**parts) -> bytes:
    document = json.loads(makers.markups())
    document["markups"][0] |= parts
    return json.dumps(document).encode()


def point(**parts) -> dict:
    return {"id": "1", "label": "a", "position": [1.5, 2.5, 3.5]} | parts


def test_everything_but_the_positions_stays(tmp_path):
    (tmp_path / "a.mrk.json").write_bytes(changed(display={"color": [1, 0, 0]}, locked=False))
    like = read_points(tmp_path / "a.mrk.json")
    np.testing.assert_array_equal(like.points, POINTS)
    assert like.format == "markups" and like.fields["label"][5] == "F-5"
    assert like.notes == ("control points of 1 list, coordinate system LPS",)
    write_points(tmp_path / "b.mrk.json", like, POINTS + 1)
    old, new = (json.loads((tmp_path / name).read_text()) for name in ("a.mrk.json", "b.mrk.json"))
    for row, one in enumerate(old["markups"][0]["controlPoints"]):
        one["position"] = (POINTS[row] + 1).tolist()
    assert old == new


def test_several_lists_and_points_without_a_position(tmp_path):
    held = [point(), point(positionStatus="undefined", position=[0, 0, 0]), point(position=[4, 5, 6])]
    document = {"markups": [{"controlPoints": held}, {"type": "Curve"}, {"controlPoints": [point()]}]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="1 of 4 points .number 2,"):
        read_points(tmp_path / "a.json")
    like = read_points(tmp_path / "a.json", drop_invalid=True)
    assert like.points.tolist() == [[1.5, 2.5, 3.5], [4, 5, 6], [1.5, 2.5, 3.5]] and like.rows.tolist() == [0, 2, 3]
    write_points(tmp_path / "b.json", like, like.points + 1)
    again = read_points(tmp_path / "b.json")
    np.testing.assert_array_equal(again.points, like.points + 1)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (makers.markups()[:-9], "cut off or damaged"),
        (changed(controlPoints={}), "a list named controlPoints"),
        (changed(controlPoints=[3]), "a list named controlPoints"),
        (changed(controlPoints=[point(position=[1, 2])]), "control point 1: expected a position of 3 numbers"),
        (changed(controlPoints=[point(), point(position=["a", 2, 3])]), "control point 2"),
        (changed(controlPoints=[point(position=[True, 2, 3])]), "control point 1"),
        (changed(controlPoints=[point(position=[10**400, 2, 3])]), "control point 1"),
        (changed(controlPoints=[]), "found none"),
        (b'{"markups": 3, "a": "controlPoints", "controlPoints": []}', "a list named markups"),
        (b'{"markups": ' + b"[" * 100_000 + b'"controlPoints"', "cut off or damaged"),
    ],
)
def test_refused(tmp_path, content, match):
    (tmp_path / "a.mrk.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"a.mrk.json: .*{match}"):
        read_points(tmp_path / "a.mrk.json")


def test_two_coordinate_systems_in_one_file(tmp_path):
    document = json.loads(makers.markups())
    document["markups"].append(document["markups"][0] | {"coordinateSystem": "RAS"})
    (tmp_path / "a.mrk.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="one coordinate system, found LPS, RAS"):
        read_points(tmp_path / "a.mrk.json")
