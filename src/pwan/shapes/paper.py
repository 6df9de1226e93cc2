"""The paper's own point sets, for ``source="paper"``: from the folder named by PWAN_DATA, else downloaded once.

They come without a clear grant to pass them on, so that none of them is packaged. Coordinates are those of the files
(the released code deforms the files' points as they are; the faces are in mm), but that every body stands along y, as
the other shapes do.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pwan.shapes.shape import Shape

FOLDER_VARIABLE = "PWAN_DATA"
_BCPD = "https://raw.githubusercontent.com/ohirose/bcpd-dataset/8d6b2d9b0761f3e353d2c1d3f3012877fbcb2161/"
_PWAN = "https://raw.githubusercontent.com/wzm2256/PWAN/c65f3ebd8c5970547b8d5acf0bff4db5ce9fea63/dataset/"


@dataclass(frozen=True)
class PaperSet:
    """Where the arrays of one set are: keys of an npz file of the folder, and text files to download.

    Attributes:
        archive: the npz file's name.
        keys: the shape's fields and the archive's keys, or (key, row) for one row of a stacked array.
        base: the address before the text files' names.
        files: the shape's fields and the text files; None where no text file can be downloaded.
        counterpart: the name of the set that is the shape's counterpart, or empty.
        axes: rows of a signed permutation that the points are multiplied by, for a file that names its axes
            differently. Empty leaves them as they are.
        centred: the counterpart's file has another origin: it is moved until both bounding boxes have the same centre.
    """

    archive: str
    keys: dict[str, str | tuple[str, int]]
    base: str = _BCPD
    files: dict[str, str] | None = None
    counterpart: str = ""
    axes: tuple[tuple[int, int, int], ...] = ()
    centred: bool = False


def _bent(name: str) -> PaperSet:
    files = {"points": f"{name}-x.txt", "partner": f"{name}-y.txt"}
    return PaperSet(f"{name}.npz", {"points": "x", "partner": "y"}, files=files)


_FRAMES = ("face-x.txt", "face-y.txt", "face-g.y.txt")


def _face(frame: int) -> PaperSet:
    keys: dict[str, str | tuple[str, int]] = {"points": ("frames", frame), "faces": "triangles"}
    return PaperSet("face.npz", keys, files={"points": _FRAMES[frame], "faces": "face-g-triangles.txt"})


def _faces(first: int, second: int) -> PaperSet:
    """Two frames, the second as the partner of the first."""
    return PaperSet(
        "face.npz",
        {"points": ("frames", first), "partner": ("frames", second)},
        files={"points": _FRAMES[first], "partner": _FRAMES[second]},
    )


_HUMAN_KEYS: dict[str, str | tuple[str, int]] = {
    "points": "vertices",
    "vertices": "vertices",
    "faces": "faces",
    "matches": "smpl_matches",
}


# nos. 1, 30 and 31 stand along z in their files, the others along y
_STANDING = dict.fromkeys((1, 30, 31), ((-1, 0, 0), (0, 0, 1), (0, 1, 0)))


def _human(number: int, **more: Any) -> PaperSet:
    return PaperSet(f"shrec19_{number:02d}.npz", _HUMAN_KEYS, axes=_STANDING.get(number, ()), **more)


def _humans(first: int, second: int) -> PaperSet:
    """Two bodies, the second as the counterpart of the first."""
    centred = (first in _STANDING) != (second in _STANDING)  # they come from different data
    return _human(first, counterpart=f"shrec19_{second:02d}", centred=centred)


SETS = {
    **{name: _bent(name) for name in ("bunny", "armadillo", "monkey")},
    "fish": PaperSet(
        "fish.npz",
        {"points": "pwan_source", "partner": "pwan_reference"},
        _PWAN,
        {"points": "fish_X_nohead.txt", "partner": "fish_y.txt"},
    ),
    **{f"face_{i + 1}": _face(i) for i in range(3)},
    **{f"faces_{i + 1}_{j + 1}": _faces(i, j) for i, j in itertools.permutations(range(3), 2)},
    **{f"shrec19_{i:02d}": _human(i) for i in (1, 15, 18, 19, 20, 21, 30, 31)},
    "humans_18_19": _humans(18, 19),
    "humans_30_31": _humans(30, 31),
    # in place of the paper's 1 and 42: of what is at hand 15 is nearest to 1 in pose, then 21 (a rigid motion leaves
    # .0120 and .0134 of the mean squared radius at the matches)
    "humans_01_15": _humans(1, 15),
    "humans_01_21": _humans(1, 21),
}

SHA256 = {  # of the folder's files and of the text files
    "armadillo.npz": "af6d00730a6b5cdef93c2f06b96eaa879c898ec3b3f4e3ad953d7412309ba486",
    "bunny.npz": "2904b3ba5056a55252f775953ccea8606c5f3b6af589a6f003cd07c3350b1bda",
    "face.npz": "4411dfb1e675abafcaf07cfbdb5c37852c93fe55f728bc59193dc287b07f244e",
    "fish.npz": "be6ef766f49a24e0e48f3d3f747ad957dca13c4d6baaa12bf2342f90171845d3",
    "monkey.npz": "b59873e6635595ad2e8aa644915326cd2b679314b625780497795a2db6666c9d",
    "shrec19_01.npz": "1c4752410a610b3ef6b22bbb0ae1ffa276100094f5213a6bbd4015cab0a06d79",
    "shrec19_15.npz": "f962c5f86e1a8b645d48823c950116c861eb8de58843689d15ca865dc8b20226",
    "shrec19_18.npz": "0ab6b79eecba75de8691cc405f35cfaf8a4494d9113fd7182c6c3e231d2cc475",
    "shrec19_19.npz": "42aee97bef3b3c311042a84f9ca1a240ff09a4af35c81a4ddb751430f91171e6",
    "shrec19_20.npz": "ed6f88f65b705dfef4f17cf3d42d9033eb37edfd2ad68e7742a180e593776203",
    "shrec19_21.npz": "5113bcae909233dde878fb8d1311965fe01f4e209935c045e504f2dc7e7f096d",
    "shrec19_30.npz": "ce8b7243dc06a015ebaae011607c340638c44d71ae25a997460bb1d89396a722",
    "shrec19_31.npz": "9e76cdda346e13d05ae14e91a7f7a67afbaea1c8ce8fc2530ba4e0c47fe8cc62",
    "armadillo-x.txt": "497a82eb0bd241f13b6d29c08e5700c698111dc1b09ddba539a60d4811aad27d",
    "armadillo-y.txt": "7f664e2531bdfb08a07ec40dae79ae1896cc7b7e3127e0ef1afdbd55d3ca4e01",
    "bunny-x.txt": "97b0c89a4e362187e650b2bf133bf27b829cdebd157f26f48a7ba59c6bf87acd",
    "bunny-y.txt": "1cf8ce7ac7183993b10f0d82de3e0f1f090224784425891bc4fcc4c14ebd705f",
    "face-x.txt": "07257f264ef9c3d373c7a614c19f55b1a61eca7a5d8495cf32d2903494c391b1",
    "face-y.txt": "752855447567a4bc57172d2c343d38a2c48f6509d3760982d902b0c1c3c43ed8",
    "face-g.y.txt": "06f95cdfdbf4178e3500f42150b932a4318464eac9cb96431d614daae9903dc6",
    "face-g-triangles.txt": "e79face15d18c859a6a5d235a954d9cfcc8e6f8fe92ee3686c5ed79128713443",
    "fish_X_nohead.txt": "38e289318415b5cb82e0aa4aa19ebee2bf2d7e364ae87a1738f92120930551be",
    "fish_y.txt": "4858bc3fec6f8a43d3a5ee3f19624199362f0a16d5f2226ac9cd8fe8e1174d3d",
    "monkey-x.txt": "4b0450bcbbb8d979cd79776e6196e703f638f22c7889bd2897702f93ee78919f",
    "monkey-y.txt": "0f7fb3697d5eda1372d40bcdd32b2ffc5f5ad0b2a4c973bb547d2c72519b85d1",
}


def load(name: str, *, base: str | None = None, cache: Path | None = None) -> Shape:
    """One of the paper's sets.

    Args:
        name: of the set.
        base: an address in place of the public one.
        cache: a folder in place of the user's cache folder.

    Raises:
        FileNotFoundError: the folder named by PWAN_DATA lacks the file, or no download is known for the set.
        ValueError: a file of the folder, or a download, has a wrong checksum.
        ConnectionError: the download failed.
    """
    paper_set = SETS[name]
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        shape = Shape(name, "paper:folder", **_read_archive(Path(folder) / paper_set.archive, paper_set.keys))
        if paper_set.axes:
            shape = _with_points(shape, shape.points @ np.array(paper_set.axes, dtype=np.float64))
        return replace(shape, counterpart=_counterpart(shape, paper_set)) if paper_set.counterpart else shape
    if paper_set.files is None:
        archives = [paper_set.archive, *([SETS[paper_set.counterpart].archive] if paper_set.counterpart else [])]
        raise FileNotFoundError(
            f"no download is known for the set {name}; set {FOLDER_VARIABLE} to a folder that holds "
            + " and ".join(archives)
        )
    arrays: dict[str, np.ndarray] = {
        field: np.loadtxt(fetch(file, base or paper_set.base, cache), dtype=_dtype(field), ndmin=2)
        for field, file in paper_set.files.items()
    }
    return Shape(name, "paper:download", **_with_surface(arrays))


def needs_folder(name: str) -> bool:
    """Whether the set is neither in a folder, which PWAN_DATA would name, nor can be downloaded."""
    return not os.environ.get(FOLDER_VARIABLE) and SETS[name].files is None


def _counterpart(shape: Shape, paper_set: PaperSet) -> Shape:
    other = load(paper_set.counterpart)
    if not paper_set.centred:
        return other
    return _with_points(other, other.points + (_box_centre(shape.points) - _box_centre(other.points)))


def _with_points(shape: Shape, points: np.ndarray) -> Shape:
    """The shape with its points, which are its surface's vertices, elsewhere."""
    return replace(shape, points=points, vertices=points)


