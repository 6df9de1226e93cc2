"""What shapes in one numbering have in common: generalised Procrustes analysis, the mean, and principal modes.

S shapes of N points in D coordinates. Position and turn (and size on request) are taken out as Gower (1975) does: each
shape is brought onto the mean of all, and the mean is taken anew until it stays. What is left is a principal component
analysis of the coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pwan.arrays import real_array
from pwan.deformation.rigid import nearest_rotation
from pwan.extras import needs
from pwan.words import counted

ROUNDS = 200  # of Procrustes, at most; it converges in some ten
SAME = 1e-12  # change of the mean, in its RMS radius, from which on it stays
NOTHING = 1e-12  # share of the variance up to which a mode is rounding
# Modified z-score from which on a value counts as an outlier (Iglewicz & Hoaglin 1993), here of the distances'
# logarithms: of 5 to 50 shapes with normal scores in 1 to 50 modes one is named by chance in 0 to 4% of the studies,
# and in 7 to 35% by the distances themselves. What makes the median absolute deviation a standard deviation.
OUTLYING, TO_DEVIATION = 3.5, 1.4826
FARTHER = 2.0  # and times as far as half of the shapes lie
FEWEST = 5  # shapes: of fewer none is called outlying
ROUNDING = 1e-6  # in RMS radii of the mean: distances are not told apart more finely


@dataclass(frozen=True, eq=False)
class ShapeModel:
    """The mean of S shapes and the K modes in which they differ from it, K at most S - 1.

    Attributes:
        names: of the shapes.
        aligned: (S, N, D) the shapes around the origin, turned onto their mean, which lies as the first shape does;
            with their sizes removed each has the mean of all sizes.
        mean: (N, D) of ``aligned``.
        modes: (K, N, D) of length 1 each, orthogonal, the one with the largest variance first.
        variances: (K,) of the scores, with S - 1 in the denominator; squared units.
        explained: (K,) their shares of the whole variance.
        scores: (S, K), so that aligned = mean + scores @ modes; units of the points.
        sizes: (S,) of the shapes as given, the root mean square distance from their centre.
        centres: (S, D) of the shapes as given.
        rotations: (S, D, D), so that aligned = (shape - centre) @ rotation, times mean size / size where sizes are
            removed.
        factors: (S,) by which the shapes were scaled: 1 where sizes stay.
        distances: (S,) root mean square distance of each aligned shape from the median shape, point by point.
        outlying: why, by the name of each shape that lies apart from the others.
    """

    names: tuple[str, ...]
    aligned: NDArray[np.float64]
    mean: NDArray[np.float64]
    modes: NDArray[np.float64]
    variances: NDArray[np.float64]
    explained: NDArray[np.float64]
    scores: NDArray[np.float64]
    sizes: NDArray[np.float64]
    centres: NDArray[np.float64]
    rotations: NDArray[np.float64]
    factors: NDArray[np.float64]
    distances: NDArray[np.float64]
    outlying: dict[str, str]

    def shape(self, scores: Sequence[float] | NDArray) -> NDArray[np.float64]:
        """The shape (N, D) with these scores of the first modes."""
        first = np.asarray(scores, dtype=np.float64)
        return self.mean + np.tensordot(first, self.modes[: len(first)], 1)

    def at(self, mode: int, deviations: float) -> NDArray[np.float64]:
        """The mean (N, D), so many standard deviations of a mode away; modes count from 0."""
        return self.mean + deviations * np.sqrt(self.variances[mode]) * self.modes[mode]

    def mean_on(self, row: int) -> NDArray[np.float64]:
        """The mean (N, D) where the shape of this row lies, turned as that is; of its size where sizes are removed."""
        return self.mean @ self.rotations[row].T / self.factors[row] + self.centres[row]

    def mean_near(self, points: NDArray) -> NDArray[np.float64]:
        """The mean (N, D), turned and shifted as near to these points (N, D) as that takes it."""
        return self.turned_onto(points).mean + points.mean(0)

    def turned_onto(self, points: NDArray) -> ShapeModel:
        """The same model, its mean turned as near to these points (N, D), wherever they lie, as a turn takes it."""
        rotation = nearest_rotation(self.mean.T @ (points - points.mean(0)))
        turned = {name: getattr(self, name) @ rotation for name in ("aligned", "mean", "modes", "rotations")}
        return replace(self, **turned)

    @property
    def most(self) -> str:
        """How many modes explain 95% of the variance, in words."""
        needed = int(np.searchsorted(np.cumsum(self.explained), 0.95) + 1) if len(self.explained) else 0
        return f"{counted(needed, 'mode')} explain{'s' if needed == 1 else ''} 95%"

    def __repr__(self) -> str:
        s, n, d = self.aligned.shape
        apart = f"; outlying: {', '.join(self.outlying)}" if self.outlying else ""
        return f"ShapeModel: {s} shapes of {n} points in {d}-D, {self.most} of the variance{apart}"


def shape_model(points: object, names: Sequence[str] | None = None, remove_size: bool = False) -> ShapeModel:
    """The mean and the principal modes of shapes whose points correspond, row by row.

    Args:
        points: (S, N, D) at least two shapes, D 2 or 3.
        names: of the shapes; their numbers from 0 without.
        remove_size: take out the sizes too.

    Raises:
        ValueError: another shape of array, numbers that are not finite, names that do not fit, or a shape whose points
            all lie at one place.
        ImportError: scikit-learn is not installed.
    """
    given = np.array(real_array("points", points), dtype=np.float64)
    if given.ndim != 3 or len(given) < 2 or given.shape[1] < 2 or given.shape[2] not in (2, 3):
        raise ValueError(f"points must be (S, N, D), two shapes or more of two points or more, got {given.shape}")
    called = tuple(str(k) for k in range(len(given))) if names is None else tuple(names)
    if len(called) != len(given) or len(set(called)) < len(called):
        raise ValueError(f"names must be {len(given)} different ones, one for each shape, got {', '.join(called)}")
    if not np.isfinite(given).all():
        wrong = [name for name, one in zip(called, given, strict=True) if not np.isfinite(one).all()]
        raise ValueError(f"points must be finite, but those of {', '.join(wrong)} are not; leave such shapes out")
    centres = given.mean(1)
    aligned = given - centres[:, None]
    sizes = np.sqrt((aligned**2).sum(2).mean(1))
    if not (sizes > 0).all():
        raise ValueError(f"all points of {called[int(sizes.argmin())]} lie at one place; leave such shapes out")
    factors = sizes.mean() / sizes if remove_size else np.ones(len(sizes))
    rotations = _turns(aligned * factors[:, None, None])
    aligned = aligned * factors[:, None, None] @ rotations
    mean = aligned.mean(0)
    modes, variances, explained, scores = _principal(aligned)
    distances, outlying = _apart(aligned, called)
    return ShapeModel(
        names=called,
        aligned=aligned,
        mean=mean,
        modes=modes,
        variances=variances,
        explained=explained,
        scores=scores,
        sizes=sizes,
        centres=centres,
        rotations=rotations,
        factors=factors,
        distances=distances,
        outlying=outlying,
    )


def _turns(centred: np.ndarray) -> np.ndarray:
    """(S, D, D) the rotations that bring shapes (S, N, D) onto their mean, the first one the identity."""
    mean, radius = centred[0], np.sqrt((centred**2).sum(2).mean())
    for _ in range(ROUNDS):
        rotations = nearest_rotation(np.einsum("snd,ne->sde", centred, mean))
        before, mean = mean, (centred @ rotations).mean(0)
        if np.sqrt(((mean - before) ** 2).sum(1).mean()) <= SAME * radius:
            break
    return rotations @ rotations[0].T


def _principal(aligned: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Modes (K, N, D), their variances and shares (K,), and the scores (S, K); those without any variance are left out.

    The full decomposition: the quicker ones draw at random.
    """
    with needs("scans", "shape_model"):
        from sklearn.decomposition import PCA
    s, n, d = aligned.shape
    found = PCA(n_components=min(s - 1, n * d), svd_solver="full")
    with np.errstate(invalid="ignore"):  # shapes that are equal have no shares
        scores = found.fit_transform(aligned.reshape(s, -1))
    total = float(aligned.var(0, ddof=1).sum())
    size = float((aligned**2).sum()) / s
    kept = int((found.explained_variance_ > NOTHING * max(total, NOTHING * size)).sum())
    variances = found.explained_variance_[:kept]
    return found.components_[:kept].reshape(kept, n, d), variances, variances / (total or 1.0), scores[:, :kept]


def _apart(aligned: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, dict[str, str]]:
    """How far each shape lies from the median shape, which one strange shape does not draw, and why some lie apart.

    (Distances within all modes would not do: with no more than S shapes they are the same for all.)
    """
    lengths = np.linalg.norm(aligned - np.median(aligned, axis=0), axis=2)  # (S, N)
    distances = np.sqrt((lengths**2).mean(1))
    least = ROUNDING * float(np.sqrt((aligned**2).sum(2).mean()))
    logs = np.log(np.maximum(distances, least))
    usual = float(np.median(logs))
    spread = TO_DEVIATION * float(np.median(np.abs(logs - usual)))
    apart = logs - usual > max(OUTLYING * spread, np.log(FARTHER))
    if len(names) < FEWEST:
        apart[:] = False
    return distances, {
        names[int(k)]: f"{distances[k]:.3g} from the median shape (root mean square over the points), "
        f"{np.exp(logs[k] - usual):.2g} times as far as half of the shapes; farthest at point "
        f"{lengths[k].argmax()}"
        for k in np.flatnonzero(apart)
    }
