"""What is said where an optional package is missing: the extra of pyproject.toml that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


class MissingExtraError(ImportError):
    """A package that an extra brings is not installed."""


@contextmanager
def needs(extra: str, user: str, *packages: str) -> Iterator[None]:
    """Around the imports of packages that an extra brings, as late as they are needed.

    Args:
        extra: its name in pyproject.toml.
        user: what needs it, the first words of the sentence: "method cpd".
        packages: also looked for, without being imported: what is to fail now rather than after hours of work.

    Raises:
        MissingExtraError: one of the packages is not installed; one sentence with the command that installs it.
    """
    try:
        for package in packages:
            if find_spec(package) is None:
                raise ModuleNotFoundError(name=package)
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{user} needs the extra '{extra}': pip install 'pwan[{extra}]' ({error.name} is not installed)",
            name=error.name,
        ) from None