def _box_centre(points: np.ndarray) -> np.ndarray:
    return (points.min(0) + points.max(0)) / 2  # (D,)


def fetch(file: str, base: str, cache: Path | None = None) -> Path:
    """A file of the table ``SHA256``, downloaded or from the cache if it is there already.

    Raises:
        ValueError: what came has a wrong checksum; nothing is kept.
        ConnectionError: nothing came, or not all of it; nothing is kept.
    """
    import pooch

    url, instead = base + file, f"or set {FOLDER_VARIABLE} to a folder that holds the paper's point sets"
    try:
        # pooch downloads beside the final name, checks, and only then renames
        path = pooch.retrieve(
            url,
            known_hash=f"sha256:{SHA256[file]}",
            fname=file,
            path=cache or pooch.os_cache("pwan"),
            downloader=pooch.HTTPDownloader(timeout=30),
        )
    except ValueError:
        raise ValueError(
            f"the download of {url} does not have the expected SHA-256 {SHA256[file]} and was thrown away; try again, "
            + instead
        ) from None
    except PermissionError:  # the cache folder's, not the network's
        raise
    except OSError as error:
        response = getattr(error, "response", None)
        reason = f"status {response.status_code}" if response is not None else type(error).__name__
        raise ConnectionError(
            f"cannot download {url} ({reason}); connect to the network and try again, {instead}"
        ) from error
    return Path(path)


def _read_archive(path: Path, keys: dict[str, str | tuple[str, int]]) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{FOLDER_VARIABLE} names the folder {path.parent}, but there is no {path.name} in it; put the file there, "
            f"or unset {FOLDER_VARIABLE} to download the set"
        ) from None
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != SHA256[path.name]:
        raise ValueError(
            f"{path} should have the SHA-256 {SHA256[path.name]} but has {checksum}; replace it by the right file, or "
            f"unset {FOLDER_VARIABLE} to download the set"
        )
    with np.load(io.BytesIO(content)) as archive:
        arrays: dict[str, np.ndarray] = {
            field: archive[key] if isinstance(key, str) else archive[key[0]][key[1]] for field, key in keys.items()
        }
    return _with_surface({field: array.astype(_dtype(field)) for field, array in arrays.items()})


def _with_surface(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Faces without vertices of their own join the points."""
    return {"vertices": arrays["points"], **arrays} if "faces" in arrays else arrays


def _dtype(field: str) -> type:
    return np.int64 if field in ("faces", "matches") else np.float64
