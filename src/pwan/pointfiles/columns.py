"""Which of a file's named columns are the coordinates."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pwan.pointfiles.content import Fault

_AXIS = re.compile(
    r"(?:points?|pos|position|coords?|coordinates?|vertex|p)?([xyz])(?:coords?|coordinates?|pos|position|mm|cm|m)?"
)
_EARTH = re.compile(r"(?:(east|easting)|(north|northing)|(height|elevation|elev|altitude|alt|up|z|h))")
_COUNTED = re.compile(r"(?:points?|coords?|x|p)([0-3])")  # Points:0, x1


def plain(name: str) -> str:
    """A name without case, quotes, units and signs: "X [m]" and "pos_x" become "x" and "posx"."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"[\[(].*", "", name.lower()))


def coordinates(names: Sequence[str]) -> tuple[int, ...] | None:
    """The places of x, y and, where there is one, z; None where the names do not say."""
    bare = [plain(name) for name in names]
    exact = [bare.index(axis) for axis in "xyz" if axis in bare]
    if len(exact) == 3 or (len(exact) == 2 and "z" not in bare):
        return tuple(exact) if "x" in bare and "y" in bare else None
    for pattern in (_AXIS, _EARTH, _COUNTED):
        axes: dict[int | str, int] = {}
        for place, name in enumerate(bare):
            if (match := pattern.fullmatch(name)) is not None:
                axis = match.lastindex if pattern is _EARTH else match.group(1)
                axes.setdefault(axis or 0, place)
        places = tuple(axes[axis] for axis in sorted(axes, key=str))
        complete = [{"x", "y"}, {"x", "y", "z"}, {1, 2}, {1, 2, 3}, {"0", "1"}, {"0", "1", "2"}, {"1", "2"}]
        if set(axes) in [*complete, {"1", "2", "3"}]:
            return places
    return None


def parts(key: str | Sequence[str]) -> list[str]:
    """The names in a key: a sequence of names, or one text with commas, semicolons or spaces between them."""
    if isinstance(key, str):
        return [part for part in re.split(r"[,;\s]+", key) if part]
    return [str(part) for part in key]


def chosen(names: Sequence[str], key: str | Sequence[str] | None, what: str) -> tuple[int, ...] | None:
    """The places of the coordinates among the names, by the key where one is given.

    A key holds two or three names (any case), or places counted from 1. One name alone is taken where it is one of x, y
    and z: the others are then known too.

    Raises:
        Fault: the key names something else; the sentence lists what there is.
    """
    found = coordinates(names)
    if key is None:
        return found
    asked = parts(key)
    lower = [name.lower() for name in names]
    if all(part.lower() in lower for part in asked):
        places = tuple(names.index(part) if part in names else lower.index(part.lower()) for part in asked)
    elif all(part.isdecimal() and 1 <= int(part) <= len(names) for part in asked):
        places = tuple(int(part) - 1 for part in asked)
    else:
        raise _no_such(names, asked, what)
    if len(places) == 1 and found is not None and places[0] in found:
        return found
    if len(places) not in (2, 3) or len(set(places)) < len(places):
        raise _no_such(names, asked, what)
    return places


def _no_such(names: Sequence[str], asked: list[str], what: str) -> Fault:
    return Fault(
        f"expected a key of two or three of the {what} {listed(names)}, found {' '.join(asked)!r}. Name others, or "
        "leave the key out where x, y and z are among them."
    )


def flat(names: Sequence[str], types: Sequence[str], places: tuple[int, ...], key: object) -> bool:
    """Whether coordinates x and y alone are meant: not where another value of their type follows them without a key."""
    if len(places) > 2:
        return False
    behind = max(places) + 1
    if key is None and behind < len(names) and types[behind] == types[places[0]]:
        raise Fault(
            f"expected x, y and z, found {listed(names)}. If the points have two coordinates, say so by "
            f"key='{names[places[0]]},{names[places[1]]}'."
        )
    return True


def listed(names: Sequence[str]) -> str:
    """The names in a sentence."""
    shown = ", ".join(str(name)[:40] for name in list(names)[:30])
    return shown + (", ..." if len(names) > 30 else "") if names else "(none)"


def no_key(key: object, format: str) -> None:
    """Raise a fault where a key is given for a format that has nothing to choose."""
    if key is not None:
        raise Fault(f"expected no key for a file of format {format}, found key={key!r}: leave it out.")
