"""What the methods that solve one problem after the other share: the same normalisation, the same clock, the same way
back to input coordinates, and failures that become results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from pwan.deformation.kernels import Displacement, KernelSum
from pwan.deformation.space import on_space
from pwan.normalisation import Frame, Normalisation, normalise
from pwan.problem import FAILED, OK, Observer, Progress, RegistrationProblem, RegistrationResult, SpaceMap, check_seeds
from pwan.registration.game import ESCAPE
from pwan.registration.matched import matched_points
from pwan.registration.presets import resolve_kind

SMALL_PAIRS = 25_000_000  # a number for each pair of points takes 200 MB

Report = Callable[[int, int, np.ndarray], None]
"""``report(step, steps, moved)``: the step just done, of at most how many, and the moved source (r, D), normalised."""


class RegistrationFailedError(Exception):
    """A method could not register this problem; its words become the result's ``stop_reason``."""


@dataclass(frozen=True)
class Fit:
    """What a method found for one problem, in normalised coordinates: moved = source @ affine + translation + V.

    Attributes:
        affine: (D, D).
        translation: (D,).
        displacement: (r, D), V.
        steps: steps taken.
        stop_reason: in words.
        history: one number a step for each name.
        on_space: makes V as a function of any point, asked for when the fit is good; None where the method knows it at
            the source points only.
    """

    affine: np.ndarray
    translation: np.ndarray
    displacement: np.ndarray
    steps: int
    stop_reason: str
    history: dict[str, list[float]] = field(default_factory=dict)
    on_space: Callable[[], Displacement] | None = None

    @classmethod
    def displaced(
        cls,
        displacement: np.ndarray,
        steps: int,
        stop_reason: str,
        history: dict[str, list[float]] | None = None,
        on_space: Callable[[], Displacement] | None = None,
    ) -> Fit:
        """A map that is the identity plus a displacement (r, D)."""
        d = displacement.shape[1]
        return cls(np.eye(d), np.zeros(d), displacement, steps, stop_reason, history or {}, on_space)


def is_small(points: int, source: np.ndarray, reference: np.ndarray) -> bool:
    """Whether sets (r, D) and (q, D) are registered whole, where a method has a shorter way for large ones.

    What costs most grows with the cube of r, so that is bounded by ``points``; the reference, which may hold many
    outliers, counts by the r q pairs alone.
    """
    return len(source) <= points and len(source) * len(reference) <= max(points**2, SMALL_PAIRS)


Solve = Callable[[np.ndarray, np.ndarray, int, Report], Fit]
"""``solve(source, reference, seed, report)`` for one problem: (r, D) and (q, D) float64, normalised."""


