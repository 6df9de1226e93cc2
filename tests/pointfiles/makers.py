"""Small files of every format, written here and not by the readers' own libraries where that is little work."""

from __future__ import annotations

import gzip
import io
import json
import struct
import warnings

import numpy as np

from pwan.randomness import numpy_generator

POINTS = numpy_generator(0, "point files").normal(size=(24, 3)).round(4).astype(np.float32).astype(np.float64)
FACES = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(8)]
XYZ = "property float x\nproperty float y\nproperty float z\n"


def rows(points: np.ndarray = POINTS, sign: str = " ") -> str:
    return "".join(sign.join(f"{value:.6f}" for value in row) + "\n" for row in points)


def face_rows(start: int = 0) -> str:
    return "".join(" ".join(str(corner + start) for corner in face) + "\n" for face in FACES)


def ply(encoding: str = "ascii", faces: bool = True) -> bytes:
    head = f"ply\nformat {encoding} 1.0\ncomment made here\nelement vertex {len(POINTS)}\n{XYZ}property uchar red\n"
    head += f"element face {len(FACES)}\nproperty list uchar int vertex_indices\n" if faces else ""
    head += "end_header\n"
    if encoding == "ascii":
        vertices = "".join(line + " 7\n" for line in rows().splitlines())
        return (
            head + vertices + ("".join(f"3 {line}\n" for line in face_rows().splitlines()) if faces else "")
        ).encode()
    order = "<" if "little" in encoding else ">"
    body = b"".join(struct.pack(order + "fffB", *row, 7) for row in POINTS)
    return head.encode() + body + (b"".join(struct.pack(order + "Biii", 3, *face) for face in FACES) if faces else b"")


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix} {line}\n" for line in text.splitlines())


def obj() -> bytes:
    return f"# made here\nmtllib none.mtl\n{prefixed('v', rows())}{prefixed('f', face_rows(1))}".encode()


def off() -> bytes:
    return f"OFF\n# made here\n{len(POINTS)} {len(FACES)} 0\n{rows()}{prefixed('3', face_rows())}".encode()


def stl(binary: bool = True) -> bytes:
    if binary:
        head = b"solid by a careless exporter".ljust(80) + struct.pack("<I", len(FACES))
        return head + b"".join(struct.pack("<12fH", 0, 0, 1, *POINTS[face].ravel(), 0) for face in FACES)
    lines = ["solid a thing"]
    for face in FACES:
        corners = [f"   vertex {x:.6f} {y:.6f} {z:.6f}" for x, y, z in POINTS[face]]
        lines += [" facet normal 0 0 1", "  outer loop", *corners, "  endloop", " endfacet"]
    return "\n".join([*lines, "endsolid a thing", ""]).encode()


def pcd(kind: str = "ascii", width: int = 24, height: int = 1, points: np.ndarray = POINTS, type: str = "F") -> bytes:
    """x y z, two bytes of padding, intensity as a whole number of 16 bits."""
    head = (
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z _ intensity\nSIZE 4 4 4 1 2\n"
        f"TYPE {type} {type} {type} U U\nCOUNT 1 1 1 2 1\nWIDTH {width}\nHEIGHT {height}\nVIEWPOINT 0 0 0 1 0 0 0\n"
        f"POINTS {width * height}\nDATA {kind}\n"
    )
    if kind == "ascii":
        return (head + "".join(f"{line} 0 0 {i}\n" for i, line in enumerate(rows(points).splitlines()))).encode()
    padding, intensity = np.zeros((len(points), 2), np.uint8), np.arange(len(points), dtype="<u2")
    if kind == "binary":
        whole = points.astype("<f4")
        body = b"".join(
            a.tobytes() + b.tobytes() + c.tobytes() for a, b, c in zip(whole, padding, intensity, strict=True)
        )
        return head.encode() + body
    import lzf

    columns = points.astype("<f4").T.tobytes() + padding.T.tobytes() + intensity.tobytes()
    packed = lzf.compress(columns)
    return head.encode() + struct.pack("<II", len(packed), len(columns)) + packed


def las(compressed: bool = False, version: str = "1.2", offset: float = 0.0) -> bytes:
    import laspy

    header = laspy.LasHeader(version=version, point_format=6 if version == "1.4" else 3)
    header.scales, header.offsets = np.full(3, 1e-6), np.full(3, offset)
    cloud = laspy.LasData(header)
    cloud.x, cloud.y, cloud.z = (POINTS + offset).T
    cloud.intensity = np.arange(len(POINTS))
    cloud.return_number[:] = 1
    stream = io.BytesIO()
    cloud.write(stream, do_compress=compressed)
    return stream.getvalue()


def npy(array: np.ndarray = POINTS, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=pickled)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **(arrays or {"points": POINTS, "normals": POINTS}))
    return stream.getvalue()


def mat(version: str = "5", compress: bool = False, **arrays) -> bytes:
    from scipy.io import savemat

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        savemat(stream, arrays or {"points": POINTS}, format=version, do_compression=compress)
    return stream.getvalue()


def swc() -> bytes:
    """A tree in which each node hangs on the one before."""
    numbered = enumerate(rows().splitlines(), 1)
    return ("# made here\n" + "".join(f"{i} 3 {row} 0.5 {i - 1 or -1}\n" for i, row in numbered)).encode()


def fcsv() -> bytes:
    head = "# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n"
    head += "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
    numbered = enumerate(rows(sign=",").splitlines())
    return (head + "".join(f"Node_{i},{row},0,0,0,1,1,1,0,F-{i},,\n" for i, row in numbered)).encode()


def markups() -> bytes:
    points = [{"id": str(i), "label": f"F-{i}", "position": row} for i, row in enumerate(POINTS.tolist())]
    whole = {"markups": [{"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": points}]}
    return json.dumps(whole, indent=1).encode()


def every() -> dict[str, tuple[str, bytes]]:
    """File name and content by the name of the kind; each holds POINTS in this order."""
    little, big = "binary_little_endian", "binary_big_endian"
    return {
        "ply ascii": ("a.ply", ply()),
        "ply little": ("a.ply", ply(little)),
        "ply big": ("a.ply", ply(big)),
        "ply points": ("a.ply", ply(little, faces=False)),
        "obj": ("a.obj", obj()),
        "off": ("a.off", off()),
        "stl": ("a.stl", stl()),
        "stl ascii": ("a.stl", stl(binary=False)),
        "pcd ascii": ("a.pcd", pcd()),
        "pcd binary": ("a.pcd", pcd("binary", 6, 4)),
        "pcd compressed": ("a.pcd", pcd("binary_compressed")),
        "las": ("a.las", las()),
        "las 1.4": ("a.las", las(version="1.4")),
        "laz": ("a.laz", las(compressed=True)),
        "laz 1.4": ("a.laz", las(compressed=True, version="1.4")),
        "npy": ("a.npy", npy()),
        "npz": ("a.npz", npz()),
        "mat 4": ("a.mat", mat("4")),
        "mat 5": ("a.mat", mat("5")),
        "mat packed": ("a.mat", mat("5", compress=True)),
        "xyz": ("a.xyz", rows().encode()),
        "csv": ("a.csv", ("x,y,z\n" + rows(sign=",")).encode()),
        "pts": ("a.pts", (f"{len(POINTS)}\n" + rows()).encode()),
        "swc": ("a.swc", swc()),
        "fcsv": ("a.fcsv", fcsv()),
        "markups": ("a.mrk.json", markups()),
        "utf-16": ("a.txt", rows().encode("utf-16")),
        "gz": ("a.xyz.gz", gzip.compress(rows().encode(), mtime=0)),
    }
