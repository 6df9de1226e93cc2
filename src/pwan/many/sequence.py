"""Frames of something that moves: one shape is led through all of them.

The first shape itself is registered onto each frame, begun where the last trusted frame led: the chain finds the way,
and since the bending is measured against the first shape, errors do not add up from frame to frame. Where that is not
to be trusted, as of a shape that has bent far, the frame before is registered in its place. Not in the paper.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from pwan import api, methods
from pwan.arrays import Points, faces_of, points_of, to_points
from pwan.begin.landmark_start import start_towards
from pwan.many.settings import check_shared
from pwan.problem import OK, Observer, Progress, RegistrationProblem
from pwan.progress import progress_bar
from pwan.scans.settings import flexible
from pwan.words import counted, part_of

PARTS = 100  # steps of each frame that an observer is told of
NO_LANDMARKS = "landmarks are pairs of points of two sets; leave landmarks out of a sequence"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Followed:
    """One frame, registered.

    Attributes:
        name: of the frame.
        points: (r, D) the registered points of the first shape, where they are in this frame.
        trusted: whether the next frame may begin there.
        confidence: that it is right, from 0 to 1.
        distance: the median distance of the matched points to the frame's; infinite where the registration failed.
        seconds: of its registration.
        reason: why it is not trusted, in a sentence; else empty.
        began: the name of the frame where it began; empty for the first one.
        chained: whether it was registered by the shape as it was in that frame, in place of the first shape.
        transform: from any points of the first shape's coordinates to where they are in this frame; None for the first
            shape itself, where it failed, and for methods without one.
        result: what the registration gave, of files all of their points, moved (N, D), NaN where the method failed;
            None for the first shape itself, and where a file's registration has failed with an error.
        moved: of files, the moved one; else None.
    """

    name: str
    points: np.ndarray
    trusted: bool
    confidence: float
    distance: float
    seconds: float
    reason: str = ""
    began: str = ""
    chained: bool = False
    transform: Any = None
    result: Any = None
    moved: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether there is no result."""
        return not math.isfinite(self.distance)

    @classmethod
    def first(cls, name: str, points: np.ndarray) -> Followed:
        """The shape that is led, in the frame that it is of."""
        return cls(name, points, True, 1.0, 0.0, 0.0)


def sentences(frames: Sequence[Followed]) -> list[str]:
    """How many are to be trusted, and which are not."""
    doubted = [frame.name for frame in frames if not frame.trusted]
    said = [f"{part_of(len(frames) - len(doubted), len(frames), 'frame')} to be trusted."]
    return [*said, f"Not to be trusted: {', '.join(doubted)}"] if doubted else said


One = Callable[[int, "Followed | None"], Followed]


def in_turn(numbers: Iterable[int], one: One, last: Followed | None, tell: Tell) -> list[Followed]:
    """Frames one after the other, each from the last one that is trusted.

    Args:
        numbers: of the frames, in their order.
        one: registers the frame of a number, begun at the frame given; None where there is none yet.
        last: where the first of them begins.
        tell: called with a sentence for each frame that is not trusted.
    """
    done = []
    for number in numbers:
        frame = replace(one(number, last), began=last.name if last is not None else "")
        done.append(frame)
        if frame.trusted:
            last = frame
            continue
        after = "nothing" if last is None else last.name
        reason = frame.reason.rstrip(".")
        tell(f"warning: {frame.name} is not to be trusted: {reason}. The next frame begins from {after}.")
    return done


def by_either(straight: Callable[[], Followed], chain: Callable[[], Followed]) -> Followed:
    """The frame registered straight by the first shape where that is to be trusted; else by the frame before it, if
    that is more so."""
    found = straight()
    if found.trusted:
        return found
    other = replace(chain(), chained=True)
    return other if other.trusted or other.confidence > found.confidence else found


@dataclass(frozen=True)
class Chain:
    """Transforms one after the other, from points (M, D) to where they go."""

    parts: tuple[Any, ...]

    def __call__(self, points: Any) -> Any:
        for part in self.parts:
            points = part(points)
        return points


def chained(before: Any, after: Any) -> Any:
    """The way of points that go by both; None where the second one is missing, and the second alone without a first."""
    if after is None:
        return None
    return after if before is None else Chain((*(before.parts if isinstance(before, Chain) else (before,)), after))


