"""Delimited text in the spellings that people meet, and what must be refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pwan.pointfiles import PointFile, read_points
from pwan.randomness import numpy_generator

POINTS = np.round(numpy_generator(0, "text").normal(size=(12, 3)), 4) + 0.00003  # no whole numbers


def lines(template: str, points: np.ndarray = POINTS, comma: bool = False) -> list[str]:
    """One line a point, by a template with {x}, {y}, {z} and {i}, {j} (its number from 0 and from 1)."""
    out = []
    for i, row in enumerate(points):
        names = dict(zip("xyz", (f"{value:.5f}" for value in row), strict=False))
        if comma:
            names = {name: text.replace(".", ",") for name, text in names.items()}
        out.append(template.format(i=i, j=i + 1, **names))
    return out


def read(folder: Path, content: str | bytes, name: str = "points.txt", **options) -> PointFile:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_points(path, **options)


def joined(*parts: str | list[str], end: str = "\n") -> str:
    return end.join(line for part in parts for line in ([part] if isinstance(part, str) else part)) + end


PLAIN = lines("{x} {y} {z}")
COMMA = lines("{x},{y},{z}")
GOOD: dict[str, str | bytes] = {
    "blanks": joined(PLAIN),
    "no newline at the end": joined(PLAIN).rstrip("\n"),
    "many blanks": joined(lines("   {x}    {y}  {z}  ")),
    "tabs": joined(lines("{x}\t{y}\t{z}")),
    "two tabs": joined(lines("{x}\t\t{y}\t\t{z}")),
    "tabs and blanks": joined(lines("{x}\t{y} {z}")),
    "tabs and blanks, changing": joined(lines("{x}\t{y} {z}")[:6], lines(" {x} {y}\t{z}")[6:]),
    "comma": joined(COMMA),
    "comma and blank": joined(lines("{x}, {y}, {z}")),
    "comma at the end": joined(lines("{x},{y},{z},")),
    "comma and blanks mixed": joined(lines("{x}, {y} {z}")),
    "a tab behind some rows": joined(lines("{x}\t{y}\t{z}\t")[:5], lines("{x}\t{y}\t{z}")[5:]),
    "tabs in front": joined(lines("\t{x}\t{y}\t{z}")),
    "header after a sign without blank": joined("#z,y,x", lines("{z},{y},{x}")),
    "header in a comment with commas and blanks": joined("# z, y, x", lines("{z}, {y}, {x}")),
    "semicolon": joined(lines("{x};{y};{z}")),
    "semicolon at the end": joined(lines("{x};{y};{z};")),
    "semicolon, decimal comma": joined(lines("{x};{y};{z}", comma=True)),
    "semicolon and blanks, decimal comma": joined(lines("{x} ; {y} ; {z}", comma=True)),
    "tab, decimal comma": joined(lines("{x}\t{y}\t{z}", comma=True)),
    "blanks, decimal comma": joined(lines("{x} {y} {z}", comma=True)),
    "bar": joined(lines("{x}|{y}|{z}")),
    "windows line ends": joined(PLAIN, end="\r\n"),
    "old mac line ends": joined(PLAIN, end="\r"),
    "plus signs": joined([f"{x:+.5f} {y:+.5f} {z:+.5f}" for x, y, z in POINTS]),
    "quoted cells": joined(lines('"{x}","{y}","{z}"')),
    "quoted cells, decimal comma": joined(lines('"{x}","{y}","{z}"', comma=True)),
    "header": joined("x,y,z", COMMA),
    "header in capitals, quoted": joined('"X","Y","Z"', COMMA),
    "header with units": joined("X [m],Y [m],Z [m]", COMMA),
    "header with blanks": joined("x y z", PLAIN),
    "header of names for places": joined("Easting,Northing,Elevation", COMMA),
    "header of other names": joined("right,forward,up", COMMA),
    "header of ParaView": joined('"Points:0","Points:1","Points:2"', COMMA),
    "header of Cartesian names": joined("pos_x;pos_y;pos_z", lines("{x};{y};{z}")),
    "header and units": joined("x,y,z", "m,m,m", COMMA),
    "title, header": joined("Scan of a leaf", "x;y;z", lines("{x};{y};{z}")),
    "header in another order": joined("z,x,y", lines("{z},{x},{y}")),
    "header, an index without name": joined(",x,y,z", lines("{i},{x},{y},{z}")),
    "header, id and label": joined("id,label,Z,Y,X", lines("{i},leaf,{z},{y},{x}")),
    "header, label with blanks": joined("label,x,y,z", lines("a big leaf,{x},{y},{z}")),
    "header, empty cells elsewhere": joined("x,note,y,z", lines("{x},,{y},{z}")),
    "header of R": joined('"x" "y" "z"', lines('"{j}" {x} {y} {z}')),
    "header of R, plain numbers": joined("x y z", lines("{j} {x} {y} {z}")),
    "header without names for the last columns": joined("x y z", lines("{x} {y} {z} 7.5 8.5")),
    "header of pandas without names": joined("0,1,2", COMMA),
    "header and index of pandas without names": joined(",0,1,2", lines("{i},{x},{y},{z}")),
    "header in a comment": joined("# z y x", lines("{z} {y} {x}")),
    "header in a comment, then a count": joined("//X;Y;Z;R", "12", lines("{x};{y};{z};9.5")),
    "header, decimal comma": joined("x;y;z", lines("{x};{y};{z}", comma=True)),
    "header in tabs with blanks in names": joined("point name\tx\ty\tz", lines("a b\t{x}\t{y}\t{z}")),
    "more columns": joined(lines("{x} {y} {z} 0.5 9 11.5")),
    "a row number in front": joined(lines("{j},{x},{y},{z}")),
    "a label in front": joined(lines("p{i} {x} {y} {z}")),
    "a label behind": joined(lines("{x} {y} {z} leaf")),
    "count": joined("12", PLAIN),
    "count behind comments": joined("# points", "", "12", PLAIN),
    "count and columns": joined("12 3", PLAIN),
    "two counted blocks": joined("7", PLAIN[:7], "5", PLAIN[7:]),
    "landmarks": joined("version: 1", "n_points:  12", "{", PLAIN, "}"),
    "comments": joined("# a", "// b", "% c", "! d", "", PLAIN[:5], "", "#", "// e # f", PLAIN[5:], "", "# end"),
    "comments behind values": joined(lines("{x} {y} {z} # point {i}")),
    "blank lines": joined("", "  ", PLAIN[:3], "\t", PLAIN[3:], "", ""),
    "utf-8 mark": b"\xef\xbb\xbf" + joined(PLAIN).encode(),
    "utf-8 mark, header": b"\xef\xbb\xbf" + joined("x,y,z", COMMA).encode(),
    "utf-8 comment": joined("# Größe in µm ✓", PLAIN).encode(),
    "latin comment": joined("# Größe in µm", PLAIN).encode("cp1252"),
    "latin header": joined("Länge;x;y;z", lines("9.5;{x};{y};{z}")).encode("cp1252"),
    "utf-16": joined("x y z", PLAIN).encode("utf-16"),
    "utf-16 big-endian": b"\xfe\xff" + joined(PLAIN).encode("utf-16-be"),
    "utf-16 without mark": joined(PLAIN, end="\r\n").encode("utf-16-le"),
    "utf-32": joined(PLAIN).encode("utf-32"),
    "printed minus sign": joined(PLAIN).replace("-", "\u2212"),
    "no-break spaces": joined(PLAIN).replace(" ", "\u00a0"),
    "exponents": joined([f"{x:.12e} {y:.12E} {z:.12e}" for x, y, z in POINTS]),
    "exponents of Fortran": joined([f"{x:.12e} {y:.12e} {z:.12e}".replace("e", "D") for x, y, z in POINTS]),
    "symbols of atoms": joined("12", "any comment 1.5", lines("C {x} {y} {z}")),
    "symbols of atoms, empty comment": joined("12", "", lines("Fe {x} {y} {z}")),
    "symbols and charges": joined("12", "a b c d", lines("H{i} {x} {y} {z} 0.25 ok")),
    "extended XYZ": joined(
        "12",
        'Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:forces:R:3:pos:R:3',
        lines("O 1.5 2.5 3.5 {x} {y} {z}"),
    ),
}


@pytest.mark.parametrize("kind", GOOD)
def test_reads_every_spelling(tmp_path, kind):
    result = read(tmp_path, GOOD[kind])
    np.testing.assert_allclose(result.points, POINTS, rtol=0, atol=1e-9)
    assert result.format == "text" and result.points.dtype == np.float64
    assert all(len(values) == len(POINTS) for values in result.fields.values())


def test_atomic_numbers(tmp_path):
    result = read(tmp_path, joined("12", "", lines("6 {x} {y} {z}")), "molecule.xyz")
    np.testing.assert_allclose(result.points, POINTS)
    assert (result.fields["column_1"] == 6).all()


@pytest.mark.parametrize(
    "content",
    [
        joined(lines("{x} {y}", POINTS[:, :2])),
        joined(lines("{x},{y}", POINTS[:, :2])),
        joined("x,y", lines("{x},{y}", POINTS[:, :2])),
        joined("id;x;y;area", lines("{i};{x};{y};3.5", POINTS[:, :2])),
        joined(lines("{x} {y}", POINTS[:, :2], comma=True)),
        joined("12", lines("{x} {y}", POINTS[:, :2])),
    ],
)
def test_two_dimensions(tmp_path, content):
    np.testing.assert_allclose(read(tmp_path, content).points, POINTS[:, :2])


def test_other_columns_become_fields(tmp_path):
    result = read(tmp_path, joined("id,label,Z,Y,X,nx,ny,nz", lines("{i},leaf,{z},{y},{x},0,0,1")))
    assert list(result.fields) == ["id", "label", "nx", "ny", "nz"]
    np.testing.assert_array_equal(result.fields["id"], np.arange(12))
    assert set(result.fields["label"]) == {"leaf"}
    np.testing.assert_array_equal(result.normals, np.tile([0, 0, 1], (12, 1)))
    assert result.layout["coordinates"] == ("X", "Y", "Z") and result.layout["separator"] == ","


def test_columns_by_key(tmp_path):
    named = joined("a,b,c,d", lines("9.5,{z},{y},{x}"))
    for key in ("d,c,b", ["D", "C", "B"], "4 3 2"):
        np.testing.assert_allclose(read(tmp_path, named, key=key).points, POINTS)
    np.testing.assert_allclose(read(tmp_path, joined(lines("7.5 {x} {y} {z}")), key="2,3,4").points, POINTS)
    np.testing.assert_allclose(read(tmp_path, joined("x,y,z", COMMA), key="x,y").points, POINTS[:, :2])
    with pytest.raises(ValueError, match="a, b, c, d"):
        read(tmp_path, named, key="a,b,e")
    with pytest.raises(ValueError, match="columns='A,B,C'"):
        read(tmp_path, named)


def test_counts_in_a_file_of_one_point(tmp_path):
    assert read(tmp_path, "1.5 2.5 3.5").points.shape == (1, 3)
    assert read(tmp_path, "1\n1.5 2.5 3.5\n").points.shape == (1, 3)
    assert read(tmp_path, "x,y\n1,2\n").points.shape == (1, 2)
    assert read(tmp_path, "0 1 2\n").points.shape == (1, 3)


def test_values_are_not_rounded(tmp_path):
    points = np.array([[500000.123456789, 4600000.987654321, 1 / 3]] * 3) * [[1], [2], [3]]
    text = joined([" ".join(repr(float(value)) for value in row) for row in points])
    np.testing.assert_array_equal(read(tmp_path, text).points, points)
    single = points.astype(np.float32)
    text = joined([" ".join(str(value) for value in row) for row in single])
    np.testing.assert_array_equal(read(tmp_path, text).points.astype(np.float32), single)


@pytest.mark.parametrize(
    "spelling",
    ["nan", "NaN", "-nan", "-nan(ind)", "nan(snan)", "1.#QNAN", "-1.#IND", "1.#INF", "inf", "-Infinity", "NA", "1e999"],
)
def test_invalid_rows_are_refused_or_dropped(tmp_path, spelling):
    for separator in " ;,":
        rows = lines(separator.join(("{x}", "{y}", "{z}", "{i}")))
        rows[3] = separator.join((spelling, "1.5", "2.5", "3"))
        with pytest.raises(ValueError, match="1 of 12 points .number 4.*drop_invalid=True"):
            read(tmp_path, joined(rows))
        result = read(tmp_path, joined(rows), drop_invalid=True)
        np.testing.assert_array_equal(result.rows, np.delete(np.arange(12), 3))
        np.testing.assert_array_equal(result.fields["column_4"], result.rows)
        assert any("dropped 1 of 12" in note for note in result.notes)
    with pytest.raises(ValueError, match="all 2 points"):
        read(tmp_path, joined([f"{spelling} 1 2"] * 2), drop_invalid=True)


def test_empty_cells_are_missing_values(tmp_path):
    rows = lines("{x},{y},{z}")
    rows[5] = "1.5,,2.5"
    with pytest.raises(ValueError, match="number 6"):
        read(tmp_path, joined("x,y,z", rows))
    assert len(read(tmp_path, joined("x,y,z", rows), drop_invalid=True).points) == 11


BAD = {
    "empty": ("", "empty file"),
    "blank": (" \n\t\n\r\n", "empty file"),
    "zeros": (b"\0" * 100, "empty file"),
    "comments only": ("# a\n# b\n", "no points"),
    "header only": ("x,y,z\n", "header alone"),
    "count only": ("12\n", "fewer than two"),
    "one column": (joined(lines("{x}")), "two or three columns"),
    "count too large": (joined("13", PLAIN), "expected 13 points, as the count line says, found 12"),
    "count too small": (joined("11", PLAIN), "expected 11 points, as the count line says, found 12"),
    "atoms missing": (joined("13", "c", lines("C {x} {y} {z}")), "expected 13 points"),
    "frames": (joined("12", "c", lines("C {x} {y} {z}"), "12", "c", lines("C {x} {y} {z}")), "line 15"),
    "second block cut": (joined("7", PLAIN[:7], "5", PLAIN[7:-1]), "expected 5 points.*found 4"),
    "short row": (joined(PLAIN[:4], "1.5 2.5", PLAIN[4:]), "line 5: expected 3 columns as in the other rows, found 2"),
    "long row": (joined(COMMA[:4], "1.5,2.5,3.5,4.5", COMMA[4:]), "line 5: expected 3 columns"),
    "text in a row": (
        joined(PLAIN[:4], "1.5 abc 3.5", PLAIN[4:]),
        "line 5: expected a number in column 2, found 'abc'",
    ),
    "text in a named column": (joined("x,y,z", COMMA[:4], "1.5,abc,3.5", COMMA[4:]), "line 6.*'abc'"),
    "text in the first row": (joined("1.5x 2.5 3.5", PLAIN), "line 1: expected a number in column 1, found '1.5x'"),
    "numbers with underscores": (joined(PLAIN, "1_5 2 3"), "line 13"),
    "two decimal signs": (joined(["1.234,5;2.5;3.5"] * 4), "line 1.*both"),
    "prose": ("It was a dark and stormy night.\nThe rain fell in torrents.\n" * 40, "30 lines"),
    "web page": ("<!DOCTYPE html>\n<html><body>404</body></html>", "HTML"),
    "pointer of Git LFS": ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "lfs pull"),
    "a part erased": (
        b"\xff\xfe-\0" + bytes(300) + joined(PLAIN).encode("utf-16-le"),
        "zeros in it: a part was erased",
    ),
    "landmarks cut": (joined("version: 1", "n_points: 12", "{", PLAIN), "closing brace"),
    "binary": (bytes(range(256)) * 3, "raw="),
    "zip": (b"PK\x03\x04abc", "ZIP"),
    "names without meaning": (joined("a,b,c,d", lines("9.5,{x},{y},{z}")), "columns="),
    "header of another length": (joined("x,y,z,w,v", COMMA), "as many names as columns"),
    "vtk": ("# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\n", "VTK"),
}


@pytest.mark.parametrize("kind", BAD)
def test_refuses_with_a_sentence(tmp_path, kind):
    content, match = BAD[kind]
    with pytest.raises(ValueError, match=f"points.txt: .*{match}"):
        read(tmp_path, content)


def test_large_files_are_read_at_once(tmp_path):
    points = numpy_generator(0, "large").normal(size=(60_000, 3))
    text = joined("x,y,z", [",".join(map(repr, row)) for row in points.tolist()])
    np.testing.assert_array_equal(read(tmp_path, text).points, points)


def test_the_first_point_is_no_header_of_numbers(tmp_path):
    """Only 0, 1, 2, ... spelled so is pandas' header, and not before rows of whole numbers alone."""
    for points in ([[0, 1], [1.5, 2], [2.5, 3.5]], [[0, 1, 2], [1.5, 2, 3], [2.5, 3.5, 1]]):
        for spelling in ("%.18e", "%.6f", "%.1f"):
            np.savetxt(tmp_path / "a.txt", points, fmt=spelling)
            assert read_points(tmp_path / "a.txt").points.tolist() == points
    assert read(tmp_path, "0 1 2\n5 1 2\n2 3 4\n").points.tolist() == [[0, 1, 2], [5, 1, 2], [2, 3, 4]]
    named = read(tmp_path, "0 1 2\n1.5 1.0 2.0\n2.5 3.0 4.0\n")
    assert named.points.tolist() == [[1.5, 1, 2], [2.5, 3, 4]]
    assert "line 1 numbers the columns and is no point" in named.notes


