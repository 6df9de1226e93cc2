"""The optimisers of both players: Adam of the potential; Adam, RMSprop or implicit steps of the transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer, RMSprop

from pwan.registration.energy import Energy
from pwan.registration.settings import PwanSettings
from pwan.transport.adam import LightOptimiser, adam

RIDGE = 1e-10  # of the metric's mean, where a mode moves nothing


class ImplicitSteps(LightOptimiser):
    """Goes from theta to the least of gradient . change + change^T (metric / rate + curvature) change / 2.

    Where an energy is stiff in some directions alone, a first-order step would have to be small in all of them.

    Args:
        parameters: theta (B, P, D).
        metric: (B, P, P), the mean square by which a change of theta moves the points.
        curvature: tells the energies' (B, P, P) at the current theta.
        rate: how far a unit force on every point moves it where no energy holds it.
    """

    def __init__(self, parameters: Tensor, metric: Tensor, curvature: Callable[[], Tensor], rate: float) -> None:
        super().__init__([parameters], {"lr": rate})
        mean = metric.diagonal(dim1=1, dim2=2).mean(1)
        self.metric = metric + RIDGE * torch.diag_embed(mean[:, None].expand(metric.shape[:2]))
        self.curvature = curvature

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step, by the gradient that the parameters hold; with a closure, which computes it first."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            (theta,) = group["params"]
            change, info = torch.linalg.solve_ex(self.metric / group["lr"] + self.curvature(), theta.grad.double())
            theta.sub_(torch.where(info[:, None, None] == 0, change, torch.nan).to(theta.dtype))
        return loss


def network_optimiser(trained: Sequence[Tensor], settings: PwanSettings) -> Optimizer:
    """Of the network's parameters, and of h where that is learned."""
    return adam(trained, settings.network_rate, settings.network_betas)


def transform_optimiser(parameters: Tensor, settings: PwanSettings, energy: Energy, *, capturable: bool) -> Optimizer:
    """Of the transform's parameters.

    Args:
        parameters: theta (B, P, D).
        settings: resolved.
        energy: whose curvature implicit steps ask for.
        capturable: whether a graph of the GPU may hold its step, which then reads the rate from a tensor.
    """
    assert settings.rate is not None
    if energy.rigidity is not None:
        return ImplicitSteps(parameters, energy.rigidity.metric, lambda: energy.curvature, settings.rate)
    if settings.optimiser == "rmsprop":
        return RMSprop([parameters], lr=settings.rate, foreach=False)
    rate = torch.tensor(settings.rate, dtype=torch.float32, device=parameters.device) if capturable else settings.rate
    return adam([parameters], rate, settings.betas)


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Change the rate, in the tensor that holds it where there is one."""
    for group in optimiser.param_groups:
        group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate
