"""Two shapes matched by their slow functions, which do not see how a limb is turned.

The functions along a shape that change least are those of its parts: along the body, from left to right, out to the
hands. A raised arm has the same ones as a hanging arm. Two shapes' functions correspond up to signs and turns, which a
first match fixes for the slowest ones; each faster pair is added to what the ones before have matched ("ZoomOut",
Melzi, Ren, Rodola, Sharma, Wonka and Ovsjanikov, 2019). numpy and scipy, float64.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.spatial import KDTree

# Chosen on the packaged bodies and hands that serve for tuning: from 3 or 5 functions most go wrong.
FIRST = 4  # functions of the first match, the constant one among them
LAST = 80  # of the last one
STEP = 2


def slow_functions(graph: csr_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The functions of the nodes that change least along a graph.

    They are eigenvectors of a random walk whose steps do not depend on how densely the nodes lie (diffusion maps with
    alpha = 1, Coifman and Lafon, 2006).

    Args:
        graph: (n, n) of :func:`pwan.deformation.graph.shape_graph`.
        count: how many, at most n.

    Returns:
        Functions (n, count), the slowest first, of mean square 1 under the nodes' shares (n,), which sum to 1.
    """
    near = csr_array(
        (np.exp(-0.5 * np.square(graph.data / np.median(graph.data))), graph.indices, graph.indptr), shape=graph.shape
    )
    evened = diags_array(1 / near.sum(1)) @ near @ diags_array(1 / near.sum(1))
    degree = evened.sum(1)
    walk = (diags_array(degree**-0.5) @ evened @ diags_array(degree**-0.5)).toarray()
    n = len(degree)
    _, vectors = eigh(walk, subset_by_index=(n - min(count, n), n - 1))
    return vectors[:, ::-1] * np.sqrt(degree.sum() / degree)[:, None], degree / degree.sum()


def spectral_match(source: csr_array, reference: csr_array, partner: np.ndarray) -> np.ndarray:
    """Rows (r,) of the reference that the source's nodes belong to.

    Args:
        source: graph (r, r) of the source.
        reference: graph (q, q).
        partner: (r,) rows of the reference, right for more nodes than not.
    """
    (of_source, share), (of_reference, _) = slow_functions(source, LAST), slow_functions(reference, LAST)
    for k in range(FIRST, min(of_source.shape[1], of_reference.shape[1]) + 1, STEP):
        carried = of_source[:, :k].T @ (share[:, None] * of_reference[partner, :k])  # (k, k) the functional map
        partner = KDTree(of_reference[:, :k] @ carried.T).query(of_source[:, :k])[1]
    return partner
