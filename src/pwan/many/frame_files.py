"""A sequence of files: each frame's registration in a folder of its own, and all of them together.

register_frame_files(frames, settings) ──> all read once ──> one frame after the other, each written at once ──> table,
points and page of all
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pwan.deformation.space import SpaceTransform
from pwan.extras import needs
from pwan.files import alone_in, digest, in_one_move, kept_arrays, save_arrays, save_text
from pwan.many.sequence import NO_LANDMARKS, Followed, Tell, by_either, chained, in_turn, of_frame, sentences
from pwan.pointfiles import PointFile, read_points
from pwan.problem import Observer
from pwan.scans.attributes import read_attributes
from pwan.scans.folder import PAGE, SEQUENCE, TRANSFORM, check_output, stem
from pwan.scans.folder import files as written
from pwan.scans.outcome import Outcome
from pwan.scans.output import write_output
from pwan.scans.pair import Pair, pair_of, read_file
from pwan.scans.registering import check_ready, register_pair
from pwan.scans.settings import ScanSettings
from pwan.words import counted, part_of

with needs("scans", "a sequence of files"):
    import pandas as pd

    from pwan.report.page import Link, Scene, Section, Table, write_page
    from pwan.report.scene import frames_json

RECORD, POINTS, TABLE = SEQUENCE, "sequence.npz", "frames.csv"
NUMBERS = ("confidence", "distance", "seconds")
DONE = "frame.npz"  # written last in a frame's folder: its registration is finished


@dataclass(frozen=True)
class FrameFiles:
    """A finished sequence of files.

    Attributes:
        frames: what was found in each; ``points`` are those that were registered.
        points: (F, N, D) all points of the file that was led, where they are in each frame; NaN where one failed.
        folder: where everything is.
        written: the files of all frames together.
    """

    frames: list[Followed]
    points: np.ndarray
    folder: Path
    written: tuple[Path, ...]


def register_frame_files(
    frames: Sequence[str | Path],
    settings: ScanSettings,
    *,
    tell: Tell = print,
    observer: Observer | None = None,
    register: Callable[..., Any] = register_pair,
) -> FrameFiles:
    """Lead one file's points through frames, as :func:`pwan.many.sequence.register_sequence` does, and write all of it.

    What an earlier run of the same files and settings has finished in the folder is kept and not run again; frames may
    have been added since.

    Args:
        frames: two or more files in their order, or one or more where the source is none of them.
        settings: for each frame. ``source`` is the file that is led: the first frame, or a template. ``output`` is the
            folder of the sequence; ``reference`` is not looked at.
        tell: called with each sentence of what was decided.
        observer: called after each step, with the steps of all frames that are left.
        register: what registers a frame, as :func:`pwan.scans.registering.register_pair`.

    Raises:
        OSError: a file cannot be read, the folder not be written, or another run writes in it.
        ValueError: a file that cannot be registered, or another sequence's folder; before anything is computed.
    """
    files, folder = [Path(frame) for frame in frames], Path(settings.output)
    begins = int(bool(files) and Path(settings.source) == files[0])
    if len(files) <= begins:
        raise ValueError(
            f"expected two frames or more, or a frame and a template (source=), got {len(files)}; name more files, a "
            "folder or a pattern"
        )
    if settings.landmarks is not None:
        raise ValueError(NO_LANDMARKS)
    each = [
        replace(settings, reference=str(file), output=str(folder / f"{k:04d}_{stem(file)}"), overwrite=True)
        for k, file in enumerate(files)
    ]
    record = _record(files, settings)
    goes_on = _check_folder(each, folder, record, settings.overwrite)
    numbers = range(begins, len(files))
    done_before = {k: held for k in numbers if goes_on and (held := kept_arrays(Path(each[k].output) / DONE))}
    todo = [k for k in numbers if k not in done_before]
    led, shape = _checked([each[k] for k in todo or [begins]], tell)
    if done_before:
        tell(f"{part_of(len(done_before), len(files), 'frame')} done already and kept")
    first = replace(Followed.first(files[0].name, shape), result=led.points) if begins else None

    def one(number: int, last: Followed | None) -> Followed:
        if number in done_before:
            return _kept(each[number], done_before[number], last)
        watch = of_frame(observer, todo.index(number), len(todo))
        try:
            pair = pair_of(each[number], led, read_file(each[number], "reference"))
            onto = partial(register, tell=_nothing, observer=watch)
            found = _registered(each[number], pair, last, onto, last is first)
        except ValueError as error:  # of this frame alone: what is wrong with all of them was found before
            there = shape if last is None else last.points
            return Followed(files[number].name, there, False, 0.0, np.inf, 0.0, str(error))
        way = ", by the frame before it" if found.chained else ""
        tell(f"{found.name}: {found.confidence:.0%} sure, within {found.distance:.3g}, {found.seconds:.0f} s{way}")
        return found

    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder, wait=False):
        if not goes_on:
            _forget(folder)
        save_text(folder / RECORD, json.dumps(record, indent=1))
        done = [*([first] if first else []), *in_turn(numbers, one, first, tell)]
        lost = np.full_like(led.points, np.nan)
        points = np.stack([lost if frame.result is None else frame.result for frame in done])
        return FrameFiles(done, points, folder, _write(each, done, points, folder))


def _nothing(_: str) -> None:
    """Of each frame's many sentences, which stand in its folder, one is told."""


