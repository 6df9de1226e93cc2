"""The registration problem and the registration result, which every room passes on.

Shapes: B problems solved at once, r source points, q reference points, D coordinates (2 or 3).
A single registration is a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from pwan.attributes import Attributes
from pwan.words import problem_words, result_words

OK, FAILED = "ok", "failed"
ROUNDED = 1 - 1e-9  # sums of the same weights in another order differ by less


@dataclass(frozen=True)
class RegistrationProblem:
    """B registration problems of equal sizes.

    Attributes:
        source: (B, r, D) float64, the points Y that move.
        reference: (B, q, D) float64, the points X that stay.
        mass: (B,) float64 or None; the paper's m, in points, at most all of the lighter set; fractions are allowed.
        distance: (B,) float64 or None; the paper's h, in the units of the points.
        truth: (B, r, D) float64 or None; where each source point belongs, free of noise.
        landmarks: (B, L, 2) int64 or None; rows of the source and of the reference that are known to belong together.
        landmark_weights: (B, L) float64 or None for equal ones; how much each landmark counts beside the others of its
            problem. Problems with fewer landmarks are filled up with any rows of weight 0.
        source_faces: (B, F, 3) int64 or None; the faces of the source's mesh, rows of its points.
        reference_faces: (B, F, 3) int64 or None; the same of the reference.
        guess: (B, r, D) float64 or None; where the source points may belong, by a coarser registration. PWAN begins
            from there, other methods from the source.
        source_weights: (B, r) float64 or None for 1 each; the paper's masses b_j, in points: a point of weight 2 counts
            as two.
        reference_weights: (B, q) float64 or None for 1 each; the paper's a_i.
        attributes: of the points of both sets, or None: then distances are taken in the product of space and these.

    With neither mass nor distance the whole of the lighter set is to be matched. A synthetic problem may state both:
    a mass-type method then uses the mass, a distance-type method the distance.

    Raises:
        ValueError: for anything that cannot be registered, with what was expected, what came and what to do.
    """

    source: Tensor
    reference: Tensor
    mass: Tensor | None = None
    distance: Tensor | None = None
    truth: Tensor | None = None
    landmarks: Tensor | None = None
    landmark_weights: Tensor | None = None
    source_faces: Tensor | None = None
    reference_faces: Tensor | None = None
    guess: Tensor | None = None
    source_weights: Tensor | None = None
    reference_weights: Tensor | None = None
    attributes: Attributes | None = None

    def __post_init__(self) -> None:
        for name in ("source", "reference"):
            _check_points(name, getattr(self, name))
        (b, r, d), (b_ref, q, d_ref) = self.source.shape, self.reference.shape
        if d != d_ref:
            raise ValueError(
                f"source and reference must have the same number of coordinates, but source is {d}-D and reference "
                f"is {d_ref}-D; drop or add a coordinate in one of them"
            )
        if b != b_ref:
            raise ValueError(
                f"source holds {b} problems and reference {b_ref}; a batch needs the same number of both, got shapes "
                f"{(b, r, d)} and {(b_ref, q, d_ref)}; one set, as of a depth image, is {(b * r, d)}"
            )
        for name in ("truth", "guess"):
            if (where := getattr(self, name)) is not None and where.shape != self.source.shape:
                raise ValueError(f"{name} must have the shape of source {(b, r, d)}, got {tuple(where.shape)}")
        if self.guess is not None and not (self.guess.dtype == torch.float64 and bool(self.guess.isfinite().all())):
            raise ValueError(
                f"guess must be finite and float64, got {self.guess.dtype} with {int((~self.guess.isfinite()).sum())} "
                "numbers that are not finite; leave it out where nothing is known"
            )
        for name in ("mass", "distance"):
            value = getattr(self, name)
            if value is None:
                continue
            if value.shape != (b,):
                raise ValueError(
                    f"{name} must be one number or one for each of the {b} problems, got {tuple(value.shape)}"
                )
            if not bool((value.isfinite() & (value > 0)).all()):
                raise ValueError(f"{name} must be positive and finite, got {value.tolist()}")
        for name in ("source", "reference"):
            _check_weights(f"{name}_weights", getattr(self, f"{name}_weights"), getattr(self, name))
        if self.mass is not None and bool((self.mass * ROUNDED > self.lighter).any()):
            words = f"the size of the smaller set, {min(q, r)}"
            if self.source_weights is not None or self.reference_weights is not None:
                words = f"the total weight of the lighter set, {self.lighter.tolist()}"
            raise ValueError(f"mass is counted in points and can be at most {words}; got {self.mass.tolist()}")
        for name, count in (("source_faces", r), ("reference_faces", q)):
            if (faces := getattr(self, name)) is not None:
                _check_faces(name, faces, b, count)
        if self.attributes is not None:
            self.attributes.check(self.source, self.reference)
        self._check_landmarks()

    def _check_landmarks(self) -> None:
        (b, r, _), q, weights = self.source.shape, self.reference.shape[1], self.landmark_weights
        if self.landmarks is None:
            if weights is not None:
                raise ValueError("landmark_weights are given without landmarks; give landmarks (B, L, 2) as well")
            return
        if (
            self.landmarks.ndim != 3
            or self.landmarks.shape[0] != b
            or self.landmarks.shape[2] != 2
            or not self.landmarks.shape[1]
        ):
            raise ValueError(
                f"landmarks must have shape ({b}, L, 2), a source and a reference row each, with L at least 1; "
                f"got {tuple(self.landmarks.shape)}"
            )
        if self.landmarks.dtype != torch.int64:
            raise ValueError(f"landmarks must be whole numbers (int64), rows of both sets; got {self.landmarks.dtype}")
        check_rows(self.landmarks, (r, q))
        if weights is None:
            return
        if weights.shape != self.landmarks.shape[:2] or weights.dtype != torch.float64:
            raise ValueError(
                f"landmark_weights must be float64 of shape {tuple(self.landmarks.shape[:2])}, one for each landmark; "
                f"got {weights.dtype} of shape {tuple(weights.shape)}"
            )
        if not bool((weights.isfinite() & (weights >= 0)).all()):
            raise ValueError(
                "landmark_weights must be finite and zero or positive; correct or leave out those that are not"
            )

    def __len__(self) -> int:
        return self.source.shape[0]

    @property
    def masses(self) -> tuple[Tensor | None, Tensor | None]:
        """The weights of the reference and of the source."""
        return self.reference_weights, self.source_weights

    @property
    def source_total(self) -> Tensor:
        """(B,) float64, the mass of the whole source, which is that of its weights or its points."""
        return _total(self.source, self.source_weights)

    @property
    def reference_total(self) -> Tensor:
        """(B,) float64, the mass of the whole reference."""
        return _total(self.reference, self.reference_weights)

    @property
    def lighter(self) -> Tensor:
        """(B,) float64, the mass of the set that has less of it."""
        return self.source_total.minimum(self.reference_total)

    def __repr__(self) -> str:
        return problem_words(self)

    def select(self, index: list[int]) -> RegistrationProblem:
        """The problems with the given numbers, as a smaller batch."""
        take: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else value[index]
            for name in (f.name for f in fields(self))
        }
        return replace(self, **take)


class SpaceMap(Protocol):
    """One problem's transform as a function on all of space; :class:`pwan.deformation.space.SpaceTransform`."""

    def __call__(self, points: Any) -> Any: ...

    def jacobians(self, points: Any) -> Any: ...

    def jacobian_determinants(self, points: Any) -> Any: ...

    def folded(self, points: Any) -> float: ...

    def to_dict(self) -> dict[str, Any]: ...

    def save(self, path: str | Path) -> None: ...


