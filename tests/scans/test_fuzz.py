"""Damaged files of every format given to the command: a sentence, or a registration of all that the file holds."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pwan import read_points
from pwan.app import own_scans
from pwan.pointfiles import archive
from pwan.randomness import numpy_generator
from pwan.scans import folder as results
from tests import warm
from tests.pointfiles import damage, makers

ROOT = Path(__file__).parents[2]
LIMIT = 10  # seconds in which a call must end
MEMORY = 1 << 30  # bytes that a call may take
QUICK = ["method=soft_assignment", "method.steps=1", "method.rank=5", "init=none", "mass=3"]
EACH = 3  # files of each fault in each format
ADVICE = re.compile(
    r"\b(again|repair|name|check|convert|leave|unpack|fetch|put|take|cut|turn|reshape|save|say|drop)\b", re.IGNORECASE
)


class HungError(BaseException):
    """A call that took longer than LIMIT; of no kind that a caller catches."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fail where the body takes more than LIMIT seconds, and let it have MEMORY bytes more than there are in use."""
    rang: list[bool] = []

    def ring(*_: Any) -> None:
        rang.append(True)
        raise HungError

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)
    assert not rang, f"more than {LIMIT} seconds"


def is_one_sentence(said: str, path: Path) -> None:
    """Check what a refusal says: one line that names the file, what was expected and what to do."""
    assert "Traceback" not in said, said
    assert said.startswith("error: ") and said.count("\n") == 1 and len(said) < 1200, said
    assert path.name in said and "expected" in said and ADVICE.search(said), said


def called(folder: Path, path: Path, capsys: Any, *more: str) -> tuple[int | None, str]:
    """Register the file onto a good one; the number of points that the result tells of, and what was said.

    The number is None where the command refused: with one sentence, and with nothing written.
    """
    reference, written = folder / "reference.npy", folder / "out"
    np.save(reference, makers.POINTS)
    there = sorted(folder.rglob("*"))
    capsys.readouterr()
    with bounded():
        code = own_scans.main([f"source={path}", f"reference={reference}", f"output={written}", *QUICK, *more])
    said = capsys.readouterr().err
    assert code in (0, 2), said
    if code == 0:
        found = json.loads((written / "result.json").read_text())
        (moved,) = written.glob("*_registered*")
        assert moved.stat().st_size > 0
        for made in written.iterdir():
            made.unlink()
        written.rmdir()
        return found["source"]["points"], said
    is_one_sentence(said, path)
    assert sorted(folder.rglob("*")) == there
    return None, said


def test_good_files_are_counted_right() -> None:
    counts = {kind: damage.count(kind, good) for kind, (_, good) in makers.every().items()}
    assert set(counts.values()) == {len(makers.POINTS)} and len(counts) == 28


@pytest.mark.parametrize("kind", makers.every())
def test_no_damage_is_more_than_a_sentence_and_no_success_is_wrong(tmp_path, capsys, kind):
    name, good = makers.every()[kind]
    refused = 0
    faults = damage.ANY | (damage.IN_TEXT if kind in damage.TEXT else {})
    for what, fault in faults.items():
        random = numpy_generator(0, "fuzz", kind, what)
        for number in range(EACH):
            bad = fault(good, random)
            path = tmp_path / (name if number else f"a{random.choice(['', '.ply', '.csv', '.npy', '.las', '.stl'])}")
            path.write_bytes(bad)
            points, said = called(tmp_path, path, capsys)
            assert points is None or points == damage.count(kind, bad), (what, number, said)
            refused += points is None
            path.unlink()
    assert refused >= len(faults) // 2


@pytest.mark.parametrize("kind", ["npy", "npz", "stl", "las", "laz", "las 1.4", "laz 1.4", *damage.COUNTS])
def test_no_wrong_count_in_a_header_is_believed(tmp_path, capsys, kind):
    """Far more points than there are take no memory; a few more or fewer are found out, or warned of."""
    name, good = makers.every()[kind]
    tried = 0
    for what, bad in damage.wrong_counts(kind, good):
        (tmp_path / name).write_bytes(bad)
        points = called(tmp_path, tmp_path / name, capsys)[0]
        # a binary PLY may have bytes behind its last vertex, which it is warned of
        assert points is None or (kind == "ply points" and what == f"{points} points" and points < 24), what
        tried += bad != good
    assert tried >= 5


