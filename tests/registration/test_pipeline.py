"""A batch of registrations on its way from problem to result."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pwan import shapes
from pwan.problem import Progress, RegistrationProblem
from pwan.registration import pipeline
from pwan.registration.settings import PwanSettings
from pwan.registration.solver import Solver
from pwan.synthesis import SynthesisSettings, make_problem

# long enough that the problems of a batch stop at different steps
STOPPING = PwanSettings(steps=60, stages=1, stage_steps=20, warmup=3, width=16, features=16, tolerance=0.15)
SEEDS = [3, 4, 5, 6, 7]


def batch(keep: float = 1.0) -> RegistrationProblem:
    settings = SynthesisSettings(points=40, keep=keep, deformation_lambda=50, distance=0.2)
    return make_problem(shapes.load("torus"), settings, seed=0, trials=[0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    "changed", [{}, {"threshold": "learned"}, {"type": "distance", "tolerance": 0.1}, {"optimiser": "rmsprop"}]
)
def test_problems_that_stop_leave_their_batch_and_no_number_changes(
    changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, settings = batch(0.8), replace(STOPPING, **changed)  # type: ignore[arg-type]
    alone = [pipeline.register(problem.select([k]), settings, seeds=[SEEDS[k]]) for k in range(5)]
    sizes: list[int] = []
    step = Solver.step

    def watched(self: Solver, *arguments: object) -> dict[str, torch.Tensor]:
        sizes.append(len(self.setup.reference))
        return step(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Solver, "step", watched)
    told: list[Progress] = []
    where: list[torch.Tensor] = []

    def observer(progress: Progress) -> None:
        told.append(progress)
        where.append(progress.transformed())

    together = pipeline.register(problem, settings, seeds=SEEDS, observer=observer)
    steps = [one.steps[0] for one in alone]
    assert len(set(steps)) > 1, "the batch is to hold problems that stop at different steps"
    assert together.steps == steps
    assert sizes[0] == 5 and sizes == sorted(sizes, reverse=True) and sizes[-1] < 5
    assert len(sizes) == max(steps) == len(told)
    for k, one in enumerate(alone):
        assert torch.equal(together.transformed[k], one.transformed[0])
        assert torch.equal(together.transformed_unrefined[k], one.transformed_unrefined[0])
        assert together.history[k] == one.history[0]
        assert together.stop_reason[k] == one.stop_reason[0]
        x = problem.reference[k]
        assert together.potential is not None and one.potential is not None
        assert torch.equal(together.potential[k](x), one.potential[0](x))
    first = steps.index(min(steps))  # what has left is shown where it came to rest
    assert torch.equal(where[-1][first], together.transformed[first])


def test_the_share_of_time_goes_with_a_problem() -> None:
    registration = pipeline.Registration(batch(), STOPPING, SEEDS)
    registration.step()
    before = registration.seconds
    part = registration.part([1, 4])
    assert part.seconds > before > 0
    assert part.solver.steps_done == 1 and part.seeds == [4, 7]
    torch.testing.assert_close(part.transformed(), registration.transformed()[[1, 4]], rtol=0, atol=0)
