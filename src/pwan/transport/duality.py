"""A lower bound that holds for any potential: by duality only the pairs between the two sets matter.

Values f(x_i) <= 0 and g(y_j) are feasible in the dual of both discrepancies (Theorems 1 and 2) if f(x_i) - g(y_j) is at
most |x_i - y_j| for every pair, whatever the function does elsewhere. So the objective at feasible values is at most
the exact discrepancy. Any f is made feasible by g(y_j) = max over i of f(x_i) - |x_i - y_j| (the c-transform), and then
f is raised to the most that this g allows. Where few pairs are too steep this loses less than a division of all values
by the steepest slope, and two points in one place do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

BLOCK = 2**21  # pairs whose distances are held at once
EXACT_LENGTHS = "donot_use_mm_for_euclid_dist"


def feasible(
    reference: Tensor, source: Tensor, f: Tensor, pairs: int, generator: np.random.Generator
) -> tuple[Tensor, Tensor, float]:
    """Values that are feasible in the dual, from K potentials at the reference; O(q r) time and O(K (q + r)) memory.

    Args:
        reference: (q, D) points of one problem, in float64.
        source: (r, D) points.
        f: (K, q), not positive.
        pairs: with more pairs than these, only a random part of the reference, of about so many pairs, and the nearest
            reference point of each source point are looked at, and f stays as it is.
        generator: of that sample.

    Returns:
        f (K, q), g (K, r), and the share of all pairs that was looked at: 1 where the values are proved feasible.
    """
    q, r = len(reference), len(source)
    rows = sampled_rows(q, r, pairs, generator).to(f.device)
    g = f.new_full((len(f), r), -torch.inf)
    for part, lengths in _lengths(reference, source, rows):
        for values, highest in zip(f[:, part], g, strict=True):
            torch.maximum(highest, (values[:, None] - lengths).amax(0), out=highest)
    if len(rows) < q:
        lengths, nearest = nearest_points(source, reference)
        return f, g.maximum(f[:, nearest] - lengths), len(rows) / q
    raised = torch.empty_like(f)
    for part, lengths in _lengths(reference, source, rows):
        for k, values in enumerate(g):
            raised[k, part] = (lengths + values).amin(1)
    return raised.clamp(max=0.0), g, 1.0


def steepest_pairs(reference: Tensor, source: Tensor, f: Tensor, g: Tensor, count: int) -> Tensor:
    """(2, count) rows of the reference and of the source between which (f - g) / distance is largest; pairs in one
    place are left out, and where there are fewer pairs they come again.
    """
    lengths = torch.cdist(reference, source, compute_mode=EXACT_LENGTHS)
    slopes = torch.where(lengths > 0, (f[:, None] - g) / lengths, -torch.inf).flatten()
    found = slopes.topk(min(count, len(slopes))).indices
    found = found.repeat(-(-count // len(found)))[:count]
    return torch.stack((found // len(source), found % len(source)))


def sampled_rows(q: int, r: int, pairs: int, generator: np.random.Generator) -> Tensor:
    """Rows of the reference that make up at most so many pairs with the source, at least one; all, if all fit."""
    if q * r <= pairs:
        return torch.arange(q, dtype=torch.int64, device="cpu")
    return torch.from_numpy(generator.choice(q, max(1, pairs // r), replace=False))


def nearest_points(points: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """The distance of each point (n, D) to the nearest of the others, and the row of that one; each (n,)."""
    lengths, rows = KDTree(others.cpu().numpy()).query(points.cpu().numpy())
    return torch.from_numpy(lengths).to(points), torch.from_numpy(rows).to(points.device)


def _lengths(reference: Tensor, source: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Some rows of the reference and their distances to the source (n, r), block by block."""
    for part in rows.split(max(1, BLOCK // len(source))):
        yield part, torch.cdist(reference[part], source, compute_mode=EXACT_LENGTHS)
