"""PWAN's alternating steps as a Lightning module: trainer, checkpoints and loggers around the same solver as
everywhere, on one device or on many.

Optimisation is manual. One ``training_step`` is one whole PWAN step (u network updates and one of the transform), in
one long epoch, since Lightning's own loop costs more than a small step. Lightning counts optimiser steps, so only the
transform's optimiser is stepped through it: ``trainer.global_step`` is the number of PWAN steps.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from pwan.devices.ranks import Place, Ranks, devices_here
from pwan.lightning import group, processes
from pwan.problem import Observer, Progress, RegistrationProblem, RegistrationResult, mean_squared_error
from pwan.registration import flexibility
from pwan.registration.pipeline import CASES, Registration, merged, same_case
from pwan.registration.settings import PwanSettings
from pwan.registration.setup import check_ranks

PRECISIONS = {"32-true": torch.float32, "32": torch.float32, "64-true": torch.float64, "64": torch.float64}


class PwanModule(pl.LightningModule):
    """A batch of registrations, driven by a trainer.

    Args:
        problem: B problems of equal sizes.
        settings: of PWAN.
        seeds: one for each problem.
        observer: called after each step, on rank 0.

    Attributes:
        registration: on the trainer's ranks, device and precision; there once a trainer has begun.
        result: None before the end.

    Raises:
        ValueError: settings that ask for several registrations, which :func:`register` drives.
    """

    registration: Registration

    def __init__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        seeds: Sequence[int],
        observer: Observer | None = None,
    ) -> None:
        super().__init__()
        if settings.flexibility != "given" or settings.coarse_steps:
            raise ValueError(
                f"a PwanModule is one registration, but flexibility={settings.flexibility!r} and coarse_steps="
                f"{settings.coarse_steps} ask for more; take pwan.lightning.register, or flexibility='given' and "
                "coarse_steps=0"
            )
        self.automatic_optimization = False
        self.problem, self.settings, self.seeds, self.observer = problem, settings, list(seeds), observer
        self.result: RegistrationResult | None = None
        self.left: list[tuple[list[int], Registration]] = []  # problems at rest, while the network was theirs

    def setup(self, stage: str) -> None:
        """Build the registration where the trainer has its ranks."""
        _check_precision(self.trainer.precision)
        ranks = Ranks(dist.group.WORLD if self.trainer.world_size > 1 else None)
        place = Place(ranks, str(self.trainer.strategy.root_device), PRECISIONS[self.trainer.precision])
        self.registration = Registration(self.problem, self.settings, self.seeds, place)
        self.left = []
        # registered, so that the trainer sees what is trained
        self.network_parameters = self.registration.solver.network.parameters
        self.transform_parameters = self.registration.solver.transform.parameters

    def configure_optimizers(self) -> Any:
        game = self.registration.solver.game
        return [game.transform_optimiser, game.network_optimiser]

    def training_step(self, batch: int, batch_index: int) -> None:
        """One PWAN step; ``batch`` is only its number."""
        registration, optimiser = self.registration, self.optimizers()[0]  # type: ignore[index]
        record = {name: values.mean() for name, values in registration.step(optimiser.step).items()}
        solver, truth = registration.solver, self.problem.truth
        every = self.trainer.log_every_n_steps  # type: ignore[attr-defined]
        if truth is not None and self.trainer.loggers and solver.steps_done % every == 0:
            record["mse"] = mean_squared_error(self.transformed(), truth).mean()
        self.log_dict(record, batch_size=1)
        if self.observer is not None and self.trainer.is_global_zero:
            self.observer(Progress(solver.steps_done, solver.steps, registration.transformed))
        if solver.finished:
            self.trainer.should_stop = True
        elif self.settings.tolerance and len(self.problem) > 1:
            leaving = sorted({*self._staying()} & {*registration.leaving()})
            if leaving:
                self.left.append((leaving, registration.part(leaving)))

    def on_fit_end(self) -> None:
        """Refine, while the group and the device are there."""
        staying = self._staying()
        last = self.registration.part(staying) if self.left else self.registration
        parts = [*self.left, (staying, last)]
        results = [part.finish() for _, part in parts]
        self.result = merged([rows for rows, _ in parts], results) if self.left else results[0]
        self.registration.solver.ranks.leave()

    def _staying(self) -> list[int]:
        left = {k for rows, _ in self.left for k in rows}
        return [k for k in range(len(self.problem)) if k not in left]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["registration"] = self.registration.state_dict()
        checkpoint["left"] = [(rows, part.state_dict()) for rows, part in self.left]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.registration.load_state_dict(checkpoint["registration"])
        for rows, state in checkpoint.get("left", ()):  # of versions before there is none
            part = self.registration.part(rows)
            part.load_state_dict(state)
            self.left.append((rows, part))

    def transformed(self) -> Tensor:
        """(B, r, D) where the source is now, in input coordinates."""
        return self.registration.transformed()


class _Steps(IterableDataset[int]):
    """The numbers of the steps that are left: one epoch."""

    def __init__(self, module: PwanModule) -> None:
        self.module = module

    def __iter__(self) -> Iterator[int]:
        solver = self.module.registration.solver
        yield from range(solver.steps_done, solver.steps)


class PwanDataModule(pl.LightningDataModule):
    """The steps of a module's registration as a data loader; all points stay where they are, on the solver."""

    def __init__(self, module: PwanModule) -> None:
        super().__init__()
        self.module = module

    def train_dataloader(self) -> DataLoader[int]:
        return DataLoader(_Steps(self.module), batch_size=None)


