"""Docstrings that documentation tools can read: in each section one field a line, and each field and argument named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "pwan"
SECTIONS = ("Attributes", "Args", "Raises")
OTHER_SECTIONS = ("Returns", "Yields")
ENTRY = re.compile(r"(\*{0,2}[A-Za-z_][\w.]*): ")
# what may be a second field: a word with a colon behind a full stop, semicolon, comma or bracket
SECOND = re.compile(r"(?:[.;,)\]]|``) (?:and )?([A-Za-z_]\w*): ")
ERROR = re.compile(r"\w*(?:Error|Fault|Interrupt|Exit)")
SEVERAL = re.compile(r"[a-z_]\w*(?:, [a-z_]\w*)+: ")
# being rewritten elsewhere; the names of rooms or modules below src/pwan
PENDING = ("registration", "api.py", "lightning", "pointfiles", "app/config.py")

Definition = ast.ClassDef | ast.FunctionDef


def modules() -> list[Path]:
    found = sorted(path for path in ROOT.rglob("*.py"))
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(PENDING)]


def definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """All public classes, functions and methods of a module, with their names."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield f"{node.name}.{inner.name}", inner


def sections(doc: str) -> dict[str, list[str]]:
    """The lines of each section, by its name; the continuation of an entry keeps its deeper indentation."""
    lines: dict[str, list[str]] = {}
    current: str | None = None
    for line in doc.splitlines():
        heading = re.fullmatch(r"(\w+):", line)
        if heading and heading[1] in SECTIONS + OTHER_SECTIONS:
            current = heading[1]
            lines[current] = []
        elif line and not line.startswith(" "):
            current = None
        elif current is not None and line.strip():
            lines[current].append(line[4:])
    return lines


def entries(lines: list[str]) -> list[str]:
    """The names of a section's entries."""
    return [match[1].lstrip("*") for line in lines if (match := ENTRY.match(line))]


def arguments(node: ast.FunctionDef) -> set[str]:
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in named if argument is not None} - {"self", "cls"}


def fields_of(node: ast.ClassDef) -> set[str]:
    """The annotated fields of a dataclass, else nothing: other classes choose which attributes they name."""
    decorators = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
    if not decorators & {"dataclass", "dataclasses.dataclass"}:
        return set()
    annotated = (inner.target for inner in node.body if isinstance(inner, ast.AnnAssign))
    return {target.id for target in annotated if isinstance(target, ast.Name) and not target.id.startswith("_")}


def constructor(node: ast.ClassDef) -> set[str] | None:
    """The arguments of a class's constructor, None where it writes none."""
    made = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"]
    return arguments(made[0]) if made else None


def complaints(path: Path) -> list[str]:
    """What is wrong in one module."""
    wrong = []
    for name, node in definitions(ast.parse(path.read_text(encoding="utf-8"))):
        parts = sections(ast.get_docstring(node) or "")
        where = f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for section in SECTIONS:
            for line in parts.get(section, []):
                known = set(entries(parts[section])) | _expected(node, section)
                seconds = [match[1] for match in SECOND.finditer(line)]
                if SEVERAL.match(line) or any(word in known or ERROR.fullmatch(word) for word in seconds):
                    wrong.append(f"{where}: two fields on one line of {section}: {line.strip()}")
        for section in ("Attributes", "Args"):
            if section in parts and (missing := _expected(node, section) - set(entries(parts[section]))):
                wrong.append(f"{where}: {section} does not name {', '.join(sorted(missing))}")
        if "Args" in parts:
            given = arguments(node) if isinstance(node, ast.FunctionDef) else constructor(node)
            if given is not None and (unknown := set(entries(parts["Args"])) - given - {"cls"}):
                wrong.append(f"{where}: Args names {', '.join(sorted(unknown))}, which it does not take")
    return wrong


def _expected(node: Definition, section: str) -> set[str]:
    """The names that a section has where it exists."""
    if section == "Raises":
        return set()
    if isinstance(node, ast.ClassDef):
        return fields_of(node) if section == "Attributes" else constructor(node) or set()
    return arguments(node) if section == "Args" else set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sections_have_one_field_a_line_and_name_each(path: Path) -> None:
    assert complaints(path) == []


def test_what_is_wrong_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '''
@dataclass
class Thing:
    """A thing.

    Attributes:
        first: one. second: two.
    """

    first: int
    second: int
    third: int


def act(points, weights, *, seed=0):
    """Act.

    Args:
        points, weights: (N, D) and (N,).
        other: what it does not take.

    Raises:
        OSError: never. ValueError: always.
    """
'''
    monkeypatch.setattr("tests.test_docstrings.ROOT", tmp_path)
    (tmp_path / "module.py").write_text(text)
    found = "\n".join(complaints(tmp_path / "module.py"))
    assert "Thing: two fields on one line of Attributes: first: one. second: two." in found
    assert "Thing: Attributes does not name second, third" in found
    assert "act: two fields on one line of Args: points, weights" in found
    assert "act: two fields on one line of Raises: OSError" in found
    assert "act: Args names other, which it does not take" in found
    assert "act: Args does not name points, seed, weights" in found
