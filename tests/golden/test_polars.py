"""Snippets of Polars mean in Fabric what live Polars answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from golden_polars import Snippet, by_fabric, by_polars, difference, snippets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("snippet", snippets(), ids=lambda s: f"{s.file}: {s.text}")
def test_the_same_as_in_polars(snippet: Snippet) -> None:
    theirs = by_polars(snippet.table, snippet.text, ordered=snippet.is_ordered)
    ours = by_fabric(snippet.table, snippet.text, ordered=snippet.is_ordered)
    assert difference(ours, theirs) == ""


@pytest.mark.parametrize(
    "snippet", [s for s in snippets() if s.file == "zones"], ids=lambda s: s.text
)
def test_zones_on_spark(snippet: Snippet, spark: SparkSession) -> None:
    """Rows and types: Spark's own timestamps have no zone."""
    theirs = by_polars(snippet.table, snippet.text)
    assert difference(by_fabric(snippet.table, snippet.text, engine="spark"), theirs) == ""


def test_there_are_enough() -> None:
    assert len(snippets()) >= 250
