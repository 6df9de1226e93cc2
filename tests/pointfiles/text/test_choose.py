"""Which columns are the coordinates: row numbers, surveyors' lists, trees and landmarks known, degrees refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.pointfiles import PointFile
from pwan.pointfiles.columns import angles, coordinates
from pwan.randomness import numpy_generator
from tests.pointfiles import makers
from tests.pointfiles.text.test_read import POINTS, joined, lines


def read(folder: Path, content: str | bytes, name: str = "a.csv", **options) -> PointFile:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_points(folder / name, **options)


NUMBERED = {  # content, coordinates
    "napari": (joined("index,axis-0,axis-1", lines("{i},{x},{y}")), 2),
    "napari, numbers with a point": (joined("index,axis-0,axis-1,axis-2", lines("{i}.0,{x},{y},{z}")), 3),
    "napari without names": (joined(lines("{i},{x},{y}")), 2),
    "from 1, without names": (joined(lines("{j} {x} {y}")), 2),
    "other names": (joined("no,a,b,c", lines("{j},{x},{y},{z}")), 3),
    "scikit-image": (joined("label,centroid-0,centroid-1,centroid-2", lines("{j},{x},{y},{z}")), 3),
    "survey": (joined(lines("100{j},{x},{y},{z},TREE")), 3),
    "survey without codes": (joined([f"{7 * i % 12 + 900},{x},{y},{z}" for i, (x, y, z) in enumerate(POINTS)]), 3),
    "survey with codes that are numbers": (joined(lines("{j} {x} {y} {z} 14")), 3),
    "survey in the plane": (joined([f"{3 * i * i + 5};{x};{y};OAK" for i, (x, y, _) in enumerate(POINTS)]), 2),
    "survey, named": (joined("P,N,E,Z,D", lines("{j},{y},{x},{z},T")), 3),
    "survey, German": (joined("Nr;Rechtswert;Hochwert;Höhe", lines("{j};{x};{y};{z}", comma=True)), 3),
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_row_numbers_are_no_coordinates_and_are_said(tmp_path, kind):
    content, dimension = NUMBERED[kind]
    result = read(tmp_path, content)
    np.testing.assert_allclose(result.points, POINTS[:, :dimension])
    assert sum("numbers the rows and is no coordinate" in note for note in result.notes) == 1
    assert any(note.startswith("x, y") and "columns=" in note for note in result.notes)
    assert len(next(iter(result.fields.values()))) == len(POINTS)


KEPT = {
    "a voxel grid": joined([f"{i % 4} {i // 4} {i % 3}" for i in range(12)]),
    "a graph": joined([f"{i} {value}" for i, value in enumerate(POINTS[:, 0])]),
    "a section at every fifth metre": joined([f"{5 * i} {y} {z}" for i, (_, y, z) in enumerate(POINTS)]),
    "two rows": "1 0.5 0.25\n2 0.5 0.75\n",
    "named": joined("x,y,z", lines("{i},{y},{z}")),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_no_row_number_stays(tmp_path, kind):
    result = read(tmp_path, KEPT[kind])
    assert not result.fields and result.points.shape[1] == (2 if kind == "a graph" else 3)
    assert any(note.startswith("x, y") for note in result.notes)


@pytest.mark.parametrize("name", ["a.swc", "a.txt"])
def test_trees_of_nodes(tmp_path, name):
    result = read(tmp_path, makers.swc(), name)
    np.testing.assert_allclose(result.points, makers.POINTS, atol=1e-6)
    assert list(result.fields) == ["id", "type", "radius", "parent"]
    assert "SWC: the columns are id, type, x, y, z, radius, parent" in result.notes
    part = b"".join(line + b"\n" for line in makers.swc().splitlines()[12:])  # its first parent is not in it
    np.testing.assert_allclose(read(tmp_path, part, name).points, makers.POINTS[11:], atol=1e-6)
    names = makers.swc().replace(b"# made here", b"# n t x y z r p")
    assert list(read(tmp_path, names, name).fields) == ["n", "t", "r", "p"]


def test_landmarks_of_slicer(tmp_path):
    result = read(tmp_path, makers.fcsv(), "a.fcsv")
    assert next(iter(result.fields)) == "id" and result.fields["label"][3] == "F-3"
    assert (result.fields["desc"] == "").all()
    older = joined("# version = 2", "# columns = label,x,y,z,sel,vis", lines("F-{i},{x},{y},{z},1,1"))
    np.testing.assert_allclose(read(tmp_path, older, "b.fcsv").points, POINTS)


ANGLES = {
    "lat,lon,height": "lat, lon",
    "Latitude;Longitude": "Latitude, Longitude",
    "id,longitude_deg,latitude_deg,alt": "longitude_deg, latitude_deg",
    "GPS_Lat,GPS_Long,Elevation": "GPS_Lat, GPS_Long",
    "Breite,Länge,Höhe": "Breite, Länge",
    "r,theta,phi": "theta, phi",
    "azimuth,elevation,range": "azimuth",
    "x [deg],y [deg],z [m]": "x [deg], y [deg]",
}


@pytest.mark.parametrize("header", ANGLES)
def test_degrees_are_refused_unless_asked_for(tmp_path, header):
    count = len(header.replace(";", ",").split(","))
    sign = ";" if ";" in header else ","
    rows = [sign.join(f"{one:.4f}" for one in [*row, row[0]][:count]) for row in POINTS]
    with pytest.raises(ValueError, match=r"project.*columns='") as caught:
        read(tmp_path, joined(header, rows))
    assert f"angles: {ANGLES[header]}. " in str(caught.value)
    asked = read(tmp_path, joined(header, rows), columns="1,2")
    np.testing.assert_allclose(asked.points, POINTS[:, :2], atol=1e-4)


def test_degrees_beside_lengths_are_left_alone(tmp_path):
    result = read(tmp_path, joined("lat,lon,x,y,z", lines("47.5,8.5,{x},{y},{z}")))
    np.testing.assert_allclose(result.points, POINTS)
    assert angles(["flat", "long axis", "alpha", "x"]) == []


def test_names_of_microscopes_and_maps():
    for names, places in (
        (["Position X", "Position Y", "Position Z", "Unit"], (0, 1, 2)),
        (["FRAME", "POSITION_X", "POSITION_Y"], (1, 2)),
        (["cell", "global_x", "global_y", "volume"], (1, 2)),
        (["centroid_z", "centroid_y", "centroid_x"], (2, 1, 0)),
        (["X (µm)", "Y (µm)"], (0, 1)),
        (["axis-0", "axis-1", "axis-2", "axis-3"], None),
    ):
        assert coordinates(names) == places, names


def test_heights_beside_x_and_y():
    for names, places in (
        (["x", "y", "height"], (0, 1, 2)),
        (["Elevation [m]", "X [m]", "Y [m]"], (1, 2, 0)),
        (["POINT_X", "POINT_Y", "code", "ELEV"], (0, 1, 3)),
        (["x", "y", "alt"], (0, 1, 2)),
        (["x", "y", "altitude"], (0, 1, 2)),
        (["Nr", "Y", "X", "H"], (2, 1, 3)),
        (["x", "y", "Höhe"], (0, 1, 2)),
        (["x", "y", "z", "height"], (0, 1, 2)),
        (["e", "n", "u"], (0, 1, 2)),
        (["x", "y", "depth"], (0, 1)),
        (["x", "y", "u", "v"], (0, 1)),
        (["x", "y", "w", "h"], (0, 1)),  # a box
        (["x", "y", "height", "dbh"], (0, 1)),  # a tree
        (["x", "y", "elevation", "width"], (0, 1, 2)),  # a river
        (["x", "y", "azimuth", "elevation"], (0, 1)),
    ):
        assert coordinates(names) == places, names


def test_a_height_is_z_in_a_file(tmp_path):
    result = read(tmp_path, joined("id,x,y,elevation", lines("{j},{x},{y},{z}")))
    np.testing.assert_allclose(result.points, POINTS)
    assert list(result.fields) == ["id"] and any("x, y, z: the columns x, y, elevation" in one for one in result.notes)
    np.testing.assert_allclose(
        read(tmp_path, joined("x,y,elevation", lines("{x},{y},{z}")), columns="x,y").points, POINTS[:, :2]
    )
    words = joined("x,y,h", lines("{x},{y},low"))
    with pytest.raises(ValueError, match="line 2: expected a number in column 3, found 'low'"):
        read(tmp_path, words)
    np.testing.assert_allclose(read(tmp_path, words, columns="x,y").points, POINTS[:, :2])


@pytest.mark.parametrize(
    "header", ["x1,y1,z1,x2,y2,z2", "x1,y1,x2,y2", "x0,y0,x1,y1", "id,x1,y1,x2,y2", "X_1,Y_1,X_2,e"]
)
@pytest.mark.parametrize("sign", ["", "# "])
def test_several_points_in_a_row_are_refused(tmp_path, header, sign):
    count = header.count(",") + 1
    rows = [",".join(f"{i}.{place}5" for place in range(count)) for i in range(4)]
    said = f"x, y and z, found {header.replace(',', ', ')}, several points in a row. Name the coordinates by"
    with pytest.raises(ValueError, match=said):
        read(tmp_path, joined(sign + header, rows))
    names = header.removeprefix("id,").split(",")[:2]
    places = [header.split(",").index(name) for name in names]
    asked = read(tmp_path, joined(sign + header, rows), columns=names)
    assert asked.points[1].tolist() == [float(f"1.{place}5") for place in places]


def test_several_points_in_a_row_are_refused_where_the_first_coordinate_counts(tmp_path):
    rows = [f"{i},{i}.5,{i}.25,{i}.75" for i in range(4)]
    with pytest.raises(ValueError, match="several points in a row"):
        read(tmp_path, joined("x1,y1,x2,y2", rows))
    one = read(tmp_path, joined("x1,y1,z1", [row.rsplit(",", 1)[0] for row in rows]))
    np.testing.assert_array_equal(one.points, [[i, i + 0.5, i + 0.25] for i in range(4)])


def test_counted_names_without_others_are_coordinates(tmp_path):
    np.testing.assert_allclose(read(tmp_path, joined("x1,x2,x3,y", lines("{x},{y},{z},9.5"))).points, POINTS)
    np.testing.assert_allclose(read(tmp_path, joined("id,x0,x1", lines("{j},{x},{y}"))).points, POINTS[:, :2])


def test_columns_settle_any_doubt(tmp_path):
    content = joined("index,axis-0,axis-1,axis-2,axis-3", lines("{i},0,{x},{y},{z}"))
    with pytest.raises(ValueError, match="axis-3. Name the coordinates by columns='A,B,C'"):
        read(tmp_path, content)
    for columns in ("axis-1,axis-2,axis-3", "3,4,5", (3, 4, 5), ["AXIS-1", "Axis-2", "axis-3"]):
        np.testing.assert_allclose(read(tmp_path, content, columns=columns).points, POINTS)
    counted = joined(lines("{i},{x},{y}"))
    np.testing.assert_array_equal(read(tmp_path, counted, columns="1,2,3").points[:, 0], np.arange(12))
    for columns in ("1,2,9", "axis-1", "x,x", "1,2,3,4"):
        with pytest.raises(ValueError, match=r"expected two or three of the columns .* by columns='A,B,C'"):
            read(tmp_path, content, columns=columns)
    with pytest.raises(ValueError, match="expected numbers in column 'column_4', found 'TREE'.*columns="):
        read(tmp_path, joined(lines("{x},{y},{z},TREE")), columns="1,2,4")


def test_columns_of_other_formats(tmp_path):
    table = np.column_stack([np.arange(24), makers.POINTS, makers.POINTS[::-1]])
    np.testing.assert_array_equal(read(tmp_path, makers.npy(table), "a.npy", columns=(5, 6, 7)).points, table[:, 4:])
    np.testing.assert_array_equal(
        read(tmp_path, makers.npz(a=table, b=table), "a.npz", key="b", columns="2,3,4").points, makers.POINTS
    )
    records = np.rec.fromarrays([*makers.POINTS.T], names="a,b,c")
    np.testing.assert_array_equal(read(tmp_path, makers.npy(records), "b.npy", columns="a,b,c").points, makers.POINTS)
    for name, content in (("a.ply", makers.ply()), ("a.pcd", makers.pcd())):
        assert read(tmp_path, content, name, columns="x,y").points.shape == (24, 2)
        assert any(note.startswith("x, y, z: ") for note in read(tmp_path, content, name).notes)
    for name, content in (("a.obj", makers.obj()), ("a.las", makers.las()), ("a.mrk.json", makers.markups())):
        with pytest.raises(ValueError, match="expected no columns for a file of format"):
            read(tmp_path, content, name, columns="1,2,3")


def test_row_numbers_in_arrays(tmp_path):
    numbers = np.arange(24)
    for array, places in (
        (np.column_stack([numbers, makers.POINTS]), (1, 2, 3)),
        (np.column_stack([numbers + 7, makers.POINTS[:, :2]]), (1, 2)),
        (np.column_stack([makers.POINTS, numbers]), (0, 1, 2)),
        (np.column_stack([numbers // 5, makers.POINTS[:, :2]]), (0, 1, 2)),
    ):
        for name, content in (("a.npy", makers.npy(array)), ("a.mat", makers.mat(points=array))):
            result = read(tmp_path, content, name, **({"key": "points"} if name == "a.mat" else {}))
            np.testing.assert_array_equal(result.points, array[:, places])
            assert (places[0] == 1) == ("column 1 numbers the rows and is no coordinate" in result.notes)
            write_points(tmp_path / f"b_{name}", result, result.points + 1, overwrite=True)
            again = read_points(tmp_path / f"b_{name}", columns=[place + 1 for place in places])
            np.testing.assert_array_equal(again.points, result.points + 1)
            assert len(again.fields) == len(result.fields)


def test_a_matrix_without_names_is_no_cloud(tmp_path):
    grid = joined([" ".join(f"{value:.2f}" for value in np.linspace(k * 0.7, k + 1, 20)) for k in range(9)])
    with pytest.raises(ValueError, match="found 20 columns of numbers without names, as a grid.*columns='1,2,3'"):
        read(tmp_path, grid, "a.asc")
    assert read(tmp_path, grid, "a.asc", columns="1,2,3").points.shape == (9, 3)


def test_a_grid_without_its_header_is_no_cloud(tmp_path):
    """And points with all that scanners and data sets say of them are one."""
    random = numpy_generator(0, "grids")
    across, down = np.meshgrid(np.arange(9), np.arange(14))
    grids = {
        "noise": 300 + 5 * random.normal(size=(12, 8)),
        "terrain": 300 + 3 * across + 2 * down + random.normal(size=(14, 9)),
        "whole heights": np.round(1000 + 4 * across + 50 * np.sin(down)),
    }
    for name, heights in grids.items():
        text = joined([" ".join(f"{value:.2f}" for value in row) for row in heights])
        with pytest.raises(ValueError, match="as a grid or a matrix has them.*columns='1,2,3'"):
            read(tmp_path, text, f"{name}.asc")
        with pytest.raises(ValueError, match="expected an array of shape.*columns='1,2,3'"):
            read(tmp_path, makers.npy(heights), f"{name}.npy")
    points, normals = random.uniform(-1, 1, size=(2, 50, 3))
    colours, labels = random.integers(0, 256, size=(50, 3)), random.integers(0, 4, size=(50, 1))
    clouds = {
        "normals and a label": [points, normals, labels],
        "a room": [points * 4, colours, points / 2 + 0.5],
        "normals, colours": [points, normals, colours],
        "colours in floats, intensity": [points * 3, normals, colours / 255, labels],
        "on a map": [points + [500_000, 4_600_000, 300], colours, labels, labels],
    }
    for name, parts in clouds.items():
        table = np.column_stack(parts)
        text = joined([" ".join(f"{value:.6f}" for value in row) for row in table])
        np.testing.assert_allclose(read(tmp_path, text, f"{name}.txt").points, table[:, :3], atol=1e-6)
        np.testing.assert_array_equal(read(tmp_path, makers.npy(table), f"{name}.npy").points, table[:, :3])


FRAMES = {
    "symbols": joined("3", "frame 1", "C 1.5 2 3", "C 2 3 4.5", "O 2 2 2", "3", "frame 2", *["C 1.5 2 3"] * 3),
    "extended": joined("1", 'Lattice="1 0 0" Time=1.', "C 1.5 2 3", "1", 'Lattice="1 0 0" Time=2.', "C 1.5 2 3"),
    "other counts": joined("2", "", "C 1.5 2 3", "O 2 2 2", "1", "", "C 1.5 2 3"),
    "numbers with titles": joined("2", "frame 1", "1.5 2 3", "2 2 2", "2", "frame 2", "1.5 2 3", "2 2 2"),
    "numbers": joined("2", "", "1.5 2 3", "2 2 2", "2", "", "1.5 2 3", "2 2 2"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_several_frames_are_said_so(tmp_path, kind):
    with pytest.raises(ValueError, match="expected one frame .* the file holds 2 frames. Save one of them alone"):
        read(tmp_path, FRAMES[kind], "a.xyz")


def test_a_count_and_a_title_before_numbers(tmp_path):
    result = read(tmp_path, joined("12", "scan 1 of 3", lines("{x} {y} {z}")), "a.xyz")
    np.testing.assert_allclose(result.points, POINTS)
