"""The flags of the command line, which are Hydra's: they may stand anywhere among the overrides.

Hydra's own parser takes overrides in one piece only, and shows its whole usage where a flag is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pwan.settings import nearest

_SHORT = {
    "-h": "--help",
    "-c": "--cfg",
    "-i": "--info",
    "-p": "--package",
    "-m": "--multirun",
    "-r": "--run",
    "-cd": "--config-dir",
    "-cn": "--config-name",
    "-cp": "--config-path",
    "-sc": "--shell-completion",
}
_ALONE = ("--help", "--hydra-help", "--version", "--resolve", "--run", "--multirun", "--shell-completion")
_CHOICES = {
    "--cfg": ("job", "hydra", "all"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
_VALUES = ("--package", "--config-dir", "--config-name", "--config-path")
_RERUN = "--experimental-rerun"
_KNOWN = (*_ALONE, *_CHOICES, *_VALUES)
_ONE_OF = ("--run", "--multirun", "--cfg", "--info", "--shell-completion")  # what is to be done

_SHELLS = tuple(f"{what}={shell}" for what in ("install", "uninstall", "query") for shell in ("bash", "fish", "zsh"))


@dataclass
class Flags:
    """What the command line says.

    Attributes:
        overrides: all that is not a flag.
        flags: the long names, each with its value, or with None.
    """

    overrides: list[str] = field(default_factory=list)
    flags: dict[str, str | None] = field(default_factory=dict)

    def for_hydra(self) -> list[str]:
        """In the order that Hydra's parser takes; without the folder, which stands in the call of Hydra."""
        if "--hydra-help" in self.flags:  # composed without this project's configuration, which overrides are of
            return ["--hydra-help"]
        told = {name: value for name, value in self.flags.items() if name != "--config-path"}
        return [*self.overrides, *(word for pair in told.items() for word in pair if word is not None)]

    def folders(self, usual: Path) -> list[Path]:
        """The folders of the configuration: the main one, and the one that is added to it.

        Raises:
            ValueError: one of them is not there.
        """
        named = [(name, self.flags[name]) for name in ("--config-path", "--config-dir") if name in self.flags]
        for name, folder in named:
            if not Path(str(folder)).is_dir():
                raise ValueError(f"{name} {folder}: there is no such folder; check the path")
        there = {name: Path(str(folder)).resolve() for name, folder in named}
        return [there.pop("--config-path", usual.resolve()), *there.values()]


def parse(arguments: Sequence[str]) -> Flags:
    """Flags and overrides apart.

    Raises:
        ValueError: an unknown flag (names the nearest one), a missing or wrong value, or flags that exclude each other.
    """
    found = Flags()
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            found.overrides.append(word)
            continue
        written, equals, value = word.partition("=")
        name = _SHORT.get(written, written)
        if name == _RERUN:
            raise ValueError(f"{_RERUN} is not supported; the same command again does only what is missing")
        if name not in _KNOWN:
            near = nearest(written, _KNOWN) if len(written) > 2 else ""
            raise ValueError(f"unknown flag {written!r}{near}; the flags are {', '.join(_KNOWN)}")
        if name in _ALONE:
            if equals:
                raise ValueError(f"{name} takes no value, got {value!r}")
            found.flags[name] = None
        else:
            found.flags[name] = value if equals else _value(name, left)
            _check_choice(name, found.flags[name])
    _check_together(found.flags, found.overrides)
    return found


def _value(name: str, left: list[str]) -> str:
    """The value that follows a flag, taken from what is left; ``--info`` has one of its own where none follows."""
    choices = _CHOICES.get(name)
    if name == "--info" and not (left and left[0] in _CHOICES[name]):
        return "all"
    wanted = f"one of {', '.join(choices)}" if choices else "a value"
    if not left or left[0].startswith("-"):
        raise ValueError(f"{name} must be followed by {wanted}")
    return left.pop(0)


def _check_choice(name: str, value: str | None) -> None:
    choices = _CHOICES.get(name)
    if choices and value not in choices:
        raise ValueError(
            f"{name} must be followed by one of {', '.join(choices)}, got {value!r}{nearest(str(value), choices)}"
        )


def _check_together(flags: dict[str, str | None], overrides: list[str]) -> None:
    several = [name for name in _ONE_OF if name in flags]
    if len(several) > 1:
        raise ValueError(f"{' and '.join(several)} exclude each other; give one of them")
    if "--shell-completion" in flags and not any(override in _SHELLS for override in overrides):
        raise ValueError(f"--shell-completion goes with one of {', '.join(_SHELLS)}")
    if "--resolve" in flags and "--cfg" not in flags:
        raise ValueError("--resolve goes with --cfg, for example --cfg job --resolve")
    if "--package" in flags and "--cfg" not in flags:
        raise ValueError("--package goes with --cfg, for example --cfg job --package problem")
