from __future__ import annotations

from dataclasses import replace

import pytest

from pwan.bench.cell import MethodEntry, settings_hash
from pwan.synthesis import SynthesisSettings


def test_the_hash_changes_with_what_changes_rows_and_with_nothing_else(cell, shifting):
    entry = MethodEntry("shifting", shifting, {"shift": 0.5})
    base = settings_hash(cell, entry)
    others = [
        settings_hash(replace(cell, seed=1), entry),
        settings_hash(replace(cell, shape="bunny"), entry),
        settings_hash(replace(cell, shape_source="paper"), entry),
        settings_hash(replace(cell, synthesis=SynthesisSettings(points=31)), entry),
        settings_hash(cell, MethodEntry("shifting", shifting, {"shift": 0.6})),
        settings_hash(cell, MethodEntry("variant", shifting, {"shift": 0.5})),
    ]
    assert len({base, *others}) == 7
    assert settings_hash(replace(cell, experiment="renamed"), entry) == base
    assert settings_hash(cell, MethodEntry("shifting", shifting, {"shift": 0.5, "fragile": False})) == base


def test_a_wrong_option_is_refused_before_anything_runs(shifting):
    with pytest.raises(ValueError, match="no setting 'shfit' .*'shift'"):
        MethodEntry("shifting", shifting, {"shfit": 1})
    with pytest.raises(ValueError, match="unknown method 'shiftin' .*'shifting'"):
        MethodEntry("shiftin", "shiftin")
