"""Snippets of Polars mean in Fabric what live Polars answers."""

from __future__ import annotations

import pytest
from golden_polars import Snippet, by_fabric, by_polars, difference, snippets


@pytest.mark.parametrize("snippet", snippets(), ids=lambda s: f"{s.file}: {s.text}")
def test_the_same_as_in_polars(snippet: Snippet) -> None:
    theirs = by_polars(snippet.table, snippet.text, ordered=snippet.is_ordered)
    ours = by_fabric(snippet.table, snippet.text, ordered=snippet.is_ordered)
    assert difference(ours, theirs) == ""


def test_there_are_enough() -> None:
    assert len(snippets()) >= 250
