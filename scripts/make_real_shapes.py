"""Make the packaged pairs of bodies, hands and heads; needs an environment of its own.

    pip install torch==2.13.0 && pip install anny==0.6.2 fast-simplification==0.2.0
    python scripts/make_real_shapes.py      (the first time some minutes: anny prepares its blend shapes)

Writes src/pwan/shapes/data/pairs/<family>.npz; the shapes' catalogue (src/pwan/shapes) says what the arrays mean.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import anny
import fast_simplification
import numpy as np
import torch
from anny.face_segmentation import get_face_segmentation_mask
from scipy.spatial.transform import Rotation

DATA = Path(__file__).resolve().parents[1] / "src" / "pwan" / "shapes" / "data" / "pairs"
Angles = tuple[float, float, float]
Pose = dict[str, Angles]


class Person(NamedTuple):
    """The model's own measures, 0 to 1 each; an age of 0 is a baby, 1/3 a child, 2/3 an adult, 1 old."""

    gender: float = 0.5  # 1 for a woman
    age: float = 0.66
    muscle: float = 0.5
    weight: float = 0.5
    height: float = 0.45
    african: float = 0.5
    asian: float = 0.5
    caucasian: float = 0.5


MAN = Person(gender=0.05, muscle=0.6, caucasian=1.0)
WOMAN = Person(gender=0.95, age=0.62, weight=0.45, height=0.5, asian=1.0)
TALL = Person(gender=0.1, age=0.6, muscle=0.75, height=0.6, african=1.0)
SMALL = Person(gender=0.9, age=0.72, weight=0.7, height=0.38, asian=1.0)
THIN = Person(gender=0.3, age=0.62, muscle=0.3, weight=0.0)
HEAVY = Person(gender=0.3, age=0.75, muscle=0.35, weight=1.6)  # beyond the model's own measure
CHILD = Person(gender=0.6, age=0.25, height=0.5)
OLD = Person(gender=0.2, age=1.0, muscle=0.3, weight=0.6)

# Bodies: angles in degrees about x (to the person's left), y (to the back) and z (up) as they are at rest, one joint
# carrying the next. A joint without a side means both, the right one mirrored.
STANDING: Pose = {"upperarm01": (0, 32, 8), "lowerarm01": (-8, 4, -8), "wrist": (0, 0, 4), "upperleg01": (0, 3, 0)}
WALKING: Pose = {
    "upperleg01.L": (-28, 3, 0),
    "lowerleg01.L": (12, 0, 0),
    "foot.L": (-6, 0, 0),
    "upperleg01.R": (18, -3, 0),
    "lowerleg01.R": (32, 0, 0),
    "foot.R": (14, 0, 0),
    "upperarm01.L": (24, 34, 8),
    "upperarm01.R": (-26, -34, -8),
    "lowerarm01.L": (-14, 4, -14),
    "lowerarm01.R": (-24, -4, 24),
    "spine03": (0, 0, -6),
    "spine02": (0, 0, -6),
}
BODY_POSES: dict[str, Pose] = {
    "standing": STANDING,
    "walking": STANDING | WALKING,
    "turned": STANDING | {"spine04": (0, 0, 14), "spine03": (0, 0, 14), "spine02": (0, 0, 10), "neck02": (0, 0, 20)},
    "leaning": STANDING
    | {"spine04": (6, 7, 0), "spine02": (4, 6, 0), "upperarm01.L": (0, 16, 0), "head": (0, -12, 10)},
    "raised": {"clavicle": (0, -14, 0), "upperarm01": (0, -88, 0), "lowerarm01": (0, -22, 0)},
    "lunging": STANDING
    | {
        "upperleg01.L": (-72, 3, 0),
        "lowerleg01.L": (78, 0, 0),
        "upperleg01.R": (34, -3, 0),
        "lowerleg01.R": (26, 0, 0),
        "foot.R": (-30, 0, 0),
        "upperarm01": (-20, 10, -20),
        "lowerarm01": (0, 0, -30),
    },
    "sitting": STANDING
    | {
        "upperleg01": (-86, 6, 0),
        "lowerleg01": (84, 0, 0),
        "upperarm01": (-24, 30, 0),
        "lowerarm01": (-30, 10, -20),
    },
    "waving": STANDING | {"upperarm01.R": (0, 30, 20), "lowerarm01.R": (0, 70, 10), "head": (0, 8, 0)},
    "kicking": STANDING
    | WALKING
    | {
        "upperleg01.L": (-66, 3, 0),
        "lowerleg01.L": (16, 0, 0),
        "upperleg01.R": (8, -3, 0),
        "lowerleg01.R": (8, 0, 0),
        "foot.R": (0, 0, 0),
        "spine03": (-8, 0, -6),
    },
    "reaching": STANDING | {"clavicle.L": (0, -12, 0), "upperarm01.L": (0, -70, -20), "spine03": (0, 6, 12)},
    "bowing": STANDING
    | {"spine05": (30, 0, 0), "spine04": (20, 0, 0), "spine03": (14, 0, 0), "upperarm01": (-40, 24, 0)},
}