# what all arrays of a result are: tensors, but for the result of pwan.register, where the source may be of numpy
Array = TypeVar("Array", Tensor, NDArray[Any], default=Tensor)


@dataclass
class RegistrationResult(Generic[Array]):
    """What a method found for each of the B problems, in the reference's own coordinates.

    Attributes:
        transformed: (B, r, D) the moved source, after refinement; never NaN, also when status is "failed".
        transformed_unrefined: (B, r, D) the moved source as the method proper left it, before refinement.
        affine: (B, D, D) A, such that transformed = source @ affine + translation + displacement.
        translation: (B, 1, D) t.
        displacement: (B, r, D) V.
        matched: (B, r) bool, by nearest distances after the registration: of the mass type the m source points nearest
            to the reference, of the distance type those nearer than h, else all. These are not the points that carry
            mass in an optimal plan, where two points cannot share one partner: where many share one, it carries fewer
            of them, or others. Of sets small enough ``pwan.transport.partial_wasserstein(reference, transformed,
            mass=m).source_share`` tells what the plan carries.
        reference_matched: (B, q) bool, the same of the reference's points, by their distances to the moved source.
        potential: one callable for each problem, from (N, D) points in input coordinates to (N,) values in input
            units: the bounded potential -h <= f <= 0 with the last h (unbounded for complete transport); None for
            methods without a potential.
        transform: one for each problem, from any (M, D) points in input coordinates to where they go, (M, D) float64,
            also off the source points and outside of them; with its Jacobian, ``save`` and more
            (:class:`pwan.deformation.space.SpaceTransform`). It is the refined one. None for methods, and PWAN with
            ``parametrisation="free"``, that know their displacement at the source points only.
        history: one dict for each problem; each value is a list with one number a step. PWAN gives, in the units of the
            normalised points: "loss", the discrepancy divided by the number of source points, before the step's last
            update of the potential; "threshold", h; and "gradient_norm", the largest one at the points when the penalty
            was last taken.
        seconds: time of the method, one for each problem: that of the whole batch divided by B.
        steps: steps taken, one for each problem.
        status: "ok" or "failed", one for each problem.
        stop_reason: in words, one for each problem.
        choice: which flexibility was chosen and why, in words, one for each problem; None where nothing was to choose.
    """

    transformed: Array
    transformed_unrefined: Array
    affine: Array
    translation: Array
    displacement: Array
    matched: Array
    reference_matched: Array
    status: list[str]
    stop_reason: list[str]
    steps: list[int]
    seconds: list[float]
    potential: list[Callable[[Tensor], Tensor]] | None = None
    transform: list[SpaceMap] | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)
    choice: list[str] | None = None

    def __len__(self) -> int:
        return self.transformed.shape[0]

    def __repr__(self) -> str:
        return result_words(self)