def register_each(
    problem: RegistrationProblem,
    solve: Solve | Sequence[Solve],
    *,
    normalisation: Normalisation,
    seeds: Sequence[int],
    observer: Observer | None,
) -> RegistrationResult:
    """Register the problems of a batch one after the other, all by the same ``solve`` or each by its own.

    A problem fails, with the reason, when ``solve`` raises :class:`RegistrationFailedError`, meets a singular
    matrix, an overflow or the end of the memory, or gives points that are not finite or far away from both sets; its
    source is then given back where it started, and the others go on. ``seconds`` is the time of each problem from its
    input coordinates to its result.
    """
    check_seeds(problem, seeds)
    b, r, d = problem.source.shape
    solves = [solve] * b if callable(solve) else solve
    started = time.perf_counter()
    normalised, frame = normalise(problem, normalisation)
    shared = (time.perf_counter() - started) / b  # of each problem's time
    affine = torch.eye(d, dtype=torch.float64, device="cpu").repeat(b, 1, 1)
    translation, displacement = affine.new_zeros(b, 1, d), affine.new_zeros(b, r, d)
    seconds, steps, status, reasons = [shared] * b, [0] * b, [OK] * b, [""] * b
    history: list[dict[str, list[float]]] = [{} for _ in range(b)]
    displacements: list[Displacement | None] = [KernelSum.zero(d)] * b
    last = 0
    for k in range(b):
        started = time.perf_counter()
        source, reference = normalised.source[k].numpy(), normalised.reference[k].numpy()

        def report(step: int, of: int, moved: np.ndarray, k: int = k, source: np.ndarray = source) -> None:
            nonlocal last
            steps[k] = step
            if observer is None:
                return

            def transformed() -> torch.Tensor:
                now = displacement.clone()
                now[k] = torch.from_numpy(moved - source)
                return frame.apply(problem.source, affine, translation, now)

            last = max(last + 1, k * of + step)  # also where a method says nothing before its end
            observer(Progress(last, b * of, transformed))

        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                fit = solves[k](source.copy(), reference.copy(), seeds[k], report)
            moved = source @ fit.affine + fit.translation + fit.displacement
            limit = ESCAPE * max(np.abs(source).max(), np.abs(reference).max())
            if not np.isfinite(moved).all():
                raise RegistrationFailedError("the result holds points that are not finite")
            if np.abs(moved).max() > limit:
                raise RegistrationFailedError(
                    f"diverged: a point ended {np.abs(moved).max():.3g} RMS radii of the reference away from it"
                )
        except (RegistrationFailedError, np.linalg.LinAlgError, ArithmeticError, MemoryError) as error:
            status[k], reasons[k] = (
                FAILED,
                f"{str(error) or type(error).__name__}; the source is given back where it started",
            )
        else:
            affine[k], translation[k] = torch.from_numpy(fit.affine), torch.from_numpy(fit.translation)
            displacement[k] = torch.from_numpy(fit.displacement)
            displacements[k] = fit.on_space() if fit.on_space else None
            steps[k], reasons[k], history[k] = fit.steps, fit.stop_reason, fit.history
        seconds[k] += time.perf_counter() - started
    return unrefined_result(
        problem,
        frame,
        affine,
        translation,
        displacement,
        [v for v in displacements if v is not None],
        status=status,
        stop_reason=reasons,
        steps=steps,
        seconds=seconds,
        history=history,
    )


def unrefined_result(
    problem: RegistrationProblem,
    frame: Frame,
    affine: torch.Tensor,
    translation: torch.Tensor,
    displacement: torch.Tensor,
    displacements: Sequence[Displacement],
    *,
    status: list[str],
    stop_reason: list[str],
    steps: list[int],
    seconds: list[float],
    history: list[dict[str, list[float]]],
) -> RegistrationResult:
    """Normalised maps (B, D, D), (B, 1, D), (B, r, D) as the result of a method without refinement.

    ``displacements`` are the last ones on all of space; with fewer than B the result has no ``transform``. ``seconds``
    is the time of each problem so far; that of bringing the batch back is added in equal shares.
    """
    started = time.perf_counter()
    transform: list[SpaceMap] | None = None
    if len(displacements) == len(problem):
        transform = [*on_space(frame, affine, translation, displacements)]
    transformed, affine, translation, displacement = frame.bring_back(problem.source, affine, translation, displacement)
    kind, limited = resolve_kind(problem, "auto")
    matched, reference_matched = matched_points(transformed, limited, kind, transform)
    shared = (time.perf_counter() - started) / len(problem)
    return RegistrationResult(
        transformed=transformed,
        transformed_unrefined=transformed,
        affine=affine,
        translation=translation,
        displacement=displacement,
        matched=matched,
        reference_matched=reference_matched,
        status=status,
        stop_reason=stop_reason,
        steps=steps,
        seconds=[s + shared for s in seconds],
        transform=transform,
        history=history,
    )


@contextmanager
def library_call(name: str) -> Iterator[None]:
    """Another project's code: whatever it raises means that this problem failed, and its arithmetic is its own."""
    try:
        with np.errstate(all="ignore"):
            yield
    except Exception as error:
        words = str(error).strip().splitlines()
        raise RegistrationFailedError(f"{name} raised {type(error).__name__}: {words[0] if words else ''}") from error
