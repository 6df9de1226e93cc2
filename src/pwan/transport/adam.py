"""Adam, on a CPU without loading torch's compiler."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer


class LightOptimiser(Optimizer):
    """An optimiser that does not load torch's compiler.

    torch's own ones load it, two seconds of a process, only to say that they are not to be compiled.
    """

    add_param_group = inspect.unwrap(Optimizer.add_param_group)


class LightAdam(LightOptimiser, Adam):
    """Adam (Kingma and Ba, 2015) without its variants: the steps of :class:`torch.optim.Adam`, to the bit on a CPU."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step, by the gradients that the parameters hold; with a closure, which computes them first."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            (first, second), rate = group["betas"], float(group["lr"])
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["step"] += 1
                count = state["step"].item()
                mean = state["exp_avg"].lerp_(parameter.grad, 1 - first)
                square = state["exp_avg_sq"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
                size = square.sqrt().div_(math.sqrt(1 - second**count)).add_(group["eps"])
                parameter.addcdiv_(mean, size, value=-rate / (1 - first**count))
        return loss


def adam(parameters: Sequence[Tensor], rate: float | Tensor, betas: Sequence[float]) -> Optimizer:
    """Adam of these parameters; on a GPU torch's own, fused and fit for a recorded graph."""
    first, second = betas
    if parameters[0].is_cuda:
        return Adam(parameters, lr=rate, betas=(first, second), fused=True, capturable=True)
    return LightAdam(parameters, lr=rate, betas=(first, second))
