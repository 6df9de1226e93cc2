"""The bar of ``register``: every step is shown, observers are told as before, and a missing tqdm is a sentence."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from pwan import register
from pwan.problem import Progress

METHODS: dict[str, dict[str, Any]] = {
    "pwan": {"steps": 3, "warmup": 1, "stages": 0, "width": 8, "features": 8, "rank": 9},
    "soft_assignment": {"steps": 4},
    "cpd": {},
}


def sets() -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    return source, source + 0.1


@pytest.mark.parametrize("method", METHODS)
def test_the_bar_ends_full_and_changes_nothing(method: str, capsys: pytest.CaptureFixture) -> None:
    plain = register(*sets(), method=method, **METHODS[method])
    assert capsys.readouterr().err == ""
    shown = register(*sets(), method=method, progress=True, **METHODS[method])
    bar = capsys.readouterr().err.split("\r")[-1]
    assert "register: 100%" in bar and f"{shown.steps}/{shown.steps}" in bar  # also of one that converged early
    assert torch.equal(shown.transformed, plain.transformed)


def test_an_observer_is_told_beside_the_bar(capsys: pytest.CaptureFixture) -> None:
    told: list[tuple[int, int]] = []

    def observe(progress: Progress) -> None:
        told.append((progress.step, progress.steps))

    register(*sets(), method="soft_assignment", steps=4, progress=True, observer=observe)
    assert told == [(step, 4) for step in range(1, 5)]
    assert "4/4" in capsys.readouterr().err


def test_a_run_that_is_stopped_leaves_its_bar_where_it_was(capsys: pytest.CaptureFixture) -> None:
    def stop(progress: Progress) -> None:
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        register(*sets(), method="soft_assignment", steps=4, progress=True, observer=stop)
    assert "2/4" in capsys.readouterr().err


def test_without_tqdm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True needs.*pip install 'pwan\[scans\]'"):
        register(*sets(), progress=True)
    register(*sets(), method="soft_assignment", steps=1)
