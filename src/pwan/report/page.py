"""One HTML page with everything in it: opens from disk without a network, and without a server."""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from PIL import Image
from plotly.offline import get_plotlyjs

from pwan.files import in_one_move

COLOURS = 64  # of an embedded picture: a third of the file, and no difference that an eye sees
MAX_LINES = 200  # of a table


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: above it.
        frame: its content.
        folded: it is seen after a click.
        digits: of its numbers.
    """

    caption: str
    frame: pd.DataFrame
    folded: bool = False
    digits: int = 4


@dataclass(frozen=True)
class Link:
    """A table's cell that leads to a file.

    Attributes:
        text: of the cell.
        path: of the file, from the page's folder.
        place: an anchor in that file, see :func:`anchor`; empty for its top.
    """

    text: str
    path: str
    place: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        caption: above it.
        path: of the file.
        folded: it is seen after a click.
    """

    caption: str
    path: Path
    folded: bool = False


@dataclass(frozen=True)
class Scene:
    """An interactive view.

    Attributes:
        caption: above it.
        json: what :func:`pwan.report.scene.scene_json` gives.
    """

    caption: str
    json: str


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment, in this order.

    Attributes:
        name: its title and its line in the table of contents.
        made: pairs of a label and a text: how it was made.
        tables: those that are not folded come first, the others last.
        pictures: the same; above the tables where ``pictures_first``.
        scenes: interactive views.
        notes: sentences about what could not be shown, and why.
        files: pairs of a title and a text, each folded (the configuration).
        pictures_first: a picture says it at a glance, the tables have the numbers.
    """

    name: str
    made: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    scenes: Sequence[Scene] = ()
    notes: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = field(default_factory=tuple)
    pictures_first: bool = False


def write_page(title: str, sections: Sequence[Section], path: Path) -> None:
    """Write the page in one move. Equal sections give an equal file; every text is escaped.

    Raises:
        ValueError: no section.
        OSError: a picture that cannot be read, with its name.
    """
    if not sections:
        raise ValueError("the page needs at least one section")
    anchors = [anchor(i) for i in range(len(sections))]
    contents = "".join(
        f'<li><a href="#{anchor}">{html.escape(section.name)}</a></li>\n'
        for anchor, section in zip(anchors, sections, strict=True)
    )
    body = "".join(_section(section, anchor) for section, anchor in zip(sections, anchors, strict=True))
    scripts = ""
    if any(section.scenes for section in sections):
        scripts = f"<script>{get_plotlyjs()}</script>\n<script>{_SCENES}</script>\n"
    text = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_POLICY}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        f"<nav><ol>\n{contents}</ol></nav>\n{body}{scripts}</body>\n</html>\n"
    )
    with in_one_move(path) as half:
        half.write_text(text, encoding="utf-8", errors="backslashreplace")  # a name may hold bytes of another


def anchor(number: int) -> str:
    """The place in a page of the section with this number, from 0, for a link to it."""
    return f"s{number}"


def table_html(frame: pd.DataFrame, digits: int = 4) -> str:
    """The table, escaped, numbers with so many digits; the lines beyond ``MAX_LINES`` are only counted."""
    shown = frame.head(MAX_LINES)
    kinds = ["" if any(map(_is_text, column)) else ' class="number"' for _, column in shown.items()]
    head = _row("th", kinds, [html.escape(str(name).replace("_", " ")) for name in shown.columns])
    lines = "".join(_row("td", kinds, row) for row in shown.map(partial(_cell, digits=digits)).to_numpy().tolist())
    markup = f"<table>\n<thead>{head}</thead>\n<tbody>{lines}</tbody>\n</table>"
    if len(frame) > MAX_LINES:
        markup += f"<p>{len(frame) - MAX_LINES} more lines are in the file.</p>"
    return f'<div class="wide">{markup}</div>'


def _row(tag: str, kinds: Sequence[str], cells: Sequence[str]) -> str:
    """One line of a table, each cell of its column's kind."""
    inside = "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
    return f"<tr>{inside}</tr>\n"


def _is_text(value: object) -> bool:
    """Whether it reads as words, as a number written as text does not."""
    text = value.text if isinstance(value, Link) else value
    return isinstance(text, str) and text[:1].isalpha()


