"""Formats that are known and not read here: each by its name, with one way to convert it."""

from __future__ import annotations

import json
import re

from pwan.pointfiles.content import Fault

_MESH = "convert it to PLY, for example with MeshLab or Blender"
_CLOUD = "convert it to LAZ or PLY, for example with CloudCompare"
_VTK = "convert it to PLY, with ParaView or by pyvista.read(path).extract_surface().save('a.ply')"
_VOLUME = "take its surface, in 3D Slicer or by skimage.measure.marching_cubes, and save that as PLY or NPY"
_PICTURE = "name a file of points"
_ARCHIVE = "unpack it"
_GRID = "it holds heights of cells, no points: convert it by gdal_translate -of XYZ a.asc a.xyz, and read that"
_MAP = "project it and convert it to CSV: ogr2ogr -f CSV a.csv FILE -lco GEOMETRY=AS_XYZ -t_srs EPSG:NUMBER"
_TABLE = "save the sheet as CSV"
_ATOMS = "convert it to XYZ, for example by obabel FILE -O a.xyz"
_CAD = "convert it to STL or PLY, for example with FreeCAD"
FIRST = (  # of the bytes, a pattern; what to call it; what to do
    (rb"BZh[1-9]1AY", "a bzip2 archive", _ARCHIVE),
    (rb"\xfd7zXZ", "an xz archive", _ARCHIVE),
    (rb"\x28\xb5\x2f\xfd", "a zstd archive", _ARCHIVE),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _ARCHIVE),
    (rb"Rar!", "a RAR archive", _ARCHIVE),
    (rb"\x89HDF", "an HDF5 file (MATLAB writes these with -v7.3)", "save it with -v7 or as NPY"),
    (rb"ASTM-E57", "an E57 file", _CLOUD),
    (rb"Kaydara FBX|; FBX \d", "an FBX file", _MESH),
    (rb"DRACO", "a Draco file", _MESH),
    (rb"BLENDER", "a Blender file", "save it as PLY there"),
    (rb"# vtk DataFile", "a VTK file", _VTK),
    (rb"#VRML|#X3D", "a VRML file", _MESH),
    (rb"\$MeshFormat|MeshVersionFormatted", "a mesh of Gmsh or Medit", _MESH),
    (rb"# (AmiraMesh|Avizo|HyperSurface)", "an Amira file", "save it there as PLY, or a landmark set as CSV"),
    (rb"ISO-10303-21", "a STEP file", _CAD),
    (rb"\s*0\s*[\r\n]+\s*SECTION", "a DXF drawing", _CAD),
    (rb"version https://git-lfs", "a pointer of Git LFS and not the file itself", "fetch it with git lfs pull"),
    (rb"NRRD\d", "a volume (NRRD)", _VOLUME),
    (rb"ObjectType\s*=|NDims\s*=", "a volume (MetaImage)", _VOLUME),
    (rb"II\*\0|MM\0\*|II\+\0|MM\0\+", "a TIFF picture or volume", _VOLUME),
    (rb"(?s).{128}DICM", "a DICOM volume", _VOLUME),
    (rb"(?s).{344}n[i+]1\0", "a volume (NIfTI)", _VOLUME),
    (rb"%PDF-\d", "a PDF file", _PICTURE),
    (rb"\x89PNG", "a PNG picture", _PICTURE),
    (rb"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (rb"P[1-6][ \t]*\r?\n(#.*\n)*\s*\d+\s+\d+\s*\n", "a PGM or PPM picture", _PICTURE),
    (rb"\x7fELF|MZ\x90", "a program", _PICTURE),
    (rb"SQLite", "an SQLite database", "save its table as CSV"),
    (rb"PAR1|ARROW1", "a Parquet or Arrow table", "convert it by pandas.read_parquet(path).to_csv('a.csv')"),
    (rb"\xd0\xcf\x11\xe0", "an Excel workbook", _TABLE),
    (rb"\x80[\x02-\x05]", "a Python pickle, which is never unpacked", "save the points as an NPY file, by numpy.save"),
    (rb"RD[XA]\d\n", "an R data file", "save the points there by write.csv"),
    (rb"\0\0\x27\x0a", "a shapefile", _MAP),
    (rb"CDF[\x01\x02\x05]", "a netCDF file", "save its points as CSV"),
    (rb"D[SR]BB|DSAA\s", "a Surfer grid", _GRID),
    (rb"(?i)\s*north:[^\n]*\n\s*south:", "a GRASS grid", _GRID),
    (rb"(?i)\s*LP3?=", "landmarks in TPS", "save the rows of numbers of one specimen alone"),
    (rb"ITEM: TIMESTEP", "a LAMMPS dump", "save one frame as XYZ"),
    (rb"(HEADER|CRYST1|ATOM  |HETATM|MODEL  |REMARK)[ \d]", "a PDB file", _ATOMS),
    (rb"@<TRIPOS>|data_\w+\s*\n\s*(#.*\n\s*)*(_|loop_)", "a file of molecules (mol2, CIF)", _ATOMS),
)
INSIDE = (  # of a ZIP archive, a part; what to call it; what to do
    ("xl/", "an Excel workbook", _TABLE),
    ("content.xml", "an OpenDocument file", _TABLE),
    ("3D/", "a 3MF model", _MESH),
    ("doc.kml", "a KMZ map", _MAP),
    ("data.pkl", "a PyTorch file", "save the points by numpy.save(path, points.numpy())"),
)
ROOTS = {  # of XML documents
    "vtkfile": ("VTK XML", _VTK),
    "gpx": ("a GPX track", _MAP),
    "kml": ("a KML map", _MAP),
    "pickedpoints": ("MeshLab's picked points", "save the x, y and z of each point as a row of numbers"),
    "collada": ("a COLLADA file", _MESH),
    "x3d": ("an X3D file", _MESH),
    "amf": ("an AMF file", _MESH),
    "svg": ("an SVG picture", _PICTURE),
    "gifti": ("a GIFTI surface", "convert it: nibabel.load(path).agg_data('pointset'), saved by numpy.save"),
    "osm": ("an OpenStreetMap file", _MAP),
    "landxml": ("a LandXML file", "save its points as CSV"),
    "things": ("a Knossos skeleton", "convert it to SWC"),
}
SUFFIXES = {
    **dict.fromkeys(("gltf", "fbx", "3ds", "dae", "3mf", "blend", "drc", "wrl", "usdz", "ctm", "gts"), _MESH),
    **dict.fromkeys(("e57", "ptx", "rcp", "rcs", "zfs", "fls", "3dm"), _CLOUD),
    **dict.fromkeys(("vtk", "vtp", "vtu", "vti"), _VTK),
    **dict.fromkeys(("step", "stp", "iges", "igs", "dxf", "dwg"), _CAD),
    **dict.fromkeys(("nrrd", "nhdr", "mha", "mhd", "nii", "tif", "tiff", "dcm"), _VOLUME),
    **dict.fromkeys(("grd", "dem", "bil", "hgt"), _GRID),
    **dict.fromkeys(("shp", "kml", "gpx", "geojson", "gpkg"), _MAP),
    **dict.fromkeys(("xls", "xlsx", "ods"), _TABLE),
}
_GRID_WORDS = re.compile(rb"(?mi)^\W*(ncols|nrows|cellsize|[xy]ll(?:corner|center)|nodata_value)\b[\s=:,;]+[-+\d.]")
HEAD = 4096  # bytes at the beginning that are searched


def refuse(data: bytes, suffix: str, by_suffix: bool) -> None:
    """Raise a fault where the bytes, or else the suffix, name a format that is known and not read here.

    Args:
        by_suffix: the suffix names a format that is read: it counts more than a "%PDF" or letters of a header.
    """
    head = data[:HEAD].removeprefix(b"\xef\xbb\xbf")
    if len({word.lower() for word in _GRID_WORDS.findall(head)}) > 1:
        raise named("an ESRI ASCII grid", _GRID)
    bare = head.lstrip(b" \t\r\n")
    for pattern, name, advice in FIRST:
        if re.match(pattern, bare) or (pattern.startswith(rb"(?s)") and re.match(pattern, head)):
            raise named(name, advice)
    if bare.startswith(b"<"):
        _refuse_xml(bare)
    is_json = bare.startswith((b"{", b"[")) and not re.match(rb"\[\s*[-+\d.]", bare)
    if is_json and (found := _json(data, bare)) is not None:
        raise named(*found)
    if suffix in SUFFIXES and not by_suffix:
        raise named(f"a file .{suffix}", SUFFIXES[suffix])
    if is_json:
        name = "JSON" if _is_whole(data) else "JSON that is cut off or damaged"
        raise named(name, "save its points as rows of numbers: numpy.savetxt('a.xyz', points)")


def named(name: str, advice: str) -> Fault:
    """The fault of a file of a known format, with what to do."""
    return Fault(
        "expected points in a format that is read here (PLY, OBJ, OFF, STL, GLB, PCD, LAS, LAZ, NPY, NPZ, MAT, "
        f".mrk.json or text), found {name}: {advice}."
    )


def _refuse_xml(head: bytes) -> None:
    words = re.sub(rb"(?si)<\?.*?\?>|<!--.*?-->|<!doctype(?! html)[^>]*>", b"", head)
    match = re.search(rb"<!?([\w:.-]+)", words)
    root = match.group(1).decode("latin-1").lower().rpartition(":")[2] if match else ""
    if root in ("doctype", "html", "head", "body"):
        raise Fault("expected points, found a page of HTML: was the download refused? Fetch it again.")
    if root in ROOTS:
        raise named(*ROOTS[root])
    if match:
        raise named(f"an XML file (of {root[:40]})", "save its points as rows of numbers")


def _json(data: bytes, head: bytes) -> tuple[str, str] | None:
    """What to call a JSON file of a known kind, and what to do with it."""
    if re.search(rb'"type"\s*:\s*"(FeatureCollection|Feature|GeometryCollection|MultiPoint|LineString)"', head):
        return "GeoJSON", _MAP
    if re.search(rb'"asset"\s*:\s*\{', data) and re.search(rb'"(accessors|meshes|buffers)"\s*:', data):
        return "glTF (JSON)", "save it as GLB, which holds all in one file"
    return None


def _is_whole(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
