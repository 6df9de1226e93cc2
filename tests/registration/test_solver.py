"""The solver's state between steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from pwan import shapes
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

FAST = PwanSettings(steps=8, stages=1, stage_steps=4, warmup=3, width=16, features=16, tolerance=1e-9)


def registration(settings: PwanSettings = FAST) -> Registration:
    problem = make_problem(shapes.load("torus"), SynthesisSettings(points=60, keep=0.8), seed=0, trials=[0, 1])
    return Registration(problem, settings, [1, 2])


def test_state_in_memory_is_a_snapshot() -> None:
    first = registration()
    for _ in range(3):
        first.step()
    state = first.state_dict()
    while not first.solver.finished:
        first.step()
    second = registration()
    second.load_state_dict(state)
    while not second.solver.finished:
        second.step()
    assert torch.equal(first.finish().transformed, second.finish().transformed)
    assert first.solver.steps_done == second.solver.steps_done == 12


def test_a_checkpoint_keeps_its_keys() -> None:
    # a file of an earlier version is read by these names
    state = registration().state_dict()
    assert set(state) == {"solver", "records"}
    stopping = {"window", "window_points", "stopped_at", "stopped_answer"}
    optimisers = {"network_optimiser", "transform_optimiser"}
    players = {"network", "learned_threshold", "transform"}
    assert set(state["solver"]) == players | optimisers | stopping | {"mean", "mean_count", "diverged_at", "steps_done"}
    for name in optimisers:
        assert set(state["solver"][name]) == {"state", "param_groups"}


def test_distance_threshold_falls_to_its_value_halfway() -> None:
    problem = make_problem(
        shapes.load("torus"), SynthesisSettings(points=60, keep=0.8, distance=0.05), seed=0, trials=[0]
    )
    settings = PwanSettings(type="distance", steps=10, stages=1, stage_steps=2, warmup=3, width=8, features=8)
    solving = Registration(problem, settings, [0])
    told = [float(solving.step()["threshold"]) for _ in range(12)]
    end = float(solving.solver.setup.distance[0]) if solving.solver.setup.distance is not None else 0.0
    assert told[0] > 2 * end
    assert all(a >= b - 1e-7 for a, b in pairwise(told))
    torch.testing.assert_close(torch.tensor(told[5:]), torch.full((7,), end))


def test_means_start_each_stage_and_are_the_answer() -> None:
    solving = registration(PwanSettings(steps=4, stages=1, stage_steps=2, warmup=1, width=8, features=8, average=0.5))
    solver, iterates = solving.solver, []
    for _ in range(4):
        solving.step()
        iterates.append(solver.transform.parameters.detach().clone())
    torch.testing.assert_close(solver.answer(), (iterates[2] + iterates[3]) / 2)
    mean = solver.answer()
    solving.step()
    moved = (solver.transform.parameters - mean).abs().max()
    assert float(moved) < 0.02  # one step from the mean, not from the last iterate
    assert float(solver.game.transform_optimiser.param_groups[0]["lr"]) == 0.5 * float(solving.settings.rate or 0)


def test_the_threshold_that_a_step_returns_is_the_one_it_used_and_stays() -> None:
    given = make_problem(
        shapes.load("bunny"), SynthesisSettings(points=60, keep=0.8, distance=0.05), seed=0, trials=[0]
    )
    settings = PwanSettings(type="distance", steps=20, stages=0, warmup=1, refinement="none")
    solver = Registration(given, settings, [0]).solver
    assert solver.setup.distance is not None
    end, start = float(solver.setup.distance), settings.distance_start
    found = [solver.step()["threshold"] for _ in range(12)]
    # falls geometrically over the first half of the steps
    wanted = [start * (end / start) ** min(1.0, step / 10) for step in range(12)]
    assert [float(value) for value in found] == pytest.approx(wanted, rel=1e-5)


def test_the_reach_is_in_force_after_the_first_stage_and_two_spacings_at_least() -> None:
    settings = PwanSettings(steps=2, stages=1, stage_steps=2, warmup=1, width=8, features=8, reach=0.01)
    solving = registration(settings)
    solver, start = solving.solver, solving.state_dict()
    x = solving.problem.reference
    spacing = torch.cdist(x, x).add_(torch.eye(48) * 9).amin(2).median(1).values  # 48 points have two in their middle
    assert solver.schedule.reach is not None
    in_force = []
    for _ in range(4):
        in_force.append(solver.schedule.reach.clone())
        solving.step()
    assert all(bool(reach.isinf().all()) for reach in in_force[:2])
    assert all(bool(((reach / (2 * spacing) - 1).abs() < 0.1).all()) for reach in in_force[2:])
    solving.load_state_dict(start)
    assert bool(solver.schedule.reach.isinf().all())
    solver = registration(replace(settings, reach=5.0, steps=0)).solver
    assert solver.schedule.reach is not None and solver.schedule.reach.tolist() == [5.0, 5.0]
    for off in ({"reach": 0.0}, {"stages": 0}):
        assert registration(replace(settings, **off)).solver.schedule.reach is None  # type: ignore[arg-type]


def test_chance_in_the_numbers_of_points_on_a_limb_does_not_bend_it() -> None:
    problem = make_problem(
        shapes.load("armadillo"), SynthesisSettings(points=400, deformation_lambda=50), seed=0, trials=[0]
    ).select([0, 0, 0])
    assert problem.truth is not None
    error = {}
    for reach in (0.0, 0.2):
        solving = Registration(problem, PwanSettings(refinement="none", steps=50, stages=2, reach=reach), [0, 1, 2])
        while not solving.solver.finished:
            solving.step()
        error[reach] = float((solving.finish().transformed - problem.truth).square().sum(-1).mean())
    assert error[0.2] < 0.5 * error[0.0] and error[0.2] < 0.003
