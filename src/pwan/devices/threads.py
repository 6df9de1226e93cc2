"""How many threads torch and the BLAS behind numpy and scipy take: rounding depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Limit torch and the BLAS to this number of threads; None leaves both as they are."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)
