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


def yaml_words(error: YAMLError, path: str = "") -> str:
    """What is wrong with a YAML file, where, and what to do.

    Args:
        path: of the file, where the error does not name it.
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return f"{path} is not YAML: {str(error).splitlines()[0]}".strip()
    problem = str(getattr(error, "problem", None) or getattr(error, "context", "")).strip()
    where = f"{path or mark.name}, line {mark.line + 1}"
    if "escape" in problem or "hexadecimal" in problem:
        return (
            f"{where}: a backslash between double quotes begins an escape, and this one is none; put the value between "
            "single quotes, as in source: 'C:\\Users\\me\\a.ply'"
        )
    if "'\\t'" in problem:
        return f"{where}: a tab stands where spaces belong; put spaces in its place"
    context = str(getattr(error, "context", None) or "").strip()
    return f"{where}, column {mark.column + 1}: {', '.join(filter(None, (context, problem)))}; repair the line"
