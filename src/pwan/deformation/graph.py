"""Distances along a shape: a graph of its points, from the edges of a mesh or from near neighbours.

N points, D coordinates. Lengths are in the units of the points. numpy and scipy, float64.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import KDTree

from pwan.deformation.settings import NEIGHBOURS

LONG = (
    3.0  # times the longer one of the two points' spacings: a longer edge is a bridge over a gap, not along the shape
)
HOPS = 4  # edges within which a point's neighbours are looked for
LED_BY = 8  # nodes of a thinned graph from which a point follows
CLOSE = 1e-9  # of the extent: places nearer than this are one place, as the repeated vertices of a seam


def shape_graph(points: np.ndarray, faces: np.ndarray | None = None, *, neighbours: int = NEIGHBOURS) -> csr_array:
    """The symmetric graph (N, N) of edge lengths; every point can be reached from every other one.

    Args:
        points: (N, D).
        faces: (F, 3) or (F, 4) rows of the points, whose edges are the graph's; None for the nearest neighbours of each
            point, without edges that bridge a gap. A point that no face names is joined to its nearest one.
        neighbours: of each point, where there are no faces.

    Loose parts are joined one after the other, each to the rest by the shortest way between two points.

    Raises:
        ValueError: faces that are not whole numbers or name no point.
    """
    edges = _near_edges(points, neighbours) if faces is None or not len(faces) else _face_edges(faces, len(points))
    edges = np.concatenate((edges, _coinciding(points)))
    return _joined(points, edges)


def farthest_points(
    graph: csr_array, count: int, first: int, *, reach: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Points that lie far from each other along the graph, each the farthest one from those before it.

    Args:
        graph: (N, N) of :func:`shape_graph`.
        count: how many, at most N; fewer come back where all others coincide with them.
        first: the row of the first one.
        reach: farther than this distances are infinite, which saves time.

    Returns:
        Rows (k,) and the distances of all points from them (k, N), in O(k N log N) time and O(k N) memory.
    """
    rows, lengths = [first], [dijkstra(graph, directed=False, indices=first, limit=reach)]
    nearest = lengths[0].copy()
    while len(rows) < min(count, graph.shape[0]) and nearest.max() > 0:
        rows.append(int(nearest.argmax()))  # the first of equals, also of points that are out of reach of all
        lengths.append(dijkstra(graph, directed=False, indices=rows[-1], limit=reach))
        np.minimum(nearest, lengths[-1], out=nearest)
    return np.array(rows), np.stack(lengths)


def thinned(points: np.ndarray, graph: csr_array, nodes: np.ndarray) -> tuple[csr_array, csr_array]:
    """A graph of some of the points, and how the others follow from them.

    Each point belongs to the node that is nearest along the graph, and two nodes are joined where an edge joins points
    of theirs. A quantity that is smooth along the shape is that of the nodes near the point, weighted.

    Args:
        points: (N, D).
        graph: (N, N) of :func:`shape_graph`.
        nodes: (n,) rows of different points.

    Returns:
        The nodes' graph (n, n), and weights (N, n) whose rows sum to 1.
    """
    lengths, _, owner = dijkstra(graph, directed=False, indices=nodes, min_only=True, return_predecessors=True)
    number = np.zeros(len(points), dtype=np.int64)
    number[nodes] = np.arange(len(nodes))
    owner = number[owner]  # (N,)
    here, there = np.repeat(np.arange(len(points)), np.diff(graph.indptr)), graph.indices
    between = owner[here] != owner[there]
    pair = np.column_stack((owner[here], owner[there]))[between]
    way = (lengths[here] + graph.data + lengths[there])[between]
    order = np.lexsort((way, pair[:, 1], pair[:, 0]))  # of several ways between two nodes the shortest
    pair, way = pair[order], way[order]
    first = np.ones(len(pair), dtype=bool)
    first[1:] = (pair[1:] != pair[:-1]).any(1)
    few = csr_array(coo_array((way[first], pair[first].T), shape=(len(nodes), len(nodes))))
    near = graph_neighbours(points[nodes], few, min(LED_BY, len(nodes)))[owner]  # (N, LED_BY)
    squared = np.square(points[:, None] - points[nodes][near]).sum(-1)
    spacing = np.median(few.data)
    weights = np.exp(-0.5 * (squared - squared.min(1, keepdims=True)) / spacing**2)
    weights[:, 1:][near[:, 1:] == near[:, :-1]] = 0.0
    weights /= weights.sum(1, keepdims=True)
    rows = np.repeat(np.arange(len(points)), near.shape[1])
    return few, csr_array(coo_array((weights.ravel(), (rows, near.ravel())), shape=(len(points), len(nodes))))


def parted(points: np.ndarray, faces: np.ndarray | None, moved: np.ndarray) -> np.ndarray:
    """The edges (E, 3) of a shape but for those that bridge two of its parts which touch, each as a face whose last two
    vertices are one: a hand at a hip, which belong to each other as little as before the hand was laid there.

    A bridge is told by where its ends go: much farther from each other than both before and the ends of most edges.

    Args:
        points: (N, D).
        faces: (F, 3) or (F, 4) rows of the points; None for near neighbours.
        moved: (N, D) where the points belong.
    """
    here, there = _ends(shape_graph(points, faces))
    before, after = (np.linalg.norm(x[here] - x[there], axis=1) for x in (points, moved))
    usual = np.median(after)
    kept = after <= LONG * np.maximum(before * usual / max(np.median(before), np.finfo(np.float64).tiny), usual)
    return _as_faces(here[kept], there[kept])


