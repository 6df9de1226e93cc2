"""The Lightning module gives the plain loop's result, on two ranks too, and a checkpoint in mid-run goes on as if
nothing had happened.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import wandb
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import WandbLogger

from pwan import lightning, register, shapes
from pwan.problem import Progress, RegistrationProblem, RegistrationResult
from pwan.registration import pipeline
from pwan.registration.settings import PaperSettings, PwanSettings
from pwan.synthesis import SynthesisSettings, make_problem
from tests.bench.test_tracking import logged_history
from tests.devices.test_ranks import CASES, SMALL, problem_of

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


# on two ranks

TWO: dict[str, Any] = {"devices": 2, "accelerator": "cpu"}
DOUBLE: dict[str, Any] = {"precision": 64, "accelerator": "cpu"}
# which the trainer on two ranks must not part from: noise and parts, mass and distance, exact and learned threshold
COMPARED = [name for name in CASES if name.split(",")[0] in ("noise", "partial") and len(name.split(",")) < 4][:6]


def far(one: Any, two: Any) -> float:
    return max(float((getattr(one, x) - getattr(two, x)).abs().max()) for x in ("transformed", "transformed_unrefined"))


@pytest.mark.parametrize("name", COMPARED)
def test_two_ranks_end_where_one_does(name: str) -> None:
    settings = PwanSettings(**SMALL | CASES[name][1])
    one = lightning.register(problem_of(name), settings, seeds=[3], **DOUBLE)
    two = lightning.register(problem_of(name), settings, seeds=[3], **DOUBLE | TWO)
    assert far(one, two) < 1e-10
    assert one.stop_reason == two.stop_reason and torch.equal(one.matched, two.matched)


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")  # the resumed run keeps no checkpoints
@pytest.mark.parametrize("devices", [1, 2])
def test_a_checkpoint_of_two_ranks_goes_on_with_one_and_with_two(devices: int, tmp_path: Path) -> None:
    def module() -> lightning.PwanModule:
        settings = PwanSettings(**SMALL | CASES["partial, distance"][1])  # its stopping rule holds points of each rank
        return lightning.PwanModule(problem_of("partial, distance"), settings, [3])

    kept = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=15, save_top_k=-1)
    unbroken = lightning.fit(module(), callbacks=[kept], **DOUBLE | TWO)
    resumed = lightning.fit(module(), checkpoint=str(tmp_path / "step=15.ckpt"), **DOUBLE | TWO | {"devices": devices})
    assert far(unbroken, resumed) < 1e-10
    assert unbroken.stop_reason == resumed.stop_reason == ["converged at step 40"]


class Telling(Callback):
    """A user's own, of which each rank has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        with open(self.folder / f"rank{trainer.global_rank}", "a") as file:
            file.write(f"{trainer.global_step}\n")


