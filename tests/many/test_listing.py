"""Which files a folder, a pattern or a list means, and their order."""

from __future__ import annotations

import pytest

from pwan.many.listing import listed, means_many, named_in, out_of_order


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans").mkdir()
    for name in ("s2.ply", "s10.ply", "s1.ply", "odd[1].ply"):
        (tmp_path / "scans" / name).touch()


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        (["scans/s*.ply"], ["s1", "s2", "s10"]),
        (["scans"], ["odd[1]", "s1", "s2", "s10"]),
        (["scans/s1.ply", "scans/s10.ply", "scans/s2.ply"], ["s1", "s2", "s10"]),  # as a shell gives a pattern
        (["scans/s2.ply", "scans/s10.ply", "scans/s1.ply"], ["s2", "s10", "s1"]),
        (["scans/s1.ply", "scans/s10.ply", "scans/s2.ply", "more/s14.ply"], ["s1", "s2", "s10", "more/s14"]),
        (["scans/s10.ply", "scans/s1.ply", "more/s14.ply"], ["s10", "s1", "more/s14"]),
        (["session_10/a.ply", "session_2/a.ply"], ["session_2/a", "session_10/a"]),
        (["scans/odd[1].ply"], ["odd[1]"]),
        (["gone.ply"], ["gone"]),
    ],
)
def test_files_go_by_their_numbers_unless_an_order_is_given(named, wanted):
    assert [path.removeprefix("scans/").removesuffix(".ply") for path in listed(named)] == wanted


@pytest.mark.parametrize(
    ("files", "pair"),
    [
        (["a/f2.ply", "a/f10.ply", "A/f14.ply"], None),
        (["b1/f2.ply", "b1/f10.ply", "b2/f1.ply"], None),  # folder after folder
        (["cat.ply", "ant.ply"], None),
        (["f0.ply", "f12.ply", "f8.ply", "f14.ply"], ("f12.ply", "f8.ply")),
    ],
)
def test_where_the_numbers_go_back(files, pair):
    assert out_of_order(files) == pair


def test_a_pattern_that_fits_none():
    with pytest.raises(ValueError, match=r"no file fits 'scans/\*.obj'; check the pattern"):
        listed(["scans/*.obj"])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("[a.ply, 'b.ply']", ("a.ply", "b.ply")),
        (["a.ply", "b.ply"], ("a.ply", "b.ply")),
        ("a.ply", ("a.ply",)),
        ("scans", ("scans",)),
        ("scans/*.ply", ("scans/*.ply",)),
        ("scans/odd[1].ply", ("scans/odd[1].ply",)),
    ],
)
def test_what_is_named(given, names):
    assert named_in(given) == names
    assert means_many(given) == (given not in ("a.ply", "scans/odd[1].ply"))
