"""Delimited text written."""

from __future__ import annotations

import numpy as np
import pytest

from pwan import read_points, write_points
from pwan.pointfiles import PointFile
from pwan.randomness import numpy_generator
from tests.pointfiles.text.test_read import GOOD
from tests.pointfiles.written import (
    DISPLACED,
    UTM,
    check_extras,
    moved_by,
    source,
    written,
)


@pytest.mark.parametrize("kind", GOOD)
def test_every_spelling_of_text(tmp_path, kind):
    content = GOOD[kind]
    like = source(tmp_path, content, "points.xyz" if "chemi" in kind or "atom" in kind else "points.txt")
    _, again = written(like, read={"key": "right,forward,up"} if "other names" in kind else {})
    check_same_text(like, again)
    check_extras(like, again, tolerance=0)
    plain, plainly = written(like, extra={}, overwrite=True)
    check_same_text(like, plainly)
    assert len(plainly.fields) == len(like.fields) and plain.notes == ()


def check_same_text(like: PointFile, again: PointFile) -> None:
    np.testing.assert_array_equal(again.points, moved_by(like))
    for old, new in zip(like.fields.values(), again.fields.values(), strict=False):
        np.testing.assert_array_equal(new, old)
    for part in ("encoding", "decimal", "counted", "chemistry"):
        if part == "encoding" and not like.layout["header"] and like.layout[part] == "cp1252":
            continue  # the letters stood in a comment
        assert again.layout[part] == like.layout[part], part
    if not like.layout["chemistry"]:  # whose second line may name the columns now
        assert again.layout["header"] == like.layout["header"]
        assert list(again.fields)[: len(like.fields)] == list(like.fields)
        assert again.layout["header_sign"] == like.layout["header_sign"]
    if like.layout["separator"] != ", ":
        assert again.layout["separator"] == like.layout["separator"]


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [
        (
            "id;x;y;z;name\n1;0,5;1,25;2,5;leaf\n2;1,5;2;3,5;a leaf\n",
            "id;x;y;z;name;matched;",
            "2;2,0;2,5;4,0;a leaf;1;",
        ),
        ('name,x,y,z\n"a, b",1.5,2.5,3.5\nc,4.5,5.5,6.5\n', "name,x,y,z,matched,", "c,5.0,6.0,7.0,1,"),
        ("# x y z class\n1.5 2.5 3.5 7\n4.5 5.5 6.5 8\n", "# x y z class matched ", "5.0 6.0 7.0 8 1 "),
        ("//X Y Z\n1.5 2.5 3.5\n4.5 5.5 6.5\n", "//X Y Z matched ", "5.0 6.0 7.0 1 "),
        ("2\n1.5 2.5 3.5\n4.5 5.5 6.5\n", "2\n2.0 3.0 4.0 1 ", "5.0 6.0 7.0 1 "),
        ("1.5 2.5\n4.5 5.5\n7.5 0.5\n", "# x y matched displacement_x displacement_y\n", "8.0 1.0 1 "),
    ],
)
def test_text_as_it_stands(tmp_path, content, first, last):
    like = source(tmp_path, content, "a.txt")
    moved = like.points + 0.5
    extra = {"matched": np.ones(len(moved)).astype(bool), "displacement": moved - like.points}
    note, again = written(like, moved, extra=extra)
    text = note.path.read_text()
    assert text.startswith(first) and text.splitlines()[-1].startswith(last), text
    np.testing.assert_array_equal(again.points, moved)


def test_atoms_are_named_in_the_second_line(tmp_path):
    rows = ["C 0.5 0.25 1.5 7", "H 1.5 0.25 1.5 8", "O 0.5 1.25 1.5 9"]
    like = source(tmp_path, "\n".join(["3", "a molecule of 3 atoms", *rows, ""]), "a.xyz")
    note, again = written(like)
    lines = note.path.read_text().splitlines()
    axes = ":".join(f"{name}:R:1" for name in DISPLACED)
    assert lines[:2] == ["3", f"a molecule of 3 atoms Properties=species:S:1:pos:R:3:column_5:I:1:matched:I:1:{axes}"]
    assert lines[2].startswith("C 0.")
    np.testing.assert_array_equal(again.points, moved_by(like))
    assert again.fields["species"].tolist() == ["C", "H", "O"]
    check_extras(like, again, tolerance=0)


def test_many_rows_and_long_numbers(tmp_path):
    points = numpy_generator(3, "rows").normal(size=(60_000, 3)) * 1e6 + UTM  # more than are written at a time
    np.savetxt(tmp_path / "a.csv", points, delimiter=",", fmt="%.17g")
    like = read_points(tmp_path / "a.csv")
    note = write_points(tmp_path / "b.csv", like, points * 1.1)
    np.testing.assert_array_equal(np.loadtxt(note.path, delimiter=","), points * 1.1)


