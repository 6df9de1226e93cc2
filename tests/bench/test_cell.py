from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from pwan import methods, shapes
from pwan.bench.cell import LATER, MethodEntry, settings_hash
from pwan.synthesis import SynthesisSettings, make_problem


def problem_of(cell):
    return make_problem(shapes.load(cell.shape), cell.synthesis, seed=cell.seed, trials=[0])


def hashed(cell, entry):
    return settings_hash(cell, entry, entry.resolved(problem_of(cell)))


def test_the_hash_changes_with_what_changes_rows_and_with_nothing_else(cell, shifting):
    entry = MethodEntry("shifting", shifting, {"shift": 0.5})
    base = hashed(cell, entry)
    others = [
        hashed(replace(cell, seed=1), entry),
        hashed(replace(cell, shape="bunny"), entry),
        hashed(replace(cell, shape_source="paper"), entry),
        hashed(replace(cell, synthesis=SynthesisSettings(points=31)), entry),
        hashed(cell, MethodEntry("shifting", shifting, {"shift": 0.6})),
        hashed(cell, MethodEntry("variant", shifting, {"shift": 0.5})),
    ]
    assert len({base, *others}) == 7
    assert hashed(replace(cell, experiment="renamed"), entry) == base
    assert hashed(cell, MethodEntry("shifting", shifting, {"shift": 0.5, "fragile": False})) == base


def test_an_axis_that_came_later_changes_the_hash_only_where_it_is_set(cell, shifting):
    """Rows that were written before keep their cell."""
    entry = MethodEntry("shifting", shifting, {"shift": 0.5})
    base = settings_hash(cell, entry, {"shift": 0.5})
    axes = {name: value for name, value in cell.axes().items() if name not in LATER}
    text = json.dumps([axes, "shifting", shifting, {"shift": 0.5}], sort_keys=True)
    assert base == hashlib.sha256(text.encode()).hexdigest()[:12]
    for change in ({"voxel": 0.1}, {"crop": "source"}, {"turn": 30.0}, {"deformation": "partner", "surface": "both"}):
        synthesis = replace(cell.synthesis, **change)
        assert settings_hash(replace(cell, synthesis=synthesis), entry, {"shift": 0.5}) != base


def test_the_hash_changes_with_a_default_that_follows_from_the_problem(cell, shifting, monkeypatch):
    entry = MethodEntry("following", "following")
    base = hashed(cell, entry)
    assert (
        hashed(cell, MethodEntry("following", "following", {"shift": 0.375})) == base
    )  # 45 to 30 points, so 1.5 SHIFT
    monkeypatch.setattr(methods.find("following"), "SHIFT", 0.5)
    assert hashed(cell, entry) != base


def test_resolved_settings_are_those_of_the_problem(cell, shifting):
    problem = problem_of(cell)
    assert methods.resolved("following", {}, problem) == {"shift": 0.375, "most": 1000}
    assert methods.resolved("shifting", {"shift": 1}, problem) == {
        "shift": 1.0,
        "fragile": False,
        "package": "",
        "not_finite": False,
    }
    with pytest.raises(ValueError, match="method following: at most 40 points, got 45"):
        methods.resolved("following", {"most": 40}, problem)
    with pytest.raises(ValueError, match="no setting 'shfit'"):
        methods.resolved("following", {"shfit": 1}, problem)


@pytest.mark.parametrize("method", methods.names())
def test_no_null_hides_what_ran_and_json_can_hold_it(cell, method):
    problem = problem_of(replace(cell, synthesis=replace(cell.synthesis, distance=0.5)))
    used = methods.resolved(method, {}, problem)
    follows = hasattr(methods.find(method), "resolved")  # elsewhere None is a value, as for no limit
    unset = [name for name, value in vars(methods.settings(method)).items() if value is None]
    assert not follows or all(used[name] is not None for name in unset)
    json.dumps(used, allow_nan=False)


def test_a_wrong_option_is_refused_before_anything_runs(shifting):
    with pytest.raises(ValueError, match="no setting 'shfit' .*'shift'"):
        MethodEntry("shifting", shifting, {"shfit": 1})
    with pytest.raises(ValueError, match="unknown method 'shiftin' .*'shifting'"):
        MethodEntry("shiftin", "shiftin")
