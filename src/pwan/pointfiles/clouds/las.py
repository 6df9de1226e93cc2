"""LAS and LAZ (ASPRS), by laspy with lazrs."""

from __future__ import annotations

import io
import re
import struct
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.extras import needs
from pwan.pointfiles.clouds import laz
from pwan.pointfiles.columns import Asked, none_to_choose
from pwan.pointfiles.content import LARGEST, Content, Fault
from pwan.pointfiles.moved import Moved

NOISE = (7, 18)  # classes of points that are none: low and high noise (ASPRS, LAS 1.4, table 17)
GEOKEYS, WKT = 34735, 2112  # records that describe the coordinate system
CHUNK = 1_000_000  # points unpacked at a time, so that a wrong count takes no memory


def read(data: bytes, asked: Asked) -> Content:
    """The points in the header's scale and offset, and every other dimension.

    Raises:
        Fault: the file cannot be unpacked or holds another number of points than its header says.
    """
    none_to_choose(asked, "las")
    _check_places(data)
    with needs("scans", "reading LAS and LAZ"):  # here, because other formats do not need it
        import laspy
        import lazrs  # noqa: F401  (which laspy loads only for LAZ)

    try:
        with laspy.open(io.BytesIO(data), closefd=False) as reader:
            header = reader.header
            _check(data, header)
            records, later_records = _records(header.vlrs), _records(header.evlrs)
            points, fields = [], []
            names = [name for name in header.point_format.dimension_names if name not in ("X", "Y", "Z")]
            for chunk in reader.chunk_iterator(CHUNK):
                points.append(np.column_stack([np.asarray(chunk[axis], np.float64) for axis in "xyz"]))
                fields.append([np.asarray(chunk[name]) for name in names])
    except (Fault, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # laspy's and numpy's errors, and the panics of lazrs, which are no Exception
        said = re.sub(r"\s+", " ", f"{type(error).__name__} {error}")[:160]
        raise Fault(
            f"expected a LAS or LAZ file, found one that cannot be unpacked: {said}. Export it again."
        ) from error
    read = sum(len(chunk) for chunk in points)
    if read != header.point_count:
        raise _short(header.point_count, read)
    if header.are_points_compressed and _returns_differ(header) and _outside(np.concatenate(points), header):
        raise _short(header.point_count, _returns(header))  # before 1.4 returns beyond the fifth are not counted
    if read == 0:
        raise Fault("expected points, found none: the header's count is 0. Export the file again.")
    _no_degrees(records, np.concatenate(points))
    columns = {name: np.concatenate([chunk[place] for chunk in fields]) for place, name in enumerate(names)}
    layout = {
        "version": str(header.version),
        "point_format": header.point_format.id,
        "scales": header.scales.tolist(),
        "offsets": header.offsets.tolist(),
        "compressed": bool(header.are_points_compressed),
        "global_encoding": int(header.global_encoding.value),
        "records": records,
        "later_records": later_records,
    }
    notes: list[str] = []
    kept = None if asked.keep_flagged else _kept(columns, notes)
    return Content(np.concatenate(points), columns, None, notes, layout, kept)


def _no_degrees(records: list[tuple[str, int, str | bytes, bytes]], points: NDArray) -> None:
    """Raise a fault where the coordinate system is one of longitude and latitude, and the coordinates may be these."""
    system = {number: body for user, number, _, body in records if user == "LASF_Projection"}
    keys = np.frombuffer(system.get(GEOKEYS, b"")[: len(system.get(GEOKEYS, b"")) // 8 * 8], "<u2").reshape(-1, 4)
    geographic = bool(((keys[1:, 0] == 1024) & (keys[1:, 3] == 2)).any())  # GTModelTypeGeoKey: geographic
    words = system.get(WKT, b"").lstrip().upper()
    geographic = geographic or words.startswith((b"GEOGCS", b"GEOGCRS", b"GEODCRS"))
    if geographic and (np.abs(points[:, :2]) <= (360, 90)).all():
        raise Fault(
            "expected coordinates of one unit of length, found degrees: its coordinate system is one of longitude and "
            "latitude. First project the points to metres, for example by pdal translate with filters.reprojection, to "
            "convert them to UTM."
        )


def _kept(columns: dict[str, NDArray], notes: list[str]) -> NDArray[np.bool_] | None:
    """(N,) which points the file does not flag as withheld or noise; None where it flags none.

    Raises:
        Fault: it flags all of them.
    """
    withheld = np.asarray(columns["withheld"]).astype(bool)
    noise = ~withheld & np.isin(columns["classification"], NOISE)
    flagged = int(withheld.sum() + noise.sum())
    if flagged == 0:
        return None
    words = f"{int(withheld.sum())} flagged as withheld and {int(noise.sum())} classified as noise (7, 18)"
    if flagged == len(withheld):
        raise Fault(f"expected points, found all {flagged} {words}. Take them all the same with keep_flagged=True.")
    notes.append(f"left out {flagged} of {len(withheld)} points: {words}; keep_flagged=True keeps them")
    return ~(withheld | noise)


def _records(records) -> list[tuple[str, int, str | bytes, bytes]]:
    """User, number, description and bytes of the records that hold for other points too, as the coordinate system's;
    not those of the compression, of the extra dimensions, of COPC's tree or of waveforms."""
    kept = []
    for record in records or ():
        key = (record.user_id, record.record_id)
        if record.user_id not in ("laszip encoded", "copc") and key not in (("LASF_Spec", 4), ("LASF_Spec", 65535)):
            kept.append((*key, record.description, bytes(record.record_data_bytes())))
    return kept


def _check_places(data: bytes) -> None:
    """Compare the header's places and counts of records with the file's size: laspy would go on reading to the last."""
    if len(data) < 227:
        raise Fault(f"expected a LAS header of 227 bytes, found {len(data)}. The file is cut off: copy it again.")
    size, start, records = struct.unpack_from("<HII", data, 94)
    fits = 227 <= size <= start <= len(data) and records * 54 <= start - size
    if data[25] >= 4 and 375 <= size <= len(data):
        later, laters = struct.unpack_from("<QI", data, 235)
        fits = fits and (laters == 0 or start <= later <= len(data) - 60 * laters)
    if not fits:
        raise Fault(
            f"expected a LAS header whose parts lie within the file's {len(data)} bytes, found points from byte "
            f"{start} on and {records} records before them. The file is cut off or damaged: copy it again."
        )


def _check(data: bytes, header) -> None:
    """Compare the header's count with the file's size or, where points are packed, with the counts of returns."""
    count, record = header.point_count, header.point_format.size
    sizes = np.abs(header.scales)
    if not (np.isfinite(header.offsets).all() and (sizes >= 1 / LARGEST).all() and (sizes <= LARGEST).all()):
        raise Fault(
            f"expected scales between {1 / LARGEST:g} and {LARGEST:g} and finite offsets, found {header.scales} and "
            f"{header.offsets}. "
            "Export the file again."
        )
    if header.are_points_compressed:
        laz.check(data, header)
        if _returns_differ(header) and (header.version.minor >= 4 or _returns(header) > count):
            raise _short(count, _returns(header))
        return
    size = len(data)
    start = int(header.offset_to_point_data)
    later = [int(header.start_of_first_evlr)] if header.version.minor >= 4 and header.number_of_evlrs else []
    wave = int(header.start_of_waveform_data_packet_record or 0) if header.version.minor >= 3 else 0
    end = min([place for place in [*later, wave] if start < place <= size], default=size)
    held = max(end - start, 0) // record
    if held != count:
        raise _short(count, held)


def _returns(header) -> int:
    return int(np.sum(header.number_of_points_by_return))


def _returns_differ(header) -> bool:
    """Whether the counts of the returns, where there are any, add up to another number of points."""
    return _returns(header) not in (0, header.point_count)


def _outside(points: NDArray, header) -> bool:
    """Whether points lie outside the header's bounds by more than a step of the scale."""
    low, high = header.mins - np.abs(header.scales), header.maxs + np.abs(header.scales)
    return bool(((points < low) | (points > high)).any())


def _short(count: int, held: int) -> Fault:
    return Fault(
        f"expected {count} points, as the header promises, found {held}. The file is cut off or its header is wrong: "
        "export it again."
    )


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's version, point format, scales, offsets, records (coordinate system) and dimensions; extra ones.

    Points are rounded to the source's scale. Only where they leave the range of its 32-bit numbers are the offsets, and
    if need be the scales, new ones.
    """
    with needs("scans", "writing LAS and LAZ"):
        import laspy

    layout = moved.like.layout
    try:
        header = laspy.LasHeader(version=layout["version"], point_format=layout["point_format"])
    except laspy.LaspyException:  # 1.0, or a point format that came later than the version
        header = laspy.LasHeader(version="1.4", point_format=layout["point_format"])
        moved.notes.append(f"written as LAS 1.4: points of this kind are not written as {layout['version']}")
    header.scales, header.offsets = _grid(moved, np.array(layout["scales"]), np.array(layout["offsets"]))
    header.global_encoding.value = layout["global_encoding"]
    for record in layout["records"]:
        header.vlrs.append(laspy.VLR(*record))
    standard = set(header.point_format.dimension_names)
    extra = {name: values for name, values in moved.fields.items() if name not in standard} | moved.columns()
    header.add_extra_dims(
        [
            laspy.ExtraBytesParams(name, f"{column.shape[1] if column.ndim == 2 else 1}{column.dtype.str[1:]}")
            for name, column in extra.items()
        ]
    )
    cloud = laspy.LasData(header, laspy.ScaleAwarePointRecord.zeros(len(moved.points), header=header))
    whole = np.rint((moved.points - header.offsets) / header.scales).astype(np.int32)
    cloud.X, cloud.Y, cloud.Z = whole.T
    for name, values in (moved.fields | extra).items():
        cloud[name] = values
    if layout["later_records"]:
        cloud.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR(*record) for record in layout["later_records"]])
    held = io.BytesIO()
    cloud.write(held, do_compress=layout["compressed"])
    stream.write(held.getvalue())


def _grid(moved: Moved, scales: NDArray, offsets: NDArray) -> tuple[NDArray, NDArray]:
    """(3,), (3,) the scales and offsets with which the points fit into 32 bits."""
    largest = 2**31 - 1
    if (np.abs(moved.points - offsets) <= largest * np.abs(scales)).all():
        return scales, offsets
    low, high = moved.points.min(axis=0), moved.points.max(axis=0)
    moved.notes.append("new offsets: the moved points lie beyond the range of the source's")
    offsets = np.rint((low + high) / 2)
    needed = np.maximum(high - offsets, offsets - low) / largest  # (3,)
    if (needed > np.abs(scales)).any():
        scales = np.where(needed > np.abs(scales), 10.0 ** np.ceil(np.log10(np.maximum(needed, 1e-300))), scales)
        moved.notes.append(f"new scales {', '.join(f'{scale:g}' for scale in scales)}: the moved points extend further")
    return scales, offsets