def hand(thumb: Iterable[Angles], *curls: Angles, spread: tuple[float, ...] = (0, 0, 0, 0)) -> Pose:
    """A right hand: degrees about the axes across the palm (a curl), along it, and out of it.

    The thumb's three joints, then the curls of the other fingers' joints, and how far these are spread aside.
    """
    pose = {f"finger1-{joint}.R": angles for joint, angles in enumerate(thumb, 1)}
    for finger, (curl, aside) in enumerate(zip(curls, spread, strict=True), 2):
        for joint, angle in enumerate(curl, 1):
            pose[f"finger{finger}-{joint}.R"] = (angle, 0, aside if joint == 1 else 0)
    return pose


CURLED = ((78, 92, 55), (80, 95, 55), (82, 95, 55), (84, 92, 55))
STRAIGHT = (0, 0, 0)
LOOSE = (STRAIGHT, STRAIGHT, STRAIGHT)  # the thumb
ACROSS = ((2, -25, 10), (10, -25, 35), (0, -15, 50))
TUCKED = ((8, -40, 25), (10, -20, 38), (0, -10, 40))
HAND_POSES: dict[str, Pose] = {
    "open": hand(LOOSE, *[(5, 5, 5)] * 4),
    "spread": hand(((0, 15, -18), (0, 0, -8), (0, 0, -5)), *[(-8, -2, 0)] * 4, spread=(-12, -3, 8, 16)),
    "fist": hand(ACROSS, *CURLED),
    "pointing": hand(ACROSS, (4, 4, 2), *CURLED[1:]),
    "pinching": hand(((12, -25, 10), (6, 0, 10), (5, 0, 15)), (58, 50, 26), (20, 22, 10), (14, 16, 8), (8, 12, 6)),
    "two": hand(TUCKED, STRAIGHT, STRAIGHT, *CURLED[2:], spread=(-8, 8, 0, 0)),
    "three": hand(TUCKED, STRAIGHT, STRAIGHT, STRAIGHT, CURLED[3], spread=(-10, 0, 10, 0)),
    "bent": hand(((10, -10, 5), STRAIGHT, STRAIGHT), *[(62, 6, 4)] * 4),
    "hooked": hand(((5, -10, 10), (0, 0, 10), (0, 0, 10)), *[(8, 85, 50)] * 4),
    "cupped": hand(((28, -20, 0), (5, 0, 5), (0, 0, 5)), *[(31, 29, 16)] * 4, spread=(3, 0, -2, -4)),
    "thumb up": hand(((0, 10, -25), (0, 0, -10), (0, 0, -5)), *CURLED),
}


def face(both: dict[str, float], **single: float) -> dict[str, float]:
    """A facial expression: strengths from 0 to 1 of the model's actions, on both sides or of those without a side."""
    return {f"{action}{side}": value for action, value in both.items() for side in ("Left", "Right")} | single


# Heads: the expression, and how the head is held, by the neck's angles as those of a body
EXPRESSIONS: dict[str, tuple[dict[str, float], Pose]] = {
    "still": ({}, {}),
    "smiling": (face({"mouthSmile": 1, "cheekSquint": 0.7}), {}),
    "grinning": (face({"mouthSmile": 1, "eyeSquint": 0.8}, jawOpen=0.35), {"head": (0, 10, 0)}),
    "shouting": (face({"browDown": 0.8, "noseSneer": 0.6, "mouthUpperUp": 0.6}, jawOpen=1), {"head": (6, 0, 0)}),
    "yawning": (face({"eyeBlink": 1}, jawOpen=0.9, mouthFunnel=0.4, browInnerUp=0.8), {"head": (-12, 0, 0)}),
    "frowning": (face({"mouthFrown": 1, "browDown": 1}), {}),
    "kissing": (face({}, mouthPucker=1, browInnerUp=0.5), {"head": (0, 0, 15)}),
    "puffed": (face({"mouthPress": 0.5}, cheekPuff=1), {"head": (10, 0, -8)}),
}

