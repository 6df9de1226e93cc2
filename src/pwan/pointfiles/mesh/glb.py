"""GLB, the binary form of glTF 2.0, by trimesh: materials, pictures and texture coordinates go through it unread.

The format: Khronos Group, "glTF 2.0 Specification", section 4.4 (GLB).
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pwan.extras import needs
from pwan.pointfiles.columns import Asked, listed, none_to_choose
from pwan.pointfiles.content import Content, Fault, PointFile
from pwan.pointfiles.moved import Moved, extent_of, loses, rounding

if TYPE_CHECKING:
    from trimesh import Trimesh

TRIANGLES = (4, 5, 6)  # modes of a primitive: triangles, a strip, a fan
NORMALS = ("nx", "ny", "nz")
TEXTURED = ("obj", "ply")  # trimesh reads materials and pictures of these
REPAIR = "Export the file again."


def read(data: bytes, asked: Asked) -> Content:
    """The vertices of all meshes of the scene, each where its node puts it, and the triangles between them.

    A vertex is repeated where the texture is cut, as in the file. Normals are carried where every vertex has one.

    Raises:
        Fault: damaged, compressed in a way that trimesh does not read, or without triangles.
    """
    none_to_choose(asked, "glb")
    document = _document(data)
    try:
        primitives = [one for mesh in document.get("meshes", []) for one in mesh.get("primitives", [])]
        with_normals = all("NORMAL" in one.get("attributes", {}) for one in primitives)
    except (AttributeError, TypeError) as error:
        raise Fault(f"expected meshes as glTF describes them, found damage: {str(error)[:80]}. {REPAIR}") from error
    if not any(one.get("mode", 4) in TRIANGLES for one in primitives):
        raise Fault("expected triangles in a GLB, found none. Save the points as PLY.")
    packed = {"KHR_draco_mesh_compression", "EXT_meshopt_compression"} & set(document.get("extensionsRequired", []))
    if packed:
        raise Fault(f"expected a GLB without compression, found {listed(sorted(packed))}. Export it without.")
    with needs("scans", "reading GLB"):
        import trimesh
    try:
        scene = trimesh.load_scene(io.BytesIO(data), file_type="glb", process=False)
        meshes = _placed(scene, with_normals)
    except Exception as error:  # of trimesh, whose classes are many
        raise Fault(f"expected a GLB, found one that cannot be read: {str(error)[:120]}. {REPAIR}") from error
    if not meshes:
        raise Fault(f"expected triangles that a scene shows, found none. {REPAIR}")
    notes = [] if len(meshes) == 1 else [f"{len(meshes)} meshes of the scene were joined, each where its node puts it"]
    if len(meshes) < len(scene.graph.nodes_geometry):
        notes.append("left out points and lines beside the triangles")
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh, _ in meshes)])
    points = np.concatenate([np.asarray(mesh.vertices, dtype=np.float64) for mesh, _ in meshes])
    faces = np.concatenate([mesh.faces + start for (mesh, _), start in zip(meshes, starts, strict=False)])
    fields: dict[str, NDArray] = {}
    if all(normals is not None for _, normals in meshes):
        fields |= dict(zip(NORMALS, np.concatenate([normals for _, normals in meshes]).T, strict=True))
    return Content(points, fields, faces.astype(np.int64), notes, {"meshes": tuple(mesh for mesh, _ in meshes)})


def _document(data: bytes) -> dict[str, Any]:
    """The first chunk, which is JSON."""
    length = int.from_bytes(data[12:16], "little")
    if len(data) < 20 + length or int.from_bytes(data[8:12], "little") > len(data):
        raise Fault("expected a whole GLB, found one that is cut off. Copy it again.")
    try:
        document = json.loads(data[20 : 20 + length])
    except (ValueError, RecursionError) as error:
        raise Fault(f"expected JSON at the beginning of a GLB, found damage: {str(error)[:80]}. {REPAIR}") from error
    if not isinstance(document, dict):
        raise Fault(f"expected a glTF document, found {str(document)[:40]!r}. {REPAIR}")
    return document


def _placed(scene: Any, with_normals: bool) -> list[tuple[Trimesh, NDArray | None]]:
    """Each mesh where its node puts it, and its normals (n, 3) where the file has some; in the order of the file."""
    order = {name: place for place, name in enumerate(scene.geometry)}
    nodes = sorted((order[scene.graph[node][1]], node) for node in scene.graph.nodes_geometry)
    meshes: list[tuple[Trimesh, NDArray | None]] = []
    for _, node in nodes:
        matrix, name = scene.graph[node]
        if not hasattr(scene.geometry[name], "faces"):  # points or lines
            continue
        mesh, normals = scene.geometry[name].copy(), None
        if with_normals:  # a column n goes to M^-T n
            normals = np.asarray(scene.geometry[name].vertex_normals) @ np.linalg.inv(matrix[:3, :3])
            lengths = np.linalg.norm(normals, axis=1, keepdims=True)
            normals = normals / np.where(lengths > 0, lengths, 1.0)
        mesh.apply_transform(matrix)
        mesh.metadata["name"] = str(node)
        meshes.append((mesh, normals))
    return meshes


def write(stream: BinaryIO, moved: Moved) -> None:
    """The source's meshes with their materials, pictures and texture coordinates, their vertices moved.

    GLB holds single precision alone, and nodes that move a mesh are not written: the vertices are where they belong.
    """
    moved.leave_out()
    like = moved.like
    whole = np.full((like.count, 3), np.nan)
    whole[like.rows] = moved.points
    normals = None
    if all(name in moved.fields for name in NORMALS):
        normals = np.zeros((like.count, 3))
        normals[like.rows] = np.column_stack([moved.fields[name] for name in NORMALS])
    ends = np.cumsum([len(mesh.vertices) for mesh in like.layout["meshes"]])
    meshes = []
    for mesh, end in zip(like.layout["meshes"], ends, strict=True):
        part = slice(end - len(mesh.vertices), end)
        meshes.append(_with(mesh, whole[part], None if normals is None else normals[part]))
    _export(stream, meshes, moved.points, moved.notes, with_normals=normals is not None)


def _with(mesh: Trimesh, vertices: NDArray, normals: NDArray | None) -> Trimesh:
    """A copy of the mesh with other vertices; those that are NaN, and their triangles, are left out."""
    there = np.isfinite(vertices).all(axis=1)
    copy = mesh.copy()
    copy.vertices = np.where(there[:, None], vertices, 0.0)
    if normals is not None:
        copy.vertex_normals = normals  # type: ignore[method-assign]
    if not there.all():
        copy.update_faces(there[copy.faces].all(axis=1))
        copy.update_vertices(there)
    return copy


def made_from(stream: BinaryIO, moved: PointFile) -> list[str]:
    """Write a GLB of a mesh in another format that lies on the disk; with its materials and pictures from OBJ and PLY,
    where they lie beside it. Returns what was decided, in sentences.

    Raises:
        MissingExtraError: trimesh is not installed.
        ValueError: no triangles.
    """
    with needs("scans", "writing GLB"):
        import trimesh
    if moved.triangles is None or not len(moved.triangles):
        raise ValueError(f"expected triangles to write to a GLB, found none in {moved.path}: take PLY.")
    meshes, notes = [trimesh.Trimesh(moved.points, moved.triangles, process=False)], []
    if moved.format in TEXTURED:
        try:
            scene = trimesh.load_scene(str(moved.path), file_type=moved.format, process=False)
            meshes = [mesh for mesh in scene.dump() if isinstance(mesh, trimesh.Trimesh)]
        except Exception as error:  # of trimesh and of pictures
            notes.append(f"the GLB has no materials, which could not be read: {str(error)[:120]}")
    _export(stream, meshes, moved.points, notes, with_normals=moved.normals is not None)
    return notes


def _export(stream: BinaryIO, meshes: list[Any], points: NDArray, notes: list[str], *, with_normals: bool) -> None:
    with needs("scans", "writing GLB"):
        from trimesh import Scene
        from trimesh.exchange.gltf import export_glb
    single = np.dtype(np.float32)
    if loses(points, single, extent_of(points)):
        notes.append(
            f"GLB holds single precision alone, which moves the points by up to {rounding(points, single):.3g}"
        )
    scene = Scene()
    for mesh in meshes:
        scene.add_geometry(mesh, geom_name=mesh.metadata.get("name"))  # a name that is there already gets a number
    stream.write(export_glb(scene, include_normals=with_normals))
