"""Pictures of the examples: the matplotlib figures in their variables, such as ``result.plot()`` returns."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst


def found_figures(block: Any, variables: dict[str, Any], settings: dict[str, Any], **_: Any) -> str:
    """Save each figure that the block of code has made, once, and return the reST that shows it."""
    shown = variables["example_globals"].setdefault("__shown__", set())
    saved = []
    for figure in variables["example_globals"].values():
        if isinstance(figure, Figure) and id(figure) not in shown:
            shown.add(id(figure))
            path = next(variables["image_path_iterator"])
            figure.savefig(path)
            saved.append(path)
    return figure_rst(saved, settings["src_dir"])
