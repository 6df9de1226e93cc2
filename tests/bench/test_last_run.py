from __future__ import annotations

from pwan.bench.job import Outcome
from pwan.bench.last_run import ORDER, begin_run, end_run, read_outcomes, settings_in_order


def outcome(settings):
    return Outcome("cpd", settings, ran=1, skipped=2, failed=0, taken=1)


def test_the_settings_of_the_last_run_are_at_the_end_once(tmp_path):
    assert settings_in_order(tmp_path) == []
    for settings in (["a", "b"], ["c"], ["a"]):
        begin_run(tmp_path, settings)
    assert settings_in_order(tmp_path) == ["b", "c", "a"]


def test_what_a_run_came_to_is_kept_until_the_next_begins(tmp_path):
    begin_run(tmp_path, ["a"])
    end_run(tmp_path, [outcome("a")])
    assert read_outcomes(tmp_path) == [outcome("a")]
    begin_run(tmp_path, ["b"])
    assert read_outcomes(tmp_path) == []


def test_a_folder_of_before_knows_the_settings_of_its_last_run(tmp_path):
    end_run(tmp_path, [outcome("a")])
    assert settings_in_order(tmp_path) == ["a"]
    begin_run(tmp_path, ["b"])
    assert settings_in_order(tmp_path) == ["a", "b"]
    assert (tmp_path / ORDER).exists()