FAULTS = [  # format, what is replaced in a good file, by what, and what the sentence says
    ("ply ascii", b"-0.499800", b"abc", "line 12: expected a number for a row of element vertex, found 'abc'"),
    ("ply ascii", b" 7\n", b"\n", "line 12: expected 4 values for a row of element vertex, found 3"),
    ("ply ascii", b"vertex 24", b"vertex 30", "expected 38 lines behind the header (30 vertex, 8 face)"),
    ("ply little", b"vertex 24", b"vertex 99", "expected 99 rows of element vertex, as the header promises, found 32"),
    ("ply big", b"float x", b"float3 x", "line 5: expected 'property TYPE NAME'"),
    ("obj", b"0.914900", b"x", "line 3: expected a number for a vertex, found 'x'"),
    ("obj", b" 0.914900", b"", "line 3: expected a vertex of 3, 4, 6 or 7 numbers"),
    ("off", b"24 8", b"25 8", "expected 25 vertices and 8 faces, as line 3 says, found 32 lines"),
    ("stl", b"\x08\0\0\0", b"\x09\0\0\0", "expected 9 triangles of 50 bytes behind the header"),
    ("stl ascii", b"  endloop", b"   vertex 1 2 3\n  endloop", "line 7: expected endloop, found 'vertex 1 2 3'"),
    ("pcd ascii", b"WIDTH 24", b"WIDTH x", "line 7: expected a whole number for WIDTH, found 'x'"),
    ("pcd ascii", b"24\nHEIGHT 1", b"24 1\nHEIGHT 1", "line 7: expected one value for WIDTH, found '24 1'"),
    ("pcd ascii", b"24", b"25", "expected 25 points, as the header promises, found 24"),
    ("pcd binary", b"WIDTH 6", b"WIDTH 7", "expected POINTS = WIDTH × HEIGHT, found 24 = 7 × 4"),
    ("xyz", b"0.914900", b"zero", "line 1: expected a number in column 3, found 'zero'"),
    ("csv", b",0.914900", b"", "line 2: expected 3 columns as in the other rows, found 2"),
    ("csv", b"-0.499800", b"nan", "found NaN, infinite or larger ones in 1 of 24 points (number 1, counted from 1)"),
    ("xyz", b"0.914900", b"inf", "found NaN, infinite or larger ones in 1 of 24 points (number 1, counted from 1)"),
    ("xyz", b"0.914900", b"1e31", "found NaN, infinite or larger ones in 1 of 24 points (number 1, counted from 1)"),
    ("csv", b"x,y,z\n", b'x,y,z\n"' + b"1" * 200_000 + b"\n", "a closing quote is missing"),
    ("pts", b"24\n", b"1000000000000\n", "expected 1000000000000 points, as the count line says, found 24"),
    ("npy", b"(24, 3), }   ", b"(True, 72), }", "found (True, 72)"),
    ("npy", b"'<f8'", b"'<U2'", "found type <U2"),
    ("npy", b"'<f8'", b"'|O8'", "never unpickled"),
    ("las", np.float64(1e-6).tobytes(), np.float64(1e-73).tobytes(), "expected scales between 1e-30 and"),
    ("mat 4", b"points", b"po\xffnts", "where a name is a letter, then letters, digits and underscores"),
]


