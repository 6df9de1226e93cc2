"""What is said where an optional package is missing: the extra of pyproject.toml that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(name: str, user: str) -> Iterator[None]:
    """Around the imports of packages that an extra brings, as late as they are needed.

    Args:
        name: the extra, as pyproject.toml calls it.
        user: what needs it, the first words of the sentence: "method cpd".

    Raises:
        ImportError: one of the packages is not installed; one sentence with the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{user} needs the extra '{name}': pip install 'pwan[{name}]' ({error.name} is not installed)",
            name=error.name,
        ) from error
