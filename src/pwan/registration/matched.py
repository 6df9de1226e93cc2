"""Which points of two sets have a partner once the sets are aligned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.spatial import KDTree
from torch import Tensor

from pwan.deformation.normals import in_product
from pwan.problem import ROUNDED, RegistrationProblem, SpaceMap
from pwan.transport.objective import Kind, largest_share


def matched_points(
    transformed: Tensor, problem: RegistrationProblem, kind: Kind, maps: Sequence[SpaceMap] | None = None
) -> tuple[Tensor, Tensor]:
    """Which points have a partner once the sets are aligned (appendix "Refinement": Nearest(m), or within h).

    Of the mass type the points nearest to the other set that make up m, of the distance type those nearer than h, in
    complete transport all; never a point without mass; bool (B, r), (B, q). Several may have the same partner, which an
    optimal plan does not allow (``TransportResult.source_share``). Distances are in the product of space and
    attributes, with normals as the maps turn them.
    """
    transformed, reference = in_product(problem, transformed, maps)
    sides = (transformed, problem.source_weights), (reference, problem.reference_weights)
    weights = [points.new_ones(points.shape[:2]) if given is None else given for points, given in sides]
    if kind == "complete":
        return weights[0] > 0, weights[1] > 0
    out: tuple[list[Tensor], list[Tensor]] = ([], [])
    for k, both in enumerate(zip(transformed, reference, strict=True)):
        massive = [of_set[k] > 0 for of_set in weights]  # nothing is matched to a point without mass either
        lengths: tuple[Tensor, Tensor] | None = None
        for side in (0, 1):
            each = weights[side][k]
            if problem.mass is not None and _counts_all(problem.mass[k], each):
                out[side].append(massive[side])
                continue
            lengths = lengths or _to_each_other(both, massive)
            if problem.distance is not None:
                out[side].append((lengths[side] < problem.distance[k]) & massive[side])
                continue
            assert problem.mass is not None
            share = largest_share(-lengths[side][None], problem.mass[k : k + 1], each[None])[0]
            out[side].append(share > (1 - ROUNDED) * each)  # a point that counts in part is matched
    return torch.stack(out[0]), torch.stack(out[1])


def _counts_all(mass: Tensor, each: Tensor) -> bool:
    """Whether the mass is all of the points' weights (n,): the last of them counts as matched too."""
    return bool(each.sum() - mass <= ROUNDED * each[each > 0].min())


def _to_each_other(both: tuple[Tensor, Tensor], massive: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """From each point with mass of both sets, (r, D) and (q, D), to the nearest one with mass of the other set: (r,)
    and (q,); infinite for the others."""
    rows = [torch.nonzero(of_set).flatten().numpy() for of_set in massive]
    trees = [KDTree(points.numpy()[own]) for points, own in zip(both, rows, strict=True)]
    lengths = (torch.full_like(both[0][:, 0], torch.inf), torch.full_like(both[1][:, 0], torch.inf))
    for side in (0, 1):
        order = trees[side].indices  # neighbours one after the other: large trees stay in the cache
        asked = trees[side].data[order]
        lengths[side][torch.from_numpy(rows[side][order])] = torch.from_numpy(trees[1 - side].query(asked)[0])
    return lengths
