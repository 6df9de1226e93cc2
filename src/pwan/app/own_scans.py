"""``pwan register a.ply b.pcd`` and ``python run.py task=register source=a.ply reference=b.pcd``: a person's own files.

No Hydra here: a file's name may hold anything, and there is nothing to compose.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from omegaconf import OmegaConf
from tqdm import tqdm
from yaml import YAMLError

import pwan
from pwan import methods, scans
from pwan.app import own_frames, own_study
from pwan.app.catalogue import REGISTER
from pwan.app.messages import backslash_words, yaml_words
from pwan.app.own_frames import Frames, frames_of
from pwan.exit_codes import FAILED, OK, WRONG_INPUT
from pwan.files import words
from pwan.many.listing import named_in
from pwan.many.settings import StudySettings, study_keys
from pwan.process import code_of
from pwan.progress import progress_bar
from pwan.registration.settings import PwanSettings
from pwan.scans import ScanSettings
from pwan.scans.folder import check_output
from pwan.settings import build_settings, nearest

if TYPE_CHECKING:  # torch takes seconds to load
    from pwan.problem import Observer

TASK = f"task={REGISTER}"
METHOD = "method."
FLAGS = ("--sequence", "--version")
USAGE = """\
pwan register SOURCE REFERENCE [key=value ...]         one file onto another
pwan register TEMPLATE SCAN SCAN ... [key=value ...]   one file onto each of many scans
pwan register FRAMES --sequence [key=value ...]        one file through the frames of something that moves
python run.py task=register source=SOURCE reference=REFERENCE [sequence=true] [key=value ...]

