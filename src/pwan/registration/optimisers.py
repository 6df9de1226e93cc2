"""The optimisers of both players: Adam of the potential, Adam or RMSprop of the transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer, RMSprop

from pwan.registration.settings import PwanSettings


def network_optimiser(trained: Sequence[Tensor], settings: PwanSettings) -> Optimizer:
    """Of the network's parameters, and of h where that is learned."""
    return Adam(trained, lr=settings.network_rate, betas=_pair(settings.network_betas), **_options(trained[0]))


def transform_optimiser(parameters: Tensor, settings: PwanSettings, *, capturable: bool) -> Optimizer:
    """Of the transform's parameters.

    Args:
        parameters: theta (B, P, D).
        settings: resolved.
        capturable: whether a graph of the GPU may hold its step, which then reads the rate from a tensor.
    """
    assert settings.rate is not None
    if settings.optimiser == "rmsprop":
        return RMSprop([parameters], lr=settings.rate, foreach=False)
    rate = torch.tensor(settings.rate, dtype=torch.float32, device=parameters.device) if capturable else settings.rate
    return Adam([parameters], lr=rate, betas=_pair(settings.betas), **_options(parameters))


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Change the rate, in the tensor that holds it where there is one."""
    for group in optimiser.param_groups:
        group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate


def _options(parameters: Tensor) -> dict[str, Any]:
    return {"fused": True, "capturable": True} if parameters.is_cuda else {"foreach": False}


def _pair(betas: tuple[float, ...]) -> tuple[float, float]:
    first, second = betas
    return first, second
