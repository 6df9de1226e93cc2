from __future__ import annotations

import functools
import hashlib
import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from pwan import shapes
from pwan.shapes import paper

FISH = {"fish_X_nohead.txt": b"0.5 1.5\n2.0 3.0\n4.0 5.0\n", "fish_y.txt": b"1.0\t2.0\n3.0\t4.0\n"}


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paper.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def fish_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    for file, content in FISH.items():
        monkeypatch.setitem(paper.SHA256, file, hashlib.sha256(content).hexdigest())


class Handler(http.server.SimpleHTTPRequestHandler):
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path.startswith("/cut/"):  # promises more than it sends
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"0.5 1.5\n")
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    for file, content in FISH.items():
        (folder / file).write_bytes(content)
    Handler.requests.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as http_:
        thread = threading.Thread(target=http_.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http_.server_address[1]}/"
        http_.shutdown()
        thread.join()


def test_a_set_is_downloaded_once(server: str, tmp_path: Path, fish_checksums: None) -> None:
    cache = tmp_path / "cache"
    fish = paper.load("fish", base=server, cache=cache)
    assert (fish.name, fish.source) == ("fish", "paper:download")
    np.testing.assert_array_equal(fish.points, [[0.5, 1.5], [2, 3], [4, 5]])
    np.testing.assert_array_equal(fish.partner, [[1, 2], [3, 4]])
    assert sorted(Handler.requests) == ["/fish_X_nohead.txt", "/fish_y.txt"]
    paper.load("fish", base=server, cache=cache)
    assert len(Handler.requests) == 2
    (cache / "fish_y.txt").write_bytes(b"spoilt")  # a damaged file of the cache is fetched again
    np.testing.assert_array_equal(paper.load("fish", base=server, cache=cache).partner, [[1, 2], [3, 4]])


def test_a_wrong_checksum_keeps_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not have the expected SHA-256 .*try again, or set PWAN_DATA"):
        paper.load("fish", base=server, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_download_cut_short_keeps_nothing(server: str, tmp_path: Path, fish_checksums: None) -> None:
    with pytest.raises((ConnectionError, ValueError), match=r"cannot download|does not have the expected"):
        paper.load("fish", base=server + "cut/", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_page_is_named(server: str, tmp_path: Path, fish_checksums: None) -> None:
    with pytest.raises(ConnectionError, match=r"cannot download .*nowhere/fish_X_nohead.txt \(status 404\)"):
        paper.load("fish", base=server + "nowhere/", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_network_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:  # bound but not listening: the connection is refused
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionError, match=r"cannot download .*connect to the network and try again, or set"):
            paper.load("fish", base=f"http://127.0.0.1:{free.getsockname()[1]}/", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_set_without_a_download_says_so() -> None:
    with pytest.raises(FileNotFoundError, match="no download is known for the set shrec19_01; set PWAN_DATA"):
        shapes.load("shrec19_01", "paper")


def test_a_pair_without_a_download_names_both_files() -> None:
    with pytest.raises(FileNotFoundError, match=r"humans_18_19; .*holds shrec19_18\.npz and shrec19_19\.npz"):
        shapes.load("humans_18_19", "paper")


def save_body(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch, *, scale: float) -> np.ndarray:
    vertices, faces = np.arange(12.0).reshape(4, 3) ** 2 * scale, np.array([[0, 1, 2], [1, 2, 3]])
    file = folder / f"shrec19_{number:02d}.npz"
    np.savez(file, vertices=vertices, faces=faces, smpl_matches=np.arange(3) + number % 2)
    monkeypatch.setitem(paper.SHA256, file.name, hashlib.sha256(file.read_bytes()).hexdigest())
    return vertices


def test_a_pair_of_bodies_has_two_surfaces_and_two_lists_of_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(tmp_path))
    first, second = (save_body(tmp_path, number, monkeypatch, scale=1.0 + number) for number in (18, 19))
    pair = shapes.load("humans_18_19", "paper")
    assert (pair.name, pair.source, pair.partner) == ("humans_18_19", "paper:folder", None)
    other = pair.counterpart
    assert other is not None and other.matches is not None and pair.matches is not None
    assert other.name == "shrec19_19"
    np.testing.assert_array_equal(pair.vertices, first)
    np.testing.assert_array_equal(other.vertices, second)
    np.testing.assert_array_equal(pair.matches, [0, 1, 2])
    np.testing.assert_array_equal(other.matches, [1, 2, 3])


def test_bodies_that_lie_are_stood_up_and_their_counterparts_moved_onto_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(tmp_path))
    first, second = (save_body(tmp_path, number, monkeypatch, scale=1.0 + number) for number in (1, 15))
    pair = shapes.load("humans_01_15", "paper")
    other = pair.counterpart
    assert other is not None and other.vertices is not None and pair.vertices is not None
    np.testing.assert_array_equal(other.points, other.vertices)
    np.testing.assert_array_equal(pair.points, pair.vertices)
    np.testing.assert_array_equal(pair.vertices, first[:, [0, 2, 1]] * [-1, 1, 1])
    np.testing.assert_allclose(other.vertices - other.vertices[0], second - second[0], atol=1e-9)
    centres = [(points.min(0) + points.max(0)) / 2 for points in (pair.vertices, other.vertices)]
    np.testing.assert_allclose(centres[0], centres[1], atol=1e-9)


def test_the_folder_is_read_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"there is no face\.npz in it"):
        shapes.load("face_2", "paper")
    frames, triangles = np.arange(36.0).reshape(3, 4, 3), np.array([[0, 1, 2], [1, 2, 3]])
    np.savez(tmp_path / "face.npz", frames=frames, triangles=triangles)
    with pytest.raises(ValueError, match=r"face\.npz should have the SHA-256 4411"):
        shapes.load("face_2", "paper")
    content = (tmp_path / "face.npz").read_bytes()
    monkeypatch.setitem(paper.SHA256, "face.npz", hashlib.sha256(content).hexdigest())
    face = shapes.load("face_2", "paper")
    assert face.source == "paper:folder"
    np.testing.assert_array_equal(face.points, frames[1])
    np.testing.assert_array_equal(face.vertices, frames[1])
    np.testing.assert_array_equal(face.faces, triangles)


