"""Markups of 3D Slicer (.mrk.json): control points with labels. Its older .fcsv is text.

The layout: 3D Slicer's "markups schema" 1.0.
"""

from __future__ import annotations

import copy
import json
from typing import Any, BinaryIO

import numpy as np

from pwan.pointfiles.columns import Asked, none_to_choose
from pwan.pointfiles.content import Content, Fault
from pwan.pointfiles.moved import Moved

EXPORT = "Save the markups again in 3D Slicer."


def read(data: bytes, asked: Asked) -> Content:
    """The control points of all lists in the file, in their order; points without a position are NaN.

    Raises:
        Fault: it is no JSON, or holds no control points with three coordinates each.
    """
    none_to_choose(asked, "markups")
    document = _parsed(data)
    points = _points(document)
    positions = np.full((len(points), 3), np.nan)
    for row, point in enumerate(points):
        position = point.get("position")
        if point.get("positionStatus", "defined") == "undefined" or position is None:
            continue
        numbers = isinstance(position, list) and all(type(one) in (int, float) and abs(one) < 1e300 for one in position)
        if not numbers or len(position) != 3:
            raise Fault(f"control point {row + 1}: expected a position of 3 numbers, found {position!r:.60}. {EXPORT}")
        positions[row] = position
    lists = document["markups"]
    systems = sorted({str(one.get("coordinateSystem", "LPS")) for one in lists})
    if len(systems) > 1:
        raise Fault(f"expected lists in one coordinate system, found {', '.join(systems)[:60]}. {EXPORT}")
    notes = [f"control points of {len(lists)} list{'s' * (len(lists) > 1)}, coordinate system {systems[0][:20]}"]
    fields = {"label": np.array([str(point.get("label", "")) for point in points])}
    for point in points:
        point["position"] = None  # as in the file that is written, where the moved ones stand
    return Content(positions, fields, None, notes, {"document": document})


def _parsed(data: bytes) -> Any:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # of JSON or of the encoding; brackets within brackets
        raise Fault(f"expected JSON, found a file that is cut off or damaged: {error!s:.120}. {EXPORT}") from error
    lists = document.get("markups")
    if not isinstance(lists, list) or not lists or not all(isinstance(one, dict) for one in lists):
        raise Fault(f"expected a list named markups, found {lists!r:.60}. {EXPORT}")
    return document


def _points(document: Any) -> list[dict[str, Any]]:
    """The control points of all lists, as they stand in the document."""
    points: list[dict[str, Any]] = []
    for one in document["markups"]:
        held = one.get("controlPoints", [])
        if not isinstance(held, list) or not all(isinstance(point, dict) for point in held):
            raise Fault(f"expected a list named controlPoints, found {held!r:.60}. {EXPORT}")
        points += held
    return points


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's document with new positions; points that were left out leave it."""
    moved.leave_out()
    document = copy.deepcopy(moved.like.layout["document"])
    rows = {int(row): place for place, row in enumerate(moved.like.rows)}
    number = 0
    for one in document["markups"]:
        kept = []
        for point in one.get("controlPoints", []):
            if number in rows:
                kept.append(point | {"position": moved.points[rows[number]].tolist()})
            number += 1
        one["controlPoints"] = kept
    stream.write(json.dumps(document, indent=1).encode("utf-8"))
