"""What a caller may have set for all of torch, and how the computations here are kept from it.

Every tensor that is made here names its type and its device, or takes both from another tensor, so that
``torch.set_default_dtype`` and ``torch.set_default_device`` change nothing. :func:`undisturbed` is for what torch does
by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """No inference mode (the rigid transform needs a derivative), no autocast (half precision), and tensors that torch
    makes unasked (the counters of its optimisers) on the CPU."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":  # it slows every call a little
            stack.enter_context(torch.device("cpu"))
        yield
