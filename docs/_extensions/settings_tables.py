"""Tables of settings, made from their dataclasses: name, type, default, and the meaning that the docstring states."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
import typing
from typing import Any

from references import escaped

import pwan

FIELD = re.compile(r"(\w+(?:, \w+)*): ?(.*)")  # what begins a field, or several of one meaning


def all_settings() -> dict[type, str]:
    """Every dataclass of the package whose name ends in Settings, and the public module that has it."""
    modules = [m.name for m in pkgutil.walk_packages(pwan.__path__, "pwan.") if "._" not in m.name]
    found: dict[type, str] = {}
    for module in modules:
        for name, cls in inspect.getmembers(importlib.import_module(module), dataclasses.is_dataclass):
            if name.endswith("Settings") and (cls.__module__ == module or "._" in cls.__module__):
                found.setdefault(cls, module)
    return found


def table(cls: type, names: list[str] | None = None) -> list[str]:
    """The lines of a reST table with a row for each field, or for the named ones."""
    hints, meanings = typing.get_type_hints(cls), meanings_of(cls)
    lines = [".. list-table::", "   :header-rows: 1", "   :class: settings", "   :widths: 18 18 14 50", ""]
    lines += row(["setting", "type", "default", "meaning"])
    for field in dataclasses.fields(cls):
        if names is None or field.name in names:
            cells = [f"``{field.name}``", words(hints[field.name]), default(field), meanings.get(field.name, "")]
            lines += row(cells)
    return lines


def row(cells: list[str]) -> list[str]:
    """A row of a list-table; a cell may have several lines."""
    indented = [textwrap.indent(cell, " " * 7).lstrip() for cell in cells]
    return [("   * - " if k == 0 else "     - ") + cell for k, cell in enumerate(indented)]


def changed(cls: type, base: type) -> list[str]:
    """The fields of ``cls`` that ``base`` lacks or has another default for."""
    before = {field.name: default(field) for field in dataclasses.fields(base)}
    return [field.name for field in dataclasses.fields(cls) if before.get(field.name) != default(field)]


def summary(cls: type) -> str:
    """What the docstring says before its sections."""
    return re.split(r"(?:^|\n+)(?:Attributes|Args|Raises|Example):\n", described(cls))[0].strip()


def described(cls: type) -> str:
    """The class's docstring as reST that means the same on another page; of a dataclass without one nothing."""
    text = cls.__dict__.get("__doc__") or ""
    if text.startswith(f"{cls.__name__}("):  # the signature that Python puts there
        return ""
    full = rf":\1:`\2 <{cls.__module__}.{cls.__name__}.\2>`"
    return escaped(re.sub(r":(meth|attr):`(\w+)`", full, inspect.cleandoc(text)))


def meanings_of(cls: type) -> dict[str, str]:
    """The meaning of each field out of the sections ``Attributes:`` of the class and of those that it builds upon."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        section = re.search(r"(?:^|\n)Attributes:\n(.*?)(?=\n\n|\Z)", described(one), re.DOTALL)
        current: list[str] = []
        for line in textwrap.dedent(section[1]).splitlines() if section else []:
            if begin := FIELD.fullmatch(line):  # a line that goes on is indented
                current = begin[1].split(", ")
                found |= dict.fromkeys(current, begin[2])
            else:
                for name in current:
                    found[name] += "\n" + line.strip()
    return found


def default(field: Any) -> str:
    """A field's default as it would be written in a command; nothing where it must be given."""
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        value = field.default
    else:
        return "must be given"
    return f"``{list(value) if isinstance(value, tuple) else value}``"


def words(hint: Any) -> str:
    """A type in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f"``{argument}``" for argument in arguments)
    if origin in (tuple, list):
        return f"list of: {words(arguments[0])}"
    if origin is dict:
        return "names and values"
    if arguments:
        return " or ".join(map(words, arguments))
    names = {float: "number", int: "whole number", bool: "true or false", str: "text", type(None): "none"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))