# Each pair: who and how, of the source and of the reference.
Side = tuple[Person, str]
BODIES: dict[str, tuple[Side, Side]] = {
    "body_turn": ((WOMAN, "standing"), (WOMAN, "turned")),
    "body_walk": ((MAN, "standing"), (MAN, "walking")),
    "body_raise": ((WOMAN, "standing"), (WOMAN, "raised")),
    "body_child": ((CHILD, "standing"), (MAN, "standing")),
    "body_wave": ((CHILD, "waving"), (WOMAN, "standing")),
    "body_kick": ((SMALL, "walking"), (TALL, "kicking")),
    "body_lean": ((TALL, "standing"), (TALL, "leaning")),
    "body_lunge": ((TALL, "standing"), (TALL, "lunging")),
    "body_sit": ((MAN, "standing"), (MAN, "sitting")),
    "body_heavy": ((THIN, "standing"), (HEAVY, "standing")),
    "body_reach": ((OLD, "standing"), (WOMAN, "reaching")),
    "body_bow": ((SMALL, "standing"), (HEAVY, "bowing")),
}
HANDS: dict[str, tuple[Side, Side]] = {
    "hand_spread": ((MAN, "open"), (MAN, "spread")),
    "hand_fist": ((WOMAN, "open"), (WOMAN, "fist")),
    "hand_point": ((MAN, "open"), (MAN, "pointing")),
    "hand_grown": ((CHILD, "open"), (MAN, "open")),
    "hand_hook": ((SMALL, "open"), (TALL, "hooked")),
    "hand_two": ((OLD, "spread"), (WOMAN, "two")),
    "hand_cup": ((TALL, "open"), (TALL, "cupped")),
    "hand_pinch": ((MAN, "open"), (MAN, "pinching")),
    "hand_thumb": ((WOMAN, "open"), (WOMAN, "thumb up")),
    "hand_broad": ((THIN, "spread"), (HEAVY, "spread")),
    "hand_bend": ((HEAVY, "open"), (SMALL, "bent")),
    "hand_three": ((CHILD, "open"), (OLD, "three")),
}
HEADS: dict[str, tuple[Side, Side]] = {
    "head_smile": ((WOMAN, "still"), (WOMAN, "smiling")),
    "head_shout": ((MAN, "still"), (MAN, "shouting")),
    "head_puff": ((SMALL, "still"), (SMALL, "puffed")),
    "head_aged": ((CHILD, "still"), (OLD, "still")),
    "head_other": ((TALL, "still"), (WOMAN, "still")),
    "head_grin": ((MAN, "frowning"), (SMALL, "grinning")),
    "head_kiss": ((TALL, "still"), (TALL, "kissing")),
    "head_yawn": ((OLD, "still"), (OLD, "yawning")),
    "head_frown": ((WOMAN, "smiling"), (WOMAN, "frowning")),
    "head_heavy": ((THIN, "still"), (HEAVY, "still")),
    "head_man": ((WOMAN, "still"), (MAN, "still")),
    "head_call": ((CHILD, "smiling"), (TALL, "shouting")),
}


@functools.cache
def model() -> anny.Anny:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a word on faster skinning
        return anny.Anny(facial_actions="all", phenotypes="all", extrapolate_phenotypes=True, skinning_method="lbs").to(
            dtype=torch.float64
        )