def _record(files: Sequence[Path], settings: ScanSettings) -> dict[str, Any]:
    """What two runs must have in common to go on from each other; the content of the files counts.

    Raises:
        OSError: a file cannot be read.
    """
    told = asdict(replace(settings, source="", reference="", output="", overwrite=False))
    sums = [digest(file) for file in (Path(settings.source), *files)]
    return json.loads(json.dumps({"settings": told, "template": sums[0], "frames": sums[1:]}, default=str))


def _check_folder(each: Sequence[ScanSettings], folder: Path, record: dict[str, Any], overwrite: bool) -> bool:
    """Whether the folder holds the beginning of this very sequence; one that cannot be written to, or holds other
    results that may not be written over, is refused.

    Raises:
        OSError: it cannot be written to.
        ValueError: it holds other results.
    """
    for settings in each:
        check_output(settings)
    before = _earlier(folder)
    if before is not None:
        first = before["frames"]
        if {**before, "frames": []} == {**record, "frames": []} and first == record["frames"][: len(first)]:
            return True
    held = [name for name in (RECORD, POINTS, TABLE, PAGE) if (folder / name).exists()]
    if held and not overwrite:
        raise ValueError(
            f"{folder} holds results of other files or settings already ({', '.join(held)}); name another folder with "
            "output=, or write over them with overwrite=true"
        )
    return False


def _forget(folder: Path) -> None:
    """Where another sequence was, none of its frames counts as finished any more."""
    if (folder / RECORD).exists():
        for path in folder.glob(f"[0-9][0-9][0-9][0-9]*_*/{DONE}"):
            path.unlink()


def _earlier(folder: Path) -> dict[str, Any] | None:
    """The record of the sequence in a folder, if there is one."""
    try:
        held = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return held if set(held) == {"settings", "template", "frames"} else None
    except (OSError, ValueError, TypeError):
        return None


def _checked(each: Sequence[ScanSettings], tell: Tell) -> tuple[PointFile, np.ndarray]:
    """The file that is led, and its points that are registered; every frame is read and checked.

    Raises:
        OSError: a file cannot be read.
        ValueError: one that cannot be registered, with its name.
    """
    tell(f"reading {counted(len(each), 'frame')} ...")
    led = read_file(each[0], "source")
    for settings in each:
        pair = pair_of(settings, led, read_file(settings, "reference"))
        check_ready(settings, pair)
    return led, pair.source


def _registered(
    settings: ScanSettings, pair: Pair, last: Followed | None, register: Callable[..., Outcome], from_first: bool
) -> Followed:
    """One frame, registered and written; from where the last one led, which may be the first shape itself."""
    outcomes: list[Outcome] = []

    def straight() -> Followed:
        outcomes.append(register(settings, pair, guess=None if last is None else last.points))
        return _found(settings, outcomes[-1])

    def chain() -> Followed:
        assert last is not None
        led = _as_it_was(pair.source_file, last)
        rows = pair.source_rows, pair.reference_rows
        carried = read_attributes(settings, (led, pair.reference_file), rows, [])
        before = replace(pair, source=last.points, source_file=led, attributes=carried)
        as_they_are = replace(settings, init="none", scale=False)
        outcomes.append(register(as_they_are, before, guess=None))
        found = _found(settings, outcomes[-1])
        return replace(found, transform=chained(last.transform, found.transform))

    found = straight() if last is None or from_first else by_either(straight, chain)
    folder = Path(settings.output)
    (folder / DONE).unlink(missing_ok=True)
    # a command for one pair would leave the other frames out
    write_output(settings, replace(outcomes[-1 if found.chained else 0], again=None))
    kept = {"points": found.result, "registered": found.points, "trusted": found.trusted, "reason": found.reason}
    kept |= {"chained": found.chained} | {name: getattr(found, name) for name in NUMBERS}
    save_arrays(folder / DONE, kept)
    return found


