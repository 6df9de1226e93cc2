"""MAT files against scipy, where that reads them, and damaged ones, on which it ends the process."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from pwan import read_points
from pwan.randomness import numpy_generator
from tests.pointfiles import makers
from tests.pointfiles.makers import POINTS


def read(folder: Path, content: bytes, **options):
    (folder / "a.mat").write_bytes(content)
    return read_points(folder / "a.mat", **options)


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">f8", ">i2"])
def test_every_type_as_scipy_reads_it(tmp_path, version, compress, dtype):
    array = (POINTS * 20).astype(dtype) if "u" not in dtype else np.abs(POINTS * 20).astype(dtype)
    content = makers.mat(version, compress, scan_1=array, normals=array[::-1], k=np.array([[1.0]]))
    theirs = loadmat(io.BytesIO(content))
    ours = read(tmp_path, content, key="scan_1")
    np.testing.assert_array_equal(ours.points, theirs["scan_1"])
    np.testing.assert_array_equal(ours.fields["normals"], theirs["normals"])
    assert ours.fields["normals"].dtype.isnative


@pytest.mark.parametrize("version", ["4", "5"])
def test_what_is_no_array_of_numbers_is_named(tmp_path, version):
    others = {"text": "abc", "pair": POINTS + 1j}
    if version == "5":
        others |= {"cells": np.array([[1, "a"]], dtype=object), "record": {"a": POINTS}, "truth": POINTS > 0}
    content = makers.mat(version, scan=POINTS, **others)
    np.testing.assert_array_equal(read(tmp_path, content).points, POINTS)
    words = {"text": "text", "pair": "complex", "cells": "a cell array", "record": "a structure", "truth": "logical"}
    for name in others:
        with pytest.raises(ValueError, match=f"array {name}: expected a numeric array, found {words[name]}"):
            read(tmp_path, content, key=name)


def test_arrays_of_several_axes_and_of_none(tmp_path):
    empty = makers.mat("4", points=POINTS, none=np.zeros((0, 0)))
    np.testing.assert_array_equal(read(tmp_path, empty).points, POINTS)
    content = makers.mat(a=np.zeros((2, 3, 4)), b=np.zeros((0, 0)), c=POINTS[None], long_name_of_a_variable=np.eye(1))
    np.testing.assert_array_equal(read(tmp_path, content, key="c").points, POINTS)
    with pytest.raises(ValueError, match=r"found .*\(2, 3, 4\)"):
        read(tmp_path, content, key="a")


def test_big_endian_files(tmp_path):
    """As an old workstation wrote them; scipy reads such and writes none."""
    head = b"MATLAB 5.0 MAT-file, made by hand".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    parts = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 24, 3)
    parts += struct.pack(">I", 4 << 16 | 1) + b"scan" + struct.pack(">II", 9, 576) + POINTS.T.astype(">f8").tobytes()
    element = struct.pack(">II", 14, len(parts)) + parts
    packed = zlib.compress(element)
    for content in (head + element, head + struct.pack(">II", 15, len(packed)) + packed):
        np.testing.assert_array_equal(loadmat(io.BytesIO(content))["scan"], POINTS)
        np.testing.assert_array_equal(read(tmp_path, content).points, POINTS)
    old = struct.pack(">5i", 1000, 24, 3, 0, 5) + b"scan\0" + POINTS.T.astype(">f8").tobytes()
    np.testing.assert_array_equal(loadmat(io.BytesIO(old))["scan"], POINTS)
    np.testing.assert_array_equal(read(tmp_path, old).points, POINTS)


THEIRS = """
import sys
import warnings
from pathlib import Path
import numpy as np
from scipy.io import loadmat
warnings.simplefilter("ignore")
found = {}
for path in Path(sys.argv[1]).glob("*.mat"):
    try:
        variables = loadmat(path)
    except Exception:
        continue
    arrays = [array for name, array in variables.items() if not name.startswith("__")]
    if len(arrays) == 1:
        found[path.stem] = arrays[0]
np.savez(sys.argv[2], **found)
"""


def test_every_byte_of_the_head_changed(tmp_path):
    """A sentence, or the points that scipy reads, which does so in a process of its own since it may end it."""
    kinds = ["mat 4", "mat 5", "mat packed"]
    ours: dict[str, np.ndarray] = {}
    (tmp_path / "read").mkdir()
    for kind in kinds:
        name, good = makers.every()[kind]
        random = numpy_generator(0, "mat", kind)
        said: list[str] = []
        for at in range(min(240, len(good))):
            bad = bytearray(good)
            bad[at] ^= int(random.integers(1, 256))
            (tmp_path / name).write_bytes(bad)
            try:
                ours[f"{kind} {at}"] = read_points(tmp_path / name).points
            except ValueError as error:
                said.append(str(error))
            else:
                (tmp_path / "read" / f"{kind} {at}.mat").write_bytes(bad)
        assert len(said) >= 40 and all(words.startswith(f"{tmp_path / name}: expected ") for words in said), kind
    command = [sys.executable, "-c", THEIRS, str(tmp_path / "read"), str(tmp_path / "theirs.npz")]
    subprocess.run(command, check=True, timeout=120)
    with np.load(tmp_path / "theirs.npz") as theirs:
        for kind in kinds:
            assert sum(case.startswith(kind) for case in theirs) >= 120, kind
        for case in theirs:
            np.testing.assert_array_equal(ours[case], theirs[case], err_msg=case)
    assert sum(bool((points != POINTS).any()) for points in ours.values()) > 200  # numbers were changed too


@pytest.mark.parametrize("shape", [(0, *[2**31 - 1] * 3), (0, *[2**31 - 1] * 2), (2**31 - 1, 2**31 - 1, 0, 3)])
def test_no_numbers_along_axes_that_no_array_has_are_refused(tmp_path, shape):
    """numpy takes an array of no numbers only where the other axes alone have a size that it can count."""
    parts = struct.pack("<IIII", 6, 8, 6, 0)
    sizes = struct.pack("<II", 5, 4 * len(shape)) + struct.pack(f"<{len(shape)}i", *shape)
    parts += sizes + bytes(-len(sizes) % 8) + struct.pack("<I", 4 << 16 | 1) + b"scan" + struct.pack("<II", 9, 0)
    head = makers.mat()[:128]
    said = (
        rf"^{re.escape(str(tmp_path / 'a.mat'))}: expected a MAT file .*, found sizes {' × '.join(map(str, shape))} of"
    )
    with pytest.raises(ValueError, match=said):
        read(tmp_path, head + struct.pack("<II", 14, len(parts)) + parts)


def test_a_subsystem_behind_the_variables_is_left_out(tmp_path):
    """MATLAB keeps objects in an unnamed array of bytes at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = makers.mat(points=POINTS)
    unnamed = struct.pack("<IIII", 6, 8, 9, 0) + struct.pack("<IIii", 5, 8, 1, 8) + struct.pack("<II", 1, 0)
    unnamed += struct.pack("<II", 2, 8) + bytes(8)
    assert len(read(tmp_path, content + struct.pack("<II", 14, len(unnamed)) + unnamed).points) == 24