CARRIED = {  # a file, and what of it is written again as it stands
    "header lines": "# scanned 2024\n# units: mm\nx,y,z\n1.5,2.5,3.5\n4.5,5.5,6.5\n",
    "a title above the names": "Scan of a leaf\nx;y;z\n1.5;2.5;3.5\n4.5;5.5;6.5\n",
    "names and units": "x,y,z\nm,m,m\n1.5,2.5,3.5\n4.5,5.5,6.5\n",
    "comments and a count": "# a\n2\n# b\n1.5 2.5 3.5\n4.5 5.5 6.5\n",
    "words without names": "some words\n1.5 2.5 3.5\n4.5 5.5 6.5\n",
    "empty cells": "x,y,z,a,b\n1.5,2.5,3.5,,7\n4.5,5.5,6.5,,\n7.5,8.5,9.5,,8\n",
    "an empty column without a name": "1.5;;2.5;3.5\n4.5;;5.5;6.5\n",
    "an empty column at the end": "x,y,z,note\n1.5,2.5,3.5,\n4.5,5.5,6.5,\n",
    "cells that say none": "x y z q\n1.5 2.5 3.5 NA\n4.5 5.5 6.5 8\n",
    "decimal commas beside a missing number": "x;y;z;q\n1,5;2,5;3,5;0,25\n2,5;3,5;4,5;NA\n4,5;5,5;6,5;1,5\n",
    "quoted decimal commas beside a missing number": 'x,y,z,q\n"1,5","2,5","3,5","0,25"\n"4,5","5,5","6,5",NA\n',
    "nanoseconds": "x,y,z,t\n1.5,2.5,3.5,1625000000123456789\n4.5,5.5,6.5,1625000000123456790\n",
    "nanoseconds beside decimal commas": "x;y;z;t\n1,5;2,5;3,5;1625000000123456789\n4,5;5,5;6,5;1625000000123456790\n",
    "nanoseconds, one missing": "x y z t\n1.5 2.5 3.5 NA\n4.5 5.5 6.5 1625000000123456790\n",
    "numbers of twenty digits": "x,y,z,t\n1.5,2.5,3.5,98765432109876543210\n4.5,5.5,6.5,98765432109876543211\n",
    "numbers that begin with zeros": "id x y z flag\n0012 1.5 2.5 3.5 00\n0345 4.5 5.5 6.5 1\n",
    "zeros in front beside a label": "id,x,y,z,name\n0012,1.5,2.5,3.5,leaf\n0345,4.5,5.5,6.5,leaf\n",
    "a sign within a cell": "1.5,2.5,3.5,Point #3\n4.5,5.5,6.5,Point #4\n",
    "a molecule": "2\nenergy=-1.5 step 3\nC 1.5 2.5 3.5\nO 4.5 5.5 6.5\n",
    "a tree": "# made by a tracer\n# SCALE 1 1 1\n"
    + "".join(f"{i} 3 {i}.5 2.5 {i * i}.5 0.5 {i - 1 or -1}\n" for i in (1, 2, 3)),
    "landmarks": "# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n"
    "# columns = id,x,y,z,vis,label,desc\n"
    "N_0,1.5,2.5,3.5,1,F-1,\nN_1,4.5,5.5,6.5,1,F-2,\n",
}


@pytest.mark.parametrize("kind", CARRIED)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_comments_and_empty_columns_come_through(tmp_path, kind, encoding):
    content = CARRIED[kind].encode(encoding)
    like = source(tmp_path, content, "a.swc" if kind == "a tree" else "a.txt")
    note = write_points(tmp_path / "b.txt", like, like.points)
    text = note.path.read_bytes().decode(encoding)
    if kind == "a molecule":
        assert text.splitlines()[1] == "energy=-1.5 step 3 Properties=species:S:1:pos:R:3"
        text = text.replace(" Properties=species:S:1:pos:R:3", "")
    assert text == CARRIED[kind]
    note, again = written(like)
    assert [line for line in CARRIED[kind].splitlines() if line.startswith("# ") and "columns" not in line] == [
        line for line in note.path.read_bytes().decode(encoding).splitlines() if line.startswith("# ")
        and "columns" not in line and line != "# some words"
    ]  # fmt: skip
    np.testing.assert_array_equal(again.points, moved_by(like))


def test_the_loss_of_comments_between_rows_is_said(tmp_path):
    for content in ("1.5 2.5 3.5\n# between\n4.5 5.5 6.5\n", "1.5,2.5,3.5 # behind\n4.5,5.5,6.5\n"):
        like = source(tmp_path, content, "a.txt")
        assert "left out the comments between and behind the rows" in like.notes
