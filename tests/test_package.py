"""What the package says of itself: its requirements beside the pinned lists, its page, its licences, its paper."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import pwan
from pwan import register, shapes
from pwan.extras import needs
from pwan.pointfiles import read_points
from tests.pointfiles import makers

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
CORE = [Requirement(line) for line in PROJECT["dependencies"]]


def pins(file: str) -> dict[str, str]:
    """The exact versions of a list by their names, without those of the lists that it includes."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    written = [Requirement(line.partition("#")[0]) for line in lines if line and not line.startswith(("#", "-r"))]
    exact = [re.fullmatch(r"==([\w.]+)", str(pin.specifier)) for pin in written]
    assert all(exact), "each pin is ==version"
    return {pin.name: match[1] for pin, match in zip(written, exact, strict=True) if match}


def brought(extra: str) -> Iterator[Requirement]:
    """The requirements of an extra and of those that it holds."""
    for one in EXTRAS[extra]:
        if one.name == "pwan":
            for inner in one.extras:
                yield from brought(inner)
        else:
            yield one


def test_the_pinned_list_holds_what_the_package_asks_for_and_nothing_else():
    pinned = pins("requirements.txt")
    asked = [*CORE, *brought("all")]
    assert {one.name: one.specifier.contains(pinned.get(one.name, "")) for one in asked} == dict.fromkeys(pinned, True)
    assert len(asked) == len(pinned)  # each is named once


def test_the_list_of_peers_is_the_extra_of_peers():
    pinned = pins("requirements-peers.txt")
    own = [one for one in EXTRAS["peers"] if one.name != "pwan"]
    assert {one.name: one.specifier.contains(pinned.get(one.name, "")) for one in own} == dict.fromkeys(pinned, True)


def test_bounds_are_lower_ones():
    for one in [*CORE, *brought("peers")]:
        assert {clause.operator for clause in one.specifier} <= {">=", "!="}, f"{one}: say why in pyproject.toml"


def test_the_page_of_the_package_leads_nowhere_and_names_every_extra():
    page = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    assert re.findall(r"\]\(|<(?:img|a) ", page) == []
    assert re.findall(r"(?m)^\| `(\w+)` \|", page) == list(EXTRAS)


def test_the_terms_of_each_shape_are_among_the_licence_files():
    files = {path for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)}
    data = ROOT / "src" / "pwan" / "shapes" / "data"
    assert files == {ROOT / "LICENSE", *(path.with_suffix(".md") for path in data.glob("*.npz"))}


def test_the_version_stands_in_the_changelog_and_in_the_citation():
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"(?m)^## \[(.+?)\]", log)
    assert versions[0] == "Unreleased" and versions[1] == pwan.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == pwan.__version__ and citation["license"] == "MIT"
    assert citation["preferred-citation"]["year"] == 2022


# what is missing


def test_an_extra_that_is_missing_is_one_sentence():
    with pytest.raises(ImportError) as caught, needs("scans", "plot()"):
        import no_such_package.inside  # noqa: F401
    assert (
        str(caught.value)
        == "plot() needs the extra 'scans': pip install 'pwan[scans]' (no_such_package is not installed)"
    )
    assert caught.value.name == "no_such_package"


def test_a_package_that_comes_later_is_looked_for_at_once():
    with needs("bench", "pwan run", "math", "json"):
        pass
    said = r"^pwan run needs the extra 'bench'.*\(no_such_package is not installed\)$"
    with pytest.raises(ImportError, match=said), needs("bench", "pwan run", "math", "no_such_package"):
        pytest.fail("nothing is done before all is there")


def test_another_failure_of_an_import_stays_what_it_is():
    with pytest.raises(ImportError, match="cannot import name 'nothing'"), needs("scans", "plot()"):
        from math import nothing  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize(("method", "package"), [("cpd", "rustcpd"), ("pycpd", "pycpd")])
def test_a_baseline_without_its_library_names_the_extra(method, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    points = shapes.load("torus").points[:20]
    with pytest.raises(
        ImportError, match=rf"^method {method} needs the extra 'baselines': pip install 'pwan\[baselines"
    ):
        register(points, points, method=method)


def test_a_picture_without_matplotlib_names_the_extra(monkeypatch):
    points = shapes.load("torus").points[:20]
    result = register(points, points, method="soft_assignment", steps=1, rank=5)
    monkeypatch.delitem(sys.modules, "pwan.report.registration_figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"^plot\(\) needs the extra 'scans'"):
        result.plot()


@pytest.mark.parametrize(
    ("file", "package"), [("a.las", "laspy"), ("a.las", "lazrs"), ("a.pcd", "pypcd4"), ("packed.pcd", "pypcd4")]
)
def test_a_file_whose_reader_is_missing_names_the_extra(file, package, tmp_path, monkeypatch):
    contents = {
        "a.las": makers.las,
        "a.pcd": lambda: makers.pcd("binary"),
        "packed.pcd": lambda: makers.pcd("binary_compressed"),
    }
    (tmp_path / file).write_bytes(contents[file]())
    assert len(read_points(tmp_path / file).points) == len(makers.POINTS)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"^reading .* needs the extra 'scans': pip install 'pwan\[scans\]'"):
        read_points(tmp_path / file)
