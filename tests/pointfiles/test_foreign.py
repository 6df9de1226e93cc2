"""Formats that are not read: each is named, with one way to convert it, and never taken for points."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from pwan import read_points
from tests.pointfiles import makers

GRID = "ncols 3\nnrows 4\nxllcorner 5.0\nyllcorner 6.0\ncellsize 1.0\nNODATA_value -9999\n" + "1.5 2.5 3.5\n" * 4
XML = '<?xml version="1.0"?>\n<!-- made here -->\n'
KINDS: dict[str, tuple[bytes | str, str]] = {
    "a.json": ('{"a": [1, 2, 3]}', "JSON.*numpy.savetxt"),
    "a.geojson": ('{"type": "FeatureCollection", "features": []}', "GeoJSON.*ogr2ogr"),
    "b.json": ('\ufeff{ "type":"Feature", "geometry": null}', "GeoJSON"),
    "a.gltf": ('{"asset": {"version": "2.0"}, "meshes": [], "buffers": []}', "glTF|gltf.*save it as GLB"),
    "a.vtp": (XML + '<VTKFile type="PolyData"><PolyData/></VTKFile>', "VTK XML: convert it to PLY"),
    "a.txt": (XML + '<VTKFile type="ImageData"/>', "VTK XML"),
    "a.gpx": (XML + "<gpx><trk/></gpx>", "a GPX track: project"),
    "a.kml": ('<kml xmlns="http://www.opengis.net/kml/2.2"/>', "a KML map"),
    "a.pp": ('<!DOCTYPE PickedPoints>\n<PickedPoints><point x="1"/></PickedPoints>', "picked points: save"),
    "a.xml": ("<scan><p>1 2 3</p></scan>", "an XML file .of scan.: save"),
    "a.dae": ("<COLLADA/>", "COLLADA.*convert it to PLY"),
    "a.html": ("<html><body>404</body></html>", "HTML: was the download refused"),
    "b.xml": ("<!DOCTYPE html>\n<html/>", "HTML: was the download refused"),
    "a.asc": (GRID, "an ESRI ASCII grid.*gdal_translate"),
    "b.asc": ("".join(f"# {line}\n" if line[0] in "ncxyN" else f"{line}\n" for line in GRID.splitlines()), "ESRI"),
    "c.xyz": (GRID.upper().replace(" ", "\t"), "ESRI"),
    "d.asc": ("north: 5\nsouth: 1\neast: 3\nwest: 1\nrows: 2\ncols: 2\n1 2\n3 4\n", "a GRASS grid"),
    "a.grd": ("DSAA\n3 3\n0 1\n0 1\n0 5\n1 2 3\n1 2 3\n1 2 3\n", "a Surfer grid"),
    "a.pgm": ("P2\n# made here\n3 3\n9\n1 2 3\n4 5 6\n7 8 9\n", "picture"),
    "a.nrrd": (b"NRRD0004\ntype: float\n\n" + bytes(64), "a volume .NRRD.: take its surface"),
    "a.nii": (bytes(344) + b"n+1\0" + bytes(9), "a volume .NIfTI."),
    "a.mhd": ("ObjectType = Image\nNDims = 3\n", "a volume .MetaImage."),
    "a.tif": (b"II*\0" + bytes(99), "TIFF"),
    "a.dcm": (bytes(128) + b"DICM" + bytes(9), "DICOM"),
    "a.vtk": ("# vtk DataFile Version 3.0\nt\nASCII\n", "VTK file: convert it to PLY"),
    "a.e57": (b"ASTM-E57" + bytes(40), "E57.*CloudCompare"),
    "a.ptx": ("2\n2\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n", "a file .ptx: convert"),
    "a.msh": ("$MeshFormat\n2.2 0 8\n", "Gmsh"),
    "a.pdb": ("ATOM      1  N   MET A   1      27.340  24.430   2.614\n", "PDB.*obabel"),
    "a.parquet": (b"PAR1" + bytes(40), "Parquet.*to_csv"),
    "a.pkl": (b"\x80\x04\x95" + bytes(40), "never unpacked.*numpy.save"),
    "a.stp": ("ISO-10303-21;\nHEADER;\n", "STEP.*STL"),
    "a.tps": ("LP=3\n1 2\n3 4\n5 6\nID=a\n", "landmarks in TPS"),
    "dump.lammpstrj": ("ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n1\n", "LAMMPS"),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_format_is_named_with_a_way_out(tmp_path, name):
    content, words = KINDS[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"{name}: expected points.* found .*({words})") as caught:
        read_points(tmp_path / name)
    assert "comment sign" not in str(caught.value) and "Repair" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "words"),
    [("xl/workbook.xml", "Excel.*CSV"), ("content.xml", "OpenDocument"), ("3D/a.model", "3MF"), ("doc.kml", "KMZ"),
     ("model/data.pkl", "PyTorch.*numpy.save"), ("a.ply", "a.ply: unpack it")],
)  # fmt: skip
def test_archives_by_their_parts(tmp_path, part, words):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(part, makers.ply())
    (tmp_path / "a.zip").write_bytes(stream.getvalue())
    with pytest.raises(ValueError, match=words):
        read_points(tmp_path / "a.zip")


@pytest.mark.parametrize(
    "first", ["P1 0.5 1.5 2.5", "data_a 1 2 3", "MZ 1 2 3", "LPs 1 2 3", "nrows 1 2 3", "{a 1 2 3"]
)
def test_labels_that_begin_like_a_format_are_rows(tmp_path, first):
    (tmp_path / "a.txt").write_text(f"{first}\nb 2.5 3.5 4.5\nc 3.5 4.5 5.5\nd 4.5 5 6\n")
    if first.startswith("{"):  # but nothing else begins with a brace
        with pytest.raises(ValueError, match="JSON"):
            read_points(tmp_path / "a.txt")
    else:
        assert read_points(tmp_path / "a.txt").points.shape == (4, 3)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (
            np.ones((6, 7, 8), bool),
            r"\(6, 7, 8\) and type bool, a volume: use its surface, np.argwhere\(volume &",
        ),
        (np.ones((1, 6, 7, 8), bool), "a volume: use its surface"),
        (np.ones((6, 7, 8), np.uint8), r"a volume: use its surface, np.argwhere\(\(volume > threshold\) &"),
        (np.ones((20, 30), bool), "a mask: use its outline, np.argwhere"),
        (np.ones((6, 7, 3), np.uint8), r"found \(6, 7, 3\): an image has no points.*reshape\(-1, 3\)"),
        (np.ones((20, 20)), r"found \(20, 20\).*columns='1,2,3'"),
    ],
)
def test_volumes_images_and_grids_are_no_points(tmp_path, array, words):
    for name, content in (("a.npy", makers.npy(array)), ("a.npz", makers.npz(a=array))):
        (tmp_path / name).write_bytes(content)
        if array.shape == (20, 20) and name == "a.npz":
            continue  # an array of an archive that has none of points
        if array.shape[-1] == 3 and name == "a.npz":
            words = "an image|shape"
        with pytest.raises(ValueError, match=words) as caught:
            read_points(tmp_path / name)
        assert "float64. " not in str(caught.value) and "Reshape" not in str(caught.value)


def test_contours_are_points(tmp_path):
    (tmp_path / "a.npy").write_bytes(makers.npy(makers.POINTS[:, None, :2]))
    result = read_points(tmp_path / "a.npy")
    np.testing.assert_array_equal(result.points, makers.POINTS[:, :2])
    from pwan import write_points

    write_points(tmp_path / "b.npy", result, result.points)
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