def test_only_the_paper_source_looks_at_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, "/no/such/folder")
    shapes._load_packaged.cache_clear()
    assert shapes.load("bunny").source == "packaged"


def test_every_text_file_and_archive_has_a_checksum() -> None:
    for paper_set in paper.SETS.values():
        assert {paper_set.archive, *(paper_set.files or {}).values()} <= set(paper.SHA256)


REAL_FOLDER = os.environ.get(paper.FOLDER_VARIABLE)


@pytest.mark.skipif(not REAL_FOLDER, reason="PWAN_DATA names no folder with the paper's point sets")
@pytest.mark.parametrize(
    ("name", "size", "partner"),
    [("bunny", 8171, 8171), ("armadillo", 106289, 106289), ("monkey", 7958, 7958), ("fish", 78, 98)],
)
def test_the_real_folder(name: str, size: int, partner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(REAL_FOLDER))
    shape = shapes.load(name, "paper")
    assert len(shape.points) == size
    assert shape.partner is not None
    assert len(shape.partner) == partner


@pytest.mark.skipif(not REAL_FOLDER, reason="PWAN_DATA names no folder with the paper's point sets")
@pytest.mark.parametrize("number", [1, 15, 18, 19, 20, 21, 30, 31])
def test_every_body_stands_along_y(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(REAL_FOLDER))
    assert np.ptp(shapes.load(f"shrec19_{number:02d}", "paper").points, 0).argmax() == 1


@pytest.mark.skipif(not REAL_FOLDER, reason="PWAN_DATA names no folder with the paper's point sets")
@pytest.mark.parametrize(("name", "residual"), [("humans_01_15", 0.0125), ("humans_01_21", 0.0145)])
def test_the_substitutes_stand_as_the_first_body_does(
    name: str, residual: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the matches a translation leaves hardly more than a rigid motion (.0120 and .0134 of the squared radius)."""
    monkeypatch.setenv(paper.FOLDER_VARIABLE, str(REAL_FOLDER))
    shape = shapes.load(name, "paper")
    other = shape.counterpart
    assert other is not None and other.vertices is not None and shape.vertices is not None
    here, there = (body.vertices[body.matches] for body in (shape, other))
    here, there = here - here.mean(0), there - there.mean(0)
    assert ((here - there) ** 2).sum() / (there**2).sum() < residual + 0.001
