"""One shape led through frames: where each registration begins, what is told, and a small real run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pwan
from pwan.many.sequence import (
    PARTS,
    Followed,
    RegisteredSequence,
    by_either,
    chained,
    in_turn,
    of_frame,
    register_sequence,
    sentences,
)
from pwan.problem import Progress

TURN = Rotation.from_rotvec([0.0, 0.0, 0.15])
SHIFT = np.array([0.1, 0.0, -0.05])
FOUR = np.eye(4)[:, :3]
FIVE = np.vstack((FOUR, [[1.0, 1.0, 0.0]]))


def moved(points: np.ndarray, times: int) -> np.ndarray:
    """The points turned and shifted so many times."""
    for _ in range(times):
        points = TURN.apply(points) + SHIFT
    return points


@pytest.fixture(scope="module")
def shape() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 0.6, 0.3]


class Scripted:
    """Stands for ``pwan.register``: knows where the shape is in each frame, and doubts or fails at some."""

    def __init__(self, truths: list[np.ndarray], doubted: tuple[int, ...] = (), failed: tuple[int, ...] = ()) -> None:
        self.truths, self.doubted, self.failed = truths, doubted, failed
        self.sources: dict[int, np.ndarray] = {}
        self.guesses: dict[int, Any] = {}
        self.calls: list[int] = []

    def __call__(self, source: np.ndarray, *, reference: Any, guess: Any, **_: Any) -> Any:
        k = next(k for k, truth in enumerate(self.truths) if truth is reference)
        self.sources.setdefault(k, source)
        self.guesses.setdefault(k, guess)
        self.calls.append(k)
        bad = k in self.failed
        return SimpleNamespace(
            transformed=source if bad else self.truths[k],
            matched=np.ones(len(source), dtype=bool),
            status="failed" if bad else "ok",
            stop_reason="diverged at step 3",
            warnings=["It fits badly."] if k in self.doubted else [],
            confidence=0.0 if bad else 0.5 if k in self.doubted else 0.9,
            transform=None,
        )


def test_each_frame_begins_where_the_last_one_led(shape):
    truths = [moved(shape, k) for k in range(4)]
    scripted = Scripted(truths)
    done = register_sequence(truths, register=scripted)
    np.testing.assert_array_equal(done.points, truths)
    assert sorted(scripted.guesses) == [1, 2, 3]  # the first frame is the shape itself
    for k, guess in scripted.guesses.items():
        np.testing.assert_array_equal(guess, truths[k - 1])
        # a turn and a shift of the shape cost nothing: the source has made them already
        np.testing.assert_allclose(scripted.sources[k], truths[k - 1], atol=1e-12)
    assert done.confidence.tolist() == [1.0, 0.9, 0.9, 0.9] and done.trusted.all()
    assert [frame.began for frame in done.frames] == ["", "frame 0", "frame 1", "frame 2"]
    assert [frame.distance for frame in done.frames] == [0.0] * 4


def test_the_source_is_the_first_shape_turned_and_not_what_the_chain_made_of_it(shape):
    bent = shape.copy()
    bent[:, 2] += 0.2 * shape[:, 0] ** 2
    truths = [shape, moved(bent, 1), moved(bent, 2)]
    scripted = Scripted(truths)
    register_sequence(truths, register=scripted)
    between = [np.linalg.norm(points[:, None] - points[None], axis=-1) for points in (shape, scripted.sources[2])]
    np.testing.assert_allclose(between[0], between[1], atol=1e-12)
    assert np.abs(scripted.sources[2] - truths[1]).max() > 0.1
    np.testing.assert_array_equal(scripted.guesses[2], truths[1])


def test_after_a_doubted_or_a_failed_frame_the_next_begins_from_the_last_good_one(shape):
    truths = [moved(shape, k) for k in range(6)]
    scripted, said = Scripted(truths, doubted=(2,), failed=(3,)), []
    done = register_sequence(truths, register=scripted, tell=said.append)
    assert [frame.began for frame in done.frames] == ["", "frame 0", "frame 1", "frame 1", "frame 1", "frame 4"]
    np.testing.assert_array_equal(scripted.guesses[4], truths[1])
    assert done.trusted.tolist() == [True, True, False, False, True, True]
    assert said == [
        "warning: frame 2 is not to be trusted: It fits badly. The next frame begins from frame 1.",
        "warning: frame 3 is not to be trusted: diverged at step 3. The next frame begins from frame 1.",
    ]
    assert "4 of them to be trusted" in repr(done) and "frame 3: diverged at step 3" in repr(done)


def frame_of(confidence: float, trusted: bool) -> Followed:
    return Followed("f", FOUR, trusted, confidence, 0.1, 1.0)


@pytest.mark.parametrize(
    ("straight", "chain", "taken"),
    [
        ((0.9, True), None, "straight"),  # the chain is not even tried
        ((0.5, False), (0.85, True), "chain"),
        ((0.85, False), (0.8, True), "chain"),
        ((0.5, False), (0.6, False), "chain"),
        ((0.5, False), (0.4, False), "straight"),
    ],
)
def test_straight_from_the_first_shape_where_it_is_trusted_else_by_the_frame_before(straight, chain, taken):
    found = by_either(lambda: frame_of(*straight), lambda: frame_of(*(chain or pytest.fail("tried"))))
    assert found.chained == (taken == "chain")
    assert (found.confidence, found.trusted) == (chain if taken == "chain" else straight)


def test_a_chained_frame_has_the_whole_way(shape):
    def twice(points: Any) -> Any:
        return 2.0 * points

    def further(points: Any) -> Any:
        return points + 1.0

    way = chained(chained(twice, further), twice)
    np.testing.assert_allclose(way(shape), 4.0 * shape + 2.0)
    assert chained(None, twice) is twice and chained(twice, None) is None


def test_a_frame_that_is_doubted_is_registered_by_the_one_before_it_too(shape):
    truths = [moved(shape, k) for k in range(4)]
    scripted = Scripted(truths, doubted=(1, 2))
    register_sequence(truths, register=scripted)
    assert scripted.calls == [1, 2, 3]  # from the first shape there is no other way
    scripted = Scripted(truths, doubted=(2,))
    register_sequence(truths, register=scripted)
    assert scripted.calls == [1, 2, 2, 3]


def test_a_template_is_registered_onto_the_first_frame_too_and_begins_anew_until_one_is_trusted(shape):
    truths = [moved(shape, k) for k in range(1, 4)]
    scripted = Scripted(truths, doubted=(0,))
    done = register_sequence(truths, template=shape, register=scripted)
    assert done.points.shape == (3, 60, 3)
    assert scripted.guesses[0] is None and scripted.guesses[1] is None
    np.testing.assert_array_equal(scripted.sources[1], shape)
    np.testing.assert_array_equal(scripted.guesses[2], truths[1])
    assert [frame.began for frame in done.frames] == ["", "", "frame 1"]


def test_the_faces_of_the_first_frame_go_with_its_points(shape):
    mesh = SimpleNamespace(vertices=shape, faces=np.array([[0, 1, 2], [2, 3, 4]]))
    frames, seen = [mesh, moved(shape, 1)], []

    def register(source: np.ndarray, **options: Any) -> Any:
        seen.append(options)
        return Scripted([frames[1]])(source, reference=options["reference"], guess=options["guess"])

    register_sequence(frames, register=register, beta=1.0)
    np.testing.assert_array_equal(seen[0]["source_faces"], mesh.faces)
    assert seen[0]["beta"] == 1.0 and "flexibility" not in seen[0]  # who says how it may move has chosen


@pytest.mark.parametrize(("transform", "mean"), [("rigid", 1e-4), ("nonrigid", 0.01)])  # of a radius of 1.2
def test_rigid_moves_are_recovered(shape, transform, mean):
    draw = np.random.default_rng(1)
    truths = [moved(shape, k) for k in range(4)]
    frames = [shape, *(truth[draw.permutation(60)] for truth in truths[1:])]
    done = register_sequence(frames, transform=transform, steps=15, stages=1, stage_steps=10, warmup=20)
    assert np.linalg.norm(done.points - truths, axis=-1).mean(1).max() < mean
    assert done.transforms[0] is None and done.trusted.all()
    for k in (1, 2, 3):
        np.testing.assert_allclose(done.transforms[k](shape), done.points[k], atol=1e-5)


@pytest.mark.parametrize(
    ("frames", "template", "words"),
    [
        ([], None, "expected two frames or more, or a template and a frame, got 0"),
        ([FOUR], None, "got 1"),
        ([], FOUR, "expected at least one frame, got 0"),
        ([FOUR, FOUR, FOUR[:, :2]], None, r"frame 2 has the shape \(4, 2\) and frame 0 \(4, 3\)"),
        ([FOUR, np.ones((2, 4, 3))], None, r"frame 1 has the shape \(2, 4, 3\)"),
        ([FOUR, np.full((4, 3), np.nan)], None, "frame 0 onto frame 1: .*must be finite"),
        ([FOUR, [["a", "b", "c"]]], None, "frame 1 must be an array of real numbers"),
        ([FOUR[:, :2]], FOUR, r"frame 0 has the shape \(4, 2\) and template \(4, 3\)"),
    ],
)
def test_bad_frames_are_refused_before_anything_is_computed(frames, template, words):
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was computed")

    with pytest.raises(ValueError, match=words):
        register_sequence(frames, template=template, register=never)


def test_landmarks_are_refused():
    with pytest.raises(ValueError, match="^landmarks are pairs of points of two sets; leave landmarks out"):
        register_sequence([FOUR, FOUR], landmarks=[[0, 0]])


def test_what_is_said_of_one_frame_and_of_more():
    good, bad = frame_of(0.9, True), frame_of(0.1, False)
    assert sentences([good]) == ["1 of 1 frame is to be trusted."]
    assert sentences([good, good, bad]) == ["2 of 3 frames are to be trusted.", "Not to be trusted: f"]
    assert "4 points in 1 frame (3-D)" in repr(RegisteredSequence([good]))


def test_frames_are_told_as_parts_of_one_whole_that_never_goes_back():
    told: list[Progress] = []
    observer = of_frame(told.append, 1, 4)
    assert observer is not None and of_frame(None, 0, 1) is None
    for step in (10, 40, 5, 40):  # a frame that is registered twice begins anew
        observer(Progress(step, 40, lambda: None))
    assert [(progress.step, progress.steps) for progress in told] == [(125, 400), (200, 400), (200, 400), (200, 400)]


def test_in_turn_goes_on_from_where_it_is_told():
    last = Followed.first("before", np.eye(3))
    done = in_turn(
        [5, 6], lambda number, _: Followed(f"frame {number}", np.eye(3), number == 6, 0.5, 0.1, 1.0), last, print
    )
    assert [frame.began for frame in done] == ["before", "before"]


def test_it_is_in_the_package():
    assert pwan.register_sequence is register_sequence


def test_a_frame_that_has_failed_has_no_distance() -> None:
    points = np.zeros((2, 3))
    assert Followed("a", points, False, 0.0, np.inf, 1.0, "diverged").failed
    assert not Followed("b", points, False, 0.2, 0.1, 1.0, "doubted").failed


def test_an_observer_sees_all_frames_and_a_frame_is_named_where_it_fails(shape) -> None:
    truths, told = [moved(shape, k) for k in range(3)], []
    done = register_sequence(truths, observer=told.append, method="soft_assignment", steps=2, rank=10)
    assert len(done.frames) == 3 and told[-1].steps == 2 * PARTS and told[0].step < told[-1].step

    def some(source: np.ndarray, *, reference: Any, **_: Any) -> Any:
        raise ValueError("it is odd")

    with pytest.raises(ValueError, match="^frame 1: it is odd$"):
        register_sequence(truths, register=some)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"guess": FOUR}, "leave guess out of a sequence"),
        ({"stepz": 3}, r"has 'stepz' \(did you mean 'steps'\?\)"),
        ({"mass": 5}, r"^frame 0 onto frame 2: mass .* the smaller set, 4; got \[5.0\]"),
        ({"source_attributes": {"normals": FOUR}}, "register_sequence has one source_attributes for all sets"),
        ({"reference_attributes": np.arange(4)}, "one reference_attributes for all"),
        ({"reference_weights": np.ones(4)}, "one reference_weights for all"),
        ({"reference_faces": [[0, 1, 2]]}, "one reference_faces for all"),
    ],
)
def test_what_is_of_one_frame_alone_is_refused(options, words) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("registered")

    with pytest.raises(ValueError, match=words):
        register_sequence([FIVE, FIVE, FOUR], register=never, **options)
