"""A method for tests: as ``shifting``, with a shift that follows from the problem where none is set."""

from __future__ import annotations

from dataclasses import dataclass

from pwan import methods

SHIFT = 0.25


@dataclass(frozen=True)
class Settings:
    shift: float | None = None
    most: int = 1000


def resolved(problem, settings):
    sizes = [problem.source.shape[1], problem.reference.shape[1]]
    if max(sizes) > settings.most:
        raise ValueError(f"at most {settings.most} points, got {max(sizes)}")
    shift = SHIFT * (sizes[1] / sizes[0]) if settings.shift is None else settings.shift
    return {"shift": shift, "most": settings.most}


def register(problem, settings, *, seeds, observer=None):
    shift = resolved(problem, settings)["shift"]
    return methods.run("shifting", problem, {"shift": shift}, seeds=seeds, observer=observer)
