"""Random numbers: one generator for each purpose, derived from (seed, ..., purpose).

Nothing in the package draws from a global generator, so adding a draw or a method changes no other method's problems,
and any trial can be rerun alone.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # torch takes seconds to load
    import torch


def derive_seed(seed: int, *path: int | str) -> int:
    """A 63-bit seed that depends on the seed and on every element of the path (numbers and purpose names)."""
    # zlib.crc32 rather than hash(): the latter differs from process to process
    entropy = [seed % 2**64] + [zlib.crc32(p.encode()) if isinstance(p, str) else p % 2**32 for p in path]
    high, low = np.random.SeedSequence(entropy).generate_state(2, np.uint32)
    return (int(high) << 31) ^ int(low)


def numpy_generator(seed: int, *path: int | str) -> np.random.Generator:
    """A numpy generator for one purpose, for example ``numpy_generator(seed, trial, "noise")``."""
    return np.random.default_rng(derive_seed(seed, *path))


def torch_generator(seed: int, *path: int | str) -> torch.Generator:
    """A torch CPU generator for one purpose, for example ``torch_generator(seed, "network")``."""
    import torch

    return torch.Generator("cpu").manual_seed(derive_seed(seed, *path))
