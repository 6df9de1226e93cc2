"""KL divergence and L2 distance between Gaussian mixtures on the points: what CPD, BCPD and GMM-REG minimise.

They are here to be compared with the partial Wasserstein discrepancies (paper, section on the comparison of several
discrepancies). Unlike those, both match whole distributions: every point pulls, however far away it is.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from pwan.transport import check_problem

Form = Literal["cpd", "printed"]


def l2_distance(
    reference: ArrayLike | torch.Tensor, source: ArrayLike | torch.Tensor, *, variance: float = 1.0
) -> float:
    """The integral of the squared difference of the two sets' Gaussian mixtures (paper, equation L2E_def).

    Each set is a mixture with equal weights and the given variance at each of its points, so the integral is a sum of
    Gaussians of twice that variance over all pairs. It is what GMM-REG minimises (Jian and Vemuri, 2011).

    Args:
        reference: (q, D) points, any D >= 1; array or tensor.
        source: (r, D) points.
        variance: of the Gaussian on each point along each coordinate, in squared units of the points.

    Returns:
        The distance, >= 0 up to rounding and 0 for equal sets, in units of one over volume. Memory (q + r)^2.

    Raises:
        ValueError: the input is not two point sets of one dimension, or the variance is not positive.
    """
    x, y = _points(reference, source, variance)
    return _overlap(x, x, variance) + _overlap(y, y, variance) - 2 * _overlap(x, y, variance)


def kl_divergence(
    reference: ArrayLike | torch.Tensor,
    source: ArrayLike | torch.Tensor,
    *,
    variance: float = 1.0,
    outlier_weight: float = 0.2,
    form: Form = "cpd",
) -> float:
    """The mean negative log-likelihood of one set under a mixture on the other and a uniform term.

    Up to the entropy of the data, which registration does not change, it is a KL divergence.

    Args:
        reference: (q, D) points, any D >= 1; array or tensor.
        source: (r, D) points.
        variance: of the Gaussian on each point along each coordinate, in squared units of the points.
        outlier_weight: w, the share of the uniform term, from 0 to below 1.
        form: "cpd": the reference is the data and the mixture stands on the source, each of its r points with weight
            1/r, beside the uniform term w/q (Myronenko and Song, 2010, equation 1). "printed": the paper's equation
            KL_def to the letter, which has the parts of the two sets exchanged and the weights left where they were:
            the data is the source, the mixture stands on the reference with weight 1/r a point, and the sum is
            divided by q. Its mixture has the mass q/r, not 1.

    Returns:
        The value; infinite where w = 0 and a data point is too far from the whole mixture. Memory q times r.

    Raises:
        ValueError: the input is not two point sets of one dimension, or an option is out of its range.
    """
    x, y = _points(reference, source, variance)
    if not 0 <= outlier_weight < 1:
        raise ValueError(f"outlier_weight must be from 0 to below 1, got {outlier_weight}")
    if form not in ("cpd", "printed"):
        raise ValueError(f"form must be 'cpd' or 'printed', got {form!r}")
    q, r = len(x), len(y)
    exponents = _log_gaussian(x, y, variance) if form == "cpd" else _log_gaussian(y, x, variance)  # (data, mixture)
    mixture = logsumexp(exponents, axis=1) + math.log((1 - outlier_weight) / r)  # (data,)
    uniform = math.log(outlier_weight / q) if outlier_weight else -math.inf
    return float(-np.logaddexp(mixture, uniform).sum() / q)


def _overlap(a: np.ndarray, b: np.ndarray, variance: float) -> float:
    """The integral of the product of the mixtures on (n, D) and (k, D)."""
    return float(np.exp(_log_gaussian(a, b, 2 * variance)).mean())


def _log_gaussian(a: np.ndarray, b: np.ndarray, variance: float) -> np.ndarray:
    """Logarithm of the Gaussian density of each difference, (n, k) for (n, D) and (k, D)."""
    normaliser = 0.5 * a.shape[1] * math.log(2 * math.pi * variance)
    return cdist(a, b, "sqeuclidean") / (-2 * variance) - normaliser


def _points(
    reference: ArrayLike | torch.Tensor, source: ArrayLike | torch.Tensor, variance: float
) -> tuple[np.ndarray, np.ndarray]:
    problem = check_problem(reference, source)
    if not (variance > 0 and math.isfinite(variance)):
        raise ValueError(f"variance must be positive and finite, got {variance}")
    return problem.reference, problem.source