@pytest.mark.parametrize(("kind", "old", "new", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(tmp_path, capsys, kind, old, new, words):
    name, good = makers.every()[kind]
    assert old in good
    for packed in (False, True):
        path = tmp_path / (name + ".gz" * packed)
        bad = good.replace(old, new) if kind.startswith("pcd") and old == b"24" else good.replace(old, new, 1)
        path.write_bytes(gzip.compress(bad) if packed else bad)
        points, said = called(tmp_path, path, capsys)
        assert points is None and words in said, said


def test_what_is_no_longer_known_by_its_first_bytes_or_name_is_not_read_as_text(tmp_path, capsys):
    """A mesh whose faces would become points."""
    path = tmp_path / "a"
    path.write_bytes(makers.obj().replace(b"mtllib", b"mtl\xffib"))
    points, said = called(tmp_path, path, capsys)
    assert points is None and "line 2: expected a line of an OBJ file" in said
    for keyword in (b"OFX\n", b""):
        path.write_bytes(keyword + b"24 0 0\n" + makers.rows().encode())
        assert called(tmp_path, path, capsys)[0] == 24


@pytest.mark.parametrize("size", [0.0, 1e-160, 1e-310, 1e31, 1e160, 1e300])
def test_sizes_that_no_arithmetic_holds_are_refused(tmp_path, capsys, size):
    np.save(tmp_path / "a.npy", makers.POINTS * size)
    points, said = called(tmp_path, tmp_path / "a.npy", capsys)
    assert points is None and ("the same point 24 times" if size < 1 else "infinite or larger ones in ") in said


@pytest.mark.parametrize("size", [1e-29, 1e-9, 1e9, 1e29])
def test_sizes_far_from_one_are_registered_without_a_warning(tmp_path, capsys, size):
    np.save(tmp_path / "a.npy", makers.POINTS * size)
    near = 1e-12 < size < 1e12
    points, said = called(tmp_path, tmp_path / "a.npy", capsys)
    assert points == 24 if near else points is None and "expected the same units in both" in said
    assert called(tmp_path, tmp_path / "a.npy", capsys, "scale=true")[0] == 24


def test_an_archive_whose_parts_have_other_names_than_its_list_says_is_told_shortly(tmp_path, capsys):
    """zipfile puts the whole name into its words."""
    good = makers.npz()
    at = good.index(b"PK\x03\x04") + 26  # the length of the first part's name
    (tmp_path / "a.npz").write_bytes(good[:at] + b"\xff\x01" + good[at + 2 :])
    points, said = called(tmp_path, tmp_path / "a.npz", capsys)
    assert points is None and "an archive that cannot be read" in said and len(said) < 400


def test_an_array_of_more_axes_than_numpy_has(tmp_path, capsys):
    shape = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1, ' * 90}24, 3), }}".ljust(373).encode() + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(shape).to_bytes(2, "little") + shape + makers.POINTS.tobytes()
    (tmp_path / "a.npy").write_bytes(array)
    points, said = called(tmp_path, tmp_path / "a.npy", capsys)
    assert points is None and "expected an array of shape (N, 2) or (N, 3), found (1, 1, 1," in said


SLOW = {  # what once took a time or a memory that grew with the square of the size or faster
    "long digits in an atom's place": ("a.xyz", b"5\n\nC " + b" ".join([b"1" * 3000] * 3) + b"x\n", None),
    "a word of digits": ("a.txt", b"1 2 3\n" * 5 + b"1" * 100_000 + b"x 1 2\n", None),
    "blank lines in a PCD": ("a.pcd", b"FIELDS x y z\n" + b"\n" * 60_000 + b"DATA asci\n", None),
    "blank lines in landmarks": ("a.pts", b"version: 1" + b"\n" * 100_000 + b"n_points: 5" + b"\n" * 100_000, None),
    "many properties": (
        "a.ply",
        b"element vertex 4\n" + b"".join(b"property float p%d\n" % n for n in range(20_000)),
        4,
    ),
    "many elements": ("a.ply", b"".join(b"element e%d 0\n" % n for n in range(20_000)) + b"element vertex 4\n", 4),
    "empty lists": ("a.ply", b"element vertex 4\nelement other 4000000\nproperty list uchar float q\n", 4),
    "facets without an end": ("a.stl", b"solid\nfacet normal 0 0 1\nouter loop\n" + b"vertex 1 2 3\n" * 10**6, None),
}


@pytest.mark.parametrize("what", SLOW)
def test_no_file_takes_minutes(tmp_path, capsys, what):
    name, data, points = SLOW[what]
    if name == "a.ply":
        axes = b"element vertex 4\n" + b"".join(b"property float %c\n" % axis for axis in b"xyz")
        encoding = b"ascii" if "lists" not in what else b"binary_little_endian"
        head = b"ply\nformat " + encoding + b" 1.0\n" + data.replace(b"element vertex 4\n", axes) + b"end_header\n"
        corners = np.eye(4, 3, dtype="<f4")
        columns = 3 + data.count(b"property float p")
        rows = b"".join(b"%d %d %d " % tuple(row) + b"1 " * (columns - 3) + b"\n" for row in corners)
        data = head + (rows if encoding == b"ascii" else corners.tobytes() + bytes(4_000_000))
    (tmp_path / name).write_bytes(data)
    with bounded():
        if points is not None:  # only read: thousands of columns are written slowly
            assert len(read_points(tmp_path / name).points) == points
        else:
            assert called(tmp_path, tmp_path / name, capsys)[0] is None


def test_archives_that_would_fill_the_memory_are_not_unpacked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(archive, "FIRST", 1 << 22)
    monkeypatch.setattr(archive, "PIECE", 1 << 16)
    (tmp_path / "a.xyz.gz").write_bytes(damage.bomb(1 << 24))
    (tmp_path / "a.npz").write_bytes(makers.npz(points=np.zeros((10**6, 3))))
    for name in ("a.xyz.gz", "a.npz"):
        points, said = called(tmp_path, tmp_path / name, capsys)
        assert points is None and "found one whose" in said and "unpack it and name the file in it" in said
    long = makers.POINTS.repeat(5000, axis=0)  # of equal rows: packed to a hundredth, in several pieces
    (tmp_path / "a.npy").write_bytes(gzip.compress(makers.npy(long)) + gzip.compress(b""))
    np.testing.assert_array_equal(read_points(tmp_path / "a.npy").points, long)
    packed = makers.pcd("binary_compressed").replace(b" 24\n", b" 200000000\n")
    at = packed.index(b"compressed\n") + 11
    (tmp_path / "a.pcd").write_bytes(packed[: at + 4] + (200_000_000 * 16).to_bytes(4, "little") + packed[at + 8 :])
    points, said = called(tmp_path, tmp_path / "a.pcd", capsys)
    assert points is None and "expected 3200000000 bytes of 200000000 points" in said


@pytest.mark.parametrize("kind", ["xyz", "npz", "laz"])
def test_a_damaged_reference_is_named_as_such(tmp_path, capsys, kind):
    name, good = makers.every()[kind]
    (tmp_path / name).write_bytes(good[:-9])
    np.save(tmp_path / "source.npy", makers.POINTS)
    arguments = [str(tmp_path / "source.npy"), str(tmp_path / name), f"output={tmp_path / 'out'}", *QUICK]
    assert own_scans.main(arguments) == 2
    is_one_sentence(capsys.readouterr().err, tmp_path / name)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("role", ["source", "reference"])
def test_advice_names_settings_of_the_command(tmp_path, capsys, role):
    """Not read_points' key and raw, which the command calls source_key and so on."""
    np.savez(tmp_path / "two.npz", one=makers.POINTS, two=makers.POINTS)
    (tmp_path / "some.bin").write_bytes(np.linspace(0, 1, 60).astype("<f4").tobytes())
    np.save(tmp_path / "good.npy", makers.POINTS)
    other = {"source": "reference", "reference": "source"}[role]
    for name, words in (("two.npz", f"{role}_key=NAME"), ("some.bin", f"{role}_raw='float32 x 4'")):
        arguments = [f"{role}={tmp_path / name}", f"{other}={tmp_path / 'good.npy'}", f"output={tmp_path / 'out'}"]
        assert own_scans.main(arguments) == 2
        said = capsys.readouterr().err
        assert re.search(r"(?<!\w)" + re.escape(words), said), said
        is_one_sentence(said, tmp_path / name)


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_read(tmp_path, capsys, monkeypatch):
    np.save(tmp_path / "a.npy", makers.POINTS)
    folder = tmp_path / "kept" / "out"
    folder.parent.mkdir()
    monkeypatch.setattr(results.os, "access", lambda path, mode: Path(path) != folder.parent)  # root may write anywhere
    assert own_scans.main([str(tmp_path / "a.npy"), str(tmp_path / "none.npy"), f"output={folder}"]) == 2
    said = capsys.readouterr().err
    assert f"{folder.parent} cannot be written to; name another folder with output=" in said
    assert list(folder.parent.iterdir()) == []


COMMANDS = {"pwan": ["pwan", "register"], "run.py": ["run.py", "task=register"]}


@pytest.mark.parametrize(
    ("way", "kind"), [("pwan", "ply little"), ("pwan", "csv"), ("run.py", "laz"), ("run.py", "csv")]
)
def test_a_damaged_file_ends_the_process_with_two(tmp_path, way, kind):
    name, good = makers.every()[kind]
    path = tmp_path / name
    path.write_bytes(good[:-12])
    np.save(tmp_path / "b.npy", makers.POINTS)
    command = [*COMMANDS[way], f"source={path}", f"reference={tmp_path / 'b.npy'}", "output=out"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = warm.run(command, folder=tmp_path, environment=environment)
    assert done.returncode == 2 and done.stdout == ""
    is_one_sentence(done.stderr, path)
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "b.npy"]
