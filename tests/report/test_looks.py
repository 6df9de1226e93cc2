from __future__ import annotations

from pathlib import Path

from pwan.report.looks import in_words, looks

METHODS = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "method").glob("*.yaml"))


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone = looks(["bcpd"])["bcpd"]
    assert looks(["pwan", "cpd", "bcpd"])["bcpd"] == alone
    assert looks(METHODS)["bcpd"].colour == alone.colour


def test_variants_share_a_colour_and_differ_in_mark_and_dash():
    every = looks(["pwan", "pwan_paper", "pwan_distance", "pycpd", "bcpd"])
    assert every["pwan"].colour == every["pwan_paper"].colour
    assert every["pwan"].dash != every["pwan_paper"].dash and every["pwan"].mark != every["pwan_paper"].mark
    assert len({look.colour for look in every.values()}) == 4
    assert every["pycpd"].colour == looks(["cpd"])["cpd"].colour


def test_every_method_has_a_look_and_strangers_have_colours_of_their_own():
    assert list(looks(METHODS)) == METHODS
    strangers = looks(["mine", "yours", "pwan"])
    assert len({look.colour for look in strangers.values()}) == 3


def test_names_in_words():
    assert in_words("gmmreg") == "GMM-REG" and in_words("mine") == "mine"
