"""A method for tests: moves every point by ``shift``; trials with an odd seed fail when ``fragile``."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pwan.problem import OK, Progress, RegistrationResult


@dataclass(frozen=True)
class Settings:
    shift: float = 0.0
    fragile: bool = False
    package: str = ""
    not_finite: bool = False


def register(problem, settings, *, seeds, observer=None):
    if settings.package:
        raise ImportError(f"method shifting needs {settings.package}; install it with: pip install {settings.package}")
    if settings.fragile and any(seed % 2 for seed in seeds):
        raise RuntimeError("an odd seed")
    b, r, d = problem.source.shape
    moved = problem.source + settings.shift
    if settings.not_finite:
        moved = moved * float("nan")
    if observer:
        observer(Progress(1, 2, lambda: moved))
    return RegistrationResult(
        transformed=moved,
        transformed_unrefined=problem.source + 2 * settings.shift,
        affine=torch.eye(d, dtype=torch.float64).expand(b, d, d),
        translation=torch.full((b, 1, d), settings.shift, dtype=torch.float64),
        displacement=torch.zeros_like(problem.source),
        matched=torch.ones(b, r, dtype=torch.bool),
        reference_matched=torch.ones(problem.reference.shape[:2], dtype=torch.bool),
        status=[OK] * b,
        stop_reason=["done"] * b,
        steps=[2] * b,
        seconds=[0.5] * b,
    )
