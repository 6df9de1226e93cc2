"""The catalogue that finds methods and tasks by name."""

import pytest

from pwan.app.catalogue import TASKS
from pwan.catalogue import Catalogue


def test_an_unknown_entry_is_refused_with_the_nearest_one_and_those_without_a_file():
    words = r"unknown task 'registr' \(did you mean 'register'\?\); the tasks are benchmark, "
    with pytest.raises(ValueError, match=words):
        TASKS.check_name("registr")
    with pytest.raises(ValueError, match="unknown task 'register'"):
        TASKS.find("register")  # it has no file


def test_files_with_an_underscore_are_no_entries():
    methods = Catalogue("pwan.methods", "method")
    assert "pwan" in methods.names() and not any(name.startswith("_") for name in methods.names())
    with pytest.raises(ValueError, match="unknown method '_settings'"):
        methods.settings_class("_settings")
