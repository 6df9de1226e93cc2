"""Pages that are made at each build, below docs/generated: settings, experiments and the list of rooms."""

from __future__ import annotations

import inspect
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from references import escaped
from settings_tables import all_settings, changed, row, summary, table
from sphinx.application import Sphinx

import pwan
from pwan import methods

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "generated"
WIDE = ["---", "html_theme.sidebar_secondary.remove: true", "---", ""]  # a page without its contents at the right


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True}


def write_pages(app: Sphinx, config: Any) -> None:
    for folder in ("api", "settings", "experiments"):  # what was moved or renamed leaves no page behind
        shutil.rmtree(OUT / folder, ignore_errors=True)
    pages = {"public.rst": public(), "rooms.rst": rooms(), **settings_pages(), **experiment_pages()}
    for name, lines in pages.items():
        path = OUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        wide = [":html_theme.sidebar_secondary.remove: true", ""] if name.startswith("settings/") else []
        path.write_text("\n".join([*wide, *lines, ""]), encoding="utf-8")


def title(text: str, mark: str = "=") -> list[str]:
    return [text, mark * len(text), ""]


# the API


def public() -> list[str]:
    """What ``pwan.__all__`` names, in the order in which the package's docstring speaks of it."""
    words = f"{pwan.__doc__} {' '.join(pwan.__all__)}"
    offered = [name for name in pwan.__all__ if callable(getattr(pwan, name))]
    kinds = {name: "class" if inspect.isclass(getattr(pwan, name)) else "function" for name in offered}
    offered.sort(key=lambda name: words.index(name))
    lines = [line for name in offered for line in (f".. auto{kinds[name]}:: pwan.{name}", "")]
    more = ":mod:`pwan.methods` is the catalogue of methods, :class:`pwan.problem.SpaceMap` what a transform can do."
    return [*title("Public API"), ".. automodule:: pwan", "   :no-members:", "", more, "", *lines]


def rooms() -> list[str]:
    """The page that leads to every module of the package."""
    names = [m.name for m in pkgutil.iter_modules(pwan.__path__) if not m.name.startswith("_")]
    head = ["Every module with what it offers beside the :doc:`public`. Why it stands there: :doc:`/architecture`.", ""]
    listed = [f"   pwan.{name}" for name in names]
    return [*title("Rooms"), *head, ".. autosummary::", "   :toctree: api", "   :recursive:", "", *listed]


# settings


def settings_pages() -> dict[str, list[str]]:
    """A page for each method, one for the tasks and one for all other settings."""
    names = methods.names()
    classes = {name: methods.find(name).Settings for name in names}
    found = {cls: module for cls, module in all_settings().items() if cls not in classes.values()}
    tasks = {cls: module.rpartition(".")[2] for cls, module in found.items() if ".tasks." in module}
    others = {cls: cls.__name__ for cls in found if cls not in tasks}
    pages = {f"settings/methods/{name}.rst": method_page(name, classes) for name in names}
    use = "``task=NAME`` chooses a task, ``options.SETTING=VALUE`` sets one of these."
    pages["settings/tasks.rst"] = [*title("Tasks"), use, "", *sections(tasks, found)]
    pages["settings/others.rst"] = [*title("Scans, problems and the rest"), *sections(others, found)]
    return pages


def sections(headings: dict[type, str], modules: dict[type, str]) -> list[str]:
    """A section for each class, with what its docstring says and its table."""
    lines: list[str] = []
    for cls, heading in headings.items():
        lines += [
            *title(heading, "-"),
            f"Of :mod:`{modules[cls]}`.",
            "",
            *context(cls),
            summary(cls),
            "",
            *table(cls),
            "",
        ]
    return lines


def context(cls: type) -> list[str]:
    """What makes short names in the docstring of a class mean what they mean in its module."""
    return [f".. py:currentmodule:: {cls.__module__}", ""]


def method_page(name: str, classes: dict[str, type]) -> list[str]:
    """All settings of a method, or what differs from the method that its settings build upon; then its variants."""
    cls = classes[name]
    bases = [(other, base) for base in cls.__mro__[1:] for other in classes if classes[other] is base]
    lines = [*title(name), escaped(str(methods.find(name).__doc__)).strip(), "", *context(cls), summary(cls), ""]
    if bases:
        other, base = bases[0]
        lines += [f"The settings are those of :doc:`{other}`, with other defaults of these:", ""]
        lines += table(cls, changed(cls, base))
    else:
        lines += table(cls)
    return [*lines, "", *variants(name)]


def variants(name: str) -> list[str]:
    """The variants of a method, conf/method/*.yaml with ``method:``, each with its reason and what it sets."""
    lines: list[str] = []
    for path in sorted((ROOT / "conf" / "method").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        ((variant, values),) = yaml.safe_load(text).items()
        if values.pop("method", variant) != name or variant == name:
            continue
        reason = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
        options = {key: value for key, value in values.items() if not key.startswith("contract_")}
        lines += [*title(variant, "~"), escaped(reason), "", ".. list-table::", "   :header-rows: 1", ""]
        lines += row(["setting", "value"])
        for key, value in options.items():
            lines += row([f"``{key}``", f"``{value}``"])
        lines.append("")
    if not lines:
        return []
    return [
        *title("Variants", "-"),
        f"Each is a method of its own for the program: ``'method=[{name},VARIANT]'``.",
        "",
        *lines,
    ]


# experiments


def experiment_pages() -> dict[str, list[str]]:
    """What the claims came to, the figures of accuracy and the gallery, and the README of each experiment with its
    pictures.
    """
    cards, pages = [], {}
    for readme in sorted((ROOT / "experiments").glob("*/README.md")):
        name, (heading, _, text) = readme.parent.name, readme.read_text(encoding="utf-8").partition("\n")
        words = heading.lstrip("# ")
        pictures = sorted(readme.parent.glob("*.png"), key=lambda path: (path.name != "figure.png", path.name))
        cards += [f":::{{grid-item-card}} {words}", f":link: experiments/{name}", ":link-type: doc"]
        cards += [f":img-top: ../../experiments/{name}/{path.name}" for path in pictures[:1]]
        cards += [f":img-alt: {words}", "", f"`{name}`", ":::", ""]
        shown = [f"![{words}: {path.stem}](../../../experiments/{name}/{path.name})\n" for path in pictures]
        page = [*WIDE, f"# {words}\n", *shown[:1], text.strip("\n"), "", *shown[1:]]
        pages[f"experiments/{name}.md"] = page
    claims = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    linked = re.sub(r"\]\((\w+)\)", r"](experiments/\1.md)", claims)  # its folders are pages here
    head = [*WIDE, *linked.splitlines(), "", "## Each with its figure", ""]
    overview = [
        f"![{path.stem.replace('_', ', ')}](../../experiments/{path.name})\n"
        for path in sorted((ROOT / "experiments").glob("accuracy_*.png"))
    ]
    grid = ["::::{grid} 1 2 3 3", ":gutter: 3", "", *cards, "::::", ""]
    return {"experiments.md": [*head, *overview, *grid, "```{toctree}", ":hidden:", "", *pages, "```"], **pages}
