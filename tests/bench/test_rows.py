from __future__ import annotations

import os
import re

import numpy as np
import pytest

from pwan.bench.rows import (
    NAME,
    PACKED,
    RowFile,
    environment,
    read_packed,
    read_rows,
    remove_halves,
    save_arrays,
    write_packed,
)


def row(trial, settings="a", **more):
    return {"settings": settings, "trial": trial, **more}


def test_rows_come_back_in_order(tmp_path):
    with RowFile(tmp_path) as rows:
        rows.append(row(1))
        rows.append(row(0, mse=None))
    assert read_rows(tmp_path) == [row(1), row(0, mse=None)]


@pytest.mark.parametrize("tail", [b'{"settings": "a", "tri', b'{"settings": "a", "trial": 7}', b"{}", b"\xff\n"])
def test_a_cut_last_line_is_dropped_and_written_over(tmp_path, tail):
    with RowFile(tmp_path) as rows:
        rows.append(row(0))
    with open(tmp_path / NAME, "ab") as file:
        file.write(tail)
    assert read_rows(tmp_path) == [row(0)]
    with RowFile(tmp_path) as rows:
        assert rows.rows == [row(0)]
        rows.append(row(1))
    assert read_rows(tmp_path) == [row(0), row(1)]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    (tmp_path / NAME).write_text('{"settings": "a", "trial": 0}\nnonsense\n{"settings": "a", "trial": 1}\n')
    with pytest.raises(ValueError, match="line 2 of .*rows.jsonl is not a result row"):
        read_rows(tmp_path)


def test_a_second_writer_is_refused_and_a_later_one_is_not(tmp_path):
    with RowFile(tmp_path), pytest.raises(BlockingIOError, match="another run is writing"):
        RowFile(tmp_path)
    with RowFile(tmp_path) as rows:
        rows.append(row(0))


def test_a_number_that_json_lacks_is_refused(tmp_path):
    with RowFile(tmp_path) as rows, pytest.raises(ValueError, match="JSON"):
        rows.append(row(0, mse=float("nan")))
    assert read_rows(tmp_path) == []


def test_a_folder_is_read_with_its_cells_and_a_trial_counts_once(tmp_path):
    for folder, mse in ((tmp_path, 1.0), (tmp_path / "keep=0.7", 2.0)):
        with RowFile(folder) as rows:
            rows.append(row(0, settings=str(mse)))
            rows.append(row(1, settings="same", mse=mse))
    assert [(r["settings"], r["trial"]) for r in read_rows(tmp_path)] == [("2.0", 0), ("same", 1), ("1.0", 0)]


def test_packed_rows_come_back_to_the_last_bit_and_always_in_the_same_bytes(tmp_path):
    rows = [row(0, mse=0.1 + 0.2), row(1, mse=None), row(0, settings="b")]
    write_packed(rows, tmp_path / PACKED)
    write_packed(iter(rows), tmp_path / "again.gz")
    assert read_packed(tmp_path / PACKED) == rows
    assert (tmp_path / PACKED).read_bytes() == (tmp_path / "again.gz").read_bytes()
    with RowFile(tmp_path) as file:
        for one in rows:
            file.append(one)
    assert read_packed(tmp_path / NAME) == rows


def test_packed_rows_that_are_damaged_are_named(tmp_path):
    path = tmp_path / PACKED
    write_packed([row(k) for k in range(100)], path)
    whole = path.read_bytes()
    for damaged in (whole[:-9], b"version https://git-lfs\n", whole[:20] + b"\xff\xff" + whole[22:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} cannot be unpacked"):
            read_packed(path)


def test_arrays_are_written_whole(tmp_path):
    path = tmp_path / "points" / "3.npz"
    save_arrays(path, {"matched": np.array([True, False])})
    with np.load(path) as arrays:
        assert arrays["matched"].tolist() == [True, False]
    assert os.listdir(path.parent) == ["3.npz"]


def test_halves_of_a_killed_run_are_removed_and_nothing_else(tmp_path):
    with RowFile(tmp_path) as rows:
        rows.append(row(0))
    save_arrays(tmp_path / "points" / "pwan-a" / "3.npz", {"matched": np.array([True])})
    whole = sorted(path for path in tmp_path.rglob("*"))
    for half in ("summary.csv.17.tmp", "trials_pwan.png.17.tmp", "points/pwan-a/4.npz.17.tmp"):
        (tmp_path / half).write_bytes(b"PK")
    remove_halves(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*")) == whole


def test_a_file_without_a_cut_line_is_opened_untouched(tmp_path):
    with RowFile(tmp_path) as rows:
        rows.append(row(0))
    os.utime(tmp_path / NAME, (1, 1))
    with RowFile(tmp_path):
        pass
    assert (tmp_path / NAME).stat().st_mtime == 1


def test_the_environment_says_where_and_with_what():
    columns = environment()
    assert columns["device"] == "cpu"
    assert "cores" in columns["host"]
    assert "torch" in columns["versions"]