@dataclass(frozen=True)
class Progress:
    """What a running method passes to its observer after each step.

    Attributes:
        step: the number of the step just done, from 1.
        steps: how many there are at most.
        transformed: computes where the source is now, (B, r, D) in input coordinates, when called.
        before: how many of the steps lead to where the source begins and leave it where it is; the method's own are
            the others.
    """

    step: int
    steps: int
    transformed: Callable[[], Tensor]
    before: int = 0


Observer = Callable[[Progress], None]


def check_seeds(problem: RegistrationProblem, seeds: Sequence[int]) -> None:
    """One seed for each problem of the batch.

    Raises:
        ValueError: another number of them.
    """
    if len(seeds) != len(problem):
        raise ValueError(f"seeds must hold one number for each of the {len(problem)} problems, got {len(seeds)}")


def mean_squared_error(points: Tensor, truth: Tensor) -> Tensor:
    """Mean over points of the squared distance to the truth, in squared units of the points; (B, r, D) to (B,)."""
    return (points - truth).square().sum(-1).mean(-1)  # (B,)


def check_rows(landmarks: Tensor, counts: tuple[int, int]) -> None:
    """Refuse landmarks (B, L, 2) that name other rows than those of so many points of the source and of the reference.

    Raises:
        ValueError: such a landmark.
    """
    for side, (name, count) in enumerate(zip(("source", "reference"), counts, strict=True)):
        wrong = torch.nonzero((landmarks[..., side] < 0) | (landmarks[..., side] >= count))
        if len(wrong):
            k, row = wrong[0].tolist()
            raise ValueError(
                f"landmark {row}{f' of problem {k}' if len(landmarks) > 1 else ''} names row "
                f"{int(landmarks[k, row, side])} of the {name}, whose rows are 0 to {count - 1}; correct it "
                "(rows count from 0)"
            )


