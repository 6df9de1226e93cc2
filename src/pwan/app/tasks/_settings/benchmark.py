"""Settings of the task ``benchmark``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pwan.bench.settings import PICTURES


@dataclass(frozen=True)
class Settings:
    """What a benchmark has beside the configuration's top level.

    Attributes:
        pictures: "trials": the worst, median and best trial of each method; "example": trial 0 before registration and
            as each method left it; "training": for methods with a potential the source on its way in trial 0, the
            potential, its gradient norm and the curves.
        known: a file of trials that were run elsewhere, relative to where the command is called: ``rows.jsonl`` of a
            folder of results, or ``rows.jsonl.gz`` as experiments/ keeps it. Those of this cell with the same settings
            count as done. None for none.

    Raises:
        ValueError: another kind of picture.
    """

    pictures: tuple[str, ...] = ("trials",)
    known: str | None = None

    def __post_init__(self) -> None:
        for kind in self.pictures:
            if kind not in PICTURES:
                raise ValueError(f"options.pictures must name kinds of {', '.join(PICTURES)}, got {kind!r}")

    def check_files(self) -> None:
        """Refuse a file of known trials that is not there.

        Raises:
            ValueError: names it.
        """
        if self.known is not None and not Path(self.known).is_file():
            raise ValueError(
                "options.known must name a file of trials, as rows.jsonl of a folder of results, but there is no file "
                f"{self.known}"
            )
