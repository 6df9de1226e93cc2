"""From a template's file and many scans' files to a folder with all of them in one numbering.

study_files(settings) ──> all read and checked ──> each registered in a folder of its own ──> model ──> files, page
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pwan.files import alone_in, digest, kept_arrays, save_arrays, save_text, words
from pwan.many.folder import DONE, check_study, finished, registrations
from pwan.many.model import ShapeModel
from pwan.many.normals import moved_file
from pwan.many.output import Placed, Study, write_study
from pwan.many.registering import in_rounds, nearest_places
from pwan.many.settings import StudySettings
from pwan.pointfiles import PointFile
from pwan.pool import Failure, Report, choose_workers, run_tasks
from pwan.scans.folder import RESULT, STUDY, files
from pwan.scans.output import write_output
from pwan.scans.pair import pair_of, read_file
from pwan.scans.registering import check_ready, register_pair
from pwan.scans.settings import ScanSettings

Tell = Callable[[str], None]
OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class _Job:
    """One registration, for a worker: its settings, the place of the mean that stands for the template (N, D) if it
    does, whether the template moves, and what it is known by."""

    settings: ScanSettings
    mean: NDArray[np.float64] | None
    template_moves: bool
    key: str

    @property
    def folder(self) -> Path:
        return Path(self.settings.output)


def study_files(settings: StudySettings, *, tell: Tell = print, on_done: OnDone = lambda done, count: None) -> Study:
    """Register ``settings.template`` onto each of ``settings.scans`` (or these onto it), and write what they have in
    common.

    A scan whose registration is in the folder already, with the same settings and of the same files, is not
    registered again. One that fails does not end the others. Where all fail, the results of an earlier study stay.

    Args:
        settings: the files, and how to register them.
        tell: called with each sentence of what was decided or went wrong.
        on_done: called with the number of registrations of the round that are done, and the number of all.

    Returns:
        What was found; ``docs/study.md`` says which files hold it.

    Raises:
        OSError: a file cannot be read, the folder not be written, or another run writes in it.
        ValueError: wrong input, with what was expected, what came and what to do; nothing was computed then.
        KeyboardInterrupt: stopped; what is finished stays, and the same call goes on from there.
    """
    names = check_study(settings)
    template, digests = _read_all(settings, names)
    folder = Path(settings.output)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[list[NDArray[np.float64] | str]] = []  # of each round

    def match(model: ShapeModel | None) -> list[NDArray[np.float64] | None]:
        number = len(outcomes) + 1
        jobs = [_job(settings, name, path, template, model, number, digests) for name, path in names.items()]
        outcomes.append(_run(jobs, settings, tell, on_done))
        return [None if isinstance(one, str) else one for one in outcomes[-1]]

    with alone_in(folder, wait=False):
        _mark(settings, folder)
        points, model, number = in_rounds(match, list(names), settings.to, settings.remove_size, tell)
        done = {
            name: Placed(one, _told(registrations(settings, number) / name))
            for name, one in zip(names, points, strict=True)
            if one is not None
        }
        failed = {name: one for name, one in zip(names, outcomes[-1], strict=True) if isinstance(one, str)}
        model = None if model is None else model.turned_onto(template.points)
        kept = not done and finished(folder) is not None
        study = Study(settings, names, template, done, failed, model, number, kept)
        if not kept:
            write_study(study)
    return study


def _read_all(settings: StudySettings, names: Mapping[str, str]) -> tuple[PointFile, dict[str, str]]:
    """The template, and what each file's content is known by; of the scans nothing else is kept.

    Raises:
        OSError, ValueError: as :func:`study_files`; one sentence for each scan that cannot be registered.
    """
    role, other = ("source", "reference") if settings.moves == "template" else ("reference", "source")
    template: PointFile | None = None
    digests, wrong = {settings.template: digest(settings.template)}, []
    for path in names.values():
        of_pair = settings.of(path, Path(settings.output))
        template = read_file(of_pair, role) if template is None else template
        try:
            scan = _scan(settings, path, of_pair, other)
            check_ready(of_pair, pair_of(of_pair, *((template, scan) if role == "source" else (scan, template))))
            digests[path] = digest(path)
        except (ValueError, OSError) as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        sentences = [words(one) if isinstance(one, OSError) else str(one) for one in wrong]
        raise ValueError("\n".join([f"{len(wrong)} of the {len(names)} scans cannot be registered:", *sentences]))
    assert template is not None
    return template, digests


def _scan(settings: StudySettings, path: str, of_pair: ScanSettings, role: str) -> PointFile:
    """Read a scan; of a folder it may be none at all, and then the error says what to do."""
    try:
        return read_file(of_pair, role)
    except ValueError as error:
        folder = Path(path).parent
        if folder not in map(Path, settings.scans):
            raise
        raise ValueError(
            f"{str(error).rstrip('.')}. If it is no scan, take it out of {folder}, or name the scans by a pattern in "
            "quotes"
        ) from error


def _job(
    settings: StudySettings,
    name: str,
    path: str,
    template: PointFile,
    model: ShapeModel | None,
    number: int,
    digests: Mapping[str, str],
) -> _Job:
    """The registration of one scan: with the template, or with the mean, which lies where the scan was seen last, or
    else as the template."""
    mean: NDArray[np.float64] | None = None
    changed: dict[str, Any] = {}
    if model is not None:
        mean = model.mean_near(template.points)
        if name in model.names:
            mean, changed = model.mean_on(model.names.index(name)), {"init": "none", "scale": False}
    one = settings.of(path, registrations(settings, number) / name, **changed)
    told = {key: value for key, value in asdict(one).items() if key not in ("source", "reference", "output")}
    content = hashlib.sha256(b"" if mean is None else mean.tobytes()).hexdigest()
    known = [told, asdict(one.chosen()), settings.moves, digests[settings.template], digests[path], content]
    key = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    return _Job(one, mean, settings.moves == "template", key)


def _run(jobs: list[_Job], settings: StudySettings, tell: Tell, on_done: OnDone) -> list[NDArray[np.float64] | str]:
    """The template's places on each scan, or why there are none; those that are done already are kept."""
    found: dict[int, NDArray[np.float64] | str] = {}
    for number, job in enumerate(jobs):
        kept = _kept(job)
        if kept is not None:
            found[number] = kept
    missing = [number for number in range(len(jobs)) if number not in found]
    if found and missing:
        tell(f"{len(found)} of {len(jobs)} registrations are done already and kept")
    if missing:
        on_done(len(found), len(jobs))

    def take(place: int, outcome: Any) -> None:
        number = missing[place]
        reason = (outcome.reason if isinstance(outcome, Failure) else outcome).partition("\n")[0]
        kept = None if reason else _kept(jobs[number])
        if kept is None:
            reason = reason or "its results were removed meanwhile"
            tell(f"{jobs[number].folder.name} failed: {reason}")
        found[number] = reason if kept is None else kept
        on_done(len(found), len(jobs))

    with _tidied(jobs[number] for number in missing):
        count = choose_workers(settings.workers, len(missing))
        todo = [jobs[number] for number in missing]
        run_tasks(_registered, todo, workers=count, on_done=take)
    return [found[number] for number in range(len(jobs))]


