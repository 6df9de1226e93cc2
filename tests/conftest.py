"""What all tests share: one thread, and no setting of the machine that could reach them."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background job; tests that send it count on it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """A command leaves its handlers with the root logger, and with them a stream that is closed after the test."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in root.handlers[:]:
        if handler not in before and type(handler) in (logging.StreamHandler, logging.FileHandler):
            root.removeHandler(handler)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR", "HYDRA_FULL_ERROR"):
        monkeypatch.delenv(variable, raising=False)
