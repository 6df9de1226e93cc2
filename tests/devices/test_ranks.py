"""Points of one registration dealt out over two ranks: the same as on one process, and nothing hangs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric.plugins.environments.lightning import find_free_network_port

from pwan import lightning, shapes
from pwan.app import main
from pwan.attributes import Attributes
from pwan.bench.rows import read_rows
from pwan.bench.settings import TrainerSettings
from pwan.devices.ranks import Place, Ranks, _ascending_keys, devices_here
from pwan.lightning.group import fabric_of, joined
from pwan.lightning.processes import launch
from pwan.problem import Progress, RegistrationProblem
from pwan.registration import pipeline
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings
from pwan.registration.solver import Solver
from pwan.registration.turning import Turning
from pwan.synthesis import SynthesisSettings, make_problem
from pwan.transport.objective import largest_share

CONF = Path(__file__).parents[2] / "conf"
SMALL: dict[str, Any] = {
    **{"steps": 50, "stages": 0, "warmup": 1, "updates": 1, "penalty_every": 1},
    **{"width": 12, "features": 12, "rank": 15, "average": 0.0},
}
NOISE, PARTIAL = {"outlier_ratio": 0.5}, {"keep": 0.8}
H = {"distance": 0.1}
CASES: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "noise, mass, exact": (NOISE, {}),
    "noise, mass, learned": (NOISE | {"mass_factor": 0.9}, {"threshold": "learned"}),
    "noise, distance": (NOISE | H, {"type": "distance"}),
    "partial, mass, exact": (PARTIAL, {}),
    "partial, mass, learned": (PARTIAL, {"threshold": "learned", "penalty": "max", "bound": "fold"}),
    "partial, distance": (PARTIAL | H, {"type": "distance", "tolerance": 0.2}),
    "complete, rigid": ({}, {"type": "complete", "transform": "rigid", "refinement": "none"}),
    "partial, mass, pairs": (PARTIAL, {"pull": 10.0}),
    "partial, mass, weights": (PARTIAL, {}),
    "partial, learned, weights": (PARTIAL, {"threshold": "learned"}),
    "noise, mass, parts": (NOISE, {"update_points": 70}),
    "partial, weights, parts": (PARTIAL, {"update_points": 100}),
    "complete, weights": ({}, {"type": "complete", "refinement": "none"}),
    "partial, mass, normals": (PARTIAL, {}),
}


def problem_of(name: str) -> RegistrationProblem:
    """Of the cases that say so with known pairs, of points of both ranks, or with weights of all points."""
    points = 151 if "parts" in name else 61  # of fewer an update sees all
    problem = make_problem(shapes.load("torus"), SynthesisSettings(points=points, **CASES[name][0]), seed=0, trials=[0])
    if "weights" in name:
        generator = torch.Generator().manual_seed(2)
        y, x = (
            torch.rand(of.shape[:2], generator=generator).double() + 0.5 for of in (problem.source, problem.reference)
        )
        limit = None if problem.mass is None else 0.9 * problem.mass  # not the whole of what the weights come to
        return replace(problem, mass=limit, source_weights=y, reference_weights=x)
    if "normals" in name:
        units = [0.1 * of / of.norm(dim=-1, keepdim=True) for of in (problem.source, problem.reference)]
        return replace(problem, attributes=Attributes(*units, normals=True))
    pairs = torch.tensor([[[1, 40], [20, 3], [33, 30], [47, 12]]])
    return replace(problem, landmarks=pairs) if "pairs" in name else problem


def solve(name: str, ranks: Ranks, dtype: torch.dtype = torch.float64, **more: Any) -> dict[str, Any]:
    """Gradients, bytes and results of one case, taken the same way on one process and on one of two ranks."""
    settings = PwanSettings(**SMALL | CASES[name][1] | more)
    registration = Registration(problem_of(name), settings, [3], Place(ranks, dtype=dtype))
    solver = registration.solver
    gradients, sent = [], [ranks.bytes_sent]
    solver.game.network_optimiser.register_step_pre_hook(
        lambda *_: gradients.append(solver.network.parameters.grad.clone()) if not gradients else None
    )
    while not solver.finished:
        registration.step()
        sent.append(ranks.bytes_sent)
    result = registration.finish()
    return {
        "gradient": gradients[0],
        "transformed": result.transformed_unrefined,
        "refined": result.transformed,
        "matched": result.matched,
        "stop_reason": result.stop_reason,
        "history": result.history[0],
        "bytes": [after - before for before, after in pairwise(sent[1:])],  # without the warm-up
    }


def work(ranks: Ranks, device: str) -> dict[str, Any]:
    """All that is asked of two ranks, in one launch."""
    found: dict[str, Any] = {name: solve(name, ranks) for name in CASES}
    found["float32"] = solve("partial, mass, exact", ranks, torch.float32, steps=5)
    found["bytes"] = {points: bytes_a_step(points, ranks) for points in (60, 120)}
    found["share"] = [shares(ranks, *case) for case in share_cases()]
    found["diverged"] = diverge(ranks)
    found["penalised"] = penalised(ranks)
    try:
        settings = PwanSettings(**SMALL, parametrisation="free", refinement="none")
        Registration(some_problem(60), settings, [0, 1], Place(ranks))
    except ValueError as error:
        found["free"] = str(error)
    return found


def some_problem(points: int) -> Any:
    return make_problem(shapes.load("torus"), SynthesisSettings(points=points, keep=0.8), seed=0, trials=[0, 1])


def bytes_a_step(points: int, ranks: Ranks) -> int:
    registration = Registration(some_problem(points), PwanSettings(**SMALL), [0, 1], Place(ranks))
    registration.step()
    before = ranks.bytes_sent
    registration.step()
    return ranks.bytes_sent - before


def diverge(ranks: Ranks) -> list[str]:
    """A point of rank 1 alone leaves the finite: both ranks must put the problem back, or they would part."""
    registration = Registration(some_problem(60), PwanSettings(**SMALL | {"steps": 3}), [0, 1], Place(ranks))
    if ranks.rank == ranks.size - 1:
        registration.solver.transform.source[0, -1] = torch.nan
    while not registration.solver.finished:
        registration.step()
    return registration.finish().status


def penalised(ranks: Ranks) -> list[list[float]]:
    """The slopes of the penalty on the largest norm, (ranks, 3), where both ranks have it twice."""
    settings = PwanSettings(**SMALL | {"penalty": "max", "kappa": 1.0})
    registration = Registration(some_problem(60), settings, [0, 1], Place(ranks))
    slopes = torch.zeros(ranks.size, 3)
    slopes[ranks.rank] = registration.solver.game.loss.penalty_slope(
        torch.tensor([[1.0, 2.0, 2.0]]), registration.solver.game.sample.seen, torch.ones(1, 3)
    )
    return ranks.sum(slopes)[0].tolist()


def share_cases() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Values (2, 11), mass and weights: all different, many ties with both zeros among them, and a mass beyond all."""
    generator = torch.Generator().manual_seed(1)
    different = torch.randn(2, 11, generator=generator)
    ties = torch.tensor([[0.0, -0.0, 1.0, -1.0, 0.0, 0.0, -0.0, 1.0, 0.0, -1.0, 0.0], [-0.5] * 11])
    ones, halves = torch.ones(2, 11), torch.full((2, 11), 0.5)
    masses = [torch.tensor([3.25, 7.0]), torch.tensor([0.3, 2.75]), torch.tensor([11.0, 12.0])]
    uneven = torch.rand(2, 11, generator=generator) * torch.arange(11).gt(2)  # three points without mass
    cases = [(v, m, w) for v in (different, ties) for m in masses for w in (ones, halves, uneven)]
    return [*cases, (different.double(), masses[0].double(), ones.double())]


