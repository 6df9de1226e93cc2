"""Bars of what is done, in a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pwan.extras import needs

if TYPE_CHECKING:  # torch takes seconds to load
    from pwan.problem import Observer, Progress


@contextmanager
def progress_bar(observer: Observer | None = None, *, seconds_between: float = 0.1) -> Iterator[Observer]:
    """An observer that shows the steps done and the time left, and passes on what it is told.

    Args:
        observer: another one, which is told the same.
        seconds_between: the bar is not drawn more often.

    Raises:
        ImportError: tqdm is not installed.
    """
    with needs("scans", "progress=True"):
        from tqdm.auto import tqdm
    with ExitStack() as stack:
        bars: list[Any] = []

        def observe(progress: Progress) -> None:
            if not bars:  # only now the number of steps is known
                bar = tqdm(total=progress.steps, desc="register", unit="step", mininterval=seconds_between)
                bars.append(stack.enter_context(bar))
            bars[0].update(progress.step - bars[0].n)
            if observer is not None:
                observer(progress)

        yield observe
        for bar in bars:
            bar.total = bar.n  # who converges early has done all there was to do


@contextmanager
def counting_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Shows how many registrations of how many are done, and the time left; where fewer are done than before, another
    round has begun and has a bar of its own.

    Raises:
        ImportError: tqdm is not installed.
    """
    with needs("scans", "progress=True"):
        from tqdm.auto import tqdm
    bars: list[Any] = []

    def show(done: int, count: int) -> None:
        if not bars or done < bars[0].n:
            for bar in bars:
                bar.close()
            bars[:] = [tqdm(total=count, initial=done, desc="register", unit=unit, smoothing=0)]
        bars[0].n = done
        bars[0].refresh()

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
