"""What holds for every format: which reader, paths, damaged files; and the rebuilt cases, where they are at hand."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from pwan.pointfiles import read_points
from pwan.randomness import numpy_generator
from tests.pointfiles import makers
from tests.pointfiles.makers import FACES, POINTS

CASES = Path(os.environ.get("PWAN_CASES", ""))
EXPECTED = json.loads((CASES / "expected.json").read_text("utf-8")) if os.environ.get("PWAN_CASES") else {}
KEYS = {"R53_two_arrays.npz": "source", "R53_structured.npy": "x"}  # where the case says "one of the names in the file"
REPORTS = Path(os.environ.get("PWAN_REPORTS", ""))
REPORTED = json.loads((REPORTS / "expected.json").read_text("utf-8")) if os.environ.get("PWAN_REPORTS") else {}
PLAIN = ("mat 4", "xyz", "csv", "pts", "swc", "fcsv", "utf-16", "gz")  # have no first bytes of their own


@pytest.mark.parametrize("kind", makers.every())
def test_every_format(tmp_path, kind):
    name, content = makers.every()[kind]
    (tmp_path / name).write_bytes(content)
    result = read_points(tmp_path / name)
    np.testing.assert_allclose(result.points, POINTS, rtol=0, atol=1e-6)
    assert result.points.dtype == np.float64 and result.points.flags.c_contiguous
    np.testing.assert_array_equal(result.rows, np.arange(len(POINTS)))
    if result.faces is not None:
        assert result.faces.tolist() == FACES


@pytest.mark.parametrize("kind", [kind for kind in makers.every() if kind not in PLAIN])
@pytest.mark.parametrize("suffix", ["", ".xyz", ".PLY", ".npy", ".stl", ".weird"])
def test_first_bytes_win_over_the_suffix(tmp_path, kind, suffix):
    path = tmp_path / f"a b{suffix}"
    path.write_bytes(gzip.compress(makers.every()[kind][1]))
    result = read_points(path)
    np.testing.assert_allclose(result.points, POINTS, atol=1e-6)
    same = suffix.lower() in ("", "." + result.format, ".weird")
    assert same != any("in spite of the suffix" in note for note in result.notes)


@pytest.mark.parametrize("suffix", ["", ".xyz", ".DAT", ".weird", ".gz", ".xyz.gz"])
def test_numbers_under_any_suffix_without_a_format(tmp_path, suffix):
    for content in (makers.rows().encode(), gzip.compress(makers.rows().encode())):
        (tmp_path / f"a{suffix}").write_bytes(content)
        result = read_points(tmp_path / f"a{suffix}")
        np.testing.assert_allclose(result.points, POINTS, atol=1e-6)
        assert any("not known" in note for note in result.notes) == (suffix == ".weird")


@pytest.mark.parametrize(
    "name", ["a=b.ply", "with space.ply", "ü,(1)[2]{3}.ply", "'q'.ply", "%20.ply", "-x.ply", ".ply", "a.b.c"]
)
def test_odd_names(tmp_path, name):
    (tmp_path / name).write_bytes(makers.ply("binary_big_endian"))
    for path in (tmp_path / name, str(tmp_path / name)):
        assert len(read_points(path).points) == len(POINTS)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.ply"):
        read_points(tmp_path / "none.ply")
    with pytest.raises(OSError, match="directory"):
        read_points(tmp_path)


@pytest.mark.parametrize(
    "name", ["a.ply", "a.obj", "a.off", "a.stl", "a.pcd", "a.npy", "a.npz", "a.las", "a.laz", "a.mat", "a.csv", "a"]
)
@pytest.mark.parametrize("content", [b"", b"\0" * 999, b"\xff" * 999, b"abc", b"abc def\n" * 99, bytes(range(256)) * 4])
def test_rubbish_under_every_suffix(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name}: expected|{name}: line"):
        read_points(tmp_path / name)


@pytest.mark.parametrize("suffix", [".gltf", ".e57", ".dxf"])
def test_formats_that_are_not_read_are_named(tmp_path, suffix):
    (tmp_path / f"a{suffix}").write_text("{}")
    with pytest.raises(ValueError, match=f"{suffix}: convert"):
        read_points(tmp_path / f"a{suffix}")


def damaged(content: bytes, random: np.random.Generator) -> bytes:
    """The content with one of: a byte changed, a bit of the header turned, a part taken out, a part added."""
    data = bytearray(content)
    at = int(random.integers(len(data)))
    how = random.integers(4)
    if how == 0:
        data[at] = random.integers(256)
    elif how == 1:
        data[int(random.integers(min(400, len(data))))] ^= 1 << int(random.integers(8))
    elif how == 2:
        del data[at : at + int(random.integers(1, 40))]
    else:
        data[at:at] = random.integers(0, 256, random.integers(1, 9), dtype=np.uint8).tobytes()
    return bytes(data)


@pytest.mark.parametrize("kind", makers.every())
def test_damaged_files(tmp_path, kind):
    """A sentence or points, never another exception; and where the file says how many, never another number."""
    name, content = makers.every()[kind]
    random = numpy_generator(0, "damage", kind)
    counted = kind not in (*PLAIN[1:], "obj", "stl", "stl ascii", "markups")
    for _ in range(60):
        (tmp_path / name).write_bytes(damaged(content, random))
        began = time.monotonic()
        try:
            result, said = read_points(tmp_path / name), ""
        except ValueError as error:
            result, said = None, str(error)
        if result is None:
            assert said.startswith(str(tmp_path / name)) and len(said) < 1200
        else:
            assert np.isfinite(result.points).all() and result.points.shape[1] in (2, 3)
            assert not counted or result.count == len(POINTS)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "kind", [kind for kind in makers.every() if kind not in ("xyz", "csv", "swc", "fcsv", "utf-16", "obj")]
)
def test_cut_off_files_are_refused(tmp_path, kind):
    """Wherever a file that says its length ends too early."""
    name, content = makers.every()[kind]
    whole = len(content.rstrip(b"\n"))
    spare = {"ply ascii": 10, "pcd ascii": 10, "off": 10, "pts": 10, "stl ascii": 20}.get(kind, 0)  # digits, a name
    random = numpy_generator(0, "cut", kind)
    for length in sorted({0, 1, whole - 1, *random.integers(0, whole, 60).tolist()}):
        if length > whole - spare:
            continue
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(ValueError, match="expected"):
            read_points(tmp_path / name)


def test_text_cut_off_in_its_last_number(tmp_path):
    for kind in ("xyz", "csv", "pts"):
        name, content = makers.every()[kind]
        (tmp_path / name).write_bytes(content[:-4])
        with pytest.raises(ValueError, match="cut off"):
            read_points(tmp_path / name)
        (tmp_path / name).write_bytes(content[:-1])
        assert len(read_points(tmp_path / name).points) == len(POINTS)


def agrees(place: Path, want: dict, **options) -> None:
    result = read_points(place, **options)
    assert result.points.shape == (want["n"], want["dim"])
    for row, place in (("first", 0), ("last", -1)):
        if row in want:
            np.testing.assert_allclose(result.points[place], want[row], rtol=0, atol=want["tol"])


@pytest.mark.skipif(not EXPECTED, reason="PWAN_CASES does not name the folder of rebuilt cases")
@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("R")])
def test_cases(name):
    want = EXPECTED[name]
    options = dict(want.get("options", {}))
    if "key" in options:
        options["key"] = KEYS[name]
    if want["outcome"] == "ok":
        agrees(CASES / name, want, **options)
        if want.get("without_options") == "error" or name == "R53_two_arrays.npz":
            with pytest.raises(ValueError, match=name):
                read_points(CASES / name)
    else:
        with pytest.raises(ValueError, match=name):
            read_points(CASES / name)


SAID = {  # what a refusal names, by the file's kind
    ".vtp": "VTK XML: convert it to PLY",
    ".asc": "an ESRI ASCII grid: it holds heights of cells, no points: convert it",
    ".csv": "degrees.*project",
}


@pytest.mark.skipif(not REPORTED, reason="PWAN_REPORTS does not name the folder of reported files")
@pytest.mark.parametrize(
    "name", [name for name, want in REPORTED.items() if "pair" not in want and name[-4:] != "yaml"]
)
def test_reports(name):
    want, place = REPORTED[name], REPORTS / "files" / name
    if want["outcome"] == "ok":
        agrees(place, want)
    elif name.endswith(".mrk.json"):  # better than a refusal that names the format: it is read
        held = [one["controlPoints"] for one in json.loads(place.read_text("utf-8"))["markups"]]
        np.testing.assert_array_equal(read_points(place).points, [point["position"] for part in held for point in part])
    else:
        with pytest.raises(ValueError, match=f"{name}: .*{SAID[place.suffix]}") as caught:
            read_points(place)
        assert "comment sign" not in str(caught.value)
