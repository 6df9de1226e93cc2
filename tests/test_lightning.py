"""The Lightning module gives the plain loop's result, and a checkpoint in mid-run goes on as if nothing had
happened.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from pwan import lightning, shapes
from pwan.problem import Progress, RegistrationProblem
from pwan.registration import pipeline
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem

SETTINGS = [
    PwanSettings(steps=12, stages=2, stage_steps=5, warmup=5, tolerance=1e-9),
    PaperSettings(steps=9, updates=4, nearest_steps=5),
]


@pytest.fixture(scope="module")
def problem() -> RegistrationProblem:
    return make_problem(shapes.load("torus"), SynthesisSettings(points=120, keep=0.8), seed=0, trials=[0, 1])


@pytest.mark.parametrize("settings", SETTINGS, ids=["pwan", "paper"])
def test_module_equals_plain_loop(problem: RegistrationProblem, settings: PwanSettings) -> None:
    plain = pipeline.register(problem, settings, seeds=[1, 2])
    module = lightning.PwanModule(problem, settings, [1, 2])
    trained = lightning.fit(module)
    assert torch.equal(plain.transformed, trained.transformed)
    assert plain.history == trained.history
    assert module.trainer.global_step == trained.steps[0]  # Lightning's counter is that of the PWAN steps


@pytest.mark.parametrize("settings", SETTINGS, ids=["pwan", "paper"])
def test_resume_in_mid_run_equals_unbroken_run(
    problem: RegistrationProblem, settings: PwanSettings, tmp_path: Path
) -> None:
    def checkpoint() -> ModelCheckpoint:
        return ModelCheckpoint(tmp_path / "kept", filename="{step}", every_n_train_steps=4, save_top_k=-1)

    unbroken = pipeline.register(problem, settings, seeds=[1, 2])
    lightning.fit(lightning.PwanModule(problem, settings, [1, 2]), callbacks=[checkpoint()])
    module = lightning.PwanModule(problem, settings, [1, 2])
    with pytest.warns(UserWarning, match="not empty"):
        resumed = lightning.fit(module, checkpoint=str(tmp_path / "kept" / "step=8.ckpt"), callbacks=[checkpoint()])
    assert torch.equal(unbroken.transformed, resumed.transformed)
    assert unbroken.history == resumed.history
    assert unbroken.stop_reason == resumed.stop_reason


def test_trainer_stops_when_every_problem_has_converged(problem: RegistrationProblem) -> None:
    settings = PwanSettings(steps=100, warmup=5, tolerance=10.0)  # anything is within this tolerance
    result = lightning.register(problem, settings, seeds=[1, 2])
    assert result.steps == [20, 20]
    assert result.stop_reason == ["converged at step 20"] * 2


@pytest.mark.parametrize(("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_what_ends_the_fit_from_outside_passes_as_what_it_is(
    problem: RegistrationProblem, number: signal.Signals, ending: type[BaseException]
) -> None:
    def stop(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(ending) as end:
        lightning.register(problem, PwanSettings(steps=20, warmup=1), seeds=[1, 2], observer=stop)
    if ending is SystemExit:
        assert end.value.code == 143
    assert signal.getsignal(number) == before
