"""Settings: dataclasses hold the defaults, and options put over them are checked by name, type and range."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any


def build_settings(cls: type, options: Mapping[str, Any], *, owner: str) -> Any:
    """An instance of the dataclass ``cls`` with checked options.

    Args:
        cls: a dataclass of settings.
        options: by the names of its fields.
        owner: whose settings they are, for error messages.

    Raises:
        ValueError: an option that does not exist or has the wrong type or value; names the owner and the key.
    """
    fields = [f.name for f in dataclasses.fields(cls)]
    for key in options:
        if key not in fields:
            raise ValueError(f"{owner} has no setting {key!r}{nearest(key, fields)}; it has {', '.join(fields)}")
    try:
        values = _converted(cls, options)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None
    try:
        return cls(**values)
    except ValueError as error:  # a range check of the dataclass itself
        said = str(error).removeprefix(f"{owner}: ")  # of settings within these that have the same owner
        raise ValueError(f"{owner}: {said}") from None


def convert_fields(settings: Any) -> None:
    """Give each field of a settings object, which may be frozen, the type that it says; for classes that a program
    makes itself.

    Raises:
        ValueError: a value of the wrong type; names the field.
    """
    given = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    for name, value in _converted(type(settings), given).items():
        object.__setattr__(settings, name, value)


def check_ranges(
    settings: Any, *, positive: Sequence[str] = (), at_least_zero: Sequence[str] = (), below_one: Sequence[str] = ()
) -> None:
    """Check the numbers of a settings object. None passes, and of a tuple each number is checked.

    Args:
        settings: with these fields.
        positive: names of fields above 0.
        at_least_zero: names of fields that may be 0.
        below_one: names of fields from 0 to below 1.

    Raises:
        ValueError: a number that is not finite or out of its range.
    """
    for names, fits, words in (
        (positive, lambda v: v > 0, "positive"),
        (at_least_zero, lambda v: v >= 0, "zero or positive"),
        (below_one, lambda v: 0 <= v < 1, "from 0 to below 1"),
    ):
        for name in names:
            value = getattr(settings, name)
            each = value if isinstance(value, tuple) else () if value is None else (value,)
            if not all(math.isfinite(v) and fits(v) for v in each):
                raise ValueError(f"{name} must be {words}, got {value}")


def nearest(word: str, choices: Sequence[str]) -> str:
    """`` (did you mean 'x'?)`` for the choice nearest to the word, or nothing."""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _converted(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by the names of the dataclass's fields, of the types that it says."""
    hints = typing.get_type_hints(cls)
    out = {}
    for key, value in values.items():
        try:
            out[key] = _convert(hints[key], value)
        except (TypeError, ValueError):
            raise ValueError(f"{key} must be {_describe(hints[key])}, got {value!r}") from None
    return out


def _convert(hint: Any, value: Any) -> Any:
    """The value as the type hint wants it; raises TypeError or ValueError where it does not fit."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in arguments:
            raise ValueError
        return value
    if origin is tuple:
        if isinstance(value, str):
            raise TypeError
        return tuple(_convert(arguments[0], v) for v in value)
    if origin is dict:
        return {name: _plain(one) for name, one in dict(value).items()}
    if arguments:  # a union, the only other generic in use
        for argument in sorted(arguments, key=lambda a: a is not type(None)):
            try:
                return _convert(argument, value)
            except (TypeError, ValueError):
                continue
        raise TypeError
    if hint is type(None):
        if value is not None:
            raise TypeError
        return None
    value = _plain(value)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise TypeError
    return value


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's and paths as text, also in lists and mappings, so that settings can be written."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is tuple:
        return f"a list of {_describe(arguments[0])}"
    if arguments:
        return " or ".join(_describe(a) for a in arguments)
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "a word", type(None): "null"}
    return names.get(hint, str(hint))
