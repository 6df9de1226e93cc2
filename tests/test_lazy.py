from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pwan
import pwan.scans
import pwan.synthesis

SRC = Path(__file__).parents[1] / "src"


def printed_by(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SRC)}).stdout


@pytest.mark.parametrize("package", [pwan, pwan.scans, pwan.synthesis], ids=lambda package: package.__name__)
def test_all_names_are_there_and_listed(package):
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_a_name_is_what_its_home_holds():
    from pwan.api import register

    assert pwan.register is register
    assert pwan.methods is sys.modules["pwan.methods"]


def test_another_name_is_an_error_as_of_any_module():
    with pytest.raises(AttributeError, match="module 'pwan' has no attribute 'regster'"):
        pwan.regster  # noqa: B018


def test_the_package_is_imported_without_torch_and_then_does_what_it_did():
    code = (
        "import sys, pwan\n"
        "assert 'torch' not in sys.modules and 'register' in dir(pwan)\n"
        "from pwan import *\n"
        "print(register.__name__, partial_wasserstein.__name__, len(methods.names()) > 5, 'torch' in sys.modules)"
    )
    assert printed_by(code) == "register partial_wasserstein True True\n"


def test_a_registration_does_not_load_torchs_compiler() -> None:
    code = (
        "import sys, numpy as np, pwan\n"
        "points = np.random.default_rng(0).normal(size=(20, 2))\n"
        "pwan.register(points, points + 0.1, steps=2, stages=1)\n"
        "pwan.register(points, points + 0.1, steps=2, stages=1, energy='rigid', kernel='geodesic')\n"
        "pwan.partial_wasserstein(points, points, mass=5, solver='neural', updates=2)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    assert printed_by(code) == "False\n"  # two seconds of a process