def thinned_edges(points: np.ndarray, faces: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """What is left of a mesh's faces among some of its vertices: the edges (E, 3) of :func:`thinned`, in rows of the
    nodes, each as a face without an area whose last two vertices are one.

    Args:
        points: (N, D).
        faces: (F, 3) or (F, 4) rows of the points.
        nodes: (n,) rows of different points.
    """
    return _as_faces(*_ends(thinned(points, shape_graph(points, faces), nodes)[0]))


def _ends(graph: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The two ends (E,) of each edge, each edge once."""
    edges = coo_array(graph)
    once = edges.row < edges.col
    return edges.row[once], edges.col[once]


def _as_faces(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    return np.stack((here, there, there), axis=1).astype(np.int64)


def graph_neighbours(points: np.ndarray, graph: csr_array, count: int) -> np.ndarray:
    """(N, count) for each point those nearest to it among the ones that few edges lead to, itself first.

    The other side of a gap is near in space and many edges away. Where fewer points are that near the last one repeats.
    """
    n = len(points)
    step = csr_array((np.ones(len(graph.data), dtype=np.int32), graph.indices, graph.indptr), shape=graph.shape)
    step = step + csr_array(eye_array(n, dtype=np.int32))
    within = step
    for _ in range(HOPS - 1):
        if np.diff(within.indptr).min() >= count:
            break
        within = within @ step
        within.data[:] = 1
    here, there = np.repeat(np.arange(n), np.diff(within.indptr)), within.indices
    lengths = np.linalg.norm(points[here] - points[there], axis=1)
    order = np.lexsort((lengths, here != there, here))  # itself first, also among points at one place
    last = np.minimum(np.arange(count), np.diff(within.indptr)[:, None] - 1)  # (N, count)
    return there[order][within.indptr[:-1, None] + last]


def _face_edges(faces: np.ndarray, n: int) -> np.ndarray:
    if faces.ndim != 2 or faces.dtype.kind not in "iu":
        raise ValueError(f"faces must be whole numbers of shape (F, 3), got {faces.dtype} of shape {faces.shape}")
    if faces.min() < 0 or faces.max() >= n:
        row = int(np.flatnonzero(((faces < 0) | (faces >= n)).any(1))[0])
        raise ValueError(f"face {row} names vertices {faces[row].tolist()}, but the vertices are 0 to {n - 1}")
    return np.concatenate([faces[:, [i, (i + 1) % faces.shape[1]]] for i in range(faces.shape[1])]).astype(np.int64)


def _near_edges(points: np.ndarray, neighbours: int) -> np.ndarray:
    """Edges to the nearest neighbours, but for those that are much longer than the spacing at both ends."""
    k = min(neighbours, len(points) - 1)
    lengths, near = KDTree(points).query(points, k + 1)
    spacing = np.median(lengths[:, 1:], axis=1)  # (N,) robust against one point that lies beside another
    here = np.repeat(np.arange(len(points)), k)
    there = near[:, 1:].reshape(-1)
    kept = lengths[:, 1:].reshape(-1) <= LONG * np.minimum(spacing[here], spacing[there])
    return np.column_stack((here[kept], there[kept]))


def _coinciding(points: np.ndarray) -> np.ndarray:
    """Edges between points at one place: a mesh repeats the vertices of a seam, and its surface goes on there."""
    grid = CLOSE * max(float(np.ptp(points, axis=0).max()), np.finfo(np.float64).tiny)
    _, place = np.unique(np.round((points - points.min(0)) / grid), axis=0, return_inverse=True)
    order = np.argsort(place.reshape(-1), kind="stable")
    same = place.reshape(-1)[order][1:] == place.reshape(-1)[order][:-1]
    return np.column_stack((order[:-1][same], order[1:][same]))


def _joined(points: np.ndarray, edges: np.ndarray) -> csr_array:
    """The graph of these edges, and of those that join its loose parts: of the shortest ways between parts, as many as
    connect them (a minimum spanning tree of the parts, found in rounds)."""
    graph = _graph(points, edges)
    count, part = connected_components(graph, directed=False)
    while count > 1:  # each round at least halves the number of parts (Boruvka)
        edges = np.concatenate((edges, _bridges(points, part, count)))
        graph = _graph(points, edges)
        count, part = connected_components(graph, directed=False)
    return graph


def _bridges(points: np.ndarray, part: np.ndarray, count: int) -> np.ndarray:
    """For each part but the largest one, its shortest way to any other part."""
    sizes = np.bincount(part)
    bridges = []
    for k in range(count):
        if k == int(sizes.argmax()):
            continue
        own, others = np.flatnonzero(part == k), np.flatnonzero(part != k)
        lengths, nearest = KDTree(points[others]).query(points[own])
        here = int(lengths.argmin())
        bridges.append((own[here], others[nearest[here]]))
    return np.array(bridges)


def _graph(points: np.ndarray, edges: np.ndarray) -> csr_array:
    n = len(points)
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    lengths = np.maximum(lengths, np.finfo(np.float64).tiny)  # a length of zero would be no edge
    both = np.concatenate((edges, edges[:, ::-1]))
    return csr_array(coo_array((np.tile(lengths, 2), (both[:, 0], both[:, 1])), shape=(n, n)))