Moves the points of SOURCE onto those of REFERENCE (PLY, OBJ, OFF, STL, GLB, PCD, LAS, LAZ, text, NPY, NPZ,
MAT, SWC, 3D Slicer's .mrk.json and .fcsv; .gz too).

Many scans all get the numbering of TEMPLATE, with the mean of their shapes and its modes (docs/study.md). With
--sequence the first of the FRAMES, or source=TEMPLATE, is led through all of them (docs/sequences.md). Scans and frames
are files, a folder, a pattern in quotes or reference=[a.ply,b.ply]. They go by the numbers in their names, but for
files that are named in an order of their own. The same command again goes on after a stop.

  output=registered      the folder for the results: the moved file, result.json, matches.csv, report.html
  mass=400               how many points of SOURCE have a partner; estimated where neither it nor distance is given
  distance=0.05          how far a point may be matched, in the units of REFERENCE
  landmarks=pairs.csv    known pairs that pull softly: a point of SOURCE, its point of REFERENCE (from 0), a weight;
                         or positions, x,y,z,x,y,z; or two files of named points: landmarks=a.fcsv,b.fcsv
  pinned=true            bring the landmarks together in the end, by a small correction
  init=auto              look for a rotation and a shift to start from; init=none: start as the files are
  scale=true             look for a scale too, for files in different units
  sample=5000            register points drawn on the faces of SOURCE, and move its vertices
  source_weights=, reference_weights=   even: the points count as an even sample, by the areas of their faces, without
                         faces by local density; none: once each; without a word even where the file has faces
  attributes=nx,ny,nz    columns of both files whose numbers the match respects; normals turn with the points
  labels=segment         columns of both files whose labels the match respects
  attribute_weight=0.05  how far apart a difference of 1, or of labels, counts; a spacing, or three, without a word
  export=grid,glb        what other programs read: grid (forward.h5 and back.h5, for 3D Slicer and ITK), forward.nii.gz,
                         back.nii.gz (for ANTs), ..., and the moved mesh as glb, ply or obj; see docs/exports.md
  export_spacing=1.5     between the nodes of the grids; without one it follows from the map
  export_coordinates=ras what the points are in; auto: what the file says, else LPS
  drop_invalid=true      leave out points that are not finite
  keep_flagged=true      take points that a LAS file flags as withheld or as noise
  overwrite=true         write over earlier results
  columns=, source_columns=, reference_columns=   which columns are x, y, z: names or numbers, as 2,3,4
  source_key=, reference_key=   the array of an NPZ or MAT file
  source_raw=, reference_raw=   type and columns of a headerless file: "float32 x 4"
  seed=0                 another seed gives another result
  method=pwan            {methods}
  method.steps=400       a setting of the method (PWAN's stages come after its steps)
  inputs=file.yaml       any of these from a file; what stands on the command line counts more

Many scans and sequences take all of these for each registration, but for landmarks=; source_ is of TEMPLATE, or of the
file that is led, and reference_ of the scans or frames. Of many scans alone:

  output=study           the folder for the results: study.html, corresponded.npz, scans.csv, modes.csv, scores.csv
  to=mean                register again with the mean shape, until it stays; to=template: once
  moves=scans            the scans move onto TEMPLATE; moves=template: it moves onto them
  remove_size=true       take out sizes too, beside positions and turns, before mean and modes
  workers=auto           so many processes, one for each core

A value is all that stands behind the first =. Paths start from the folder where you are.
"""


def main(arguments: Sequence[str]) -> int:
    """Register two files as the arguments say; returns the exit code: 0 done, 1 the method failed, 2 wrong input, 130
    stopped by Ctrl-C, 143 and 129 by SIGTERM and SIGHUP."""
    if any(argument in ("-h", "--help") for argument in arguments):
        print(USAGE.format(methods=", ".join(methods.names())))
        return OK
    if "--version" in arguments:
        print(f"pwan {pwan.__version__}")
        return OK
    kept = "Nothing was written."
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the extents differ")  # said already, in words for files
            asked = parse(arguments)
            bar = progress_bar(seconds_between=0.5 if sys.stderr.isatty() else 15)
            if not isinstance(asked, ScanSettings):
                kept = "The same command goes on from here."
            if isinstance(asked, StudySettings):
                code, written = own_study.run(asked, _tell)
            elif isinstance(asked, Frames):
                code, written = own_frames.run(asked, _tell, bar)
            else:
                code, written = _pair(asked, bar)
            there = [path for path in written if path.exists()]
            if there:
                print("\nwritten:", *(f"  {path.resolve()}" for path in there), sep="\n")
            return code
    except KeyboardInterrupt as stop:
        print(f"\nStopped. {kept}", file=sys.stderr)
        return code_of(stop)
    except (ValueError, OSError, ImportError) as error:  # ImportError: a method's own package
        print(f"error: {_words(error)}", file=sys.stderr)
        return WRONG_INPUT
    except MemoryError:
        print("error: not enough memory; register fewer points with sample=, or a thinner scan", file=sys.stderr)
        return FAILED
    except Exception:
        traceback.print_exc()
        print(f"error: this is a fault of pwan. {kept}", file=sys.stderr)
        return FAILED


def _pair(settings: ScanSettings, bar: AbstractContextManager[Observer]) -> tuple[int, tuple[Path, ...]]:
    """Register two files and say what came of it; the exit code and what was written. The bar is closed before the
    verdict."""
    _check_early(settings)
    with bar as observer:
        outcome = scans.register_files(settings, tell=_tell, observer=observer)
    print()
    for sentence in outcome.verdict.sentences:
        print(f"- {sentence}")
    for sentence in outcome.verdict.warnings:
        print(f"- warning: {sentence}")
    print(
        "The registration looks good." if outcome.verdict.trusted else "The registration is not to be trusted as it is."
    )
    if outcome.again is not None:
        print(f"\n{outcome.again.when}:\n  {outcome.again.command}")
    return FAILED if outcome.measured.failed else OK, tuple(scans.files(settings).values())


def _tell(text: str) -> None:
    tqdm.write(_as_settings(text))


def parse(arguments: Sequence[str]) -> ScanSettings | StudySettings | Frames:
    """What the arguments ask for: frames where they say that it is a sequence, a study where there is more than one
    scan or a setting that only a study has, else two files.

    Raises:
        ValueError: an unknown key (names the nearest one), a value of the wrong type, or no files.
        OSError: the file of inputs, or a folder of frames, cannot be read.
    """
    given, named = _split(arguments)
    held = _inputs(given.pop("inputs")) if "inputs" in given else {}
    sequence = str(given.pop("sequence", held.pop("sequence", False))).lower()
    if sequence not in ("true", "false"):
        raise ValueError(f"sequence must be true or false, got {sequence!r}")
    if sequence == "true":
        return _frames(given, named, held)
    given = {**held, **_with_pair(given, named)}
    many = own_study.is_asked(given)
    values, of_method = _values(given, many)
    if many:
        return own_study.settings_of({**values, "reference": named_in(given["reference"])}, of_method)
    return build_settings(ScanSettings, {**values, "method_settings": of_method}, owner="register")


def _split(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings by their keys, and the files that stand without one."""
    given: dict[str, Any] = {}
    named: list[str] = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if argument == "--sequence":
            given["sequence"] = True
        elif equals and not os.path.exists(argument):  # also where it is too long to be a file's name
            given[key] = value
        elif argument.startswith("-"):
            raise ValueError(
                f"unknown option {argument!r}; settings are written as key=value, see --help"
                f"{nearest(argument, FLAGS)}; a file of such a name as source={argument} or ./{argument}"
            )
        else:
            named.append(argument)
    return given, named


def _with_pair(given: dict[str, Any], named: list[str]) -> dict[str, Any]:
    """The settings, with source and reference of the files that stand without a key.

    Raises:
        ValueError: a file too many.
    """
    if len(named) > 2 and not {"source", "reference"} & given.keys():
        return {**given, "source": named[0], "reference": named[1:]}
    free = [name for name in ("source", "reference") if name not in given]
    if free == ["reference"] and len(named) > 1 and given["source"] not in named:
        return {**given, "reference": named}
    if len(named) > len(free):
        raise ValueError(f"{named[-1]!r} is one file too many: source and reference are named already")
    return {**given, **dict(zip(free, named, strict=False))}


def _frames(given: dict[str, Any], named: list[str], held: dict[str, Any]) -> Frames:
    """The sequence of the files that stand without a key, or of reference=.

    Raises:
        ValueError, OSError: as :func:`parse`.
    """
    if named and "reference" in given:
        raise ValueError("frames are named twice, by reference= and without it; leave one of them out")
    given = {**held, **given}
    frames = named_in(named or given.get("reference") or ())
    if not frames:
        raise ValueError("no frames were named; for example: pwan register frames/*.ply --sequence")
    if own := [key for key in study_keys() if key in given]:
        raise ValueError(f"settings of many scans, not of a sequence: {', '.join(own)}; leave them out")
    files, order = frames_of(frames)
    values, of_method = _values({"source": files[0], **given, "reference": files[-1]})
    return Frames(files, order, build_settings(ScanSettings, values | {"method_settings": of_method}, owner="register"))


def _values(given: dict[str, Any], of_study: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Texts as the values that they stand for, and apart from them the method's.

    Raises:
        ValueError: as :func:`parse`.
    """
    kinds = {**get_type_hints(ScanSettings), **(get_type_hints(StudySettings) if of_study else {})}
    known = [f.name for f in fields(ScanSettings) if f.name != "method_settings"]
    known += study_keys() if of_study else ()
    values: dict[str, Any] = {}
    of_method: dict[str, Any] = {}
    for key, value in given.items():
        if key.startswith(METHOD):
            of_method[key.removeprefix(METHOD)] = _plain(value)
        elif key not in known:
            choices = [*known, "inputs", "sequence"]
            of_pwan = {f.name for f in fields(PwanSettings)}
            meant = f" (did you mean {METHOD}{key}?)" if key in of_pwan else nearest(key, choices)
            raise ValueError(f"unknown key {key!r}{meant}; there are {', '.join(choices)}")
        else:
            text = kinds[key] in (str, str | None) or (key == "landmarks" and not isinstance(value, list))
            values[key] = str(value) if text and value is not None else _plain(value)
    missing = [name for name in ("source", "reference") if name not in values]
    if missing:
        raise ValueError(f"no {' and no '.join(missing)} was named; for example: source=a.ply reference=b.ply")
    return values, of_method


def _check_early(settings: ScanSettings) -> None:
    """What can be refused before torch is loaded.

    Raises:
        ValueError: a wrong setting of the method, or results that are there already.
        OSError: a folder that cannot be written to, or a file that is not there, as reading it would.
    """
    settings.chosen()
    check_output(settings)
    for path in (settings.source, settings.reference, *settings.landmark_files):
        Path(path).stat()


def _inputs(path: str) -> dict[str, Any]:
    """The settings of a YAML file, flat; a mapping ``method_settings`` becomes ``method.<name>``."""
    try:
        held = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except OSError:
        raise
    except YAMLError as error:
        raise ValueError(yaml_words(error)) from None
    except Exception as error:  # of OmegaConf, whose classes are many
        raise ValueError(f"{path} is not a YAML file of settings: {str(error).splitlines()[0]}") from None
    values = held.values() if isinstance(held, dict) else ()
    strange = any(isinstance(value, str) and not value.isprintable() for value in values)
    if strange and (said := backslash_words(path)):  # of which "\t" made a tab
        raise ValueError(said)
    if not isinstance(held, dict):
        raise ValueError(f"{path} must hold settings as 'key: value' lines, for example 'source: a.ply'")
    nested = held.pop("method_settings", None) or {}
    if not isinstance(nested, dict):
        raise ValueError(f"{path}: method_settings must hold 'name: value' lines, got {nested!r}")
    return {str(key): value for key, value in held.items()} | {f"{METHOD}{key}": value for key, value in nested.items()}


def _plain(value: Any) -> Any:
    """A number, true, false, null or a list where the text is one, else the text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename}: there is no such file; check the path"
    if isinstance(error, IsADirectoryError) and error.filename:
        return f"{error.filename}: this is a folder; expected a file of points"
    if isinstance(error, OSError):
        return words(error)
    return _as_settings(str(error))


def _as_settings(text: str) -> str:
    """A sentence with the settings as they are written here."""
    return re.sub(r"\b(drop_invalid|overwrite|keep_flagged)=True\b", r"\1=true", text)
