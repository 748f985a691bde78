"""What documents say of files and functions is true: each path in backticks and each link exists.

`file.py::name` and "`name` in `file`" name a function, method or class of a file.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "ARCHITECTURE.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(
    r"((?:fabric|coordinator|clients|tests|bench|docs|examples|requirements|\.ci)(?:/[\w.-]+)+/?"
    r"|[A-Z]+\.md|CMakeLists\.txt|pyproject\.toml|Makefile)(?:::([\w.]+))?"
)
PLACED = re.compile(r"`([A-Za-z_][\w.]*)` in\s+`([\w./-]+/[\w.-]+\.\w+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ITEM = re.compile(r"^(\d+)\. (.*(?:\n +.*)*)", re.MULTILINE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def named(text: str) -> list[tuple[str, str]]:
    """Paths in backticks outside of code, each with the name behind ``::``, if there is one.

    >>> named("see `docs/tour.md`, `tests/test_docs.py::named` and `col('a')`")
    [('docs/tour.md', ''), ('tests/test_docs.py', 'named')]
    """
    quoted = QUOTED.findall(FENCE.sub("", text))
    found = [match for token in quoted if (match := PATH.fullmatch(token))]
    return [(match[1], match[2] or "") for match in found]


@cache
def defined(file: str) -> set[str]:
    """Functions, classes, methods (``Class.method`` and ``method``) and names of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = ast.FunctionDef | ast.AsyncFunctionDef
            found |= {f"{node.name}.{x.name}" for x in node.body if isinstance(x, functions)}
    return found


def holds(file: str, name: str) -> bool:
    """Whether `file` defines `name`; of native code, whether it calls or defines such a thing."""
    if not (ROOT / file).is_file():
        return False
    if file.endswith(".py"):
        return name in defined(file)
    last = name.rpartition(".")[2]
    return re.search(rf"\b{last}\b", (ROOT / file).read_text()) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_path_exists(document: Path) -> None:
    pairs = named(document.read_text())
    assert [path for path, _ in pairs if not (ROOT / path).exists()] == []
    assert [f"{path}::{name}" for path, name in pairs if name and not holds(path, name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_function_is_where_a_document_says(document: Path) -> None:
    pairs = PLACED.findall(FENCE.sub("", document.read_text()))
    assert [f"{name} in {path}" for name, path in pairs if not holds(path, name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = LINK.findall(FENCE.sub("", document.read_text()))
    ours = [link for link in links if "://" not in link]
    assert [link for link in ours if not (document.parent / link).exists()] == []


def test_every_invariant_names_its_test() -> None:
    _, _, chapter = (ROOT / "ARCHITECTURE.md").read_text().partition("## Invariants")
    items = ITEM.findall(chapter)
    assert [int(number) for number, _ in items] == list(range(1, 13))
    assert [n for n, text in items if not re.search(r"`tests/[\w/]+\.py::test_\w+`", text)] == []


def test_every_decision_is_listed_under_its_number() -> None:
    folder = ROOT / "docs" / "decisions"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:3]) for name in files] == list(range(1, len(files) + 1))
    listed = LINK.findall((folder / "README.md").read_text())
    assert sorted(listed) == files
    for name in files:
        text = (folder / name).read_text()
        assert text.startswith(f"# {name[:3]}. ")
        assert 10 <= len(text.splitlines()) <= 32, name
