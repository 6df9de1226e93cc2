"""PWAN's alternating steps as a Lightning module: trainer, checkpoints and loggers around the same solver as
everywhere.

Optimisation is manual. One ``training_step`` is one whole PWAN step (u network updates and one of the transform), in
one long epoch, since Lightning's own loop costs more than a small step. Lightning counts optimiser steps, so only the
transform's optimiser is stepped through it: ``trainer.global_step`` is the number of PWAN steps.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from pwan.problem import Observer, Progress, RegistrationProblem, RegistrationResult
from pwan.registration.pipeline import Registration
from pwan.registration.settings import PwanSettings


class PwanModule(pl.LightningModule):
    """A batch of registrations, driven by a trainer.

    Args:
        problem: B problems of equal sizes.
        settings: of PWAN.
        seeds: one for each problem.
        observer: called after each step.
    """

    def __init__(
        self,
        problem: RegistrationProblem,
        settings: PwanSettings,
        seeds: Sequence[int],
        observer: Observer | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.registration = Registration(problem, settings, seeds)
        self.observer = observer
        # registered, so that the trainer sees what is trained
        self.network_parameters = self.registration.solver.network.parameters
        self.transform_parameters = self.registration.solver.transform.parameters

    def configure_optimizers(self) -> Any:
        game = self.registration.solver.game
        return [game.transform_optimiser, game.network_optimiser]

    def training_step(self, batch: int, batch_index: int) -> None:
        """One PWAN step; ``batch`` is only its number."""
        registration, optimiser = self.registration, self.optimizers()[0]  # type: ignore[index]
        record = registration.step(update_transform=optimiser.step)
        self.log_dict({name: values.mean() for name, values in record.items()}, batch_size=1)
        solver = registration.solver
        if self.observer is not None:
            self.observer(Progress(solver.steps_done, solver.steps, registration.transformed))
        if solver.finished:
            self.trainer.should_stop = True

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["registration"] = self.registration.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.registration.load_state_dict(checkpoint["registration"])

    def transformed(self) -> Tensor:
        """(B, r, D) where the source is now, in input coordinates."""
        return self.registration.transformed()


class _Steps(IterableDataset[int]):
    """The numbers of the steps that are left: one epoch."""

    def __init__(self, registration: Registration) -> None:
        self.registration = registration

    def __iter__(self) -> Iterator[int]:
        solver = self.registration.solver
        yield from range(solver.steps_done, solver.steps)


class PwanDataModule(pl.LightningDataModule):
    """The steps of a registration as a data loader; all points stay where they are, on the solver."""

    def __init__(self, registration: Registration) -> None:
        super().__init__()
        self.registration = registration

    def train_dataloader(self) -> DataLoader[int]:
        return DataLoader(_Steps(self.registration), batch_size=None)


def fit(
    module: PwanModule, *, checkpoint: str | None = None, callbacks: Sequence[Callback] = (), **trainer: Any
) -> RegistrationResult:
    """Drive the module to its end with a :class:`pytorch_lightning.Trainer` and refine.

    Args:
        module: the registrations.
        checkpoint: a file to go on from; the result is that of an unbroken run (on the CPU, to the bit).
        callbacks: for example a ModelCheckpoint with ``every_n_train_steps``.
        trainer: further arguments of the Trainer.
    """
    defaults: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any("Checkpoint" in type(c).__name__ for c in callbacks),
    }
    quiet = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    level = quiet.level
    quiet.setLevel(logging.WARNING)
    try:
        runner = pl.Trainer(max_epochs=1, callbacks=list(callbacks), **{**defaults, **trainer})
        with warnings.catch_warnings(), _ends_of_ours():
            # the loader hands out step numbers, there is nothing to load in parallel; and an iterable has no length
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*mid-epoch.*")
            # a checkpoint is meant to hold the state after the step
            warnings.filterwarnings("ignore", message=".*no pre-optimization state was saved.*")
            warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")  # Lightning 2.6.6 under torch 2.13
            runner.fit(module, datamodule=PwanDataModule(module.registration), ckpt_path=checkpoint)
    finally:
        quiet.setLevel(level)
    return module.registration.finish()


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


def register(
    problem: RegistrationProblem,
    settings: PwanSettings,
    *,
    seeds: Sequence[int],
    observer: Observer | None = None,
    **trainer: Any,
) -> RegistrationResult:
    """As :func:`pwan.registration.pipeline.register`, with a Lightning trainer driving the steps."""
    return fit(PwanModule(problem, settings, seeds, observer), **trainer)