def shares(ranks: Ranks, values: torch.Tensor, mass: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    own = ranks.slice(values.shape[1])
    share = torch.zeros_like(values)
    share[:, own] = ranks.largest_share(values[:, own].contiguous(), mass, weights[:, own].contiguous())
    return ranks.sum(share)[0]


@pytest.fixture(scope="module")
def two() -> dict[str, Any]:
    return launch(work, ["cpu", "cpu"])


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_give_the_registration_of_one(name: str, two: dict[str, Any]) -> None:
    one, shared = solve(name, Ranks()), two[name]
    difference = (one["gradient"] - shared["gradient"]).norm() / one["gradient"].norm()
    assert float(one["gradient"].norm()) > 0 and float(difference) < 1e-5
    assert float((one["transformed"] - shared["transformed"]).abs().max()) < 1e-4
    assert float((one["refined"] - shared["refined"]).abs().max()) < 1e-4
    assert torch.equal(one["matched"], shared["matched"]) and one["stop_reason"] == shared["stop_reason"]
    for key, values in one["history"].items():
        assert shared["history"][key] == pytest.approx(values, rel=1e-4, abs=1e-6), key
    assert float((one["transformed"] - problem_of(name).source).abs().max()) > 0.02  # something moved


def test_the_stopping_rule_stops_both(two: dict[str, Any]) -> None:
    (reason,) = two["partial, distance"]["stop_reason"]
    assert reason.startswith("converged at step") and len(two["partial, distance"]["history"]["loss"]) < 50


def test_first_gradient_of_single_precision_and_its_end(two: dict[str, Any]) -> None:
    one, shared = solve("partial, mass, exact", Ranks(), torch.float32, steps=5), two["float32"]
    difference = (one["gradient"] - shared["gradient"]).norm() / one["gradient"].norm()
    assert float(difference) < 1e-5
    assert one["history"]["loss"][-1] == pytest.approx(shared["history"]["loss"][-1], rel=0.3)


def test_bytes_a_step_do_not_depend_on_the_number_of_points(two: dict[str, Any]) -> None:
    assert two["bytes"][60] == two["bytes"][120] > 0
    assert len(set(two["noise, mass, exact"]["bytes"])) == 1  # nor on the step
    assert solve("complete, rigid", Ranks())["bytes"][0] == 0  # one process has nobody to tell


def test_shares_of_two_ranks_are_those_of_one_also_among_ties(two: dict[str, Any]) -> None:
    for (values, mass, weights), found in zip(share_cases(), two["share"], strict=True):
        torch.testing.assert_close(found, largest_share(values, mass, weights), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keys_are_in_the_order_of_the_numbers(dtype: torch.dtype) -> None:
    numbers = [-torch.inf, -3.0, -1e-30, -0.0, 0.0, 1e-30, 2.0, torch.inf]
    keys = _ascending_keys(torch.tensor([numbers], dtype=dtype))[0].tolist()
    assert keys == sorted(keys) and keys[3] == keys[4] and len(set(keys)) == len(keys) - 1


def test_all_ranks_put_back_a_problem_that_one_sees_diverge(two: dict[str, Any]) -> None:
    assert two["diverged"] == ["failed", "ok"]


def test_the_largest_norm_counts_once_where_both_ranks_have_it(two: dict[str, Any]) -> None:
    assert two["penalised"] == [[0.0, 4.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_free_displacement_is_refused(two: dict[str, Any]) -> None:
    assert "parametrisation=modes" in two["free"] and "2 ranks" in two["free"]


def test_points_are_dealt_out_evenly_and_completely() -> None:
    ranks = Ranks()
    ranks.size = 3
    counts = torch.zeros(11)
    for ranks.rank in range(3):
        assert len(counts[ranks.slice(11)]) in (3, 4)
        counts[ranks.slice(11)] += 1
    assert counts.tolist() == [1] * 11
    with pytest.raises(ValueError, match="2 points cannot be dealt out over 3 ranks"):
        ranks.slice(2)


class Unheard(Ranks):
    """As in a group of two, where reductions lead nowhere: for a device without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 2

    def _reduce(self, tensors: Any, operation: Any) -> list[torch.Tensor]:
        return [tensor.clone() for tensor in tensors]

    def of_first(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ranks", [Ranks, Unheard])
def test_a_step_stays_on_its_device(name: str, ranks: type[Ranks], monkeypatch: pytest.MonkeyPatch) -> None:
    # torch's device without memory does no sums but refuses to mix devices, and so stands for a GPU; what it cannot do
    # is bring a matrix back, or decide anything by a number
    monkeypatch.setattr(Place, "as_on_first", lambda self, tensor: tensor)
    monkeypatch.setattr(Solver, "_guard", lambda self, left: None)
    monkeypatch.setattr(Turning, "turn", lambda self, parameters: None)
    settings = PwanSettings(**SMALL | CASES[name][1])
    registration = Registration(problem_of(name), settings, [3], Place(ranks(), "meta"))
    for _ in range(2):
        record = registration.step()
    assert {values.device.type for values in record.values()} == {"meta"}
    assert registration.solver.game.sample.points.device.type == "meta"


def live_or_die(ranks: Ranks, device: str, report: Path) -> None:
    """Rank 1 dies in the middle; rank 0 will not be ended by the launcher, and must find out for itself."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    registration = Registration(some_problem(60), PwanSettings(**SMALL), [0, 1], Place(ranks))
    try:
        while not registration.solver.finished:
            registration.step()
            if ranks.rank == 1 and registration.solver.steps_done == 3:
                os.kill(os.getpid(), signal.SIGKILL)
    except RuntimeError as error:
        report.write_text(f"step {registration.solver.steps_done}: {error}")


def test_a_rank_that_dies_ends_the_others_with_an_error(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1 of 2 failed: .*SIGKILL"):
        launch(live_or_die, ["cpu", "cpu"], tmp_path / "report")
    assert time.monotonic() - start < 60 + 30  # starting the processes counts here, and may take long on a busy machine
    assert (tmp_path / "report").read_text().startswith("step 3: ")


@contextmanager
def member(rank: int, port: int) -> Iterator[Ranks]:
    """This process in a group of two that Lightning forms."""
    os.environ |= {"LOCAL_RANK": str(rank), "MASTER_PORT": str(port)}
    fabric = fabric_of(["cpu", "cpu"])
    fabric.launch()
    with joined(fabric) as ranks:
        yield ranks


def stay_a_while(rank: int, folder: Path, ports: list[int]) -> None:
    """A rank's threads before its group and after it, and what a reduction after it says."""

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    def wait_for_their_end() -> None:
        until = time.monotonic() + 10  # a thread that has ended is listed for a moment more
        while threads() > before and time.monotonic() < until:
            time.sleep(0.01)
        assert threads() <= before

    before, hook = threads(), sys.excepthook
    with member(rank, ports[0]) as ranks:
        (total,) = ranks.sum(torch.ones(1))
        assert float(total) == 2 and threads() > before
    wait_for_their_end()
    with pytest.raises(RuntimeError, match="this rank has left its group"):
        ranks.sum(total)
    with member(rank, ports[1]) as ranks:
        ranks.sum(total)
        if rank == 0:
            with pytest.raises(RuntimeError) as left_alone:
                ranks.sum(total)
    wait_for_their_end()  # while the error lives
    assert sys.excepthook is hook and (rank == 1 or left_alone.value.__traceback__ is not None)
    (folder / str(rank)).touch()


def test_a_groups_threads_end_with_it_so_that_none_meets_the_interpreters_end(tmp_path: Path) -> None:
    given = (tmp_path, [find_free_network_port() for _ in range(2)])
    torch.multiprocessing.start_processes(stay_a_while, given, nprocs=2, start_method="forkserver")
    assert (tmp_path / "0").exists() and (tmp_path / "1").exists()


def test_a_registration_dealt_out_by_this_process_gives_its_result() -> None:
    settings, problem, told = PwanSettings(**SMALL | {"steps": 3}), some_problem(60), []
    given: dict[str, Any] = {"seeds": [0, 1], "accelerator": "cpu", "precision": 64}
    shared = lightning.register(problem, settings, devices=2, observer=lambda p: told.append(p.step), **given)
    alone = lightning.register(problem, settings, **given)
    torch.testing.assert_close(shared.transformed, alone.transformed, rtol=0, atol=1e-9)
    assert told == [1, 2, 3] and not torch.distributed.is_initialized()
    assert shared.potential is not None and float(shared.potential[0](problem.reference[0]).abs().max()) > 0
    single = pipeline.register(problem, settings, seeds=[0, 1])
    torch.testing.assert_close(shared.transformed, single.transformed, rtol=0, atol=1e-3)


def test_this_process_tells_of_a_rank_that_was_killed() -> None:
    def kill(progress: Progress) -> None:
        if progress.step == 2:
            max(active_children(), key=lambda rank: int(rank.name.rpartition("-")[2])).kill()

    given: dict[str, Any] = {"seeds": [0, 1], "devices": 2, "accelerator": "cpu"}
    with pytest.raises(RuntimeError, match="rank 1 of 2 failed: process 1 terminated with signal SIGKILL"):
        lightning.register(some_problem(60), PwanSettings(**SMALL), observer=kill, **given)
    assert active_children() == []
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(("there", "chosen"), [(0, "cpu"), (1, "cpu"), (2, "cuda:1")])
def test_gpus_are_taken_where_there_are_enough(there: int, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    assert devices_here(2)[1] == chosen and devices_here(2, "cpu") == ["cpu", "cpu"]
    if there < 2:
        with pytest.raises(ValueError, match=f"needs 2 GPUs, but there are {there}"):
            devices_here(2, "gpu")
    else:
        assert devices_here(2, "gpu") == ["cuda:0", "cuda:1"]


def test_a_sweep_on_two_ranks_and_its_rows_are_not_those_of_one(tmp_path: Path) -> None:
    # float32 rounds otherwise on two ranks, so a row says so; a method that is not concerned is not run again
    cell = ["-m", "name=ranks", "shape=torus", "problem.points=40", "problem.rank=20", "method=[pwan,cpd]", "seed=0,1"]
    small = ["method.pwan.steps=2", "method.pwan.stages=0", "method.pwan.warmup=1", "trials=1", "logger=none"]
    more = ["options.pictures=[]", f"output={tmp_path}"]
    assert main([*cell, *small, *more, "trainer=ddp"], conf=CONF) == 0
    rows = read_rows(tmp_path)
    assert [(row["method"], row["status"]) for row in rows] == [("pwan", "ok"), ("cpd", "ok")] * 2
    assert main([*cell, *small, *more, "trainer=loop"], conf=CONF) == 0
    assert sorted(row["method"] for row in read_rows(tmp_path)) == ["cpd"] * 2 + ["pwan"] * 4


def test_several_devices_need_the_trainer_that_uses_them() -> None:
    with pytest.raises(ValueError, match="devices=2 needs trainer=ddp, which .* but the trainer is loop"):
        TrainerSettings(devices=2)