def spelled(value: float, digits: int) -> str:
    """A number with so many digits, without an exponent where it is large; what is no number is a dash."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return f"{value:.{digits}g}" if abs(value) < 10**digits - 0.5 else f"{value:.0f}"


def _cell(value: object, digits: int) -> str:
    """One cell as markup; escaped here, for pandas would escape the numbers' signs too."""
    if isinstance(value, float):
        return spelled(value, digits)
    if isinstance(value, Link):
        place = f"#{value.place}" if value.place else ""
        return f'<a href="{html.escape(quote(value.path) + place)}">{html.escape(value.text)}</a>'
    return "–" if value is None or value is pd.NA else html.escape(str(value))


def _section(section: Section, anchor: str) -> str:
    parts = [f'<section id="{anchor}">\n<h2>{html.escape(section.name)}</h2>\n']
    seen = [
        [_table(table) for table in section.tables if not table.folded],
        [_picture(picture) for picture in section.pictures if not picture.folded],
    ]
    for part in reversed(seen) if section.pictures_first else seen:
        parts += part
    for i, scene in enumerate(section.scenes):
        name = f"{anchor}-scene{i}"
        parts.append(
            f'<figure><figcaption>{html.escape(scene.caption)}</figcaption>\n<div class="scene" data-figure="{name}">'
            f'</div></figure>\n<script type="application/json" id="{name}">{scene.json}</script>\n'
        )
    parts += [_picture(picture) for picture in section.pictures if picture.folded]
    parts += [_table(table) for table in section.tables if table.folded]
    parts += [f'<p class="note">{html.escape(note)}</p>\n' for note in section.notes]
    made = "".join(f"<dt>{html.escape(label)}</dt><dd>{html.escape(text)}</dd>\n" for label, text in section.made)
    if made:
        parts.append(f"<h3>How it was made</h3>\n<dl>\n{made}</dl>\n")
    parts += [
        f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>\n"
        for title, text in section.files
    ]
    return "".join(parts) + "</section>\n"


def _table(table: Table) -> str:
    caption, markup = html.escape(table.caption), table_html(table.frame, table.digits)
    if table.folded:
        return f"<details><summary>{caption}</summary>{markup}</details>\n"
    return f"<h3>{caption}</h3>\n{markup}\n"


def _picture(picture: Picture) -> str:
    caption = html.escape(picture.caption)
    image = (
        f'<img alt="{caption}" src="data:image/png;base64,{base64.b64encode(fewer_colours(picture.path)).decode()}">'
    )
    if picture.folded:
        return f"<details><summary>{caption}</summary>{image}</details>\n"
    return f"<figure><figcaption>{caption}</figcaption>{image}</figure>\n"


def fewer_colours(path: Path) -> bytes:
    """The picture as PNG with few colours."""
    buffer = io.BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


# the browser itself refuses anything from outside the file
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)
_STYLE = re.sub(
    r"\s+",
    " ",
    """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 3rem; border-bottom: 1px solid #ccc; padding-bottom: .3rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
.number { text-align: right; }
td.number { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { vertical-align: bottom; }
figure { margin: 1.5rem 0; }
figcaption { font-size: .9rem; margin-bottom: .4rem; }
img { max-width: 100%; height: auto; }
.scene { height: 36rem; border: 1px solid #ddd; }
.note { background: #fff6e0; padding: .4rem .8rem; white-space: pre-line; overflow-wrap: anywhere; }
dt { font-weight: 600; }
dd { margin: 0 0 .4rem 0; font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
dd { white-space: pre-wrap; }
details { margin: .4rem 0; }
summary { cursor: pointer; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .8rem; }
""",
)
# A browser keeps few 3-D pictures alive at a time, so each is made when it comes into view and dropped when it leaves.
_SCENES = """
const watcher = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) {
    if (isIntersecting) {
      const {data, layout} = JSON.parse(document.getElementById(target.dataset.figure).textContent);
      Plotly.newPlot(target, data, layout, {
        responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",  // nothing leaves the page
      });
    } else {
      Plotly.purge(target);
    }
  }
}, {rootMargin: "300px"});
document.querySelectorAll(".scene").forEach(scene => watcher.observe(scene));
"""
