"""``pwan register a.ply b.pcd`` and ``python run.py task=register source=a.ply reference=b.pcd``: a person's own files.

No Hydra here: a file's name may hold anything, and there is nothing to compose.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from omegaconf import OmegaConf
from tqdm import tqdm
from yaml import YAMLError

import pwan
from pwan import methods, scans
from pwan.app import own_study
from pwan.app.messages import backslash_words, yaml_words
from pwan.app.own_frames import frames_of
from pwan.app.tasks import REGISTER
from pwan.exit_codes import FAILED, OK, WRONG_INPUT
from pwan.files import words
from pwan.many.settings import StudySettings, study_keys
from pwan.process import code_of
from pwan.progress import progress_bar
from pwan.scans import ScanSettings
from pwan.scans.folder import check_output
from pwan.settings import build_settings, nearest

if TYPE_CHECKING:  # torch takes seconds to load
    from pwan.problem import Observer

TASK = f"task={REGISTER}"
METHOD = "method."
SEQUENCE = ("--sequence", "sequence=true")
USAGE = """\
pwan register SOURCE REFERENCE [key=value ...]
python run.py task=register source=SOURCE reference=REFERENCE [key=value ...]
pwan register FRAMES --sequence [key=value ...]

Moves the points of SOURCE onto those of REFERENCE (PLY, OBJ, OFF, STL, GLB, PCD, LAS, LAZ, text, NPY, NPZ,
MAT, SWC, 3D Slicer's .mrk.json and .fcsv; .gz too).
With --sequence (or sequence=true) the first of the FRAMES (files, a folder or a pattern), or source=TEMPLATE, is led
through all of them.

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

pwan register TEMPLATE SCAN SCAN ... [key=value ...]
python run.py task=register source=TEMPLATE reference=FOLDER [key=value ...]

Moves the points of TEMPLATE onto each of many scans (files, a folder of them, or reference=[a.ply,b.ply]), so that all
have its numbering; with the mean of their shapes and its modes. The same command again goes on after a stop.

  output=study           the folder for the results: study.html, corresponded.npz, scans.csv, modes.csv, scores.csv
  to=mean                register again with the mean shape, until it stays; to=template: once
  moves=scans            the scans move onto TEMPLATE; moves=template: it moves onto them
  remove_size=true       take out sizes too, beside positions and turns, before mean and modes
  workers=auto           so many processes, one for each core
  all of the above but landmarks=, for each registration; source_ is of TEMPLATE, reference_ of the scans

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
    sequence = any(argument in SEQUENCE for argument in arguments)
    kept = "The frames that are done are kept, and the same command goes on." if sequence else "Nothing was written."
    try:
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.filterwarnings("ignore", message="the extents differ")  # said already, in words for files
            bar = stack.enter_context(progress_bar(seconds_between=0.5 if sys.stderr.isatty() else 15))
            return (_sequence if sequence else _pair)(arguments, bar, stack)
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


def _pair(arguments: Sequence[str], bar: Observer, stack: ExitStack) -> int:
    """Register two files, or many scans; the bar is closed with the stack before the verdict is told."""
    settings = parse(arguments)
    if isinstance(settings, StudySettings):
        return own_study.run(settings, words=_as_settings)
    _check_early(settings)
    with stack:
        outcome = scans.register_files(settings, tell=_tell, observer=bar)
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
    print("\nwritten:")
    for path in scans.files(settings).values():
        if path.exists():
            print(f"  {path.resolve()}")
    return FAILED if outcome.measured.failed else OK


def _sequence(arguments: Sequence[str], bar: Observer, stack: ExitStack) -> int:
    """Lead one file through frames."""
    frames, settings = parse_sequence(arguments)
    settings.chosen()
    for file in (settings.source, *frames):
        Path(file).stat()
    from pwan.many.frame_files import register_frame_files  # loads torch

    with stack:
        done = register_frame_files(frames, settings, tell=_tell, observer=bar)
    doubted = [frame.name for frame in done.frames if not frame.trusted]
    print()
    print(f"{len(done.frames) - len(doubted)} of {len(done.frames)} frames are to be trusted.")
    if doubted:
        print(f"Not to be trusted: {', '.join(doubted)}")
    print("\nwritten:")
    for path in done.written:
        print(f"  {path.resolve()}")
    return FAILED if len(doubted) == len(done.frames) - 1 else OK


def _tell(text: str) -> None:
    tqdm.write(_as_settings(text))


def parse(arguments: Sequence[str]) -> ScanSettings | StudySettings:
    """The settings that the arguments name: of a study where there is more than one scan, a folder, or a setting that
    only a study has.

    Raises:
        ValueError: an unknown key (names the nearest one), a value of the wrong type, or no source or reference.
        OSError: the file of inputs cannot be read.
    """
    given: dict[str, Any] = {}
    positional: list[str] = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or Path(argument).exists():
            if argument.startswith("-"):
                raise ValueError(
                    f"unknown option {argument!r}; settings are written as key=value, see --help; a file of such a "
                    f"name as source={argument} or ./{argument}"
                )
            positional.append(argument)
        else:
            given[key] = value
    if len(positional) > 2 and not {"source", "reference"} & given.keys():
        given["source"], given["reference"], positional = positional[0], positional[1:], []
    free = [name for name in ("source", "reference") if name not in given]
    if len(positional) > len(free):
        raise ValueError(f"{positional[-1]!r} is one file too many: source and reference are named already")
    for name, path in zip(free, positional, strict=False):
        given[name] = path
    if (sequence := given.pop("sequence", "false")) != "false":  # true is taken out before
        raise ValueError(f"sequence must be true or false, got {sequence!r}")
    if "inputs" in given:
        given = {**_inputs(given.pop("inputs")), **given}
    many = own_study.is_asked(given)
    kinds = {**get_type_hints(ScanSettings), **(get_type_hints(StudySettings) if many else {})}
    known = [f.name for f in fields(ScanSettings) if f.name != "method_settings"] + list(study_keys() if many else ())
    values: dict[str, Any] = {}
    of_method: dict[str, Any] = {}
    for key, value in given.items():
        if key.startswith(METHOD):
            of_method[key.removeprefix(METHOD)] = _plain(value)
        elif key == "reference" and many:
            values[key] = own_study.listed(value)
        elif key not in known:
            choices = [*known, "inputs", "sequence"]
            raise ValueError(f"unknown key {key!r}{nearest(key, choices)}; there are {', '.join(choices)}")
        else:
            text = kinds[key] in (str, str | None) or (key == "landmarks" and not isinstance(value, list))
            values[key] = str(value) if text and value is not None else _plain(value)
    missing = [name for name in ("source", "reference") if name not in values]
    if missing:
        raise ValueError(f"no {' and no '.join(missing)} was named; for example: source=a.ply reference=b.ply")
    if many:
        return own_study.settings_of(values, of_method)
    return build_settings(ScanSettings, {**values, "method_settings": of_method}, owner="register")


def parse_sequence(arguments: Sequence[str]) -> tuple[list[str], ScanSettings]:
    """The frames that the arguments name, in their order, which is told, and the settings for each of them.

    Raises:
        ValueError: as :func:`parse`, or no frames.
        OSError: the file of inputs or the folder of frames cannot be read.
    """
    rest = [argument for argument in arguments if argument not in SEQUENCE]
    settings = [argument for argument in rest if "=" in argument and not Path(argument).exists()]
    given = dict(argument.split("=", 1) for argument in settings)
    held = _inputs(given["inputs"]) if "inputs" in given else {}
    named = [argument for argument in rest if argument not in settings]
    flags = [argument for argument in named if argument.startswith("-")]
    reference = given.get("reference", held.get("reference"))
    if not named and reference is not None:
        named = [str(reference)]
    elif named and "reference" in given:
        raise ValueError("frames are named twice, by reference= and without it; leave one of them out")
    if not named:
        raise ValueError("no frames were named; for example: pwan register frames/*.ply --sequence")
    frames, order = ([], "") if flags else frames_of(named)
    source = given.get("source", held.get("source", frames[0] if frames else ""))
    others = [argument for argument in settings if not argument.startswith(("source=", "reference="))]
    parsed = parse([*flags, *others, f"source={source}", f"reference={frames[-1] if frames else ''}"])
    if isinstance(parsed, StudySettings):
        raise ValueError(f"{', '.join(study_keys())} are of many scans, not of a sequence; leave them out")
    print(order)
    return frames, parsed


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
