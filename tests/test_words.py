"""What problems, results and transforms say of themselves: a few lines, whatever their size."""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

import numpy as np
import pytest
import torch

from pwan import RegistrationProblem, methods, register
from pwan.api import Registered
from pwan.problem import RegistrationResult
from pwan.words import transform_words

CHEAP: dict[str, Any] = {"method": "soft_assignment", "steps": 2}


def sets(count: int = 1, points: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.randn(count, points + 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return draws[:, :points], draws[:, 5:] + 0.1


def test_a_result_is_a_few_lines() -> None:
    source, reference = sets(points=300)
    result = register(source[0].numpy(), reference[0].numpy(), mass=270, **CHEAP)
    assert repr(result).splitlines() == [
        "Registered: 300 source points onto 300 reference points in 3-D",
        f"  status: ok, {result.stop_reason}",
        "  matched: 270 of 300 source points (90%), 270 of 300 reference points",
        f"  seconds: {result.seconds:.3g}",
    ]


def test_a_batch_shows_its_first_problems_and_counts_the_others() -> None:
    source, reference = sets(count=8)
    result = register(source, reference, mass=30, **CHEAP)
    result.status[6] = "failed"
    lines = repr(result).splitlines()
    assert lines[0] == "Registered: 8 problems, 60 source points onto 60 reference points in 3-D"
    assert lines[1] == f"  0: ok, 50% of the source matched, {result.seconds[0]:.3g} s, {result.stop_reason[0]}"
    assert lines[-1] == "  and 3 more: 2 ok, 1 failed" and len(lines) == 7
    one = register(source[:1], reference[:1], **CHEAP)
    assert "problems" not in repr(one) and repr(one).splitlines()[1].startswith("  0: ok, 100%")


def test_a_methods_own_result_and_a_subclass_say_their_names() -> None:
    problem = RegistrationProblem(*sets())
    result = methods.run("soft_assignment", problem, {"steps": 2}, seeds=[0])
    assert repr(result).startswith("RegistrationResult: 60 source points")
    assert isinstance(result, RegistrationResult) and not isinstance(result, Registered)


def test_a_problem_is_a_few_lines() -> None:
    source, reference = sets(count=7)
    mass = torch.arange(1, 8).double()
    pairs, weights = torch.zeros(7, 4, 2, dtype=torch.int64), torch.ones(7, 4).double()
    problem = RegistrationProblem(source, reference, mass, truth=source, landmarks=pairs, landmark_weights=weights)
    assert repr(problem).splitlines() == [
        "RegistrationProblem: 7 problems, 60 source points onto 60 reference points in 3-D",
        "  mass: 1, 2, 3, 4, 5, and 2 more",
        "  with truth, 4 landmarks each",
    ]
    plain = RegistrationProblem(source[:1], reference[:1], distance=torch.tensor([0.25], dtype=torch.float64))
    assert repr(plain).splitlines()[1:] == ["  distance: 0.25"]


@pytest.mark.parametrize("options", [CHEAP, {"method": "pwan", "steps": 1, "warmup": 1, "transform": "rigid"}])
def test_a_transform_is_a_few_lines(options: dict[str, Any]) -> None:
    source, reference = sets()
    transform = register(source[0], reference[0], **options).transform
    lines = repr(transform).splitlines()
    bent = options is CHEAP
    assert lines[0].startswith(
        "SpaceTransform: y -> y @ affine + translation" + (" + V(y)" if bent else "") + ", points in 3-D"
    )
    assert len(lines) == 3 + bent and max(map(len, lines)) < 140
    if bent:
        assert re.fullmatch(r"  V: gaussian kernel of width [\d.]+, \d+ centres", lines[3])
        assert re.fullmatch(
            r"KernelSum: gaussian kernel of width [\d.]+, \d+ centres in 3-D", repr(transform.displacement)
        )


def test_a_kernel_without_a_width() -> None:
    parts = {"affine": [[1, 0], [0, 2.5]], "translation": [0.1, 1e6], "scale": 1.5811}
    words = transform_words("T", {**parts, "displacement": {"kernel": "thin_plate", "width": None, "centres": 9}})
    assert words.splitlines() == [
        "T: y -> y @ affine + translation + V(y), points in 2-D",
        "  affine: [[1, 0], [0, 2.5]], scale 1.581",
        "  translation: [0.1, 1e+06]",
        "  V: thin_plate kernel, 9 centres",
    ]


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("count", [1, 2])
def test_a_notebook_shows_the_words_and_a_small_picture(dimension: int, count: int) -> None:
    source, reference = (points[..., :dimension] for points in sets(count, points=3000))
    given = (source, reference) if count > 1 else (source[0].requires_grad_(), reference[0])
    result = register(*given, mass=30, **CHEAP)
    shown = result._repr_html_()
    assert shown is not None and f"<pre>{repr(result).splitlines()[0]}" in shown
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', shown)
    assert base64.b64decode(picture).startswith(b"\x89PNG") and len(picture) < 200_000


def test_without_matplotlib_a_notebook_shows_the_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    source, reference = sets()
    result = register(source[0], reference[0], **CHEAP)
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "pwan.report"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert result._repr_html_() is None


def test_words_of_a_result_are_escaped() -> None:
    source, reference = sets()
    result = register(source[0].numpy(), reference[0].numpy(), **CHEAP)
    result.stop_reason = "<b> & more"
    shown = result._repr_html_()
    assert shown is not None and "&lt;b&gt; &amp; more" in shown and np.isfinite(result.transformed).all()
