"""Which of a file's columns are the coordinates: by the caller's word, or by their names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles.content import Fault

COUNTED_FROM = 3  # rows from which a first column of numbers that count is taken for a row number
ROW_NUMBER = "column {} numbers the rows and is no coordinate"
ALIKE = 8  # columns without names from which their likeness tells a grid; points with normals have six
SPREADS = 2.5  # ratio of the spreads of such columns
WIDEST = 12  # columns of numbers without names that a cloud has (x y z, normals, colours, more); a grid has others
_AXIS = re.compile(
    r"(?:points?|pos|position|coords?|coordinates?|vertex|p|centroid|cent(?:er|re)|location|loc|global|world)?"
    r"([xyz])(?:coords?|coordinates?|pos|position|location|mm|cm|um|nm|px|m)?"
)
_EARTH = re.compile(
    r"(?:(e|east|easting|rechtswert)|(n|north|northing|hochwert)|"
    r"(height|elevation|elev|altitude|alt|up|u|z|h|hohe|hoehe))"
)
_HEIGHT = re.compile(r"elevation|elev|altitude|alt|(height|h|hohe|hoehe)")  # beside x and y; the group may be a size
_SIZE = re.compile(r"w|width|breite|length|radius|diameter|dbh|bhd")  # of a box or a tree, whose height is another
_COUNTED_X = re.compile(r"x([0-3])")
_COUNTED = re.compile(r"(?:points?|coords?|position|pos|axis|dim|centroid|p)([0-3])")  # Points:0, axis-0
_OF_SEVERAL = re.compile(r"[yz]\d")  # beside x1: the coordinates of several points in one row
_OF_ONE = re.compile(r"([xyz])(\d)")
_PLACE = r"(?:gps|geo|wgs84|decimal|location|point|center|x|y)?(?:{})(?:deg|degrees?|dd|wgs84)?"
_LATITUDE = re.compile(_PLACE.format("lat|latitude?|breite|breitengrad"))
_LONGITUDE = re.compile(_PLACE.format("lon|lng|long|longitude?|lange|langengrad"))
_ANGLE = re.compile(r"theta|phi|az|azimuth?|bearing|inclination|zenith|(?:polar|azimuth|zenith|elevation)(?:angle)?deg")
_DEGREES = re.compile(r"°|[\[(_ ]deg(?:rees?)?\b", re.IGNORECASE)
Key = str | Sequence[str] | Sequence[int]


@dataclass(frozen=True)
class Asked:
    """What a caller says of a file beyond its path.

    Attributes:
        key: the array of an NPZ or MAT file.
        columns: the coordinates' names, or their places counted from 1.
        keep_flagged: take points that a LAS file flags as withheld or noise.
        suffix: of the file's name.
    """

    key: Key | None = None
    columns: Key | None = None
    keep_flagged: bool = False
    suffix: str = ""


def plain(name: str) -> str:
    """A name without case, quotes, units, accents and signs: "X [m]" and "pos_x" become "x" and "posx"."""
    letters = unicodedata.normalize("NFKD", re.sub(r"[\[(].*", "", name.lower()))
    return re.sub(r"[^a-z0-9]", "", letters)


def coordinates(names: Sequence[str]) -> tuple[int, ...] | None:
    """The places of x, y and, where there is one, z; None where the names do not say."""
    bare = [plain(name) for name in names]
    exact = [bare.index(axis) for axis in "xyz" if axis in bare]
    if len(exact) == 3:
        return tuple(exact)
    if len(exact) == 2 and "z" not in bare:
        return (*exact, *_height(bare))
    if one := _of_one(bare):
        return one
    for pattern in (_AXIS, _EARTH, *(() if of_several(names) else (_COUNTED_X,)), _COUNTED):
        axes: dict[int | str, int] = {}
        for place, name in enumerate(bare):
            if (match := pattern.fullmatch(name)) is not None:
                axis = match.lastindex if pattern is _EARTH else match.group(1)
                axes.setdefault(axis or 0, place)
        places = tuple(axes[axis] for axis in sorted(axes, key=str))
        complete = [{"x", "y"}, {"x", "y", "z"}, {1, 2}, {1, 2, 3}, {"0", "1"}, {"0", "1", "2"}, {"1", "2"}]
        if set(axes) in [*complete, {"1", "2", "3"}]:
            return (*places, *_height(bare)) if set(axes) == {"x", "y"} else places
    return None


def of_several(names: Sequence[str]) -> bool:
    """Whether a row holds several points, as columns x1, y1, x2 and y2 do."""
    bare = [plain(name) for name in names]
    return sum(bool(_COUNTED_X.fullmatch(name)) for name in bare) > 1 and any(map(_OF_SEVERAL.fullmatch, bare))


def _of_one(bare: Sequence[str]) -> tuple[int, ...]:
    """The places of x1, y1 and, where there is one, z1, if no other number stands behind an x, y or z; else none."""
    matches = [(place, match) for place, name in enumerate(bare) if (match := _OF_ONE.fullmatch(name))]
    found, numbers = {match[1]: place for place, match in matches}, {match[2] for _, match in matches}
    return tuple(found[axis] for axis in sorted(found)) if len(numbers) == 1 and {"x", "y"} <= set(found) else ()


def _height(bare: Sequence[str]) -> list[int]:
    """The place of z where it is called a height beside x and y; none where that names a size or an angle."""
    if any(_ANGLE.fullmatch(name) for name in bare):
        return []
    sized = any(_SIZE.fullmatch(name) for name in bare)
    found = [_HEIGHT.fullmatch(name) for name in bare]
    return [place for place, match in enumerate(found) if match and not (sized and match.group(1))][:1]


def angles(names: Sequence[str]) -> list[str]:
    """The names that are angles: latitude and longitude where there are both, directions, and what is in degrees."""
    bare = [plain(name) for name in names]
    earth = [[bool(pattern.fullmatch(name)) for name in bare] for pattern in (_LATITUDE, _LONGITUDE)]
    both = any(earth[0]) and any(earth[1])
    return [
        name
        for name, word, north, east in zip(names, bare, *earth, strict=True)
        if (both and (north or east)) or _ANGLE.fullmatch(word) or _DEGREES.search(name)
    ]


def no_angles(names: Sequence[str]) -> None:
    """Raise a fault where names that shall be coordinates are angles."""
    found = angles(names)
    if found:
        raise Fault(
            f"expected coordinates of one unit of length, found degrees or other angles: {listed(found)}. First "
            "project them to metres (latitude and longitude with pyproj or gdaltransform, for example to UTM; "
            "directions by sine and cosine) and name the results x, y and z. If they are lengths, say so by "
            f"columns='{','.join(found if len(found) > 1 else names[:3])}'."
        )


def numbers_rows(numeric: list[NDArray], with_text: bool) -> bool:
    """Whether the first of some columns of numbers is the number of a row or point and no coordinate.

    It is where it counts up by one, from anywhere where the others are no whole numbers and from 0 or 1 in any case;
    and, as in a surveyor's list, where its whole numbers differ and three columns of decimals follow, or two of them
    with codes in letters behind; or where they rise, with codes behind two columns. Two coordinates must be left.
    """
    if len(numeric) < 3 or len(numeric[0]) < COUNTED_FROM:
        return False
    first, others = numeric[0], numeric[1:4]
    decimals = sum(not whole(column) for column in others)
    if counts(first):
        return bool(first[0] in (0, 1)) or decimals >= 2
    if not whole(first) or decimals < 2:
        return False
    if len(others) == 3 and (decimals == 3 or with_text):
        return len(np.unique(first)) == len(first)
    return with_text and bool((np.diff(first) > 0).all())


def like_a_grid(columns: Sequence[NDArray]) -> bool:
    """Whether columns of numbers without names are one quantity from place to place, as the heights of a grid.

    They are where there are more than a cloud has, or where all of ``ALIKE`` or more have about one spread and no two
    neighbours lie far apart: coordinates, normals, colours and labels of points do not.
    """
    if len(columns) > WIDEST or len(columns) < ALIKE:
        return len(columns) > WIDEST
    low, middle, high = np.nanpercentile(np.stack(columns), (5, 50, 95), axis=1)  # (C,) each
    spread = high - low
    level = np.abs(np.diff(middle)).max() <= spread.max()
    return bool(level and 0 < spread.max() <= SPREADS * spread.min())


def whole(column: NDArray) -> bool:
    """Whether all numbers of a column are whole."""
    return column.dtype.kind in "fiu" and bool((column % 1 == 0).all())


def counts(column: NDArray) -> bool:
    """Whether a column counts up by one."""
    return whole(column) and len(column) >= COUNTED_FROM and bool((np.diff(column) == 1).all())


def parts(asked: Key) -> list[str]:
    """The names asked for: a sequence of names, or one text with commas, semicolons or spaces between them."""
    if isinstance(asked, str):
        return [part for part in re.split(r"[,;\s]+", asked) if part]
    return [str(part) for part in asked]


def chosen(names: Sequence[str], asked: Key | None, what: str) -> tuple[int, ...] | None:
    """The places of the coordinates among the names, as the caller asks where he does.

    Asked for are two or three names (any case), or places counted from 1. One name alone is taken where it is one of x,
    y and z: the others are then known too.

    Raises:
        Fault: something else is asked for; the sentence lists what there is. Or nothing is, and the names that could be
            coordinates are angles.
    """
    found = coordinates(names)
    if asked is None:
        no_angles(names if found is None else [names[place] for place in found])
        return found
    words = parts(asked)
    lower = [name.lower() for name in names]
    if all(word.lower() in lower for word in words):
        places = tuple(names.index(word) if word in names else lower.index(word.lower()) for word in words)
    elif all(word.isdecimal() and 1 <= int(word) <= len(names) for word in words):
        places = tuple(int(word) - 1 for word in words)
    else:
        raise _no_such(names, words, what)
    if len(places) == 1 and found is not None and places[0] in found:
        return found
    if len(places) not in (2, 3) or len(set(places)) < len(places):
        raise _no_such(names, words, what)
    return places


def _no_such(names: Sequence[str], asked: list[str], what: str) -> Fault:
    return Fault(
        f"expected two or three of the {what} {listed(names)}, found {' '.join(asked)!r}. Name them, or give their "
        f"numbers from 1 to {len(names)}, by columns='A,B,C'; or leave it out where x, y and z are among them."
    )


def flat(names: Sequence[str], types: Sequence[str], places: tuple[int, ...], asked: object) -> bool:
    """Whether coordinates x and y alone are meant: not where another value of their type follows them unasked."""
    if len(places) > 2:
        return False
    behind = max(places) + 1
    if asked is None and behind < len(names) and types[behind] == types[places[0]]:
        raise Fault(
            f"expected x, y and z, found {listed(names)}. If the points have two coordinates, say so by "
            f"columns='{names[places[0]]},{names[places[1]]}'."
        )
    return True


def unnamed(what: str, names: Sequence[str]) -> Fault:
    """The fault of names that do not say which are the coordinates."""
    several = ", several points in a row" if of_several(names) else ""
    return Fault(
        f"expected {what} x, y and z, found {listed(names)}{several}. Name the coordinates by columns='A,B,C'."
    )


def said(names: Sequence[str], what: str, others: bool = False) -> str:
    """The note of what is read as coordinates; with ``others`` that could have been, how to choose them."""
    axes = "x, y, z" if len(names) == 3 else "x, y"
    return f"{axes}: {what} {listed(names)}" + (" (others by columns='A,B,C')" if others else "")


def listed(names: Sequence[str]) -> str:
    """The names in a sentence."""
    shown = ", ".join(str(name)[:40] for name in list(names)[:30])
    return shown + (", ..." if len(names) > 30 else "") if names else "(none)"


def none_to_choose(asked: Asked, format: str) -> None:
    """Raise a fault where a key or columns are given for a format that has nothing to choose."""
    for word, value in (("key", asked.key), ("columns", asked.columns)):
        if value is not None:
            raise Fault(f"expected no {word} for a file of format {format}, found {word}={value!r}: leave it out.")
