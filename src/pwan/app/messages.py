"""Hydra's and OmegaConf's complaints in a few lines that name the key or the choice and the nearest right one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pwan.app.config import KEYS, SECTIONS
from pwan.files import words
from pwan.settings import nearest

_KEYS = {"": [*KEYS, "experiment"], **{name: [f.name for f in fields(kind)] for name, kind in SECTIONS.items()}}
_CLASSES = {"Config": "", "ShapeConfig": "shape"}  # the sections by the names that OmegaConf gives them
_CHAFF = ("To append", "Set the environment", "object_type=", "full_key:", "reference_type=")


def explain(error: BaseException, folders: Sequence[Path], place: Path | None = None) -> str:
    """The sentence for an error that arose while composing the configuration of these folders, or while Hydra wrote to
    the place."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        there = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
        rest = f"there are {', '.join(there)}" if there else f"there are none in {' and '.join(map(str, folders))}"
        return f"{group or 'config'} {choice!r} does not exist{nearest(choice, there)}; {rest}"
    if isinstance(error, OSError):
        return words(error, place)
    if isinstance(error, YAMLError):
        return yaml_words(error)
    causes = [error, *([error.__cause__] if isinstance(error.__cause__, OmegaConfBaseException) else [])]
    lines = [line.strip() for cause in causes for line in str(cause).splitlines() if line.strip()]
    text = "\n".join(line for line in dict.fromkeys(lines) if not line.startswith(_CHAFF))
    if isinstance(error, OverrideParseException):
        return f"{text}\nquote what the shell or Hydra would split, for example 'method=[pwan]' or 'name=\"a b\"'"
    override = re.search(r"Could not (?:override|append)[^']*'\+*([^'=]+)", text)
    key = re.search(r"[Kk]ey '([^']+)' (?:is )?not in '?(\w+)", text)
    if not (override or key):
        return text
    if override:
        section, _, word = override[1].rpartition(".")
    else:
        assert key
        word, section = key[1], _CLASSES.get(key[2], key[2])
    known = _KEYS.get(section, [])
    choices = f"; there are {', '.join(known)}" if known else ""
    return f"unknown key {word!r}{nearest(word, known)}{choices}\n{text}"


def yaml_words(error: YAMLError) -> str:
    """What is wrong with a YAML file, where, and what to do."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:  # signs that no text has
        return f"{getattr(error, 'name', 'a file')} is no YAML: {str(error).splitlines()[0]}; save it as UTF-8 text"
    if said := backslash_words(mark.name):
        return said
    problem = ", ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    advice = "put spaces in place of the tab" if "'\\t'" in problem else "repair it"
    return f"{mark.name}: line {mark.line + 1}, column {mark.column + 1}: not YAML, {problem}; {advice}"


def backslash_words(path: str) -> str:
    """What to do with a YAML file's first backslash in double quotes, which begins a sign such as \\t or is none, where
    a path was meant; empty where there is none."""
    if not Path(path).is_file():
        return ""
    for at, line in enumerate(Path(path).read_text("utf-8", errors="replace").splitlines(), start=1):
        if (match := re.search(r'"([^"]*\\[^"]*)"', line)) is not None:
            return (
                f"{path}: line {at}: a backslash in double quotes begins a sign of its own, as in \\t for a tab; write "
                f"the path in single quotes, as it is: '{match[1]}'"
            )
    return ""
