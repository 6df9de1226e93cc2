"""Settings of the task ``report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pwan.choices import BANDS


@dataclass(frozen=True)
class Settings:
    """What the page shows.

    Attributes:
        folder: of the results, with everything below it; relative to where the command is called. The page is written
            into it as report.html, the figures of accuracy as PNG and PDF into report_figures.
        band: of each experiment's figures of accuracy, "quartiles" or "std"; the paper's figures have its deviations.
        pictures: "hardest": the trial pictures of each experiment's hardest cell (the largest median error over all
            its methods); "all": of all its cells, which makes the page of a sweep large.
        collect: a folder into which the results of each experiment, of the settings run last, are copied as the project
            keeps them; two experiments whose folders have one name are refused. None for none.

    Raises:
        ValueError: another band or choice of pictures.
    """

    folder: str = "outputs"
    band: str = "quartiles"
    pictures: str = "hardest"
    collect: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (("band", BANDS), ("pictures", ("hardest", "all"))):
            if getattr(self, name) not in choices:
                raise ValueError(f"options.{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")

    def check_files(self) -> None:
        """See :func:`check_folder`."""
        check_folder(Path(self.folder).resolve())


def check_folder(folder: Path) -> None:
    """Refuse a folder of results that is not there.

    Raises:
        ValueError: names it.
    """
    if not folder.is_dir():
        raise ValueError(
            f"options.folder must name a folder of results, but there is no folder {folder}; run one first"
        )