def _as_it_was(led: PointFile, last: Followed) -> PointFile:
    """The file that is led with the points, and the turned normals, of a frame."""
    turned = {}
    if led.normal_names and last.moved is not None:
        fields = read_points(last.moved).fields
        turned = {name: fields[name] for name in led.normal_names if name in fields}
    return replace(led, points=last.result, fields={**led.fields, **turned})


def _found(settings: ScanSettings, outcome: Outcome) -> Followed:
    verdict, measured = outcome.verdict, outcome.measured
    return Followed(
        name=Path(settings.reference).name,
        points=np.asarray(outcome.result.transformed, dtype=np.float64),
        trusted=verdict.trusted,
        confidence=float(verdict.confidence or 0.0),
        distance=np.inf if measured.failed else measured.residual,
        seconds=outcome.seconds,
        reason=measured.failed or " ".join(verdict.warnings),
        transform=None if measured.failed else outcome.transform,
        result=np.full_like(outcome.points, np.nan) if measured.failed else outcome.points,
        moved=written(settings)["points"],
    )


def _kept(settings: ScanSettings, kept: dict[str, Any], last: Followed | None) -> Followed:
    """A frame that an earlier run has finished, which began at this last one."""
    folder = Path(settings.output)
    transform = SpaceTransform.load(folder / TRANSFORM) if (folder / TRANSFORM).exists() else None
    by_chain = bool(kept["chained"])
    return Followed(
        name=Path(settings.reference).name,
        points=kept["registered"],
        trusted=bool(kept["trusted"]),
        confidence=float(kept["confidence"]),
        distance=float(kept["distance"]),
        seconds=float(kept["seconds"]),
        reason=str(kept["reason"]),
        chained=by_chain,
        transform=chained(last.transform, transform) if by_chain and last is not None else transform,
        result=kept["points"],
        moved=written(settings)["points"],
    )


def _write(
    each: Sequence[ScanSettings], done: Sequence[Followed], points: np.ndarray, folder: Path
) -> tuple[Path, ...]:
    """The points, the table and the page of all frames; their places."""
    files = [Path(settings.reference) for settings in each]
    names = [file.name for file in files]
    table = pd.DataFrame(
        {
            "frame": names,
            "trusted": [frame.trusted for frame in done],
            **{name: [getattr(frame, name) for frame in done] for name in NUMBERS},
            "began": [frame.began for frame in done],
            "chained": [frame.chained for frame in done],
            "reason": [frame.reason for frame in done],
        }
    )
    save_arrays(folder / POINTS, {"points": points, "names": np.array(names)})
    with in_one_move(folder / TABLE) as half:
        table.to_csv(half, index=False)
    scene = frames_json(points, [read_points(file).points for file in files], names)
    caption = "The shape that was led through the frames, and each frame; the slider goes from one to the next."
    found = Table("What was found", pd.DataFrame({"what was found": sentences(done)}))
    shown = Table("Each frame; its name leads to its registration", table.assign(frame=_links(each, done)))
    section = Section("Frames", tables=[found, shown], scenes=[Scene(caption, scene)])
    write_page(f"pwan: {counted(len(files), 'frame')}", [section], folder / PAGE)
    return tuple(folder / name for name in (POINTS, TABLE, PAGE))


def _links(each: Sequence[ScanSettings], done: Sequence[Followed]) -> pd.Series:
    """The names of the frames, each a link to its registration's page where there is one of this sequence."""
    pages = [Path(settings.output) / PAGE for settings in each]
    cells = [
        Link(frame.name, f"{page.parent.name}/{PAGE}") if frame.result is not None and page.exists() else frame.name
        for frame, page in zip(done, pages, strict=True)
    ]
    return pd.Series(cells, dtype=object)