def of_frame(observer: Observer | None, number: int, count: int) -> Observer | None:
    """Tells of one of ``count`` frames as a part of the whole; it never goes back where a frame is registered twice."""
    if observer is None:
        return None
    last = PARTS * number

    def of_whole(progress: Progress) -> None:
        nonlocal last
        last = max(last, PARTS * number + PARTS * progress.step // progress.steps)
        observer(replace(progress, step=last, steps=PARTS * count, before=PARTS * number))

    return of_whole


@dataclass(frozen=True, repr=False)
class RegisteredSequence:
    """One shape in all frames.

    Attributes:
        frames: what was found in each of them. ``frames[k].result`` is as :func:`pwan.register` gives it, of the shape
            moved by a turn and a shift before; ``frames[k].transform`` is the whole way.
    """

    frames: list[Followed]

    @cached_property
    def points(self) -> np.ndarray:
        """(F, N, D) float64, in the numbering of the first frame's points, or of the template's."""
        return np.stack([frame.points for frame in self.frames])

    @property
    def transforms(self) -> list[Any]:
        """One for each frame, from any points (M, D) of the first frame's coordinates (of the template's) to where they
        are in that frame; None for the first frame without a template, a failed one, and methods without transforms."""
        return [frame.transform for frame in self.frames]

    @property
    def confidence(self) -> np.ndarray:
        """(F,) the probability that each is right; 1 for the first frame without a template."""
        return np.array([frame.confidence for frame in self.frames])

    @property
    def trusted(self) -> np.ndarray:
        """(F,) bool, which frames nothing speaks against."""
        return np.array([frame.trusted for frame in self.frames])

    def __repr__(self) -> str:
        f, n, d = self.points.shape
        size, good = f"{n} points in {counted(f, 'frame')} ({d}-D)", int(self.trusted.sum())
        lines = [f"{type(self).__name__}: {size}, {good} of them to be trusted"]
        lines += [f"{frame.name}: {frame.reason}" for frame in self.frames if not frame.trusted]
        return "\n  ".join(lines)


def register_sequence(
    frames: Sequence[Points],
    *,
    template: Points | None = None,
    template_faces: ArrayLike | None = None,
    tell: Tell | None = None,
    observer: Observer | None = None,
    progress: bool = False,
    register: Callable[..., Any] = api.register,
    **options: Any,
) -> RegisteredSequence:
    """Lead one shape through frames of something that moves, whose points have nothing to do with each other.

    The shape, the first frame or a template, is registered onto each frame, begun where the last trusted frame led. How
    it bends is measured against itself, but for one turn and shift, so that errors do not add up from frame to frame.
    Where the result is not to be trusted (:attr:`pwan.api.Registered.warnings`), the shape as it was in that last frame
    is registered in its place. Where neither is, or both fail, the next frame begins from the last one that is. Between
    one frame and the next the motion should be small beside the shape.

    Args:
        frames: two or more sets of points in their order, (N_k, D) each; numpy arrays, torch tensors, meshes or clouds.
        template: the shape that moves, (N, D), roughly where the first frame is; the first frame if None.
        template_faces: (F, 3) the triangles of its points (or of the first frame's); None for those that it has itself.
        tell: called with a sentence for each frame that is not trusted.
        observer: called after each step, with the steps of all frames.
        progress: whether to show a bar over all frames.
        register: what registers a frame, as :func:`pwan.register`.
        options: of :func:`pwan.register`, for all frames: ``mass="auto"``, ``seed=1``, ``steps=200``. Where none says
            how the shape may move and the method can choose, it does so in each frame (``flexibility="auto"``).

    Returns:
        The points of the shape in all frames, with a verdict on each.

    Raises:
        ValueError: too few frames, one that cannot be registered (with its number from 0), landmarks, what belongs to
            one frame alone (attributes, and weights or faces of the reference as arrays), or as :func:`pwan.register`;
            what is wrong with a frame is found before anything is computed.
        ImportError: ``progress`` without tqdm.

    Example:
        >>> sequence = register_sequence(frames, mass="auto")
        >>> sequence.points[5], sequence.confidence[5]
    """
    if options.get("landmarks") is not None:
        raise ValueError(NO_LANDMARKS)
    if options.get("guess") is not None:
        raise ValueError("each frame begins where the last trusted one led; leave guess out of a sequence")
    api.check_names(options.get("method", "pwan"), options)
    check_shared(options, "reference", "register_sequence")
    shape, sets = _checked(frames, template, options)
    begins = 1 if template is None else 0
    faces = faces_of("template", frames[0] if template is None else template, template_faces)
    if faces is not None:
        options["source_faces"] = faces[0].numpy()
    options = _bending(options)
    first = Followed.first("frame 0", shape) if template is None else None
    with progress_bar(observer) if progress else nullcontext(observer) as told:

        def one(number: int, last: Followed | None) -> Followed:
            watch = of_frame(told, number - begins, len(sets) - begins)
            onto = partial(register, reference=frames[number], observer=watch, **options)
            name, frame = f"frame {number}", sets[number]
            try:
                if last is None or last is first:  # from where there is no other way
                    return _followed(name, shape, frame, onto, last)
                return by_either(
                    lambda: _followed(name, shape, frame, onto, last),
                    lambda: _chained(_followed(name, last.points, frame, onto), last),
                )
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

        done = in_turn(range(begins, len(sets)), one, first, tell or (lambda _: None))
    return RegisteredSequence(done if first is None else [first, *done])


def _chained(found: Followed, last: Followed) -> Followed:
    """A frame that the shape as it was in the last one was registered onto, with the whole way."""
    return replace(found, transform=chained(last.transform, found.transform))


def _followed(
    name: str, shape: np.ndarray, frame: np.ndarray, register: Callable[..., Any], last: Followed | None = None
) -> Followed:
    """The shape (N, D) registered onto a frame (N_k, D), begun where it was in the last one."""
    began = time.perf_counter()
    start = None if last is None else start_towards(shape, last.points)
    source = shape if start is None else start.apply(shape)
    result = register(source, guess=None if last is None else last.points)
    failed = result.status != OK
    points = np.asarray(result.transformed, dtype=np.float64)
    lengths = KDTree(frame).query(points)[0]
    matched = np.asarray(result.matched, dtype=bool)
    distance = np.inf if failed else np.median(lengths[matched] if matched.any() else lengths)
    transform = None if failed else result.transform
    if transform is not None and start is not None:
        transform = transform.after(start.scale, start.rotation, start.translation)
    reasons = [str(result.stop_reason)] if failed else list(result.warnings)
    return Followed(
        name=name,
        points=points,
        trusted=not reasons,
        confidence=float(result.confidence),
        distance=float(distance),
        seconds=time.perf_counter() - began,
        reason=" ".join(reasons),
        transform=transform,
        result=result,
    )


def _checked(
    frames: Sequence[Points], template: Points | None, options: Mapping[str, Any]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The shape's points and those of the frames, each of which it can be registered onto with the options' mass or
    distance.

    Raises:
        ValueError: too few frames, or one that it cannot be registered onto.
    """
    least = 2 if template is None else 1
    if len(frames) < least:
        wanted = "at least one frame" if template is not None else "two frames or more, or a template and a frame"
        raise ValueError(f"expected {wanted}, got {len(frames)}; register moves one set onto another")
    sets = [to_points(f"frame {number}", points_of(frame)) for number, frame in enumerate(frames)]
    shape = sets[0] if template is None else to_points("template", points_of(template))
    name = "frame 0" if template is None else "template"
    limits: dict[str, Any] = {
        which: torch.tensor([options[which]], dtype=torch.float64, device="cpu")
        for which in ("mass", "distance")
        if isinstance(options.get(which), Real) and options.get("source_weights") is None
    }  # of weighted points register knows more
    for number, frame in enumerate(sets):
        if frame.ndim != 2 or shape.ndim != 2 or frame.shape[1] != shape.shape[1]:
            raise ValueError(
                f"all frames must be (N, D) with the same D, but frame {number} has the shape {tuple(frame.shape)} and "
                f"{name} {tuple(shape.shape)}; correct it or leave it out"
            )
        try:
            RegistrationProblem(shape[None], frame[None], **limits)
        except ValueError as error:
            raise ValueError(f"{name} onto frame {number}: {error}") from None
    return shape.numpy(), [frame.numpy() for frame in sets]


def _bending(options: dict[str, Any]) -> dict[str, Any]:
    """The options with those of the method as :func:`pwan.scans.settings.flexible` completes them."""
    method = options.get("method", "pwan")
    if options.get("settings") is not None:
        return options
    told = {name: options[name] for name in methods.setting_names(method) if name in options}
    return {**options, **flexible(method, told)}
