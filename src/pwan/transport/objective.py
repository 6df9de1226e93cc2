"""The Kantorovich-Rubinstein form of the partial Wasserstein-1 discrepancies, as a function of the network's output.

The potential is f = -|o|, and f = max(-|o|, -h) at source points (clipping reference points never helps the maximum);
for complete transport f = o. Reference weights are a_i, source weights b_j, m_b = sum b_j; then (Theorems 1 and 2)

- distance type: L_D,h = sup  sum a_i f(x_i) - sum b_j max(f(y_j), -h) - h m_b;
- mass type:     L_M,m = sup  sum a_i f(x_i) - sum b_j max(f(y_j), -h) + h (m - m_b), the sup taken over h as well.
  For fixed f this is concave in h and its maximiser is the m-th smallest |f(y_j)|, which leaves
  sum a_i f(x_i) - (the sum of the largest f(y_j) that make up mass m): the exact threshold.

Without the fold, f = -max(o, 0) at reference points and -o at source points (where f > 0 only loses): the objective is
then concave in the function o and has the same maximum, while the fold at o = 0 can trap the ascent. For one and the
same o it may be more or less than the one above; for a 1-Lipschitz o it is at most the maximum of the one above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pwan.choices import Kind

# From values (B, n), mass (B,) and weights (B, n) to the share (B, n) of each weight among the largest values.
Select = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Objective:
    """Value and slopes of the discrepancy for one state of the network.

    Attributes:
        value: (B,) the objective to be maximised, in units of mass times length.
        reference_slope: (B, q) d value / d o at the reference points.
        source_slope: (B, r) d value / d o at the source points.
        source_share: (B, r) the mass of each source point that counts (is transported).
        threshold: (B,) the distance threshold h that was used; infinite for complete transport.
        threshold_slope: (B,) d value / d h for a learned h, else None.
    """

    value: Tensor
    reference_slope: Tensor
    source_slope: Tensor
    source_share: Tensor
    threshold: Tensor
    threshold_slope: Tensor | None = None


def objective(
    reference_output: Tensor,
    source_output: Tensor,
    kind: Kind,
    *,
    mass: Tensor | None = None,
    threshold: Tensor | None = None,
    reference_weights: Tensor | float = 1.0,
    source_weights: Tensor | float = 1.0,
    fold: bool = True,
    reach: Tensor | None = None,
    select: Select | None = None,
    totals: tuple[float | Tensor, float | Tensor] | None = None,
) -> Objective:
    """The discrepancy of the given kind from the network's output at the reference (B, q) and the source (B, r).

    The points given may be parts of both sets, with ``select`` and ``totals``. Values and slopes by h of the parts add
    up to those of the whole if one part alone is given the mass together with a learned h, and the others a mass of 0.
    Of the exact thresholds the largest one holds.

    Args:
        reference_output: (B, q) o at the reference points.
        source_output: (B, r) o at the source points.
        kind: "mass" needs ``mass``, and with ``threshold`` as well h is that learned one instead of the exact one;
            "distance" needs ``threshold``, the paper's h; "complete" matches all of both sets.
        mass: (B,) the paper's m.
        threshold: (B,) the distance threshold h.
        reference_weights: (B, q), or one number for all points.
        source_weights: (B, r), or one number for all points.
        fold: f = -|o| as in the paper; else the concave form of the module's docstring, of the same supremum.
        reach: (B,) of the mass type with its exact threshold: no source point counts as if it were farther than this
            from its partner (cost min(distance, reach)), so that beyond it nothing is gained by moving it.
        select: in place of :func:`largest_share`.
        totals: the weights of both whole sets, reference first, a number or (B, 1) each.
    """
    a, b = _weights(reference_weights, reference_output), _weights(source_weights, source_output)
    if kind == "complete":
        # both sets carry the mass of the source
        ratio = b.sum(1, keepdim=True) / a.sum(1, keepdim=True) if totals is None else totals[1] / totals[0]
        a = a * ratio
        value = (a * reference_output).sum(1) - (b * source_output).sum(1)
        return Objective(value, a, -b, b, torch.full_like(value, torch.inf))
    if fold:
        f_reference, f_source = -reference_output.abs(), -source_output.abs()
        reference_sign, source_sign = reference_output.sign(), source_output.sign()
    else:
        f_reference, f_source = -reference_output.clamp(min=0.0), -source_output
        reference_sign, source_sign = (reference_output > 0).to(b.dtype), torch.ones_like(b)
    value = (a * f_reference).sum(1)  # (B,)
    slope = None
    if kind == "mass" and threshold is None:
        assert mass is not None
        share = (select or largest_share)(f_source, mass, b)
        value = value - (share * f_source).sum(1)
        threshold = torch.where(share > 0, f_source, 0.0).amin(1).neg().clamp(min=0.0)  # the m-th smallest |f(y)|
        if reach is not None:
            value = value + (share * (f_source + reach[:, None]).clamp(max=0.0)).sum(1)
            share = share * (f_source > -reach[:, None])
            threshold = threshold.minimum(reach)
    else:
        assert threshold is not None
        inside = f_source > -threshold[:, None]
        share = b * inside
        source_mass = b.sum(1)
        value = value - (b * f_source.maximum(-threshold[:, None])).sum(1)
        if kind == "distance":
            value = value - threshold * source_mass
        else:
            assert mass is not None
            value = value + threshold * (mass - source_mass)
            slope = mass - share.sum(1)
    return Objective(value, -a * reference_sign, share * source_sign, share, threshold, slope)


def _weights(given: Tensor | float, output: Tensor) -> Tensor:
    """In the shape, type and place of the output; a number is filled in there, since a graph of a GPU holds no copies
    from elsewhere."""
    if isinstance(given, Tensor):
        return given.to(output).expand_as(output)
    return output.new_full((), given).expand_as(output)


def largest_share(values: Tensor, mass: Tensor, weights: Tensor) -> Tensor:
    """How much of each point's weight belongs to the largest values that together make up the mass.

    (B, n) values, (B,) mass, (B, n) weights to (B, n) shares in [0, weight]; the point at the threshold counts in part.
    """
    order = values.argsort(dim=1, descending=True, stable=True)
    sorted_weights = weights.gather(1, order)
    before = sorted_weights.cumsum(1) - sorted_weights
    taken = (mass[:, None] - before).clamp(min=0.0).minimum(sorted_weights)
    return torch.empty_like(values).scatter_(1, order, taken)
