"""The coordinate system that a file names."""

from __future__ import annotations

import pytest

from pwan.pointfiles.anatomy import anatomical
from tests.pointfiles import makers
from tests.pointfiles.written import XYZ, source

PLY = f"ply\nformat ascii 1.0\ncomment Made by a program. SPACE={{}}\nelement vertex 1\n{XYZ}end_header\n1 2 3\n"
OBJ = "# SPACE={}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
STL = "solid 3D Slicer output. SPACE={}\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
STL += "endloop\nendfacet\nendsolid\n"


@pytest.mark.parametrize(("name", "content"), [("a.ply", PLY), ("a.obj", OBJ), ("a.stl", STL)])
@pytest.mark.parametrize("system", ["RAS", "LPS"])
def test_meshes_of_3d_slicer(tmp_path, name, content, system):
    assert anatomical(source(tmp_path, content.format(system), name)) == system.lower()
    assert anatomical(source(tmp_path, content.replace("SPACE={}", ""), name)) is None


def test_markups(tmp_path):
    content = makers.markups().decode()
    assert anatomical(source(tmp_path, content, "a.mrk.json")) == "lps"
    assert anatomical(source(tmp_path, content.replace('"LPS"', '"RAS"'), "a.mrk.json")) == "ras"


@pytest.mark.parametrize(("word", "wanted"), [("LPS", "lps"), ("RAS", "ras"), ("0", "ras"), ("1", "lps")])
def test_fcsv(tmp_path, word, wanted):
    head = f"# Markups fiducial file version = 4.11\n# CoordinateSystem = {word}\n# columns = id,x,y,z,label\n"
    assert anatomical(source(tmp_path, head + "1,2,3,4,a\n2,3,4,5,b\n", "a.fcsv")) == wanted
