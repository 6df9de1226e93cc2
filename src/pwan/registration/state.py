"""What a step changes, as a dictionary to keep and to go on from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer


def snapshot(tensors: Mapping[str, Tensor], optimisers: Mapping[str, Optimizer]) -> dict[str, Any]:
    """Copies of what these hold, by the same names."""
    return {
        **{name: tensor.detach().clone() for name, tensor in tensors.items()},
        **{name: copy.deepcopy(optimiser.state_dict()) for name, optimiser in optimisers.items()},
    }


def restore(state: Mapping[str, Any], tensors: Mapping[str, Tensor], optimisers: Mapping[str, Optimizer]) -> None:
    """Bring back what :func:`snapshot` has kept, into the same tensors; other entries of the state are passed over."""
    for name, tensor in tensors.items():
        tensor.detach().copy_(state[name])
    for name, optimiser in optimisers.items():
        optimiser.load_state_dict(copy.deepcopy(state[name]))  # it keeps the tensors it is given


def of_problems(state: Any, rows: list[int]) -> Any:
    """What a state, of nested dicts and lists, says of some of its problems: rows of all its tensors."""
    if isinstance(state, Tensor):
        return state[rows] if state.ndim else state.clone()
    if isinstance(state, dict):
        return {key: of_problems(value, rows) for key, value in state.items()}
    return [of_problems(value, rows) for value in state] if isinstance(state, list) else state
