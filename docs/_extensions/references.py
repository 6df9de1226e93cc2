"""References to Python objects by any name under which they can be imported.

A docstring may write :class:`pwan.PointFile`, or the short name of what its own module imports. Where the site has no
entry of that name, the name is looked up as Python would, and the reference leads to where the object is documented.
What belongs to another library becomes plain text. What does not exist stays a warning, which ends the build.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pwan

if TYPE_CHECKING:  # the tables of settings are tested without it
    from sphinx.application import Sphinx

ARRAY = re.compile(r"ndarray\[tuple\[[^\]]*\], [~\w.]*dtype\[[^\]]*\]\]")  # numpy's NDArray as Python spells it
FIELDS = re.compile(r" +\w+(?:, \w+)+:(?= )")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", for_napoleon, priority=400)  # napoleon's is 500
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-skip-member", told_once)
    return {"parallel_read_safe": True}


def resolve(app: Sphinx, env: Any, node: Any, shown: Any) -> Any:
    """The reference node of what ``node`` names, ``shown`` itself for what has no entry here, None for nothing."""
    if node.get("refdomain") != "py":
        return None
    for name in meanings(node["reftarget"], node.get("py:module"), node.get("py:class")):
        made = None
        if name.startswith("pwan."):
            made = env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, shown)
        return shown if made is None else made  # another library's, or private
    return None


def meanings(named: str, module: str | None, cls: str | None) -> Iterator[str]:
    """The full names that ``named`` may stand for in a class of a module, the nearest first."""
    prefixes = ((module, cls), (module,), (), ("typing",), ("builtins",))
    names = [".".join([*(part for part in prefix if part), named]) for prefix in prefixes]
    loaded = [name for name in list(sys.modules) if name.partition(".")[0] == "pwan"]
    for name in [*names, *(imports(name)[named] for name in loaded if named in imports(name))]:
        try:
            yield full_name(name)
        except (ImportError, AttributeError, ValueError):
            continue


@functools.cache
def imports(module: str) -> dict[str, str]:
    """The full names of what a module's file imports, also for type checkers alone."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in froms for alias in node.names}


def full_name(dotted: str) -> str:
    """The name of an object where it is defined, from any name by which it can be imported.

    Raises:
        AttributeError, ImportError: there is no such object.
    """
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        name = found.__name__
        for part in parts[count:]:
            if inspect.isclass(found) and part in getattr(found, "__dataclass_fields__", {}):
                return name  # fields are told with their class
            found = getattr(found, part)
            name = f"{name}.{part}"
            if inspect.isclass(found) or inspect.isfunction(found):
                name = f"{found.__module__}.{found.__qualname__}"
        return name
    raise ImportError(dotted)


def short_signature(app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str, returned: str) -> Any:
    """None of settings, whose fields follow as a list; of others one that Python can read."""
    if dataclasses.is_dataclass(obj) and name.endswith("Settings"):
        return "", None
    shorter = [text and ARRAY.sub("ndarray", text).replace("<factory>", "...") for text in (arguments, returned)]
    return tuple(shorter)


def told_once(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What ``import pwan`` offers has its place on the page of the public API, and none on its module's."""
    public = name in pwan.__all__ and getattr(pwan, name) is obj and what == "module"
    return True if public else None


def for_napoleon(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Spell what would be misread.

    What is returned is told without a type, fields of one meaning (``a, b: text``) are not a type and a name, and bars
    are absolute values.
    """
    for k, line in enumerate(lines):
        if k > 0 and lines[k - 1].strip() == "Returns:":
            line = line.replace(line.strip(), f": {line.strip()}")
        if fields := FIELDS.match(line):
            line = fields[0].replace(", ", ",") + line[fields.end() :]
        lines[k] = escaped(line)


def escaped(text: str) -> str:
    """The text with bars that reST leaves alone; what stands in double backticks is literal already."""
    return "``".join(part if k % 2 else part.replace("|", r"\|") for k, part in enumerate(text.split("``")))