def posed(person: Person, pose: Pose, axes: np.ndarray, expression: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """All vertices of the model (v, 3) in m, and the places of its joints (j, 3); ``axes`` (3, 3) holds those of the
    angles in its columns."""
    turns = {}
    for joint, angles in pose.items():
        for name in [joint] if joint in model().bone_labels else [f"{joint}.L", f"{joint}.R"]:
            x, y, z = angles
            mirrored = name != joint and name.endswith(".R")
            turn = Rotation.from_euler("xyz", (x, -y, -z) if mirrored else angles, degrees=True).as_matrix()
            turns[name] = torch.eye(4, dtype=torch.float64)[None].clone()
            turns[name][0, :3, :3] = torch.from_numpy(axes @ turn @ axes.T)
    out = model()(pose_parameters=turns or None, phenotype_kwargs=person._asdict(), facial_actions=expression)
    return out["vertices"][0].numpy(), out["bone_poses"][0, :, :3, 3].numpy()


def template(parts: list[str], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The skin of some parts, thinned: rows of the model's vertices, about ``count``, and faces over them (f, 3).

    Edges are collapsed and each remaining vertex is one of the model's own, so that rows mean the same in all people.
    The collapses see vertices with noise of a tenth of their edges: otherwise flat parts would lose nearly all of them.
    """
    faces = model().faces.numpy()[get_face_segmentation_mask(model(), parts).numpy()]
    rows, faces = np.unique(faces, return_inverse=True)
    faces = faces.reshape(-1, 3)
    if len(rows) <= count:
        return rows, faces
    vertices = model().template_vertices.numpy()[rows]
    sides = np.linalg.norm(vertices[faces] - vertices[np.roll(faces, 1, 1)], axis=-1).ravel()  # (3 f,)
    length = np.bincount(faces.ravel(), sides) / np.bincount(faces.ravel())  # (v,)
    noisy = vertices + 0.1 * length[:, None] * np.random.default_rng(0).standard_normal(vertices.shape)
    collapses = fast_simplification.simplify(noisy, faces, target_count=2 * count, agg=3, return_collapses=True)[2]
    merged, thinned, group = fast_simplification.replay_simplification(noisy, faces, collapses)
    order = np.lexsort((np.linalg.norm(vertices - merged[group], axis=1), group))  # the nearest first in each group
    nearest = order[np.unique(group[order], return_index=True)[1]]
    return rows[nearest], thinned


def palm() -> np.ndarray:
    """The axes of the right hand at rest, in columns: across the palm, along it, out of it."""
    joints = model()()["rest_bone_heads"][0].numpy()
    at = {
        name: joints[model().bone_labels.index(f"{name}.R")]
        for name in ("finger2-1", "finger3-1", "finger5-1", "wrist")
    }
    along = at["finger3-1"] - at["wrist"]
    along /= np.linalg.norm(along)
    across = at["finger2-1"] - at["finger5-1"]
    across -= along * (across @ along)
    across /= np.linalg.norm(across)
    return np.stack([across, along, np.cross(across, along)], axis=1)


def body(side: Side) -> np.ndarray:
    """On the ground, with the joint of the trunk above the origin."""
    vertices, joints = posed(side[0], BODY_POSES[side[1]], np.eye(3), {})
    return vertices - [*joints[0, :2], vertices[:, 2].min()]


def right_hand(side: Side) -> np.ndarray:
    """With the wrist at the origin and z along the fingers."""
    axes = palm()
    vertices, joints = posed(side[0], HAND_POSES[side[1]], axes, {})
    return (vertices - joints[model().bone_labels.index("wrist.R")]) @ axes[:, [2, 0, 1]]


def head(side: Side) -> np.ndarray:
    """With the joint of neck and head at the origin."""
    expression, pose = EXPRESSIONS[side[1]]
    vertices, joints = posed(side[0], pose, np.eye(3), expression)
    return vertices - joints[model().bone_labels.index("head")]


SKIN = ["body", "head", "hand.L", "hand.R", "foot.L", "foot.R"]  # no eyes, no insides of mouth and eye sockets
FAMILIES = {
    "bodies": (BODIES, body, SKIN, 3000),
    "hands": (HANDS, right_hand, ["hand.R"], 3000),
    "heads": (HEADS, head, ["head"], 2500),
}


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for family, (pairs, make, parts, count) in FAMILIES.items():
        rows, faces = template(parts, count)
        made = {name: np.stack([make(side)[rows] for side in sides]) for name, sides in pairs.items()}
        unit = 2.0 ** np.ceil(np.log2(max(np.abs(pair).max() for pair in made.values()) / 2**15))
        whole = {name: np.round(pair / unit).astype(np.int16) for name, pair in made.items()}
        path = DATA / f"{family}.npz"
        np.savez_compressed(path, faces=faces.astype(np.uint16), unit=np.array(unit), **whole)
        print(path, path.stat().st_size, f"{len(rows)} vertices, {len(faces)} faces, unit {unit} m")


if __name__ == "__main__":
    main()