def test_whole_numbers_that_are_no_floats(tmp_path):
    result = read(tmp_path, "x y z t u\n1.5 2.5 3.5 1625000000123456789 1e19\n4.5 5.5 6.5 1625000000123456790 3e19\n")
    assert result.fields["t"].dtype == np.int64
    assert result.fields["t"].tolist() == [1625000000123456789, 1625000000123456790]
    assert result.fields["u"].tolist() == [1e19, 3e19]
    for rows in ("0012 1.5 2.5 3.5\n0345 4.5 5.5 6.5\n", "0012 1.5 2.5 3.5\n0345 4.5 5.5 6.5 # behind\n"):
        coded = read(tmp_path, "id x y z\n" + rows)
        assert coded.fields["id"].tolist() == ["0012", "0345"] and coded.points.tolist() == result.points.tolist()
        assert any("column id is kept as text" in note for note in coded.notes)
    assert read(tmp_path, "001 002 003\n004 005 007\n").points.tolist() == [[1, 2, 3], [4, 5, 7]]
    many = joined("x y z id", lines("{x} {y} {z} 7") * 40, lines("{x} {y} {z} 012"))  # zeros far behind the first rows
    assert set(read(tmp_path, many).fields["id"]) == {"7", "012"}


def test_commas_behind_blanks_separate_whole_numbers(tmp_path):
    for content in ("1 ,2 ,3\n4 ,5 ,6\n7 ,8 ,10\n", "1 , 2 ,3\n4 , 5 ,6\n7 , 8 ,10\n"):
        assert read(tmp_path, content).points.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 10]]
    assert read(tmp_path, ",5 1,5 2\n,6 1,7 2\n").points.tolist() == [[0.5, 1.5, 2], [0.6, 1.7, 2]]
    assert read(tmp_path, ",5 ,6 ,7\n,6 ,7 ,9\n").points.tolist() == [[0.5, 0.6, 0.7], [0.6, 0.7, 0.9]]
    assert read(tmp_path, "1 -,5 2\n1 ,6 3\n").points.tolist() == [[1, -0.5, 2], [1, 0.6, 3]]


def test_a_first_row_of_missing_numbers_is_a_row(tmp_path):
    for head in ("", "x y z q\n"):
        for word in ("NA", "null", '"n/a"'):
            content = head + f"{word} {word} {word} {word}\n1.5 2.5 3.5 4.5\n2.5 3.5 4.5 5.5\n"
            for text in (content, content.replace(" ", ",")):
                result = read(tmp_path, text, drop_invalid=True)
                assert result.rows.tolist() == [1, 2] and result.points.tolist() == [[1.5, 2.5, 3.5], [2.5, 3.5, 4.5]]
                with pytest.raises(ValueError, match="1 of 3 points .number 1, counted"):
                    read(tmp_path, text)
