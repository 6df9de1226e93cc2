"""Make the packaged shapes from the public packages that carry them; needs numpy, and bpy 5.0.1 for the monkey alone.

    python scripts/make_shapes.py bunny      pymeshfix-0.18.1-*.whl       (pip download --no-deps pymeshfix==0.18.1)
    python scripts/make_shapes.py armadillo  libcgal-demo_5.5.1-2_all.deb (apt-get download libcgal-demo)
    python scripts/make_shapes.py fish       cpd_pytorch-1.0.0-*.whl      (pip download --no-deps cpd-pytorch==1.0.0)
    python scripts/make_shapes.py monkey                                  (pip install bpy==5.0.1)

Each writes src/pwan/shapes/data/<name>.npz; the shapes' catalogue (src/pwan/shapes) says what its arrays mean.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "src" / "pwan" / "shapes" / "data"
Arrays = dict[str, Any]


def bunny(wheel: str) -> Arrays:
    """The Stanford bunny of 50,000 vertices; 8,171 points, as many as the paper's bunny has."""
    with zipfile.ZipFile(wheel) as archive:
        header, body = archive.read("pymeshfix/examples/StanfordBunny.ply").split(b"end_header\n", 1)
    counts = [int(line.split()[2]) for line in header.decode().splitlines() if line.startswith("element ")]
    vertices = np.frombuffer(body, "<f4", 3 * counts[0]).reshape(-1, 3)
    face = np.dtype([("size", "u1"), ("corners", "<i4", 3)])
    faces = np.frombuffer(body, face, counts[1], offset=vertices.nbytes)
    if not np.all(faces["size"] == 3):
        raise SystemExit(f"{wheel}: the bunny was expected to hold triangles only")
    return {"vertices": rounded(vertices), "faces": faces["corners"], "count": np.array(8171)}


def armadillo(package: str) -> Arrays:
    """The Stanford armadillo of 26,002 vertices; 106,289 points, as many as the paper's armadillo has."""
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as outer:
        inner_file = outer.extractfile("./usr/share/doc/libcgal-dev/data.tar.gz")
        assert inner_file is not None
        with tarfile.open(fileobj=inner_file) as inner:
            mesh = inner.extractfile("data/meshes/armadillo.off")
            assert mesh is not None
            words = mesh.read().decode().split()
    n, m = int(words[1]), int(words[2])  # OFF, counts of vertices, faces and edges, then the rows
    vertices = np.array(words[4 : 4 + 3 * n], np.float32).reshape(n, 3)
    faces = np.array(words[4 + 3 * n : 4 + 3 * n + 4 * m], np.int32).reshape(m, 4)  # 3 and the corners
    return {"vertices": rounded(vertices), "faces": faces[:, 1:], "count": np.array(106289)}


def fish(wheel: str) -> Arrays:
    """The two 2-D outlines of 91 points with which coherent point drift was first shown; no surface."""
    with zipfile.ZipFile(wheel) as archive:
        points, partner = (
            np.loadtxt(io.BytesIO(archive.read(f"cpd_pytorch/data/fish_{which}.txt"))) for which in ("target", "source")
        )
    return {"points": points, "partner": partner}


def monkey() -> Arrays:
    """Blender's Suzanne (507 vertices) after two Catmull-Clark subdivisions; its 7,958 vertices are the points."""
    import bpy  # large, and pins an older numpy: best in an environment of its own

    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.mesh.primitive_monkey_add()
    suzanne = bpy.context.object
    modifier = suzanne.modifiers.new("subdivision", "SUBSURF")
    modifier.levels, modifier.subdivision_type, modifier.use_limit_surface = 2, "CATMULL_CLARK", False
    mesh = suzanne.evaluated_get(bpy.context.evaluated_depsgraph_get()).to_mesh()
    vertices = np.array([v.co[:] for v in mesh.vertices], np.float32)
    quads = np.array([p.vertices[:] for p in mesh.polygons], np.int32)
    return {"vertices": vertices, "faces": np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])}


def rounded(vertices: np.ndarray) -> np.ndarray:
    """Coordinates to 1/2^15 of the largest extent: finer than the scanner, and the file shrinks by about a third."""
    step = 2.0 ** (np.ceil(np.log2(np.ptp(vertices, axis=0).max())) - 15)
    return (np.round(vertices / step) * step).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=["bunny", "armadillo", "fish", "monkey"])
    parser.add_argument("download", nargs="?", help="the package's file, for all but the monkey")
    arguments = parser.parse_args()
    if arguments.shape == "monkey":
        arrays = monkey()
    elif arguments.download is None:
        parser.error(f"{arguments.shape} needs its package's file")
    else:
        arrays = {"bunny": bunny, "armadillo": armadillo, "fish": fish}[arguments.shape](arguments.download)
    path = DATA / f"{arguments.shape}.npz"
    np.savez_compressed(path, **arrays)
    print(path, path.stat().st_size, {key: value.shape for key, value in arrays.items()})


if __name__ == "__main__":
    main()
