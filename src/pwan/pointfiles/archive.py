"""Packed bytes, unpacked with an eye on how many they become."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pwan.pointfiles.content import Fault

PIECE = 1 << 26  # bytes unpacked at a time
AT_MOST = 200  # times the packed bytes, beyond the first
FIRST = 1 << 28  # bytes


class Inflated(NamedTuple):
    """What a zlib stream holds, what follows it, and whether it came to its end."""

    data: bytes
    rest: bytes
    complete: bool


def inflated(data: bytes, wbits: int, packed: int, held: int = 0) -> Inflated:
    """Unpack one zlib stream.

    Args:
        wbits: 31 for gzip, 15 for zlib. packed: bytes of the whole archive. held: bytes unpacked of it before.

    Raises:
        zlib.error: the stream is damaged. Fault: it unpacks to far more bytes than points do.
    """
    machine = zlib.decompressobj(wbits=wbits)
    parts: list[bytes] = []
    pending = data
    while not machine.eof:
        part = machine.decompress(pending, PIECE)
        pending, held = machine.unconsumed_tail, held + len(part)
        if not part and not pending:
            break
        parts.append(part)
        check(packed, held)
    return Inflated(b"".join(parts), machine.unused_data, machine.eof)


def check(packed: int, unpacked: int) -> None:
    """Raise a fault where an archive unpacks to far more bytes than points do: zeros, made to fill the memory."""
    if unpacked > FIRST + AT_MOST * packed:
        raise Fault(
            f"expected an archive of points, found one whose {packed} bytes unpack to {unpacked} or more. If that is "
            "right, unpack it and name the file in it."
        )
