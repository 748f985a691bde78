"""SECURITY.md is true to the word: each sentence of what holds names a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def chapters() -> dict[str, str]:
    """The text below each heading."""
    _, *found = re.split(r"^## (.*)\n", (ROOT / "SECURITY.md").read_text(), flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


def sentences(chapter: str) -> list[str]:
    """Those of the items of a list."""
    items = re.findall(r"^- (.*(?:\n  .*)*)", chapter, flags=re.MULTILINE)
    found = [re.split(r"(?<=[.:;]) +(?=[A-Z])", " ".join(item.split())) for item in items]
    return [sentence for item in found for sentence in item]


@cache
def names_of(file: str) -> set[str]:
    """Names of the tests of a file."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("sentence", sentences(chapters()["What holds"]))
def test_each_sentence_names_its_test(sentence: str) -> None:
    assert NAMED.search(sentence), sentence


def test_every_named_test_is_there() -> None:
    named = NAMED.findall((ROOT / "SECURITY.md").read_text())
    assert len(named) > 60
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or test not in names_of(file)
    ]
    assert not missing
