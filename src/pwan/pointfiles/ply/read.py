"""PLY: ASCII and binary of both byte orders, any properties, any elements, lists anywhere.

The format: G. Turk, "The PLY Polygon File Format" (1994). Every declared element is read to its end, so that a file
that is shorter or longer than its header promises is found out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pwan.pointfiles import numerals
from pwan.pointfiles.columns import Asked, chosen, flat, listed, said, unnamed
from pwan.pointfiles.content import Content, Fault, checked_faces
from pwan.pointfiles.ply import header as ply_header
from pwan.pointfiles.ply.header import ENCODINGS, Element, Lists, Property

CORNERS = ("vertex_indices", "vertex_index")  # what a face's list of vertices is called
TRAILING = 4  # bytes of blanks that a file may have behind its last element


Columns = dict[str, "NDArray | Lists"]


def read(data: bytes, asked: Asked) -> Content:
    """The vertices, their other properties and the faces of a PLY file.

    Raises:
        Fault: anything that is not as the header promises.
    """
    header, body, lines = ply_header.split(data)
    order, elements, comments = ply_header.parsed(header)
    notes: list[str] = []
    tables = _ascii(body, lines, elements) if order == "" else _binary(body, order, elements, notes)
    vertices = [element for element in elements if element.name.lower() in ("vertex", "vertices", "point", "points")]
    if not vertices:
        raise Fault(
            f"expected an element vertex, found the elements {listed([one.name for one in elements])}. "
            "Export the file again."
        )
    element, columns = vertices[0], tables[elements.index(vertices[0])]
    scalar = [one.name for one in element.properties if one.count_type is None]
    places = chosen(scalar, asked.columns, "properties")
    if places is None:
        raise unnamed("properties of a vertex", scalar)
    names = [scalar[place] for place in places]
    notes.append(said(names, "the properties"))
    points = np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in names])
    if flat(scalar, [one.type for one in element.properties if one.count_type is None], places, asked.columns):
        notes.append("the vertices have two coordinates")
    fields = {}
    for one in element.properties:
        column = columns[one.name]
        if isinstance(column, Lists):
            if len(column.counts) and (column.counts == column.counts[0]).all():
                values = _declared(column.values, one, notes) if order == "" else column.values
                fields[one.name] = _native(values).reshape(len(column.counts), -1)
            else:
                notes.append(f"left out the list property {one.name}, of another length at each vertex")
        elif one.name not in names:
            if order == "":
                column = _declared(column, one, notes)
            fields[one.name] = _native(column)
    faces, of_faces = None, {}
    for other, table in zip(elements, tables, strict=True):
        if other is element:
            continue
        lists = [table[one.name] for one in other.properties if one.name.lower() in CORNERS]
        if other.name.lower() == "face" and lists and isinstance(lists[0], Lists) and faces is None:
            if lists[0].values.dtype.kind == "f" and (lists[0].values % 1).any():
                raise Fault(
                    "expected whole numbers in the faces' lists of vertices, found fractions. Export the file again."
                )
            faces = checked_faces(lists[0].counts, lists[0].values, len(points), notes)
            of_faces = _of_faces(other, table, order, faces, notes)
        elif other.count:
            notes.append(f"left out the element {other.name} ({other.count} rows)")
    kept = {one.name: one.type for one in element.properties if one.count_type is None}
    encoding = next(name for name, sign in ENCODINGS.items() if sign == order)
    layout = {"encoding": encoding, "properties": kept, "coordinates": tuple(names), "comments": tuple(comments)}
    layout["of_faces"] = of_faces
    return Content(points, fields, faces, notes, layout)


def _of_faces(
    element: Element, table: Columns, order: str, faces: NDArray | None, notes: list[str]
) -> dict[str, NDArray | Lists]:
    """The faces' other properties, as texture coordinates at their corners, in the file's types."""
    others = [one for one in element.properties if one.name.lower() not in CORNERS]
    if others and (faces is None or len(faces) != element.count):
        notes.append(f"left out the faces' {listed([one.name for one in others])}")
        return {}
    held: dict[str, NDArray | Lists] = {}
    for one in others:
        column = table[one.name]
        values = column.values if isinstance(column, Lists) else column
        values = _native(_declared(values, one, notes) if order == "" else values)
        held[one.name] = Lists(column.counts, values) if isinstance(column, Lists) else values
    return held


def _binary(body: bytes, order: str, elements: list[Element], notes: list[str]) -> list[Columns]:
    tables: list[Columns] = []
    offset = 0
    for element in elements:
        columns: Columns
        if element.plain:
            dtype = np.dtype([(one.name, order + one.type) for one in element.properties])
            held = (len(body) - offset) // dtype.itemsize if dtype.itemsize else 0
            if element.count > held:
                raise element.short_of(held)
            rows = np.frombuffer(body, dtype, element.count, offset) if element.count else np.empty(0, dtype)
            columns, offset = {one.name: rows[one.name] for one in element.properties}, offset + rows.nbytes
        else:
            columns, offset = _binary_lists(body, offset, order, element)
        tables.append(columns)
    rest = body[offset:]
    if len(rest) > TRAILING or rest.strip(b"\r\n\t \0\x1a"):
        notes.append(
            f"warning: {len(rest)} more bytes stand behind the {_promised(elements)} that the header promises, and are "
            "left out. If points are missing, the header's counts or types are wrong: export the file again"
        )
    return tables


def _binary_lists(body: bytes, offset: int, order: str, element: Element) -> tuple[Columns, int]:
    """One element with list properties: at once where all rows are laid out as the first, else row by row."""
    smallest = sum(np.dtype(one.count_type or one.type).itemsize for one in element.properties)
    if element.count * smallest > len(body) - offset:
        raise element.short_of((len(body) - offset) // smallest)
    if (same := _binary_equal(body, offset, order, element)) is not None:
        return same
    pieces: dict[str, list[NDArray]] = {one.name: [] for one in element.properties}
    for index in range(element.count):
        for one in element.properties:
            length = 1
            if one.count_type is not None:
                head = _take(body, offset, order + one.count_type, 1, element, index)
                length, offset = int(head[0]), offset + head.nbytes
                if length < 0:
                    raise Fault(
                        f"expected lengths of lists in element {element.name}, found {length} in row {index + 1}. "
                        "Export the file again."
                    )
            values = _take(body, offset, order + one.type, length, element, index)
            pieces[one.name].append(values)
            offset += values.nbytes
    columns: Columns = {}
    for one in element.properties:
        joined = np.concatenate([np.empty(0, order + one.type), *pieces[one.name]])
        counts = np.array([len(piece) for piece in pieces[one.name]], dtype=np.int64)
        columns[one.name] = joined if one.count_type is None else Lists(counts, joined)
    return columns, offset


def _take(body: bytes, offset: int, type: str, length: int, element: Element, index: int) -> NDArray:
    if np.dtype(type).itemsize * length > len(body) - offset:
        raise element.short_of(index)
    return np.frombuffer(body, type, length, offset) if length else np.empty(0, type)


def _binary_equal(body: bytes, offset: int, order: str, element: Element) -> tuple[Columns, int] | None:
    """The element if every row's lists are as long as the first row's, else None."""
    if element.count == 0:
        return {one.name: _none(one) for one in element.properties}, offset
    layout: list[tuple] = []
    at = offset
    for place, one in enumerate(element.properties):
        length = 1
        if one.count_type is not None:
            head = _take(body, at, order + one.count_type, 1, element, 0)
            length, at = int(head[0]), at + head.nbytes
            if not 0 <= length <= len(body) - at:
                return None
            layout.append((f"{place}n", order + one.count_type))
        layout.append((f"{place}", order + one.type, (length,)))
        at += length * np.dtype(one.type).itemsize
    dtype = np.dtype(layout)
    if element.count * dtype.itemsize > len(body) - offset:
        return None
    rows = np.frombuffer(body, dtype, element.count, offset)
    columns: Columns = {}
    for place, one in enumerate(element.properties):
        values = rows[f"{place}"]
        if one.count_type is not None:
            counts = rows[f"{place}n"].astype(np.int64)
            if (counts != values.shape[1]).any():
                return None
            columns[one.name] = Lists(counts, values.ravel())
        else:
            columns[one.name] = values[:, 0]
    return columns, offset + rows.nbytes


def _none(one: Property) -> NDArray | Lists:
    empty = np.empty(0, one.type)
    return empty if one.count_type is None else Lists(np.empty(0, np.int64), empty)


def _ascii(body: bytes, first: int, elements: list[Element]) -> list[Columns]:
    lines = numerals.significant(body.decode("latin-1"), comment=None)
    promised = sum(element.count for element in elements)
    if len(lines) != promised:
        raise Fault(
            f"expected {promised} lines behind the header ({_promised(elements)}), as it promises, found {len(lines)}. "
            "The file is cut off or its header is wrong: export it again."
        )
    tables: list[Columns] = []
    start = 0
    for element in elements:
        part = lines[start : start + element.count]
        start += element.count
        texts, numbers = [line for _, line in part], [at + first - 1 for at, _ in part]
        if element.plain:
            values = numerals.table(texts, len(element.properties), numbers, f"a row of element {element.name}")
            tables.append(
                {
                    one.name: values[:, place] if one.type[0] == "f" else numerals.exact(values[:, place], texts, place)
                    for place, one in enumerate(element.properties)
                }
            )
        else:
            tables.append(_ascii_lists(texts, numbers, element))
    return tables


def _ascii_lists(lines: list[str], numbers: list[int], element: Element) -> Columns:
    pieces: dict[str, list[float]] = {one.name: [] for one in element.properties}
    counts: dict[str, list[int]] = {one.name: [] for one in element.properties}
    what = f"a row of element {element.name}"
    for line, at in zip(lines, numbers, strict=True):
        tokens, place = line.split(), 0
        for one in element.properties:
            length = 1
            if one.count_type is not None and place < len(tokens):
                length, place = numerals.whole(tokens[place], at, "the length of a list"), place + 1
            if length < 0 or place + length > len(tokens):
                raise Fault(f"line {at}: expected more values for {what}, found {len(tokens)}. Export the file again.")
            pieces[one.name].extend(numerals.value(token, at, what) for token in tokens[place : place + length])
            counts[one.name].append(length)
            place += length
        if place != len(tokens):
            raise Fault(f"line {at}: expected {place} values for {what}, found {len(tokens)}. Export the file again.")
    columns: Columns = {}
    for one in element.properties:
        values = np.array(pieces[one.name], dtype=np.float64)
        columns[one.name] = values if one.count_type is None else Lists(np.array(counts[one.name], np.int64), values)
    return columns


def _declared(values: NDArray, one: Property, notes: list[str]) -> NDArray:
    """Numbers of an ASCII file in the property's type, unless that cannot hold them."""
    if one.type[0] != "f":
        if values.dtype.kind == "f" and (np.abs(values) >= numerals.WIDE).any():
            notes.append(f"whole numbers above 2^53 of property {one.name} were rounded")
        bounds = np.iinfo(one.type)
        if not ((values >= bounds.min) & (values < int(bounds.max) + 1) & (values % 1 == 0)).all():
            notes.append(f"the values of property {one.name} do not fit its type and are kept as they stand")
            return values
    with np.errstate(over="ignore"):
        return values.astype(one.type)


def _native(values: NDArray) -> NDArray:
    return values.astype(values.dtype.newbyteorder("="))


def _promised(elements: list[Element]) -> str:
    return listed([f"{one.count} {one.name}" for one in elements])