def _kept(job: _Job) -> NDArray[np.float64] | None:
    """The places that a finished registration with the same key has left; None where there is none."""
    arrays = kept_arrays(job.folder / DONE)
    if arrays is None or set(arrays) != {"points", "key"} or str(arrays["key"]) != job.key:
        return None
    points: NDArray[np.float64] = arrays["points"]
    return points


def _registered(job: _Job, report: Report) -> str:
    """Register, and write all that a registration writes; DONE comes last. The reason where the method failed."""
    settings = job.settings
    source, reference = read_file(settings, "source"), read_file(settings, "reference")
    if job.mean is not None and job.template_moves:
        source = moved_file(source, job.mean)
    elif job.mean is not None:
        reference = moved_file(reference, job.mean)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the extents differ")  # the verdict says it
        outcome = register_pair(settings, pair_of(settings, source, reference), tell=lambda text: None)
    if outcome.measured.failed and (job.folder / DONE).exists():
        return outcome.measured.failed  # what an earlier run has found stays
    (job.folder / DONE).unlink(missing_ok=True)
    write_output(settings, outcome)
    if outcome.measured.failed:
        return outcome.measured.failed
    points = outcome.points if job.template_moves else nearest_places(reference.points, outcome.points, source.points)
    save_arrays(job.folder / DONE, {"points": points, "key": job.key})
    return ""


@contextmanager
def _tidied(jobs: Iterator[_Job]) -> Iterator[None]:
    """Remove what killed workers leave in their folders: what is unfinished or not known to be whole."""
    todo = list(jobs)
    try:
        yield
    except BaseException:
        for job in todo:
            if not (job.folder / DONE).exists():
                for path in files(job.settings).values():
                    path.unlink(missing_ok=True)
        raise
    finally:
        for job in todo:
            for half in job.folder.glob("*.tmp"):  # of :mod:`pwan.files`
                if half.is_dir():
                    shutil.rmtree(half, ignore_errors=True)
                else:
                    half.unlink(missing_ok=True)
            with suppress(OSError):  # it is not empty, or not there
                job.folder.rmdir()


def _told(folder: Path) -> dict[str, Any]:
    """What the result of a registration says."""
    told: dict[str, Any] = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    return told


def _mark(settings: StudySettings, folder: Path) -> None:
    """Say that this folder is a study's, before there are any results."""
    if not (folder / STUDY).exists():
        save_text(folder / STUDY, json.dumps({"finished": False, "settings": asdict(settings)}, indent=1))
