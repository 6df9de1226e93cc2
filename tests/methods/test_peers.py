"""The optional peers: the sentence where a package is missing, and real runs where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

import pwan
from pwan import methods, shapes
from pwan.methods._baseline import RegistrationFailedError
from pwan.methods._peers import import_peer, peer_call
from pwan.pool import Failure, run_tasks
from pwan.problem import RegistrationProblem, mean_squared_error
from pwan.synthesis import SynthesisSettings, make_problem

PACKAGE = {
    "probreg_cpd": "probreg",
    "probreg_bcpd": "probreg",
    "probreg_gmmreg": "probreg",
    "biocpd": "biocpd",
    "nricp": "trimesh",
}

PACKAGES = {*PACKAGE.values(), "open3d", "sklearn"}

# a new process must find the package of this very clone
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(pwan.__file__).parents[1])}


def small_problem(points: int, deformation_lambda: float = 50.0) -> RegistrationProblem:
    settings = SynthesisSettings(points=points, outlier_ratio=0.2, deformation_lambda=deformation_lambda)
    return make_problem(shapes.load("bunny"), settings, seed=0, trials=[0, 1])


@pytest.fixture
def problem() -> RegistrationProblem:
    return small_problem(120)


def sheet(angle: float = 0.3) -> RegistrationProblem:
    """A sheet of triangles that is rolled up a little, and other points of the rolled one."""
    across = np.linspace(0, 1, 12)
    flat = np.stack(np.meshgrid(2 * across, across), -1).reshape(-1, 2)
    others = np.random.default_rng(0).random((300, 2)) * [2, 1]

    def rolled(places: np.ndarray) -> torch.Tensor:
        turned = angle * places[:, 0]
        points = np.column_stack((np.sin(turned) / angle, places[:, 1], (1 - np.cos(turned)) / angle))
        return torch.from_numpy(points)[None]

    return RegistrationProblem(
        torch.from_numpy(np.column_stack((flat, np.zeros(len(flat)))))[None],
        rolled(others),
        truth=rolled(flat),
        source_faces=torch.from_numpy(Delaunay(flat).simplices.astype(np.int64))[None],
    )


def fails_to_import(monkeypatch: pytest.MonkeyPatch, package: str, error: Exception) -> None:
    """Let the import of the package raise the error, whether it is installed or not."""

    def import_module(name: str) -> None:
        assert name == package
        raise error

    monkeypatch.setattr("importlib.import_module", import_module)


@pytest.mark.parametrize("method", PACKAGE)
def test_absent_package_names_the_command_that_installs_it(method, problem, monkeypatch):
    package = PACKAGE[method]
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    problem = sheet() if methods.needs_faces(method) else problem
    with pytest.raises(ImportError) as caught:
        methods.run(method, problem, seeds=range(len(problem)))
    sentence = str(caught.value)
    assert sentence.startswith(f"{package} is not installed") and "`pip install -r requirements-peers.txt`" in sentence
    assert ("`apt-get install libusb-1.0-0`" in sentence) == (package == "probreg")
    assert "\n" not in sentence and ". " not in sentence


@pytest.mark.parametrize("kind", [ImportError, OSError])
@pytest.mark.parametrize(("library", "debian"), [("libusb-1.0.so.0", "libusb-1.0-0"), ("libGL.so.1", "libgl1")])
def test_absent_system_library_names_its_package_and_not_pip(kind, library, debian, monkeypatch):
    words = f"{library}: cannot open shared object file: No such file or directory"
    fails_to_import(monkeypatch, "probreg", kind(words))
    with pytest.raises(ImportError) as caught:
        import_peer("probreg")
    sentence = str(caught.value)
    assert f"`apt-get install {debian}`" in sentence and "pip" not in sentence


def test_package_that_does_not_fit_names_what_was_wrong(monkeypatch):
    fails_to_import(monkeypatch, "biocpd", ImportError("cannot import name 'x' from 'scipy'"))
    with pytest.raises(ImportError, match=r"import name 'x' from 'scipy'.*pip install -r requirements-peers.txt"):
        import_peer("biocpd")


def test_no_method_file_imports_a_peer():
    program = (
        "import sys; from pwan import methods; [methods.find(name) for name in methods.names()]; "
        f"print({{name.partition('.')[0] for name in sys.modules}} & {PACKAGES})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert done.stdout.strip() == "set()"


def test_absent_package_is_a_missing_package_to_the_benchmark(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "biocpd", None)
    outcomes = []
    run_tasks(
        lambda method, report: methods.run(method, problem, seeds=[0, 1]),
        ["biocpd"],
        workers=1,
        on_done=lambda number, outcome: outcomes.append(outcome),
        on_progress=lambda number, said: None,
    )
    (failure,) = outcomes
    assert isinstance(failure, Failure) and failure.missing_package and failure.reason.startswith("biocpd is not")


def test_call_of_a_peer_seeds_the_global_generator_and_puts_it_back():
    draws = []
    before = np.random.get_state()  # noqa: NPY002
    for seed in (1, 1, 2):
        with peer_call("peer", seed):
            draws.append(np.random.random())  # noqa: NPY002
    assert draws[0] == draws[1] != draws[2]
    after = np.random.get_state()  # noqa: NPY002
    assert np.array_equal(after[1], before[1]) and after[2] == before[2]


def test_what_a_peer_raises_is_a_failure_with_its_name():
    with pytest.raises(RegistrationFailedError, match="peer raised KeyError"), peer_call("peer"):
        raise KeyError("gone")


def test_warnings_of_a_peer_are_not_shown():
    with peer_call("peer"):
        warnings.warn("the tests would raise it", UserWarning, stacklevel=1)


@pytest.mark.parametrize("method", ["probreg_cpd", "biocpd"])
@pytest.mark.parametrize("options", [{}, {"beta": 0.7, "smoothness": 5.0, "outlier_weight": 0.3}])
def test_peers_of_cpd_come_to_the_same_points(method, options, problem):
    pytest.importorskip(PACKAGE[method], exc_type=ImportError)
    options = {**options, "max_iterations": 1000, "tolerance": 1e-8}
    expected = methods.run("cpd", problem, options, seeds=[0, 1])
    result = methods.run(method, problem, options, seeds=[0, 1])
    assert result.status == expected.status == ["ok", "ok"]
    moved = (expected.transformed - problem.source).norm(dim=-1).max()
    assert float((result.transformed - expected.transformed).norm(dim=-1).max()) < 1e-3 < 0.1 * float(moved)


def test_biocpd_at_low_rank_stays_near_its_exact_result(problem):
    pytest.importorskip("biocpd", exc_type=ImportError)
    exact = methods.run("biocpd", problem, seeds=[0, 1])
    large = methods.run("biocpd", problem, {"exact_points": 0, "rank": 60, "neighbours": 30}, seeds=[0, 1])
    difference = mean_squared_error(large.transformed, exact.transformed)
    assert bool((difference < 0.2 * mean_squared_error(problem.source, exact.transformed)).all())
    assert not torch.equal(large.transformed, exact.transformed)


def test_gmmreg_of_probreg_lowers_the_error_and_repeats_itself():
    pytest.importorskip("probreg", exc_type=ImportError)
    problem = small_problem(200)
    result, again = (methods.run("probreg_gmmreg", problem, seeds=[0, 1]) for _ in range(2))
    assert result.status == ["ok", "ok"] and torch.equal(result.transformed, again.transformed)
    before = mean_squared_error(problem.source, problem.truth)
    assert bool((mean_squared_error(result.transformed, problem.truth) < before).all())


def test_bcpd_of_probreg_fails_with_its_reason_and_gives_finite_points_and_prints_nothing(capfd):
    pytest.importorskip("probreg", exc_type=ImportError)
    problem = small_problem(200, deformation_lambda=10.0).select([0])
    result = methods.run("probreg_bcpd", problem, seeds=[0])
    assert result.status == ["failed"] and result.stop_reason[0].startswith("probreg raised LinAlgError")
    assert not result.displacement.any() and bool(result.transformed.isfinite().all())
    assert capfd.readouterr() == ("", "")


def test_gmmreg_of_probreg_fails_where_its_objective_is_not_a_number(problem):
    pytest.importorskip("probreg", exc_type=ImportError)
    result = methods.run("probreg_gmmreg", problem.select([0]), {"sigma": 0.1, "components": 80}, seeds=[0])
    assert result.status == ["failed"] and "BFGS took no step" in result.stop_reason[0]


def test_nricp_rolls_a_sheet_up_and_repeats_itself():
    pytest.importorskip("trimesh", exc_type=ImportError)
    problem, seen = sheet(), []
    options = {"normalisation": "joint"}
    result = methods.run("nricp", problem, options, seeds=[0], observer=lambda p: seen.append(p.transformed()))
    again = methods.run("nricp", problem, options, seeds=[0])
    assert result.status == ["ok"] and torch.equal(result.transformed, again.transformed)
    torch.testing.assert_close(seen[-1], result.transformed)
    before = mean_squared_error(problem.source, problem.truth)
    assert bool((mean_squared_error(result.transformed, problem.truth) < 0.1 * before).all())


def test_nricp_of_other_units_is_the_same():
    """It works in lengths of the source, so that metres or millimetres make no difference."""
    pytest.importorskip("trimesh", exc_type=ImportError)
    problem = sheet()
    large = replace(problem, source=1000 * problem.source, reference=1000 * problem.reference)
    here, there = (methods.run("nricp", one, {"normalisation": "none"}, seeds=[0]) for one in (problem, large))
    torch.testing.assert_close(there.transformed, 1000 * here.transformed, atol=1e-3, rtol=0)


def test_nricp_asks_for_faces_and_for_space(problem):
    with pytest.raises(ValueError, match="method nricp moves a mesh; give the source's faces, or take another method"):
        methods.run("nricp", problem, seeds=[0, 1])
    mesh = sheet()
    flat = RegistrationProblem(mesh.source[..., :2], mesh.reference[..., :2], source_faces=mesh.source_faces)
    with pytest.raises(ValueError, match="nricp moves surfaces in 3-D, but the points are 2-D"):
        methods.run("nricp", flat, seeds=[0])


def test_nricp_fails_in_words_where_points_are_in_no_face():
    pytest.importorskip("trimesh", exc_type=ImportError)
    problem = sheet()
    result = methods.run("nricp", replace(problem, source_faces=problem.source_faces[:, :1]), seeds=[0])
    assert result.status == ["failed"] and "141 source points are in no face" in result.stop_reason[0]


@pytest.mark.parametrize(
    ("name", "value"), [("smoothness", (0.1, 0.1)), ("neighbours", 2), ("iterations", (0,)), ("farthest_match", -1.0)]
)
def test_settings_of_nricp_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        methods.settings("nricp", {name: value})