class DealtOut(DDPStrategy):
    """Each rank holds a part of the points: Lightning starts the ranks, forms their group and places the devices.

    :class:`pwan.devices.ranks.Ranks` sums the gradients, so that nothing wraps the module, which would average them
    once more.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"timeout": group.TIMEOUT, **how})

    def configure_ddp(self) -> None:
        pass


def fit(
    module: PwanModule,
    *,
    checkpoint: str | None = None,
    callbacks: Sequence[Callback] = (),
    devices: int = 1,
    num_nodes: int = 1,
    accelerator: str = "auto",
    strategy: str = "auto",
    precision: Any = 32,
    **trainer: Any,
) -> RegistrationResult:
    """Drive the module to its end with a :class:`pytorch_lightning.Trainer` and refine.

    Args:
        module: the registrations.
        checkpoint: a file to go on from; the result is that of an unbroken run (on the CPU, to the bit).
        callbacks: for example a ModelCheckpoint with ``every_n_train_steps``. Those of started ranks are copies.
        devices: of each machine, over which the points are dealt out.
        num_nodes: machines.
        accelerator: "gpu", "cpu", or "auto": GPUs where several devices are asked for and as many are there.
        strategy: see :func:`pwan.lightning.processes.launch`.
        precision: 32 or 64.
        trainer: further arguments of the Trainer.

    Raises:
        ValueError: what these devices cannot do; before any process is started.
    """
    names = _names(devices, num_nodes, accelerator)
    _check_precision(precision)
    check_ranks(module.problem, module.settings, len(names))
    how = {"checkpoint": checkpoint, "callbacks": callbacks, "devices": devices, "num_nodes": num_nodes, **trainer}
    how |= {"accelerator": accelerator, "precision": precision}
    if len(names) > 1 and not processes.started():
        observer, module.observer = module.observer, None  # it stays here, and the module goes to the ranks
        try:
            return processes.launch(
                _fit_on, names, module, how, num_nodes=num_nodes, strategy=strategy, observer=observer
            )
        finally:
            module.observer = observer
    kind = torch.device(names[0]).type
    defaults: dict[str, Any] = {
        "accelerator": kind,
        "devices": devices if kind == "cpu" else [torch.device(name).index for name in names[:devices]],
        "num_nodes": num_nodes,
        "precision": precision,
        "strategy": DealtOut() if len(names) > 1 else "auto",
        "plugins": processes.plugins(),
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any("Checkpoint" in type(c).__name__ for c in callbacks),
    }
    with group.quiet():
        runner = pl.Trainer(max_epochs=1, callbacks=list(callbacks), **{**defaults, **trainer})
        with warnings.catch_warnings(), _ends_of_ours():
            # the loader hands out step numbers, there is nothing to load in parallel; and an iterable has no length
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*mid-epoch.*")
            # a checkpoint is meant to hold the state after the step
            warnings.filterwarnings("ignore", message=".*no pre-optimization state was saved.*")
            warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")  # Lightning 2.6.6 under torch 2.13
            runner.fit(module, datamodule=PwanDataModule(module), ckpt_path=checkpoint)
    assert module.result is not None
    return module.result


@contextmanager
def _ends_of_ours() -> Iterator[None]:
    """Lightning makes a SystemExit of each end from outside, with code 1 of Ctrl-C and 0 of SIGTERM."""
    try:
        yield
    except SIGTERMException:
        raise SystemExit(128 + signal.SIGTERM) from None
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise end.__context__ from None
        raise


def _fit_on(
    ranks: Ranks, device: str, module: PwanModule, how: dict[str, Any], observer: Observer | None = None
) -> RegistrationResult:
    module.observer = observer
    try:
        return fit(module, **how)
    finally:
        if "wandb" in sys.modules:  # a forked process ends without the handlers by which W&B closes its run
            sys.modules["wandb"].finish()


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    **how: Any,
) -> RegistrationResult:
    """As :func:`pwan.registration.flexibility.register`, with a Lightning trainer driving the steps.

    All registrations that it comes to run on the same processes.

    Args:
        problem: B problems of equal sizes.
        settings: of PWAN.
        seeds: one for each problem.
        observer: called after each step.
        how: arguments of :func:`fit`.

    Raises:
        ValueError: what these devices cannot do, and a batch of several cases.
    """
    if not isinstance(settings, PwanSettings):
        raise ValueError("this method runs on one device; leave devices out, or take a method of PWAN")
    if len(same_case(problem, settings)) > 1:
        raise ValueError(f"a trainer takes problems of one case, {CASES}; register them apart")
    names = _names(how.get("devices", 1), how.get("num_nodes", 1), how.get("accelerator", "auto"))
    if len(names) > 1 and not processes.started():
        _check_precision(how.get("precision", 32))
        check_ranks(problem, settings, len(names))
        given = (problem, settings, list(seeds), how)
        more = {name: how[name] for name in ("num_nodes", "strategy") if name in how}
        return processes.launch(_register_on, names, *given, observer=observer, **more)

    def drive(
        problem: RegistrationProblem,
        settings: PwanSettings,
        *,
        seeds: Sequence[int],
        observer: Observer | None = None,
    ) -> RegistrationResult:
        return fit(PwanModule(problem, settings, seeds, observer), **how)

    return flexibility.register(problem, settings, seeds=seeds, observer=observer, drive=drive)


def _register_on(
    ranks: Ranks,
    device: str,
    problem: RegistrationProblem,
    settings: PwanSettings,
    seeds: list[int],
    how: dict[str, Any],
    observer: Observer | None = None,
) -> RegistrationResult:
    return register(problem, settings, seeds=seeds, observer=observer, **how)


def _check_precision(precision: Any) -> None:
    if str(precision) not in PRECISIONS:
        raise ValueError(f"PWAN computes with precision=32 or 64, got {precision}")


def _names(devices: int, num_nodes: int, accelerator: str) -> list[str]:
    """The devices of all ranks; one device alone is the CPU where nothing else is asked for."""
    for name, number in (("devices", devices), ("num_nodes", num_nodes)):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number from 1, got {number!r}")
    if accelerator not in ("auto", "gpu", "cpu"):
        raise ValueError(f"accelerator must be auto, gpu or cpu, got {accelerator!r}")
    kind: Any = "cpu" if accelerator == "auto" and devices * num_nodes == 1 else accelerator
    return devices_here(devices, kind, "accelerator") * num_nodes
