"""The parts of a LAZ file compared with one another before anything is unpacked.

lazrs trusts the sizes that stand in the file: where a damaged one asks for more memory than there is, it ends the
process.
The layout: M. Isenburg, "LASzip" (2013), and its specification of layered chunks for point formats 6 to 10.
"""

from __future__ import annotations

import io
import struct

from pwan.pointfiles.content import Fault

LAYERED = 3  # the compressor whose chunks hold one layer of bytes for each attribute
LARGEST = 5_000_000  # points of a chunk; writers use 50,000, and lazrs takes memory for a whole one
LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}  # of an item's type: point, RGB, RGB and NIR, wave packet; 14 (bytes): one each


def check(data: bytes, header) -> None:
    """Raise a fault where the table of chunks or a chunk's layers do not fit the file or the header's count."""
    import lazrs

    described = next((vlr.record_data for vlr in header.vlrs if type(vlr).__name__ == "LasZipVlr"), None)
    start = int(header.offset_to_point_data)
    if described is None or len(described) < 34 or start + 8 > len(data):
        raise _damaged("the description of its compression is missing")
    compressor, items = struct.unpack_from("<H", described)[0], struct.unpack_from("<H", described, 32)[0]
    if len(described) != 34 + 6 * items:
        raise _damaged("the description of its compression has another length")
    kinds = [struct.unpack_from("<HH", described, 34 + 6 * item) for item in range(items)]  # type, size
    if sum(size for _, size in kinds) != header.point_format.size:
        raise _damaged("its items do not make up a point")
    (table,) = struct.unpack_from("<q", data, start)
    if table == -1:  # written to a stream: its place stands at the end
        (table,) = struct.unpack_from("<q", data, len(data) - 8)
    if not start + 8 <= table <= len(data) - 8 or struct.unpack_from("<I", data, table + 4)[0] > table - start:
        raise _damaged("its table of chunks lies outside the file")
    description = lazrs.LazVlr(described)
    if not description.uses_variable_size_chunks() and description.chunk_size() > max(header.point_count, LARGEST):
        raise _damaged(f"its chunks are said to hold {description.chunk_size()} points")
    stream = io.BytesIO(data)
    stream.seek(start)
    chunks = lazrs.read_chunk_table(stream, description)  # (points, bytes) each
    if sum(size for _, size in chunks) != table - start - 8:
        raise _damaged("its chunks do not fill the place before their table")
    count, place, held = header.point_count, start + 8, 0
    for points, size in chunks:
        if compressor == LAYERED and size:
            points = _layered(data[place : place + size], kinds)
        held += points
        place += size
    if compressor == LAYERED or description.uses_variable_size_chunks():
        if held != count:
            raise Fault(
                f"expected {count} points, as the header promises, found {held} in its chunks. "
                "The file is cut off or its header is wrong: export it again."
            )
    elif not len(chunks) - 1 <= -(-count // description.chunk_size()) <= len(chunks):
        raise Fault(
            f"expected {count} points, as the header promises, found {len(chunks)} chunks of "
            f"{description.chunk_size()}. The file is cut off or its header is wrong: export it again."
        )


def _layered(chunk: bytes, kinds: list[tuple[int, int]]) -> int:
    """The number of points of a layered chunk: its first point, the number, the layers' sizes, the layers."""
    layers = sum(size if kind == 14 else LAYERS.get(kind, 0) for kind, size in kinds)
    point = sum(size for _, size in kinds)
    if len(chunk) < point + 4 + 4 * layers:
        raise _damaged("a chunk is shorter than its head")
    points, *sizes = struct.unpack_from(f"<{layers + 1}I", chunk, point)
    if point + 4 + 4 * layers + sum(sizes) != len(chunk):
        raise _damaged("a chunk's layers do not fill it")
    return points


def _damaged(why: str) -> Fault:
    return Fault(f"expected a whole LAZ file, found one that is cut off or damaged: {why}. Copy it again.")
