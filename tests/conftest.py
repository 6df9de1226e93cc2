"""What all tests share: one thread, and no setting of the machine that could reach them."""

from __future__ import annotations

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR", "HYDRA_FULL_ERROR"):
        monkeypatch.delenv(variable, raising=False)