def _total(points: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return points.new_full(points.shape[:1], float(points.shape[1]))
    return weights.sum(1)


def _check_weights(name: str, weights: Tensor | None, points: Tensor) -> None:
    if weights is None:
        return
    if weights.shape != points.shape[:2] or weights.dtype != torch.float64:
        raise ValueError(
            f"{name} must be float64 of shape {tuple(points.shape[:2])}, one for each point; got {weights.dtype} of "
            f"shape {tuple(weights.shape)}"
        )
    bad = ~(weights.isfinite() & (weights >= 0))
    if bool(bad.any()):
        problem, row = torch.nonzero(bad)[0].tolist()
        raise ValueError(
            f"{name} must be finite and zero or positive, but {int(bad.sum())} are not (the first is "
            f"{float(weights[problem, row]):g} in row {row}{f' of problem {problem}' if len(weights) > 1 else ''}); "
            "correct them, or leave out their points"
        )
    if not bool((weights.sum(1) > 0).all()):
        raise ValueError(f"{name} must not all be zero, since then there is nothing to match; give 1 for each point")
    massive = (weights > 0)[..., None]
    apart = (points - points.masked_fill(~massive, torch.inf).amin(1, keepdim=True)) * massive  # (B, N, D)
    if bool((apart.amax((1, 2)) == 0).any()):
        raise ValueError(
            f"{name} leave mass at a single place, and a registration needs points that differ; give more points a "
            "weight above zero"
        )


def _check_faces(name: str, faces: Tensor, problems: int, points: int) -> None:
    if faces.ndim != 3 or len(faces) != problems or faces.shape[2] != 3 or faces.dtype != torch.int64:
        raise ValueError(
            f"{name} must be int64 of shape ({problems}, F, 3), three rows of points each; got {faces.dtype} of shape "
            f"{tuple(faces.shape)}"
        )
    wrong = torch.nonzero(((faces < 0) | (faces >= points)).any(-1))
    if len(wrong):
        k, row = wrong[0].tolist()
        raise ValueError(
            f"face {row} of {name} names the points {faces[k, row].tolist()}, but there are {points} points, 0 to "
            f"{points - 1}; correct the face, or leave the faces out"
        )


def _check_points(name: str, points: Tensor) -> None:
    if points.ndim != 3 or points.shape[-1] not in (2, 3):
        raise ValueError(f"{name} must have shape (B, N, D) with D 2 or 3, got {tuple(points.shape)}")
    if points.dtype != torch.float64:
        raise ValueError(f"{name} must be float64, so that far origins lose nothing; got {points.dtype}")
    n, d = points.shape[1:]
    if not len(points):
        raise ValueError(f"{name} is a batch of no problems; give at least one")
    if n < d + 1:
        each = f" in each of the {len(points)} sets of shape {tuple(points.shape)}" if len(points) > 1 else ""
        raise ValueError(f"{name} needs at least {d + 1} points in {d}-D, got {n}; give more points{each}")
    bad = ~torch.isfinite(points).all(-1)
    if bool(bad.any()):
        problem, row = torch.nonzero(bad)[0].tolist()
        raise ValueError(
            f"{name} must be finite, but {int(bad.sum())} of its points hold NaN or infinity (the first is row {row}"
            + (f" of problem {problem}" if points.shape[0] > 1 else "")
            + "); remove these rows"
        )
    constant = (points.amax(1) - points.amin(1)).amax(-1) == 0  # (B,)
    if bool(constant.any()):
        raise ValueError(f"all {n} points of {name} are the same point; a registration needs points that differ")
