"""The one command that may do better, for a registration that left something far from the other set or that is not to
be trusted.
"""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pwan import methods
from pwan.begin.estimate import Limits
from pwan.begin.start import Start
from pwan.place import INSTALLED
from pwan.scans.pair import Pair
from pwan.scans.settings import ScanSettings
from pwan.trust.left import Left

LANDMARKS = "landmarks.csv"
ON_EACH_OTHER = 0.5  # of the reference's RMS radius: two sets whose means lie nearer than this were put there


@dataclass(frozen=True)
class Again:
    """What may do better.

    Attributes:
        when: the case for which it is meant, and what to do before.
        command: for a shell.
    """

    when: str
    command: str


def better(
    settings: ScanSettings,
    pair: Pair,
    start: Start | None,
    limits: Limits | None,
    mass: float | None,
    left: tuple[Left, Left],
    trusted: bool,
) -> Again | None:
    """What may do better than the registration with these settings, whose start, limits and mass (in registered points)
    are given; None where nothing of note is left, or nothing simple helps."""
    of_source, of_reference = left
    smaller = min(len(pair.source), len(pair.reference))
    if not trusted and _start_in_doubt(settings, pair, start):
        when = "If the files lay on each other rightly before the start changed that, begin from them as they are"
        return Again(when, command(_into(settings, "as_given", init="none")))
    estimated = limits is not None and not limits.little  # with so little in common they may be of different things
    if of_source.noted and of_reference.noted and estimated and mass is not None and mass < smaller:
        in_file = math.floor(smaller * len(pair.source_file.points) / len(pair.source))
        when = "If both files show all of the same thing, the estimate left out parts that match; match all of them"
        return Again(when, command(_into(settings, "all", mass=in_file)))
    uncovered = of_reference.noted or (of_source.noted and not trusted)  # more in the source alone may well be right
    if uncovered and methods.takes_landmarks(settings.method):
        name = " and ".join(settings.landmark_files) or LANDMARKS
        numbered = pair.landmarks is None or pair.landmarks.points is not None
        number = pair.reference_file.rows[pair.reference_rows[of_reference.row]]
        point = f"such as SOURCE,{number} with the number of the source's point that belongs to point {number} there"
        example = f", {point}" if of_reference.noted and numbered else ""
        when = (
            "If a limb or another part that is in both files was left behind (what only one of them shows needs a "
            f"smaller mass= in its place), write some pairs of its points into {name}, one a line{example}; then"
        )
        return Again(when, command(_into(settings, "landmarks", landmarks=settings.landmarks or LANDMARKS)))
    return None


def _start_in_doubt(settings: ScanSettings, pair: Pair, start: Start | None) -> bool:
    """Whether a start was found that moved sets which lay on each other."""
    if start is None or not start.changed or settings.init == "none" or settings.landmarks is not None:
        return False
    apart = np.linalg.norm(pair.source.mean(0) - pair.reference.mean(0))
    return bool(apart < ON_EACH_OTHER * np.sqrt(pair.reference.var(0).sum()))


def _into(settings: ScanSettings, suffix: str, **changed: Any) -> ScanSettings:
    """Other settings, whose results go into a folder of their own."""
    folder = Path(settings.output)
    beside = folder.with_name(f"{folder.name}_{suffix}") if folder.name else Path(suffix)
    return replace(settings, output=str(beside), overwrite=False, **changed)


def command(settings: ScanSettings) -> str:
    """The command line that has these settings."""
    words = ["pwan", "register"] if INSTALLED else ["python", "run.py", "task=register"]
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name == "method_settings":
            words += [f"method.{name}={_spelt(one)}" for name, one in value.items()]
        elif INSTALLED and field.name in ("source", "reference") and not str(value).startswith("-"):
            words.append(str(value))
        elif value != field.default:
            words.append(f"{field.name}={_spelt(value)}")
    return shlex.join(words)


def _spelt(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):  # of files
        return ",".join(value)
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, default=str)
