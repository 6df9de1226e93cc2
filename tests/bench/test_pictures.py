from __future__ import annotations

import pytest

from pwan.bench.pictures import Shown


def drawing(text):
    def draw(path):
        path.write_text(text)
        path.with_suffix(".pdf").write_text(text)

    return draw


def test_a_picture_is_drawn_anew_where_it_shows_something_else(tmp_path):
    def update(settings, text, fresh=False, of=tmp_path):
        return Shown(of).update("one.png", settings, rows=1, fresh=fresh, draw=drawing(text))

    path = update("a", "first")
    assert path == tmp_path / "one.png" and path.read_text() == "first"
    update("a", "second")
    assert path.read_text() == "first"  # there and right
    update("a", "third", fresh=True)
    assert path.read_text() == "third"
    update("b", "fourth")
    assert path.read_text() == "fourth"
    path.unlink()
    update("b", "fifth")
    assert path.read_text() == "fifth"


def test_a_picture_of_something_else_that_cannot_be_drawn_goes(tmp_path):
    shown = Shown(tmp_path)
    shown.update("one.png", "a", rows=1, fresh=False, draw=drawing("first"))
    assert shown.update("one.png", "b", rows=1, fresh=False, draw=None) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures.json"]
    assert Shown(tmp_path).shown == {}


def test_a_kill_while_drawing_leaves_no_right_name_on_a_wrong_picture(tmp_path):
    shown = Shown(tmp_path)
    shown.update("one.png", "a", rows=1, fresh=False, draw=drawing("first"))

    def killed(path):
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shown.update("one.png", "b", rows=1, fresh=False, draw=killed)
    Shown(tmp_path).update("one.png", "b", rows=1, fresh=False, draw=drawing("whole"))
    assert (tmp_path / "one.png").read_text() == "whole"


def test_a_picture_of_fewer_rows_is_drawn_anew_whoever_wrote_the_others(tmp_path):
    def update(rows, text, fresh=False):
        return (
            Shown(tmp_path).update("one.png", "a", rows=rows, fresh=fresh, draw=drawing(text)).read_text()  # type: ignore[union-attr]
        )

    assert update(5, "first") == "first"
    assert update(20, "second") == "second"  # the run that added rows was killed before it drew
    assert update(20, "third") == "second"
    (tmp_path / "pictures.json").write_text('{"one.png": "a"}')  # as it was written before
    assert Shown(tmp_path).shown == {"one.png": "a"}
    assert update(20, "fourth") == "second"
    assert update(21, "fifth", fresh=True) == "fifth"
    assert update(21, "sixth") == "fifth"