def test_checkpoints_logger_bar_and_a_callback_work_on_two_ranks(tmp_path: Path) -> None:
    problem = problem_of("partial, mass, exact")
    module = lightning.PwanModule(problem, PwanSettings(**SMALL | {"steps": 6}), [3])
    wandb.teardown()  # else it knows the server of another test
    logger = WandbLogger(save_dir=tmp_path, offline=True, project="pwan")
    kept = ModelCheckpoint(tmp_path / "kept", filename="{step}", every_n_train_steps=3, save_top_k=-1)
    how = {"logger": logger, "log_every_n_steps": 2, "enable_progress_bar": True}
    lightning.fit(module, callbacks=[kept, Telling(tmp_path)], **TWO, **how)
    for rank in range(2):
        assert (tmp_path / f"rank{rank}").read_text().split() == [f"{step}" for step in range(1, 7)]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["step=3.ckpt", "step=6.ckpt"]
    lines = logged_history(tmp_path)  # one run, of rank 0
    assert [line["trainer/global_step"] for line in lines] == [1, 3, 5]
    for line in lines:
        assert {"mse", "loss", "threshold", "gradient_norm"} <= set(line)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"devices": 200}, "points cannot be dealt out over 200 ranks; take fewer ranks"),
        ({"precision": "16-mixed"}, "precision=32 or 64, got 16-mixed"),
        ({"num_nodes": 2}, "num_nodes=2 needs processes that torchrun or srun has started on each machine"),
        ({"strategy": "fsdp"}, "strategy must be auto or ddp_spawn, got 'fsdp'"),
        ({"accelerator": "tpu"}, "accelerator must be auto, gpu or cpu, got 'tpu'"),
        ({"accelerator": "gpu", "devices": 99}, "accelerator=gpu needs 99 GPUs, but there are"),
        ({"settings": {"parametrisation": "free", "refinement": "none"}}, "parametrisation=free cannot be dealt out"),
    ],
)
def test_what_ranks_cannot_do_is_said_before_any_is_started(
    how: dict[str, Any], words: str, problem: RegistrationProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pwan.lightning.group.Fabric", None)
    settings = replace(PwanSettings(**SMALL), **how.pop("settings", {}))
    with pytest.raises(ValueError, match=words):
        lightning.register(problem, settings, seeds=[1, 2], **TWO | how)
    with pytest.raises(ValueError, match=words):
        lightning.fit(lightning.PwanModule(problem, settings, [1, 2]), **TWO | how)


def test_the_front_door_takes_several_devices(problem: RegistrationProblem) -> None:
    source, reference = problem.source.numpy(), problem.reference.numpy()
    how = {name: value for name, value in SMALL.items() if name != "steps"}
    told: list[tuple[int, float]] = []

    def observer(progress: Progress) -> None:
        told.append((progress.step, float(progress.transformed().square().mean())))

    two = register(source, reference, mass=90, steps=3, devices=2, observer=observer, **how)
    one = register(source, reference, mass=90, steps=3, **how)
    np.testing.assert_allclose(two.transformed, one.transformed, atol=1e-3)
    assert [step for step, _ in told] == [1, 2, 3] and len({size for _, size in told}) == 3
    assert two.potential[0](two.source[0]).shape == (len(source[0]),)
    with pytest.raises(ValueError, match="this method runs on one device"):
        register(source, reference, method="cpd", devices=2)
    with pytest.raises(ValueError, match="devices must be a whole number from 1, got 0"):
        register(source, reference, devices=0)


def early(problem: RegistrationProblem) -> tuple[PwanSettings, RegistrationResult]:
    """Settings by which one of the two problems comes to rest long before the other, and where they end."""
    settings = PwanSettings(steps=60, warmup=5, tolerance=0.02, refinement="none")
    return settings, pipeline.register(problem, settings, seeds=[1, 2])


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_a_problem_at_rest_keeps_the_potential_that_it_had_then(problem: RegistrationProblem, tmp_path: Path) -> None:
    settings, plain = early(problem)
    assert plain.steps[0] != plain.steps[1]
    at = min(plain.steps) + 4
    kept = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=at, save_top_k=-1)
    trained = lightning.fit(lightning.PwanModule(problem, settings, [1, 2]), callbacks=[kept])
    resumed = lightning.fit(
        lightning.PwanModule(problem, settings, [1, 2]), checkpoint=str(tmp_path / f"step={at}.ckpt")
    )
    points = problem.source[0].numpy()
    for one in (trained, resumed):
        assert one.steps == plain.steps and torch.equal(one.transformed, plain.transformed)
        for ours, its in zip(one.potential, plain.potential, strict=True):
            assert ours.threshold == its.threshold
            np.testing.assert_allclose(ours(points), its(points), atol=1e-6)


@pytest.mark.parametrize("more", [{"flexibility": "auto"}, {"coarse_steps": 4}])
def test_settings_of_several_registrations_are_not_for_one_module(problem: RegistrationProblem, more: Any) -> None:
    with pytest.raises(ValueError, match="take pwan.lightning.register"):
        lightning.PwanModule(problem, PwanSettings(**more), [1, 2])


def test_the_observer_stays_with_the_module(problem: RegistrationProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    module = lightning.PwanModule(problem, PwanSettings(steps=4), [1, 2], seen.append)
    monkeypatch.setattr("pwan.lightning.processes.launch", lambda *_, observer, **__: observer)
    assert lightning.fit(module, **TWO) == seen.append == module.observer
