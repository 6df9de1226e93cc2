"""Writing a figure for the screen and for print."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from pwan.files import in_one_move


def save_both(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF beside each other; ``path`` is of the PNG. Returns the two files.

    Equal figures give equal files: the PDF has no date in it.
    """
    png, pdf = path.with_name(f"{path.stem}.png"), path.with_name(f"{path.stem}.pdf")
    for file, metadata in ((pdf, {"CreationDate": None}), (png, None)):  # where the PNG is there, so is the PDF
        with in_one_move(file) as half:
            figure.savefig(half, format=file.suffix[1:], metadata=metadata)
    return [png, pdf]
